/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The configuration of one run. */
#ifndef XDPGEN_CONFIG_TYPES_H
#define XDPGEN_CONFIG_TYPES_H

#include <limits.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>
#include "stream_flows.h"

#define MAX_PORTS 32

enum rx_kind { RX_XDP, RX_TC, RX_NONE };
enum xdp_mode { XDP_NATIVE, XDP_GENERIC };
enum tc_hook { TC_AUTO, TC_TCX, TC_CLSACT };
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
	__u32 netns_inode;
	int mtu;
	bool veth;
	int rx_queues; /* 0 = unknown */
};

struct config {
	struct port ports[MAX_PORTS];
	int num_ports;
	struct stream streams[GEN_STREAMS];
	int num_streams;
	struct choice_column *columns; /* of all streams, and one more */
	__u32 num_columns;
	struct gen_timing timing;
	double drain_s;
	double drain_idle_s; /* 0 = the drain is waited out */
	long long batch;     /* 0 = automatic */
	int sender;
	bool progress;
	bool flow_figures;
	bool link_changes; /* a carrier may go and come */
};

static inline const char *port_netns(const struct port *port)
{
	return port->netns[0] ? port->netns : NULL;
}

/* Where a stream is sent from, or NO_CPU. */
static inline int config_tx_cpu(const struct config *cfg, int stream)
{
	const struct stream *s = &cfg->streams[stream];

	return s->tx_cpu == NO_CPU ? cfg->ports[s->tx_port].tx_cpu : s->tx_cpu;
}

/* Does a stream leave by the port? */
static inline bool port_sends(const struct config *cfg, int port)
{
	int i;

	for (i = 0; i < cfg->num_streams; i++)
		if (cfg->streams[i].tx_port == port)
			return true;
	return false;
}

/* Is a port sent to from more than one CPU? */
static inline bool config_several_cpus(const struct config *cfg)
{
	int i, j;

	for (i = 0; i < cfg->num_streams; i++)
		for (j = 0; j < i; j++)
			if (cfg->streams[i].tx_port ==
				    cfg->streams[j].tx_port &&
			    config_tx_cpu(cfg, i) != config_tx_cpu(cfg, j))
				return true;
	return false;
}

#endif
