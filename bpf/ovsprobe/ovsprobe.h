/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef OVSPROBE_H
#define OVSPROBE_H

#include <linux/types.h>
#include "batch_record.h"

/* Redirected frames whose batch has not been seen yet; a power of two. */
#define REDIRECTS    8192
#define RECORD_BYTES (1 << 22)

/* What kept batches out of the records. */
struct probe_counts {
	__u64 batches;
	__u64 redirects;
	__u64 unmatched; /* batch of frames whose redirect was not seen */
	__u64 unsent;	 /* batch that never came to a kick */
	__u64 full;	 /* no room for its record */
};

#endif
