// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <linux/if_ether.h>
#include "config.h"
#include "fields.h"
#include "util.h"

/*
 * What fits the page of a live frame beside its headroom and the kernel's own
 * data: PAGE_SIZE - XDP_PACKET_HEADROOM - sizeof(struct xdp_page_head) -
 * sizeof(struct skb_shared_info), rounded down.
 */
#define MAX_KERNEL_BYTES 3300

int stream_header_bytes(const struct stream *s)
{
	return ETH_HLEN + (s->vlan ? 4 : 0) + (s->ip == 4 ? 20 : 40) + 8;
}

static int find_port(struct port *port, const char *where)
{
	int ns, err;

	ns = netns_enter(port_netns(port));
	if (ns < 0)
		return fail(ns,
			    "cannot enter network namespace: %s.netns %s: %s",
			    where, port->netns, explain(ns));
	port->ifindex = if_nametoindex(port->ifname);
	port->mtu = interface_mtu(port->ifname);
	port->veth = is_veth(port->ifname);
	port->rx_queues = receive_queues(port->ifname);
	if (port->ifindex)
		err = check_no_xdp(port->ifname, port->ifindex);
	else
		err = fail(
			-ENODEV,
			"unknown interface: %s.ifname %s: create it, or correct netns",
			where, port->ifname);
	netns_leave(ns);
	return err;
}

static int check_port(struct config *cfg, int index)
{
	struct port *port = &cfg->ports[index];
	char where[32];
	cpu_set_t cpus;
	int i;

	snprintf(where, sizeof(where), "ports[%d]", index);
	if (port->reflect && port->rx != RX_XDP)
		return bad_value(where, "reflect", "needs rx \"xdp\"");
	if (port->tx_cpu != NO_CPU &&
	    (sched_getaffinity(0, sizeof(cpus), &cpus) ||
	     !CPU_ISSET(port->tx_cpu, &cpus)))
		return bad_value(where, "tx_cpu",
				 "no such CPU, or not allowed by affinity");
	for (i = 0; i < index; i++)
		if (!strcmp(cfg->ports[i].ifname, port->ifname) &&
		    !strcmp(cfg->ports[i].netns, port->netns))
			return bad_value(where, "ifname",
					 "is there twice: list a port once");
	return find_port(port, where);
}

static int check_addresses(const struct stream *s, const char *where)
{
	int family = s->ip == 4 ? AF_INET : AF_INET6;
	unsigned char address[16];

	if (s->ip != 4 && s->ip != 6)
		return bad_value(where, "ip", "must be 4 or 6");
	if (inet_pton(family, s->src_ip, address) != 1)
		return bad_value(where, "src_ip",
				 s->ip == 4 ? "must be an IPv4 address" :
					      "must be an IPv6 address");
	if (inet_pton(family, s->dst_ip, address) != 1)
		return bad_value(where, "dst_ip",
				 s->ip == 4 ? "must be an IPv4 address" :
					      "must be an IPv6 address");
	if (s->udp_src + s->flows - 1 > 65535)
		return bad_value(where, "flows",
				 "udp_src + flows - 1 exceeds 65535");
	return 0;
}

static int check_size(const struct config *cfg, const struct stream *s,
		      const char *where)
{
	const struct port *port = &cfg->ports[s->tx_port];
	int smallest = stream_header_bytes(s) + TRAILER_BYTES + ETH_FCS_LEN;
	int largest = port->mtu + ETH_HLEN + (s->vlan ? 4 : 0) + ETH_FCS_LEN;
	char text[128];

	largest = min(largest, MAX_KERNEL_BYTES + ETH_FCS_LEN);
	smallest = max(smallest, 64);
	if (s->frame_bytes >= smallest && s->frame_bytes <= largest)
		return 0;
	snprintf(text, sizeof(text),
		 "must be from %d (headers) to %d (MTU %d of %s)", smallest,
		 largest, port->mtu, port->ifname);
	return bad_value(where, "frame_bytes", text);
}

static int check_stream(struct config *cfg, int index)
{
	struct stream *s = &cfg->streams[index];
	char where[32];
	int i;

	snprintf(where, sizeof(where), "streams[%d]", index);
	for (i = 0; i < index; i++)
		if (cfg->streams[i].id == s->id)
			return bad_value(where, "id", "is there twice");
	if (s->tx_port >= cfg->num_ports)
		return bad_value(where, "tx_port", "no such port");
	if (s->rx_port >= cfg->num_ports)
		return bad_value(where, "rx_port", "no such port");
	if (cfg->ports[s->rx_port].rx == RX_NONE)
		return bad_value(where, "rx_port",
				 "this port has rx \"none\": use xdp or tc");
	if (s->start_ns >= cfg->duration_s * 1e9)
		return bad_value(where, "start_ns", "must be below duration_s");
	return check_addresses(s, where) ?: check_size(cfg, s, where);
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
