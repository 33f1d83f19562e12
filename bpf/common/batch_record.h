/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A batch on its way through a thread, as ovsprobe and xsk tell of it. */
#ifndef XDPLAB_BATCH_RECORD_H
#define XDPLAB_BATCH_RECORD_H

#include <linux/types.h>
#ifndef __bpf__
#include <stdbool.h>
#include <stdio.h>
#endif

/* Times of CLOCK_MONOTONIC in ns. */
struct batch_record {
	__u64 begun; /* redirect or departure of its first frame; 0: not known */
	__u64 received;
	__u64 queued; /* in the transmit ring */
	__u64 kicked; /* the system call is over */
	__u64 reaped; /* age of the oldest kick whose frames came back before this batch; 0: none did */
	__u32 frames;
	__u32 sent;
};

#ifndef __bpf__
/* The members "columns" and "records" of an object; the caller closes "records". */
void batches_begin(FILE *file);
void batch_print(FILE *file, const struct batch_record *r, bool first);
#endif

#endif
