// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <unistd.h>
#include <sys/socket.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "attach.h"
#include "util.h"

/* The classic hook has no links: our filter is known by these numbers. */
#define FILTER_PRIORITY 0x78d7
#define FILTER_FOUND	0x78d7 /* its handle in a clsact that was there */
#define FILTER_MADE	0x78d8 /* in one that we have made */

/* Linux 6.6; not in the headers of Debian 12. */
#define ATTACH_TCX_INGRESS 46

static int link_xdp(const struct port *port, int fd)
{
	bool generic = port->xdp_mode == XDP_GENERIC;
	LIBBPF_OPTS(bpf_link_create_opts, opts,
		    .flags = generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE);
	int link;

	link = bpf_link_create(fd, port->ifindex, BPF_XDP, &opts);
	if (link < 0)
		return fail(
			link, "cannot attach %s XDP: %s: %s",
			generic ? "generic" : "native", port->ifname,
			explain_attach(link, port->ifindex, fd, opts.flags));
	return link;
}

static int attach_xdp(struct attachment *at, const struct port *port, int fd)
{
	int link = link_xdp(port, fd);

	if (link < 0)
		return link;
	at->link_fd = link;
	at->xdp = port->xdp_mode == XDP_GENERIC ? "generic" : "native";
	return 0;
}

/* A program that leaves all frames to the stack. */
static int load_pass(void)
{
	const struct bpf_insn code[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = XDP_PASS },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return bpf_prog_load(BPF_PROG_TYPE_XDP, "xdpgen_pass", "Dual BSD/GPL",
			     code, ARRAY_SIZE(code), NULL);
}

/* @fd: the receiver, or -1. */
static int attach_card(struct attachment *at, const struct port *port, int fd)
{
	int link, err;

	at->xdp = fd < 0 ? "pass" : "native";
	if (at->card_link) {
		if (fd < 0)
			return 0;
		err = bpf_link_update(at->card_link - 1, fd, NULL);
		if (err)
			return fail(err, "cannot replace XDP program: %s: %s",
				    port->ifname, explain(err));
		return 0;
	}
	at->pass_fd = load_pass();
	if (at->pass_fd < 0)
		return fail(at->pass_fd, "cannot load XDP program: %s",
			    explain(at->pass_fd));
	link = link_xdp(port, fd < 0 ? at->pass_fd : fd);
	if (link < 0) {
		close(at->pass_fd);
		return link;
	}
	at->card_link = link + 1;
	return 0;
}

static int remove_filter(const struct port *port, __u32 handle)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = port->ifindex,
		    .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = handle,
		    .priority = FILTER_PRIORITY);

	return bpf_tc_detach(&hook, &opts);
}

/* What a dump that was asked for on @fd comes to: is there a filter in it? */
static bool any_filter(int fd)
{
	char buffer[16384] __attribute__((aligned(NLMSG_ALIGNTO)));
	bool any = false;

	for (;;) {
		struct nlmsghdr *m = (struct nlmsghdr *)buffer;
		ssize_t bytes = recv(fd, buffer, sizeof(buffer), 0);

		if (bytes <= 0)
			return true; /* not known */
		for (; NLMSG_OK(m, bytes); m = NLMSG_NEXT(m, bytes)) {
			if (m->nlmsg_type == NLMSG_DONE)
				return any;
			if (m->nlmsg_type == NLMSG_ERROR)
				return true;
			any |= m->nlmsg_type == RTM_NEWTFILTER;
		}
	}
}

/* Has somebody a filter at the clsact of a port?  If that is not known: yes. */
static bool has_filters(const struct port *port, __u32 hook)
{
	struct {
		struct nlmsghdr header;
		struct tcmsg tc;
	} ask = {
		.header = { .nlmsg_len = sizeof(ask),
			    .nlmsg_type = RTM_GETTFILTER,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.tc = { .tcm_ifindex = port->ifindex,
			.tcm_parent = TC_H_MAKE(TC_H_CLSACT, hook) },
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	bool any;

	if (fd < 0)
		return true;
	any = send(fd, &ask, sizeof(ask), 0) < 0 || any_filter(fd);
	close(fd);
	return any;
}

/* The one that we have made, unless others have put their filters there. */
static void remove_qdisc(const struct port *port)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = port->ifindex,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);

	if (!has_filters(port, TC_H_MIN_INGRESS) &&
	    !has_filters(port, TC_H_MIN_EGRESS))
		bpf_tc_hook_destroy(&hook);
}

/* What a killed run has left at the classic hook, by whichever we go. */
static void clear_clsact(const struct port *port)
{
	remove_filter(port, FILTER_FOUND);
	if (!remove_filter(port, FILTER_MADE))
		remove_qdisc(port);
}

static int attach_clsact(struct attachment *at, const struct port *port, int fd)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = port->ifindex,
		    .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_MADE,
		    .priority = FILTER_PRIORITY, .prog_fd = fd);
	int err;

	err = bpf_tc_hook_create(&hook);
	if (err == -EEXIST)
		opts.handle = FILTER_FOUND;
	else if (err)
		return fail(err, "cannot add clsact: %s: %s", port->ifname,
			    explain(err));
	at->filter = opts.handle;
	err = bpf_tc_attach(&hook, &opts);
	if (err)
		return fail(err, "cannot add tc filter: %s: %s", port->ifname,
			    explain(err));
	at->tc = "clsact";
	return 0;
}

/* TCX (Linux 6.6) has links, so that nothing survives us; else clsact. */
static int attach_tc(struct attachment *at, const struct port *port, int fd)
{
	int link;

	if (port->tc_hook == TC_CLSACT)
		return attach_clsact(at, port, fd);
	link = bpf_link_create(fd, port->ifindex, ATTACH_TCX_INGRESS, NULL);
	if (link >= 0) {
		at->link_fd = link;
		at->tc = "tcx";
		return 0;
	}
	if (port->tc_hook == TC_TCX)
		return fail(link, "cannot attach TCX: %s: %s", port->ifname,
			    explain(link));
	return attach_clsact(at, port, fd);
}

int check_ports_free(const struct config *cfg)
{
	int err = 0, i, ns;

	for (i = 0; !err && i < cfg->num_ports; i++) {
		ns = netns_enter(port_netns(&cfg->ports[i]));
		if (ns < 0)
			return ns;
		err = check_no_xdp(cfg->ports[i].ifname, cfg->ports[i].ifindex);
		netns_leave(ns);
	}
	return err;
}

/* Has a card its XDP link for longer than a trial? */
static bool keeps_link(const struct port *port, bool sends)
{
	return !port->veth && (sends || port->rx == RX_XDP) &&
	       port->xdp_mode == XDP_NATIVE;
}

int attach_port(struct attachment *at, const struct port *port, int fd,
		bool sends)
{
	bool kept = keeps_link(port, sends), xdp = port->rx == RX_XDP;
	int ns, err = 0;

	at->link_fd = -1;
	at->filter = 0;
	at->xdp = at->tc = "none";
	ns = netns_enter(port_netns(port));
	if (ns < 0)
		return fail(ns, "cannot enter network namespace: %s: %s",
			    port->netns, explain(ns));
	if (!at->card_link)
		err = check_no_xdp(port->ifname, port->ifindex);
	if (!err && fd >= 0)
		clear_clsact(port);
	if (!err && kept)
		err = attach_card(at, port, xdp ? fd : -1);
	else if (!err && xdp)
		err = attach_xdp(at, port, fd);
	if (!err && port->rx == RX_TC)
		err = attach_tc(at, port, fd);
	netns_leave(ns);
	return err;
}

void detach_port(struct attachment *at, const struct port *port)
{
	int ns;

	if (at->card_link && port->rx == RX_XDP)
		bpf_link_update(at->card_link - 1, at->pass_fd, NULL);
	if (at->link_fd >= 0)
		close(at->link_fd);
	at->link_fd = -1;
	if (!at->filter)
		return;
	ns = netns_enter(port_netns(port));
	if (ns < 0)
		return; /* the namespace is gone, and the filter with it */
	remove_filter(port, at->filter);
	if (at->filter == FILTER_MADE)
		remove_qdisc(port);
	at->filter = 0;
	netns_leave(ns);
}

void leave_port(struct attachment *at, const struct port *port)
{
	detach_port(at, port);
	if (!at->card_link)
		return;
	close(at->card_link - 1);
	close(at->pass_fd);
	at->card_link = 0;
}
