/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A stream of frames: its JSON, and what is checked about it. */
#ifndef XDPLAB_STREAM_H
#define XDPLAB_STREAM_H

#include <netinet/in.h>
#include <jansson.h>
#include "gen.h"

enum stream_kind { STREAM_LATENCY, STREAM_LOAD };

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
	long long vlan;	       /* 0 = untagged */
	long long added_bytes; /* in front of it where it is received */
	long long ip;
	char src_ip[INET6_ADDRSTRLEN];
	char dst_ip[INET6_ADDRSTRLEN];
	long long udp_src;
	long long udp_dst;
	long long flows;
};

/* When streams run, and how they keep to their schedule. */
struct gen_timing {
	double warmup_s;
	double duration_s;
	long long max_burst;
	long long late_ns;
	long long stall_ns;
};

/* Bytes of the stream's headers from Ethernet to UDP. */
int stream_header_bytes(const struct stream *s);

/* Length of the frame as the kernel sees it, without FCS. */
static inline int stream_kernel_bytes(const struct stream *s)
{
	return s->frame_bytes - 4;
}

/*
 * Read an array of 1 to GEN_STREAMS streams.  Returns their number, or
 * -EINVAL after one line on stderr.
 */
int streams_read(const json_t *array, struct stream *streams);

/*
 * Check one of @count streams: addresses, and that the frame fits what its
 * port @ifname sends: @mtu, and @largest bytes without FCS.  Returns 0 or
 * -EINVAL after one line on stderr.
 */
int stream_check(const struct stream *streams, int index,
		 const struct gen_timing *timing, const char *ifname, int mtu,
		 int largest);

#endif
