/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A stream of frames. */
#ifndef XDPLAB_STREAM_TYPES_H
#define XDPLAB_STREAM_TYPES_H

#include <stdbool.h>
#include <netinet/in.h>
#include <linux/if_ether.h>
#include "gen.h"

#define NO_CPU (-1)

enum stream_kind { STREAM_LATENCY, STREAM_LOAD };
enum stream_departures { DEPARTURES_PACED, DEPARTURES_POISSON };

struct stream {
	long long id;
	int kind;
	long long tx_port;
	long long tx_cpu; /* NO_CPU: that of its port */
	long long rx_port;
	double pps; /* 0 = as fast as possible */
	int departures;
	long long burst; /* frames that leave together */
	long long start_ns;
	long long count;
	long long frame_bytes; /* with FCS */
	unsigned char src_mac[6];
	unsigned char dst_mac[6];
	long long vlan;	      /* 0 = untagged */
	long long outer_vlan; /* in front of it (802.1ad), 0 = none */
	long long pcp;	      /* of both tags */
	bool dei;
	long long added_bytes; /* in front of it where it is received */
	long long ip;
	long long dscp;
	char src_ip[INET6_ADDRSTRLEN];
	char dst_ip[INET6_ADDRSTRLEN];
	long long udp_src;
	long long udp_dst;
	/* further addresses: from *_next on (default: the next), *_step apart */
	long long src_addresses;
	long long dst_addresses;
	char src_next[INET6_ADDRSTRLEN];
	char dst_next[INET6_ADDRSTRLEN];
	long long src_step;
	long long dst_step;
	long long flows;
	long long first_flow;
	int flow_choice; /* enum choice_kind */
	double zipf_exponent;
	long long flow_seed;
	/* the UDP payload in hex digits; "": zeroes and then the trailer */
	char request[2 * GEN_REQUEST + 1];
	long long trailer_at; /* in the request */
	long long answer_at;  /* in its answer; -1: in the same place */
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
static inline int stream_header_bytes(const struct stream *s)
{
	int tags = !!s->vlan + !!s->outer_vlan;

	return ETH_HLEN + 4 * tags + (s->ip == 4 ? 20 : 40) + 8;
}

/* Length of the frame as the kernel sees it, without FCS. */
static inline int stream_kernel_bytes(const struct stream *s)
{
	return s->frame_bytes - 4;
}

static inline int stream_trailer_offset(const struct stream *s)
{
	if (s->request[0])
		return stream_header_bytes(s) + s->trailer_at;
	return stream_kernel_bytes(s) - TRAILER_BYTES;
}

/* Where it is in frames that come back; 0: at their end. */
static inline int stream_answer_offset(const struct stream *s)
{
	if (!s->request[0])
		return 0;
	return stream_header_bytes(s) +
	       (s->answer_at < 0 ? s->trailer_at : s->answer_at);
}

/* Entries that the choice among a stream's flows has in a table. */
static inline __u32 stream_columns(const struct stream *s)
{
	return s->flow_choice == CHOICE_ZIPF && s->flows > 1 ? s->flows : 0;
}

/* Of the first @count streams: where the entries of the next one begin. */
static inline __u32 streams_columns(const struct stream *streams, int count)
{
	__u32 sum = 0;

	while (count--)
		sum += stream_columns(&streams[count]);
	return sum;
}

/* Flows of which a receiver remembers something: of new ones nothing. */
static inline __u32 stream_known_flows(const struct stream *s)
{
	return s->flow_choice == CHOICE_NEW ? 1 : s->flows;
}

#endif
