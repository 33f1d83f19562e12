// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What sysfs does not have of the generic netlink family "netdev" (linux/netdev.h,
 * Documentation/netlink/specs/netdev.yaml), for guests without Python:
 *
 *	netdev features PORT		the bits of enum netdev_xdp_act
 *	netdev threaded PORT VALUE	how its NAPIs run: 0 softirq, 1 thread, 2 thread that polls
 *
 * Exit code 1: the kernel refused; 3: this kernel has no such thing.
 */
#include <errno.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>

/* linux/netdev.h, which Debian 12 does not have */
#define DEV_GET		 1
#define DEV_IFINDEX	 1
#define DEV_XDP_FEATURES 3
#define NAPI_GET	 11
#define NAPI_SET	 14
#define NAPI_IFINDEX	 1
#define NAPI_ID		 2
#define NAPI_THREADED	 8

#define POLLS 2 /* of NAPI_THREADED */

#define MAX_NAPIS   64
#define EXIT_ABSENT 3

struct message {
	struct nlmsghdr head;
	struct genlmsghdr generic;
	uint8_t attributes[256];
};

static int family;
static int netlink_fd;

static void add(struct message *m, int type, const void *value, size_t bytes)
{
	struct nlattr *attribute =
		(void *)((uint8_t *)m + NLMSG_ALIGN(m->head.nlmsg_len));

	attribute->nla_type = type;
	attribute->nla_len = NLA_HDRLEN + bytes;
	memcpy(attribute + 1, value, bytes);
	m->head.nlmsg_len =
		NLMSG_ALIGN(m->head.nlmsg_len) + NLA_ALIGN(attribute->nla_len);
}

static struct message message_of(int type, int command, int flags)
{
	return (struct message){
		.head = { .nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN),
			  .nlmsg_type = type,
			  .nlmsg_flags = NLM_F_REQUEST | flags },
		.generic = { .cmd = command, .version = 1 },
	};
}

static uint32_t attribute_u32(const struct nlmsghdr *head, int type)
{
	const uint8_t *at = (const uint8_t *)NLMSG_DATA(head) + GENL_HDRLEN;
	const uint8_t *end = (const uint8_t *)head + head->nlmsg_len;
	uint32_t value = 0;

	while (at + NLA_HDRLEN <= end) {
		const struct nlattr *attribute = (const void *)at;
		size_t bytes = attribute->nla_len - NLA_HDRLEN;

		if (attribute->nla_len < NLA_HDRLEN)
			break;
		if ((attribute->nla_type & NLA_TYPE_MASK) == type)
			memcpy(&value, attribute + 1,
			       bytes < sizeof(value) ? bytes : sizeof(value));
		at += NLA_ALIGN(attribute->nla_len);
	}
	return value;
}

/*
 * Send it and take the numbers of one attribute from what comes back.  Returns
 * how many there are, or -errno of the kernel.
 */
static int request(struct message *m, int type, uint32_t *numbers)
{
	bool dump = m->head.nlmsg_flags & NLM_F_DUMP;
	_Alignas(struct nlmsghdr) uint8_t answer[16384];
	int found = 0;
	ssize_t bytes;

	if (send(netlink_fd, m, m->head.nlmsg_len, 0) < 0)
		return -errno;
	for (;;) {
		struct nlmsghdr *head = (void *)answer;

		bytes = recv(netlink_fd, answer, sizeof(answer), 0);
		if (bytes < 0)
			return -errno;
		for (; NLMSG_OK(head, (size_t)bytes);
		     head = NLMSG_NEXT(head, bytes)) {
			if (head->nlmsg_type == NLMSG_DONE) {
				int *err = NLMSG_DATA(head);

				return *err < 0 ? *err : found;
			}
			if (head->nlmsg_type == NLMSG_ERROR) {
				struct nlmsgerr *error = NLMSG_DATA(head);

				return error->error ?: found;
			}
			if (numbers && found < MAX_NAPIS)
				numbers[found++] = attribute_u32(head, type);
		}
		if (!dump && !(m->head.nlmsg_flags & NLM_F_ACK))
			return found;
	}
}

static void find_family(void)
{
	struct message m = message_of(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0);
	uint32_t found[MAX_NAPIS];

	netlink_fd =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	add(&m, CTRL_ATTR_FAMILY_NAME, "netdev", sizeof("netdev"));
	if (netlink_fd < 0 || request(&m, CTRL_ATTR_FAMILY_ID, found) != 1) {
		puts("this kernel has no family netdev (Linux 6.3)");
		exit(EXIT_ABSENT);
	}
	family = (int)(found[0] & 0xffff);
}

static int features(uint32_t ifindex)
{
	struct message m = message_of(family, DEV_GET, 0);
	uint32_t bits[MAX_NAPIS] = {};
	int n;

	add(&m, DEV_IFINDEX, &ifindex, sizeof(ifindex));
	n = request(&m, DEV_XDP_FEATURES, bits);
	if (n != 1) {
		printf("no answer: %s\n", strerror(n < 0 ? -n : ENODATA));
		return 1;
	}
	printf("xdp-features %u\n", bits[0]);
	return 0;
}

static int threaded(uint32_t ifindex, uint32_t value)
{
	struct message list = message_of(family, NAPI_GET, NLM_F_DUMP);
	uint32_t napis[MAX_NAPIS];
	int i, n, err;

	add(&list, NAPI_IFINDEX, &ifindex, sizeof(ifindex));
	n = request(&list, NAPI_ID, napis);
	if (n < 0) {
		puts("this kernel does not list NAPIs (Linux 6.7)");
		return EXIT_ABSENT;
	}
	if (!n) {
		puts("the driver ties no NAPI to the interface");
		return 1;
	}
	for (i = 0; i < n; i++) {
		struct message m = message_of(family, NAPI_SET, NLM_F_ACK);

		add(&m, NAPI_ID, &napis[i], sizeof(napis[i]));
		add(&m, NAPI_THREADED, &value, sizeof(value));
		err = request(&m, 0, NULL);
		if (value == POLLS &&
		    (err == -EINVAL || err == -ERANGE || err == -EOPNOTSUPP)) {
			puts("this kernel has no threads that poll (Linux 6.19)");
			return EXIT_ABSENT;
		}
		if (err < 0) {
			printf("NAPI %u: %s\n", napis[i], strerror(-err));
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	uint32_t ifindex = argc > 2 ? if_nametoindex(argv[2]) : 0;

	if (!ifindex || argc > 4) {
		fputs("netdev features PORT | threaded PORT VALUE\n", stderr);
		return 2;
	}
	find_family();
	if (argc == 3 && !strcmp(argv[1], "features"))
		return features(ifindex);
	if (argc == 4 && !strcmp(argv[1], "threaded"))
		return threaded(ifindex, (uint32_t)atoi(argv[3]));
	return 2;
}
