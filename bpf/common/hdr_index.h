/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * HdrHistogram's counts array for lowest 1 ns, highest 10 s, 3 significant
 * digits: 2048 sub-buckets (half of them used above the first bucket) in 24
 * buckets.  Shared by the programs in the kernel and by user space.
 */
#ifndef XDPLAB_HDR_INDEX_H
#define XDPLAB_HDR_INDEX_H

#include <linux/types.h>

#define HDR_HIGHEST_NS	10000000000ULL
#define HDR_DIGITS	3
#define HDR_HALF_BITS	10
#define HDR_SUB_BUCKETS (2ULL << HDR_HALF_BITS)
#define HDR_BUCKETS	24
#define HDR_COUNTS	((HDR_BUCKETS + 1) << HDR_HALF_BITS)

static inline __attribute__((always_inline)) __u32 hdr_index(__u64 value)
{
	__u32 shift = 0, high;

	if (value < HDR_SUB_BUCKETS)
		return value;
	if (value > HDR_HIGHEST_NS)
		value = HDR_HIGHEST_NS;
	/* shift = number of bits above the 11 that are kept, 1..23 */
	high = value >> (HDR_HALF_BITS + 1);
	if (high >> 16) {
		shift += 16;
		high >>= 16;
	}
	if (high >> 8) {
		shift += 8;
		high >>= 8;
	}
	if (high >> 4) {
		shift += 4;
		high >>= 4;
	}
	if (high >> 2) {
		shift += 2;
		high >>= 2;
	}
	shift += 1 + (high >> 1);
	return (shift << HDR_HALF_BITS) + (__u32)(value >> shift);
}

#endif
