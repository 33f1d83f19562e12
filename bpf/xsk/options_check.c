// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include "fields.h"
#include "options_check.h"
#include "stream.h"
#include "util.h"

/* XDP_PACKET_HEADROOM: what the kernel keeps in front of a frame. */
#define KERNEL_HEADROOM 256
/* Of an AF_PACKET slot: ring header and link address. */
#define SLOT_HEADER    128
#define LONGEST_HEADER 26 /* Ethernet, two tags, FCS */

static int find_port(struct port *port, const char *where)
{
	int ns, err = 0;

	ns = netns_enter(port_netns(port));
	if (ns < 0)
		return fail(ns,
			    "cannot enter network namespace: %s.netns %s: %s",
			    where, port->netns, explain(ns));
	port->ifindex = if_nametoindex(port->ifname);
	if (!port->ifindex) {
		err = fail(
			-ENODEV,
			"unknown interface: %s.ifname %s: create it, or correct netns",
			where, port->ifname);
	} else {
		port->mtu = interface_mtu(port->ifname);
		port->rx_queues = receive_queues(port->ifname);
	}
	netns_leave(ns);
	return err;
}

static int check_queues(const struct options *o, const struct port *port,
			const char *where)
{
	char text[160];

	if (o->backend == BACKEND_AF_PACKET || !port->rx_queues ||
	    o->queue + o->queues <= port->rx_queues)
		return 0;
	snprintf(text, sizeof(text),
		 "%s has %d receive queues: use queues 0 to %d (ethtool -l)",
		 port->ifname, port->rx_queues, port->rx_queues - 1);
	return bad_value(where, "queue", text);
}

/* A frame of the MTU must fit a chunk beside both headrooms. */
static int check_mtu(const struct options *o, const struct port *port)
{
	int room = o->io.chunk_bytes - KERNEL_HEADROOM - o->io.headroom;
	char text[160];

	if (o->backend == BACKEND_AF_PACKET || !o->io.receive ||
	    o->io.multi_buffer || port->mtu + LONGEST_HEADER <= room)
		return 0;
	snprintf(
		text, sizeof(text),
		"leaves %d bytes for frames, but %s has an MTU of %d: lower one of them",
		room, port->ifname, port->mtu);
	return bad_value("", o->io.headroom ? "headroom" : "chunk_bytes", text);
}

static int check_port(struct options *o, int index)
{
	struct port *port = &o->ports[index];
	char where[32];
	int i, err;

	snprintf(where, sizeof(where), "ports[%d]", index);
	for (i = 0; i < index; i++)
		if (!strcmp(o->ports[i].ifname, port->ifname) &&
		    !strcmp(o->ports[i].netns, port->netns))
			return bad_value(where, "ifname",
					 "is there twice: list a port once");
	err = find_port(port, where) ?: check_queues(o, port, where);
	return err ?: check_mtu(o, port);
}

static int check_power(const char *key, long long value)
{
	char text[80];

	if (!(value & (value - 1)))
		return 0;
	snprintf(text, sizeof(text), "must be a power of two, not %lld", value);
	return bad_value("", key, text);
}

/* Enough that no queue is left without a chunk (umem_open() deals them out). */
static int check_frames(const struct options *o)
{
	int queues = options_umem_queues(o);
	long long least = 2 * max(o->io.batch, (long long)queues);
	char text[96];

	if (!o->io.frames || o->io.frames >= least)
		return 0;
	snprintf(
		text, sizeof(text),
		"must be at least %lld: twice the batch, and two for each of %d queues",
		least, queues);
	return bad_value("", "frames", text);
}

static int check_rings(const struct options *o)
{
	int err;

	err = check_power("rx_ring", o->io.rx_ring)		?:
		      check_power("tx_ring", o->io.tx_ring)	?:
		      check_power("fill_ring", o->io.fill_ring) ?:
		      check_power("completion_ring", o->io.completion_ring);
	if (err)
		return err;
	if (!o->io.unaligned || o->backend == BACKEND_AF_PACKET)
		err = check_power("chunk_bytes", o->io.chunk_bytes);
	/* Linux 6.18 marks addresses in flight with their lowest bit */
	else if (o->io.chunk_bytes % 8)
		err = bad_value("", "chunk_bytes", "must be a multiple of 8");
	if (err)
		return err;
	if (o->io.transmit && o->io.completion_ring < o->io.tx_ring)
		return bad_value("", "completion_ring",
				 "must not be smaller than tx_ring");
	err = check_frames(o);
	if (err)
		return err;
	if (o->io.tx_skb_budget &&
	    (o->io.tx_skb_budget < 32 || o->io.tx_skb_budget > o->io.tx_ring))
		return bad_value("", "tx_skb_budget",
				 "must be 0, or from 32 to tx_ring");
	return 0;
}

/* What one of the two back ends has not. */
static int check_backend(const struct options *o)
{
	if (o->backend == BACKEND_AF_XDP) {
		if (o->io.bind == BIND_ZEROCOPY &&
		    o->xdp_mode == ATTACH_GENERIC)
			return bad_value("", "bind",
					 "zero-copy needs xdp_mode native");
		/* more sockets join a queue through the first of its UMEM */
		if (o->sockets > 1 && o->shared_umem &&
		    o->num_ports * o->queues > 1)
			return bad_value(
				"", "sockets",
				"more than one per queue: needs shared_umem false where there is more than one queue");
		return 0;
	}
	if (o->queues > 1 || o->sockets > 1 || o->queue)
		return bad_value("", "queues",
				 "AF_PACKET has one socket for all queues");
	if (o->io.wake_tx == WAKE_POLL)
		return bad_value("", "wake_tx",
				 "poll does not send on AF_PACKET: use sendto");
	if (o->io.wake_tx == WAKE_NONE && o->io.transmit)
		return bad_value(
			"", "wake_tx",
			"AF_PACKET sends in a system call: use sendto");
	if (o->io.tx_skb_budget)
		return bad_value("", "tx_skb_budget", "is an AF_XDP option");
	if (o->io.rx_ring * o->io.chunk_bytes < 8192 ||
	    o->io.tx_ring * o->io.chunk_bytes < 8192)
		return bad_value("", "rx_ring",
				 "an AF_PACKET ring has at least 8 KiB");
	return 0;
}

static int check_role(const struct options *o)
{
	if (o->role == ROLE_FORWARD && o->num_ports != 2)
		return bad_value("", "ports", "role forward needs two");
	if ((o->role == ROLE_REFLECT || o->role == ROLE_SINK ||
	     o->role == ROLE_GEN) &&
	    o->num_ports != 1)
		return bad_value("", "ports", "this role has one port");
	if ((o->role == ROLE_PING || o->role == ROLE_PROBE) &&
	    (o->queues > 1 || o->sockets > 1))
		return bad_value(
			"", "queues",
			"roles ping and probe have one socket per port");
	return 0;
}

static int check_stream(const struct options *o, int index)
{
	const struct stream *s = &o->streams[index];
	const struct port *port;
	char where[32];

	snprintf(where, sizeof(where), "streams[%d]", index);
	if (s->tx_port >= o->num_ports)
		return bad_value(where, "tx_port", "no such port");
	if (s->rx_port >= o->num_ports)
		return bad_value(where, "rx_port", "no such port");
	if (s->tx_cpu != NO_CPU)
		return bad_value(where, "tx_cpu", "is of xdpgen; here cpus");
	if (s->request[0])
		return bad_value(where, "request", "is of xdpgen");
	if (o->role != ROLE_PROBE && s->pps)
		return bad_value(
			where, "pps",
			"must be null: only role probe has a schedule");
	if (o->role != ROLE_PROBE && s->flow_choice == CHOICE_NEW)
		return bad_value(where, "flow_choice",
				 "\"new\" is of role probe");
	port = &o->ports[s->tx_port];
	return stream_check(
		o->streams, index, &o->timing, port->ifname, port->mtu,
		o->io.chunk_bytes -
			(o->backend == BACKEND_AF_PACKET ? SLOT_HEADER : 0));
}

/* After the ports are known. */
static int check_streams(const struct options *o)
{
	int i, err = 0;

	if (!options_originate(o))
		return o->num_streams ?
			       bad_value(
				       "", "streams",
				       "this role sends no frames of its own") :
			       0;
	if (!o->num_streams)
		return bad_value("", "streams", "missing: add it");
	if (o->role != ROLE_PROBE && o->num_streams != 1)
		return bad_value("", "streams", "this role has one");
	for (i = 0; !err && i < o->num_streams; i++)
		err = check_stream(o, i);
	return err;
}

static int check_multi_buffer(const struct options *o)
{
	if (!o->io.multi_buffer)
		return 0;
	if (o->role != ROLE_SINK)
		return bad_value("", "multi_buffer", "is of role sink");
	if (o->backend == BACKEND_AF_PACKET)
		return bad_value("", "multi_buffer", "is of AF_XDP sockets");
	if (o->io.stages)
		return bad_value("", "multi_buffer", "goes without stages");
	return 0;
}

static int check_stages(const struct options *o)
{
	if (o->io.stages && o->role != ROLE_SINK)
		return bad_value("", "stages", "are measured by role sink");
	if (o->io.stages && o->num_cpus > 1)
		return bad_value("", "stages", "one CPU measures them");
	if (o->samples[0] && o->role != ROLE_PING && o->role != ROLE_PROBE)
		return bad_value("", "samples",
				 "are taken by roles ping and probe");
	if ((o->trace[0] || o->trace_every > 1) && o->role != ROLE_FORWARD &&
	    o->role != ROLE_REFLECT)
		return bad_value("", o->trace[0] ? "trace" : "trace_every",
				 "belongs to roles forward and reflect");
	return 0;
}

/* What it takes rights for after everything is open. */
static int check_unprivileged(const struct options *o)
{
	int i;

	if (!o->unprivileged)
		return 0;
	if (o->role != ROLE_FORWARD && o->role != ROLE_REFLECT)
		return bad_value("", "unprivileged",
				 "belongs to roles forward and reflect");
	if (o->policy != POLICY_OTHER)
		return bad_value("", "policy",
				 "takes rights that "
				 "unprivileged gives up");
	for (i = 0; i < o->num_ports; i++)
		if (o->ports[i].netns[0])
			return bad_value("ports[]", "netns",
					 "unprivileged cannot enter it again: "
					 "start xsk there");
	return 0;
}

static int check_cpus(const struct options *o)
{
	cpu_set_t cpus;
	int i, j;

	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		return fail(-errno, "cannot read CPU affinity: %s",
			    explain(-errno));
	for (i = 0; i < o->num_cpus; i++) {
		if (o->cpus[i] < 0 || o->cpus[i] >= CPU_SETSIZE ||
		    !CPU_ISSET(o->cpus[i], &cpus))
			return bad_value(
				"", "cpus",
				"no such CPU, or not allowed by affinity");
		for (j = 0; j < i; j++)
			if (o->cpus[j] == o->cpus[i])
				return bad_value("", "cpus",
						 "a CPU is there twice");
	}
	if (o->num_cpus > o->queues)
		return bad_value(
			"", "cpus",
			"more CPUs than queues: a queue has one thread");
	return 0;
}

static int check_nf(struct options *o)
{
	if (o->role != ROLE_NF)
		return 0;
	if (o->backend != BACKEND_AF_XDP)
		return bad_value("", "backend", "role nf has AF_XDP sockets");
	if (!o->shared_umem)
		return bad_value("", "shared_umem",
				 "role nf sends frames from where they came");
	if (o->sockets > 1)
		return bad_value("", "sockets", "role nf has one per queue");
	if (o->queue + o->queues > NF_QUEUES)
		return bad_value("", "queues",
				 "role nf takes up to number 255");
	if (o->num_ports == 2 && strcmp(o->ports[0].netns, o->ports[1].netns))
		return bad_value("ports[1]", "netns",
				 "role nf needs both ports in one namespace");
	return nf_options_check(&o->nf, o->num_ports);
}

/* The router and the load balancer send from the ports' own addresses. */
static int read_macs(struct options *o)
{
	int i, ns, err = 0;

	for (i = 0; !err && i < o->num_ports; i++) {
		ns = netns_enter(port_netns(&o->ports[i]));
		if (ns < 0)
			return ns;
		err = interface_mac(o->ports[i].ifname, o->nf.setup.mac[i]);
		netns_leave(ns);
		if (err)
			return fail(err, "cannot read the MAC address: %s: %s",
				    o->ports[i].ifname, explain(err));
	}
	return err;
}

int options_check(struct options *o)
{
	int i, err;

	err = check_role(o)	     ?:
		      check_nf(o)    ?:
		      check_rings(o) ?:
				       check_backend(o);
	err = err ?: check_cpus(o);
	err = err			    ?:
		      check_multi_buffer(o) ?:
		      check_stages(o)	    ?:
					      check_unprivileged(o);
	for (i = 0; !err && i < o->num_ports; i++)
		err = check_port(o, i);
	if (!err && o->role == ROLE_NF)
		err = read_macs(o);
	return err ?: check_streams(o);
}
