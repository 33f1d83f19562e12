// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include "config_check.h"
#include "fields.h"
#include "stream.h"
#include "util.h"

/*
 * What fits the page of a live frame beside its headroom and the kernel's own
 * data: PAGE_SIZE - XDP_PACKET_HEADROOM - sizeof(struct xdp_page_head) -
 * sizeof(struct skb_shared_info), rounded down.
 */
#define MAX_KERNEL_BYTES 3300

/* A result of as many takes some 0.4 MB. */
#define MAX_FLOW_FIGURES 10000

/* Of AF_XDP: chunks are pages, of which the kernel takes 17 (MAX_SKB_FRAGS). */
#define MAX_SENT_BYTES (GEN_MAX_FRAME - ETH_FCS_LEN)

static int find_port(struct port *port, const char *where)
{
	int ns, err = 0;

	ns = netns_enter(port_netns(port));
	if (ns < 0)
		return fail(ns,
			    "cannot enter network namespace: %s.netns %s: %s",
			    where, port->netns, explain(ns));
	port->ifindex = if_nametoindex(port->ifname);
	port->netns_inode = netns_inode();
	port->mtu = interface_mtu(port->ifname);
	port->veth = is_veth(port->ifname);
	port->rx_queues = receive_queues(port->ifname);
	if (!port->ifindex)
		err = fail(
			-ENODEV,
			"unknown interface: %s.ifname %s: create it, or correct netns",
			where, port->ifname);
	netns_leave(ns);
	return err;
}

static int check_cpu(long long cpu, const char *where)
{
	cpu_set_t cpus;

	if (cpu != NO_CPU && (sched_getaffinity(0, sizeof(cpus), &cpus) ||
			      !CPU_ISSET(cpu, &cpus)))
		return bad_value(where, "tx_cpu",
				 "no such CPU, or not allowed by affinity");
	return 0;
}

static int check_port(struct config *cfg, int index)
{
	struct port *port = &cfg->ports[index];
	char where[32];
	int i;

	snprintf(where, sizeof(where), "ports[%d]", index);
	if (port->reflect && port->rx != RX_XDP)
		return bad_value(where, "reflect", "needs rx \"xdp\"");
	if (check_cpu(port->tx_cpu, where))
		return -EINVAL;
	for (i = 0; i < index; i++)
		if (!strcmp(cfg->ports[i].ifname, port->ifname) &&
		    !strcmp(cfg->ports[i].netns, port->netns))
			return bad_value(where, "ifname",
					 "is there twice: list a port once");
	return find_port(port, where);
}

static int check_stream(struct config *cfg, int index)
{
	struct stream *s = &cfg->streams[index];
	const struct port *port;
	char where[32];

	snprintf(where, sizeof(where), "streams[%d]", index);
	if (s->tx_port >= cfg->num_ports)
		return bad_value(where, "tx_port", "no such port");
	if (check_cpu(s->tx_cpu, where))
		return -EINVAL;
	if (s->tx_cpu != NO_CPU && cfg->ports[s->tx_port].tx_cpu == NO_CPU)
		return bad_value(where, "tx_cpu",
				 "needs one of its port, for streams without");
	if (s->rx_port >= cfg->num_ports)
		return bad_value(where, "rx_port", "no such port");
	if (cfg->ports[s->rx_port].rx == RX_NONE)
		return bad_value(where, "rx_port",
				 "this port has rx \"none\": use xdp or tc");
	if (cfg->flow_figures && stream_known_flows(s) > MAX_FLOW_FIGURES)
		return bad_value(where, "flows",
				 "10000 at the most with flow_figures");
	if (stream_answer_offset(s) != stream_answer_offset(&cfg->streams[0]))
		return bad_value(where, "request",
				 "all streams must have it at one place");
	port = &cfg->ports[s->tx_port];
	return stream_check(
		cfg->streams, index, &cfg->timing, port->ifname, port->mtu,
		cfg->sender == SENDER_XSK ? MAX_SENT_BYTES : MAX_KERNEL_BYTES);
}

int config_check(struct config *cfg)
{
	int i, err = 0;

	for (i = 0; !err && i < cfg->num_ports; i++)
		err = check_port(cfg, i);
	for (i = 0; !err && i < cfg->num_streams; i++)
		err = check_stream(cfg, i);
	return err;
}
