// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include "links.h"
#include "util.h"

/* A card that was reset for its first XDP program negotiates for seconds. */
#define CARRIER_LOOKS	10000
#define CARRIER_LOOK_US 1000

/* In the port's namespace. */
static int listen_links(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK,
				       .nl_groups = RTMGRP_LINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_ROUTE);

	if (fd < 0)
		return -errno;
	if (!bind(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	close(fd);
	return -errno;
}

static bool has_carrier(const char *ifname)
{
	struct ifreq ifr = {};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool up;

	if (fd < 0)
		return false;
	strncpy(ifr.ifr_name, ifname, IFNAMSIZ - 1);
	up = !ioctl(fd, SIOCGIFFLAGS, &ifr) && ifr.ifr_flags & IFF_RUNNING;
	close(fd);
	return up;
}

static int open_port(struct links *l, const struct port *port, char *error,
		     size_t bytes)
{
	int ns = netns_enter(port_netns(port)), looks = 0, fd;

	if (ns < 0)
		return ns;
	while (!has_carrier(port->ifname) && ++looks < CARRIER_LOOKS)
		usleep(CARRIER_LOOK_US);
	fd = looks < CARRIER_LOOKS ? listen_links() : -ENETDOWN;
	netns_leave(ns);
	if (fd == -ENETDOWN)
		snprintf(
			error, bytes,
			"port %s has no carrier after 10 s: is it up, and the other end of its cable?",
			port->ifname);
	if (fd < 0)
		return fd;
	l->fd[l->count++] = fd;
	return 0;
}

static int removed(const struct port *port, char *error, size_t bytes)
{
	snprintf(
		error, bytes,
		"port %s was removed during the trial: what was lost is nobody's",
		port->ifname);
	return -ENODEV;
}

/* The kernel counts: a carrier that goes and comes may be one message. */
static __u32 times_lost(const struct nlmsghdr *m)
{
	const struct rtattr *at = IFLA_RTA(NLMSG_DATA(m));
	int left = IFLA_PAYLOAD(m);

	for (; RTA_OK(at, left); at = RTA_NEXT(at, left))
		if (at->rta_type == IFLA_CARRIER_DOWN_COUNT)
			return *(const __u32 *)RTA_DATA(at);
	return 0;
}

static int read_message(struct links *l, const struct config *cfg, int i,
			const struct nlmsghdr *m, char *error, size_t bytes)
{
	const struct ifinfomsg *info = NLMSG_DATA(m);
	const struct port *port = &cfg->ports[i];

	if (m->nlmsg_type == NLMSG_ERROR)
		return removed(port, error, bytes);
	if (info->ifi_index != port->ifindex)
		return 0;
	if (m->nlmsg_type == RTM_DELLINK)
		return removed(port, error, bytes);
	if (m->nlmsg_type != RTM_NEWLINK)
		return 0;
	l->lost[i] = times_lost(m);
	if (!l->watched[i])
		l->first[i] = l->lost[i];
	l->watched[i] = true;
	if (l->lost[i] == l->first[i] || cfg->link_changes)
		return 0;
	snprintf(
		error, bytes,
		"port %s lost its carrier during the trial: what was lost is nobody's",
		port->ifname);
	return -ENETDOWN;
}

/* The answer has come when this returns. */
static void ask(int fd, int ifindex)
{
	struct {
		struct nlmsghdr header;
		struct ifinfomsg info;
	} ask = {
		.header = { .nlmsg_len = sizeof(ask),
			    .nlmsg_type = RTM_GETLINK,
			    .nlmsg_flags = NLM_F_REQUEST },
		.info = { .ifi_index = ifindex },
	};

	if (send(fd, &ask, sizeof(ask), 0) < 0)
		fail(-errno, "cannot ask for a link: %s", explain(-errno));
}

int links_read(struct links *l, const struct config *cfg, int i, char *error,
	       size_t bytes)
{
	char buffer[16384] __attribute__((aligned(NLMSG_ALIGNTO)));
	int err = 0;

	ask(l->fd[i], cfg->ports[i].ifindex);
	for (;;) {
		struct nlmsghdr *m = (struct nlmsghdr *)buffer;
		ssize_t n = recv(l->fd[i], buffer, sizeof(buffer), 0);

		/* some were dropped, others follow */
		if (n < 0 && errno == ENOBUFS)
			continue;
		if (n <= 0)
			return err;
		for (; NLMSG_OK(m, n); m = NLMSG_NEXT(m, n))
			err = err ?: read_message(l, cfg, i, m, error, bytes);
	}
}

int links_open(struct links *l, const struct config *cfg, char *error,
	       size_t bytes)
{
	int i, err = 0;

	memset(l, 0, sizeof(*l));
	for (i = 0; !err && i < cfg->num_ports; i++) {
		err = open_port(l, &cfg->ports[i], error, bytes) ?:
			      links_read(l, cfg, i, error, bytes);
	}
	return err;
}

void links_close(struct links *l)
{
	int i;

	for (i = 0; i < l->count; i++)
		close(l->fd[i]);
	l->count = 0;
}
