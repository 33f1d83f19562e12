/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The configuration of one run, as read from JSON and checked. */
#ifndef XDPGEN_CONFIG_H
#define XDPGEN_CONFIG_H

#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <linux/types.h>
#include "gen.h"

#define MAX_PORTS 32
#define NO_CPU	  (-1)

enum rx_kind { RX_XDP, RX_TC, RX_NONE };
enum xdp_mode { XDP_NATIVE, XDP_GENERIC };
enum tc_hook { TC_AUTO, TC_TCX, TC_CLSACT };
enum stream_kind { STREAM_LATENCY, STREAM_LOAD };
enum sender_kind { SENDER_AUTO, SENDER_LIVE, SENDER_XSK };

struct port {
	char name[64];
	char netns[PATH_MAX]; /* "" = the one we run in */
	char ifname[IFNAMSIZ];
	long long tx_cpu;
	int rx;
	int xdp_mode;
	int tc_hook;
	bool reflect;
	/* found in the system */
	int ifindex;
	int mtu;
	bool veth;
	int rx_queues; /* 0 = unknown */
};

struct stream {
	long long id;
	int kind;
	long long tx_port;
	long long rx_port;
	double pps; /* 0 = as fast as possible */
	long long start_ns;
	long long count;
	long long frame_bytes; /* with FCS */
	unsigned char src_mac[6];
	unsigned char dst_mac[6];
	long long vlan; /* 0 = untagged */
	long long ip;
	char src_ip[INET6_ADDRSTRLEN];
	char dst_ip[INET6_ADDRSTRLEN];
	long long udp_src;
	long long udp_dst;
	long long flows;
};

struct config {
	struct port ports[MAX_PORTS];
	int num_ports;
	struct stream streams[GEN_STREAMS];
	int num_streams;
	double warmup_s;
	double duration_s;
	double drain_s;
	long long batch; /* 0 = automatic */
	long long max_burst;
	long long late_ns;
	long long stall_ns;
	int sender;
	bool progress;
};

static inline const char *port_netns(const struct port *port)
{
	return port->netns[0] ? port->netns : NULL;
}

/* Bytes of the stream's headers from Ethernet to UDP. */
int stream_header_bytes(const struct stream *s);

/* Length of the frame as the kernel sees it, without FCS. */
static inline int stream_kernel_bytes(const struct stream *s)
{
	return s->frame_bytes - 4;
}

/*
 * Read and check @path ("-": stdin), looking up ports.  Returns 0 or -errno
 * after one line on stderr.
 */
int config_load(const char *path, struct config *cfg);

/* Checks that need more than one value; used by config_load(). */
int config_check(struct config *cfg);

#endif
