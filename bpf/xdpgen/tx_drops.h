/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Frames that the card of the tester dropped, as its driver told when the
 * kernel flushed them; what live.bpf.c, tx_drops.bpf.c and user space share.
 */
#ifndef XDPGEN_TX_DROPS_H
#define XDPGEN_TX_DROPS_H

#include <linux/types.h>
#include "gen.h"

/* Power of two, above the kernel's bulk (16 frames) and the frame that ends it. */
#define TX_QUEUE_FRAMES 64

/* Frames leave a port in bulks; those that a driver drops are a bulk's last. */
struct tx_queue {
	__u32 ifindex; /* 0: nobody looks */
	__u32 netns;   /* inode */
	__u32 queued;
	__u32 flushed;
	__u8 frames[TX_QUEUE_FRAMES]; /* stage * GEN_STREAMS + stream */
};

struct tx_watch {
	__u64 drops[2][GEN_STREAMS]; /* by stage */
	__u64 refused[GEN_STREAMS];  /* of those in the trial: with an error */
	__s32 error;		     /* the last of these, -errno */
	__u32 queues;
	__s32 cpu; /* of the sender, or NO_CPU: it is the only one */
	__u8 queue_of[GEN_STREAMS];
	struct tx_queue queue[GEN_STREAMS];
};

#endif
