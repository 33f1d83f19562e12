/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A trial in slices of departure time, and the coarse histogram of each.  The
 * same code in the kernel and in user space: sender and receiver agree on the
 * slice of a frame to the ns.
 */
#ifndef XDPLAB_SLICES_H
#define XDPLAB_SLICES_H

#include <linux/types.h>
#include "hdr_index.h"

#define SLICES_MAX   400
#define SLICE_MIN_NS 10000000ULL

/*
 * 8 buckets for each power of two from 64 ns on, of 4 ns below: the highest
 * bits of the index in the whole histogram, whose first 2048 entries are
 * logarithmic only after 5 more bits.
 */
#define COARSE_BITS    3
#define COARSE_EXTRA   5
#define COARSE_BUCKETS 234 /* coarse_index(hdr_index(HDR_HIGHEST_NS)) + 1 */

/* slice = (ns since @from_ns >> pre) * mul >> shift: no division for each frame */
struct slice_grid {
	__u64 from_ns;
	__u64 slice_ns;
	__u64 span_ns; /* count * slice_ns */
	__u32 mul;
	__u32 pre;
	__u32 shift;
	__u32 count;
};

/* What left after the end, being late, is of the last slice. */
static inline __attribute__((always_inline)) __u32
slice_of(const struct slice_grid *g, __u64 ns)
{
	__u64 since = ns > g->from_ns ? ns - g->from_ns : 0;
	__u32 i;

	if (since >= g->span_ns)
		return g->count - 1;
	i = (since >> (g->pre & 63)) * g->mul >> (g->shift & 63);
	return i < g->count ? i : g->count - 1;
}

/* The coarse bucket of an index in the whole histogram. */
static inline __attribute__((always_inline)) __u32 coarse_index(__u32 hdr)
{
	if (hdr < HDR_SUB_BUCKETS)
		return hdr_index((__u64)hdr << COARSE_EXTRA) >>
		       (HDR_HALF_BITS - COARSE_BITS);
	return (hdr >> (HDR_HALF_BITS - COARSE_BITS)) +
	       (COARSE_EXTRA << COARSE_BITS);
}

static inline void slice_grid_init(struct slice_grid *g, __u64 from_ns,
				   __u64 duration_ns)
{
	__u64 slice_ns = (duration_ns + SLICES_MAX - 1) / SLICES_MAX, unit;

	if (slice_ns < SLICE_MIN_NS)
		slice_ns = SLICE_MIN_NS;
	*g = (struct slice_grid){ .from_ns = from_ns, .slice_ns = slice_ns };
	g->count = (duration_ns + slice_ns - 1) / slice_ns;
	if (!g->count)
		g->count = 1;
	g->span_ns = g->count * slice_ns;
	while (g->span_ns >> g->pre >> 32)
		g->pre++;
	unit = slice_ns >> g->pre;
	/* as many bits as the product with 32 others has room for */
	g->shift = 31 + 63 - __builtin_clzll(unit);
	g->mul = (1ULL << g->shift) / unit + 1;
}

#endif
