// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/sockios.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <xdp/libxdp.h>
#include "util.h"

static const char *program_name = "";

/*
 * Bytes of the character of UTF-8 at @c; 0: there is none, or one that controls
 * a terminal (U+0080 to U+009F).
 */
static int character_bytes(const unsigned char *c)
{
	int bytes = *c < 0x80 ? 1 :
		    *c < 0xc2 ? 0 :
		    *c < 0xe0 ? 2 :
		    *c < 0xf0 ? 3 :
		    *c < 0xf5 ? 4 :
				0;
	int i;

	for (i = 1; i < bytes; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	/* also written otherwise, half of a pair, or beyond the last */
	if ((*c == 0xc2 && c[1] < 0xa0) || (*c == 0xe0 && c[1] < 0xa0) ||
	    (*c == 0xed && c[1] >= 0xa0) || (*c == 0xf0 && c[1] < 0x90) ||
	    (*c == 0xf4 && c[1] >= 0x90))
		return 0;
	return bytes;
}

/*
 * One line of text: what is not, because a configuration has it in its names,
 * or because it was cut, becomes a question mark.
 */
static void make_line(char *text)
{
	int bytes;

	for (; *text; text += bytes ?: 1) {
		bytes = character_bytes((const unsigned char *)text);
		if (*text == '\n')
			*text = ' ';
		else if (!bytes || iscntrl((unsigned char)*text))
			*text = '?';
	}
}

int fail(int err, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	make_line(line);
	fprintf(stderr, "%s: %s\n", program_name, line);
	return err;
}

void stop_signals(sigset_t *set)
{
	struct sigaction hangup;

	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	/* who blocks a signal gets it even when it is ignored */
	if (!sigaction(SIGHUP, NULL, &hangup) && hangup.sa_handler != SIG_IGN)
		sigaddset(set, SIGHUP);
}

/* Warnings of libbpf and libxdp since they were asked for last. */
static struct {
	char lines[2][240];
	int count;
} kept;

/* Lines that only say that something has failed. */
static bool says_nothing(const char *line)
{
	return strstr(line, "failed to load") || strstr(line, "load failed") ||
	       strstr(line, "try raising 'ulimit -l'") ||
	       strstr(line, "BEGIN PROG LOAD LOG") ||
	       strstr(line, "failed to auto-attach");
}

static void keep(const char *fmt, va_list ap)
{
	char line[sizeof(kept.lines[0])];

	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = '\0';
	if (!line[0] || says_nothing(line) ||
	    kept.count == ARRAY_SIZE(kept.lines))
		return;
	strcpy(kept.lines[kept.count++], line);
}

static int keep_of_libbpf(enum libbpf_print_level level, const char *fmt,
			  va_list ap)
{
	if (level == LIBBPF_WARN)
		keep(fmt, ap);
	return 0;
}

static int keep_of_libxdp(enum libxdp_print_level level, const char *fmt,
			  va_list ap)
{
	if (level == LIBXDP_WARN)
		keep(fmt, ap);
	return 0;
}

void forget_warnings(void)
{
	kept.count = 0;
}

const char *explain(int err)
{
	static __thread char text[600];

	if (kept.count) {
		snprintf(text, sizeof(text), "%s: %s%s%s", strerror(-err),
			 kept.lines[0], kept.count > 1 ? "; " : "",
			 kept.count > 1 ? kept.lines[1] : "");
		forget_warnings();
		return text;
	}
	switch (-err) {
	case EPERM:
	case EACCES:
		return "permission denied: run as root (CAP_NET_ADMIN, CAP_BPF, CAP_SYS_ADMIN)";
	case ERANGE:
		return "out of range: native XDP on veth wants a peer MTU <= 3506 and as many rx queues as the peer has tx queues";
	case EOPNOTSUPP:
		return "not supported by this driver or kernel: try generic mode";
	case EAFNOSUPPORT:
		return "this kernel has no such sockets: AF_XDP needs CONFIG_XDP_SOCKETS";
	default:
		return strerror_r(-err, text, sizeof(text));
	}
}

const char *explain_attach(int err, int ifindex, int prog, __u32 flags)
{
	forget_warnings();
	if (!bpf_xdp_attach(ifindex, prog, flags | XDP_FLAGS_UPDATE_IF_NOEXIST,
			    NULL))
		bpf_xdp_detach(ifindex, flags, NULL);
	return explain(err);
}

void program_begin(const char *name)
{
	program_name = name;
	libbpf_set_print(keep_of_libbpf);
	libxdp_set_print(keep_of_libxdp);
}

int netns_enter(const char *path)
{
	int old, new, err = 0;

	old = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (old < 0)
		return -errno;
	if (!path)
		return old;
	new = open(path, O_RDONLY | O_CLOEXEC);
	if (new < 0 || setns(new, CLONE_NEWNET))
		err = -errno;
	if (new >= 0)
		close(new);
	if (!err)
		return old;
	close(old);
	return err;
}

__u32 netns_inode(void)
{
	struct stat ns;

	return stat("/proc/thread-self/ns/net", &ns) ? 0 : ns.st_ino;
}

void netns_leave(int fd)
{
	struct stat ns;
	bool there = !fstat(fd, &ns) && ns.st_ino == netns_inode();

	/* who has left it has the right to go back; who has not may have none */
	if (!there && setns(fd, CLONE_NEWNET))
		fail(-errno, "cannot leave network namespace: %s",
		     explain(-errno));
	close(fd);
}

struct link_counts link_counts(const char *ifname)
{
	const struct rtnl_link_stats *stats;
	struct link_counts counts = {};
	struct ifaddrs *all, *at;

	if (getifaddrs(&all))
		return counts;
	for (at = all; at; at = at->ifa_next) {
		if (!at->ifa_addr || at->ifa_addr->sa_family != AF_PACKET ||
		    !at->ifa_data || strcmp(at->ifa_name, ifname))
			continue;
		stats = at->ifa_data;
		counts.tx_packets = stats->tx_packets;
		counts.tx_dropped = stats->tx_dropped;
	}
	freeifaddrs(all);
	return counts;
}

static int interface_ioctl(struct ifreq *ifr, const char *ifname, int request)
{
	int fd, err = 0;

	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	strncpy(ifr->ifr_name, ifname, IFNAMSIZ - 1);
	if (ioctl(fd, request, ifr))
		err = -errno;
	close(fd);
	return err;
}

bool is_veth(const char *ifname)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
	struct ifreq ifr = { .ifr_data = (void *)&info };

	return !interface_ioctl(&ifr, ifname, SIOCETHTOOL) &&
	       !strcmp(info.driver, "veth");
}

int receive_queues(const char *ifname)
{
	struct ethtool_channels channels = { .cmd = ETHTOOL_GCHANNELS };
	struct ifreq ifr = { .ifr_data = (void *)&channels };

	if (interface_ioctl(&ifr, ifname, SIOCETHTOOL))
		return 0;
	return channels.rx_count + channels.combined_count;
}

int check_no_xdp(const char *ifname, int ifindex)
{
	__u32 id = 0;

	if (bpf_xdp_query_id(ifindex, 0, &id) || !id)
		return 0;
	return fail(
		-EBUSY,
		"port busy: %s carries XDP program %u: detach it (ip link set %s xdp off)",
		ifname, id, ifname);
}

int interface_mtu(const char *ifname)
{
	struct ifreq ifr = {};
	int err = interface_ioctl(&ifr, ifname, SIOCGIFMTU);

	return err ?: ifr.ifr_mtu;
}

int interface_mac(const char *ifname, unsigned char mac[6])
{
	struct ifreq ifr = {};
	int err = interface_ioctl(&ifr, ifname, SIOCGIFHWADDR);

	memcpy(mac, ifr.ifr_hwaddr.sa_data, 6);
	return err;
}
