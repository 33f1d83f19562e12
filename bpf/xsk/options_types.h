/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The options of one run. */
#ifndef XSK_OPTIONS_TYPES_H
#define XSK_OPTIONS_TYPES_H

#include <limits.h>
#include <net/if.h>
#include <stdbool.h>
#include <jansson.h>
#include <linux/types.h>
#include "io_options.h"
#include "nf_options.h"
#include "stream_flows.h"

#define XSK_PORTS   2
#define XSK_SOCKETS 8
#define XSK_QUEUES  16
#define XSK_WORKERS 16
#define XSK_BATCH   512

enum role {
	ROLE_FORWARD,
	ROLE_REFLECT,
	ROLE_SINK,
	ROLE_GEN,
	ROLE_PING,
	ROLE_PROBE,
	ROLE_NF,
};
enum backend { BACKEND_AF_XDP, BACKEND_AF_PACKET };
enum attach_mode { ATTACH_NATIVE, ATTACH_GENERIC };
enum touch { TOUCH_NONE, TOUCH_READ, TOUCH_MACSWAP };
enum policy { POLICY_OTHER, POLICY_FIFO, POLICY_RR };

struct port {
	char netns[PATH_MAX]; /* "" = the one we run in */
	char ifname[IFNAMSIZ];
	/* found in the system */
	int ifindex;
	int mtu;
	int rx_queues; /* 0 = unknown */
};

struct options {
	int role;
	struct port ports[XSK_PORTS];
	int num_ports;
	long long queue; /* the first */
	long long queues;
	long long sockets; /* per queue, on one UMEM */
	double duration_s; /* 0 = until a signal */
	/* traffic: roles gen, ping and probe */
	struct stream streams[GEN_STREAMS];
	int num_streams;
	json_t *streams_json; /* as given */
	struct gen_timing timing;
	double drain_s;
	long long ping_batch;  /* frames in flight at most */
	long long interval_us; /* between batches; 0 = none */
	long long timeout_us;
	long long count; /* batches; 0 = no limit */
	char samples[PATH_MAX];
	long long samples_max;
	char trace[PATH_MAX];
	long long trace_every;
	struct nf_options nf; /* of role nf */
	/* sockets */
	int backend;
	int xdp_mode;
	struct io_options io;
	bool shared_umem;
	/* loop */
	int touch;
	/* thread */
	long long cpus[XSK_WORKERS];
	int num_cpus;
	int policy;
	long long priority;
	bool mlock;
	bool unprivileged;
	long long dma_latency_us; /* -1 = leave */
};

static inline const char *port_netns(const struct port *port)
{
	return port->netns[0] ? port->netns : NULL;
}

/* Threads with sockets: none where an XDP program does it all. */
static inline int options_workers(const struct options *o)
{
	if (o->role == ROLE_NF && o->nf.place == NF_IN_XDP)
		return 0;
	return o->num_cpus ?: 1;
}

/* Queues that share one UMEM, at the most. */
static inline int options_umem_queues(const struct options *o)
{
	int workers = options_workers(o) ?: 1;

	if (!o->shared_umem)
		return 1;
	return o->num_ports * ((o->queues + workers - 1) / workers);
}

/* Roles that make their own frames. */
static inline bool options_originate(const struct options *o)
{
	return o->role == ROLE_GEN || o->role == ROLE_PING ||
	       o->role == ROLE_PROBE;
}

#endif
