/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef OVSPROBE_H
#define OVSPROBE_H

#include <linux/types.h>

/* Redirected frames whose batch has not been seen yet; a power of two. */
#define REDIRECTS    8192
#define RECORD_BYTES (1 << 22)

/* One batch on its way, times of CLOCK_MONOTONIC in ns. */
struct batch_record {
	__u64 redirected; /* of its first frame; 0: not known */
	__u64 received;
	__u64 queued; /* in the transmit ring */
	__u64 kicked; /* the system call is over */
	__u64 reaped; /* age of the oldest kick whose frames came back before this batch; 0: none did */
	__u32 frames;
	__u32 sent;
};

/* What kept batches out of the records. */
struct probe_counts {
	__u64 batches;
	__u64 redirects;
	__u64 unmatched; /* batch of frames whose redirect was not seen */
	__u64 unsent;	 /* batch that never came to a kick */
	__u64 full;	 /* no room for its record */
};

#endif
