/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* xdpapp: what an application sees of a switch, with every byte checked. */
#ifndef XDPLAB_APP_H
#define XDPLAB_APP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <linux/types.h>

#define MAX_CONNECTIONS 1000

enum work {
	WORK_BULK,
	WORK_REQUESTS,
	WORK_CONNECTIONS,
	WORK_UDP,
};

struct options {
	struct sockaddr_in address; /* of the server */
	enum work work;
	int connections;
	bool up; /* bulk: client to server */
	bool down;
	__u32 request_bytes;
	__u32 answer_bytes;
	__u64 warmup_ns;
	__u64 duration_ns;
	__u64 patience_ns; /* without a byte */
	__u64 probe_ns;	   /* bulk: from one small request to the next */
	double udp_bps;	   /* 0: as fast as it can */
};

/* Of a datagram; what follows is the stream of its number from byte 0 on. */
struct datagram {
	__u32 magic;
	__u32 number;
};

#endif
