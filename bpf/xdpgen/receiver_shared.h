/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the receiver programs and user space share. */
#ifndef XDPGEN_RECEIVER_SHARED_H
#define XDPGEN_RECEIVER_SHARED_H

#include <linux/types.h>
#include "arrivals.h"
#include "gen.h"
#include "intact.h"

#define RX_NO_SLOT    0xff
#define RX_NO_LATENCY 0xff
/* How far rx_near may be behind: it is written once for as many frames. */
#define RX_NEAR_FRAMES (1 << 16)

enum rx_reflect {
	REFLECT_OFF,
	REFLECT_TX,	  /* XDP_TX */
	REFLECT_REDIRECT, /* to the same port, see is_veth() */
};

/* Per stream id. */
struct rx_stream {
	__u16 len;
	__u8 slot;	  /* RX_NO_SLOT: not received on this port */
	__u8 histogram;	  /* RX_NO_LATENCY: load stream */
	__u8 tag_bytes;	  /* 4 with a VLAN tag */
	__u8 added_bytes; /* by the switch, in front of the frame */
	__u8 unordered;	  /* no two frames are of one flow */
	__u32 first_flow; /* of its own, in the map of flows */
	struct choice choice;
	struct intact intact;
};

/* As many entries of a map of 8 bytes each fill the lines that streams keep apart. */
#define RX_APART 16

/* Constant while the programs are attached. */
struct rx_trial {
	__u64 since_ns; /* what was sent earlier is of another trial */
	__u8 epoch;	/* of the warm-up; the trial's is + 1 */
	struct rx_stream streams[GEN_STREAMS];
};

/*
 * Per slot and CPU.  Softirq does not nest, so plain additions are exact; but on
 * PREEMPT_RT it is preempted, since 6.18 by softirq too.
 */
struct rx_counters {
	struct arrivals arrived;
	__u64 sum_ns;
	__u64 max_ns;
	__u64 min_inv; /* ~min */
	__u64 races;   /* gave up after ARRIVAL_TRIES; never seen */
};

/* Of one flow, 10,000 of a stream at the most.  No latencies of a load. */
struct rx_flow {
	__u64 received;
	__u64 sum_ns;
	__u64 max_ns;
	__u64 min_inv;
};

/*
 * A sequence near those that arrive, per slot: the frame has the lowest 32 bits
 * of its own.  Streams may arrive on a CPU each: they have no cache line in
 * common (two, because the prefetcher takes pairs).
 */
struct rx_near {
	__u64 seq;
} __attribute__((aligned(128)));

/* Per port and CPU. */
struct rx_port_counters {
	__u64 other; /* earlier ones among them */
	__u64 reflected;
	__u64 earlier;	  /* sent before this run began */
	__u64 earlier_ns; /* the oldest of them: how long before */
};

#endif
