/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The last 18 bytes of every frame, or those of a request that its answer
 * repeats, all fields in network byte order:
 *
 *   offset  size  field
 *   0       2     magic        0x78d7
 *   2       1     stream id    0..15
 *   3       1     epoch        run base + 0 for the warm-up, + 1 for the trial;
 *                              the (even) base differs from run to run, but
 *                              there are 128: a receiver also ignores what
 *                              left before its run began
 *   4       4     sequence     from 0 in each epoch, per stream, modulo 2^32
 *   8       8     sent_ns      bpf_ktime_get_ns() (CLOCK_MONOTONIC) at departure
 *   16      2     compensation
 *
 * The compensation makes the one's-complement sum of the words that change
 * from frame to frame (addresses that take turns, UDP source port, stream,
 * epoch, sequence, time) equal to 0xffff, so that the UDP checksum computed
 * once for the stream's template (with all of these and the compensation zero)
 * stays right.  Whoever changes one of these words must correct compensation
 * or checksum.
 *
 * When the trailer starts at an odd offset its words straddle those of the
 * headers: then what is in these enters the sum with its bytes swapped.
 */
#ifndef XDPLAB_TRAILER_H
#define XDPLAB_TRAILER_H

#include <linux/types.h>

#define TRAILER_MAGIC 0x78d7
#define TRAILER_BYTES 18

#define TRAILER_OFF_ID	 2
#define TRAILER_OFF_EP	 3
#define TRAILER_OFF_SEQ	 4
#define TRAILER_OFF_NS	 8
#define TRAILER_OFF_COMP 16

/*
 * Whole-word accesses at any alignment.  A packed struct would be accessed
 * byte by byte on the bpf target; both users of this header run on machines
 * with efficient unaligned access (the kernel's verifier insists on it).
 */
#define trailer_at(type, t, off) (*(type *)((t) + (off)))

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define to_be(bits, x) __builtin_bswap##bits(x)
#else
#define to_be(bits, x) (x)
#endif

/*
 * The frame has the lowest 32 bits of a sequence: the one that is nearest to
 * @near, which is up to 2^31 away.
 */
static inline __attribute__((always_inline)) __u64 whole_seq(__u64 near,
							     __u32 seq)
{
	return near + (__s32)(seq - (__u32)near);
}

/* Fold a sum of 16-bit words kept in 64 bits; same for both byte orders. */
static inline __attribute__((always_inline)) __u16 csum_fold64(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

#endif
