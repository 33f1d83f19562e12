/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A distribution of times: HdrHistogram, and exact moments beside it. */
#ifndef XSK_DISTRIBUTION_H
#define XSK_DISTRIBUTION_H

#include <jansson.h>
#include <linux/types.h>
#include "hdr_index.h"

struct distribution {
	__u64 count;
	__u64 min_ns;
	__u64 max_ns;
	double sum_ns;
	double sum_squares;
	__u64 hdr[HDR_COUNTS];
};

/* What is below 0 by clocks that differ counts as 0. */
static inline void distribution_add(struct distribution *d, __s64 ns)
{
	__u64 value = ns > 0 ? ns : 0;

	if (!d->count || value < d->min_ns)
		d->min_ns = value;
	if (value > d->max_ns)
		d->max_ns = value;
	d->count++;
	d->sum_ns += value;
	d->sum_squares += (double)value * value;
	d->hdr[hdr_index(value)]++;
}

/* count, min_ns, max_ns, mean_ns, rms_ns (about the mean), hdr. */
json_t *distribution_json(const struct distribution *d);

#endif
