/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What no switch may change in a frame: the bytes between UDP header and
 * trailer, which are zero, and the trailer, whose words add up to 0xffff with
 * the addresses and the port that the frame was sent with (trailer.h).  One
 * flipped bit in either is always found; of other changes to the trailer one
 * in 65535 is not.
 */
#ifndef XDPLAB_INTACT_H
#define XDPLAB_INTACT_H

#include <linux/types.h>
#include "gen.h"
#include "trailer.h"

struct intact {
	__u32 padding; /* bytes between UDP header and trailer */
	__u32 first_flow;
	struct gen_range src;
	struct gen_range dst;
	__u16 udp_src;
	__u8 ranged;   /* addresses differ from flow to flow */
	__u8 odd;      /* trailer at an odd offset */
	__u8 any_flow; /* of new flows: the trailer cannot be checked */
};

/* The words of a frame's head that are in the sum, as it was sent. */
static __always_inline __u16 intact_head(const struct intact *s, __u32 flow)
{
	__u64 sum = 0;
	__u16 port;

	if (s->ranged) {
		sum = gen_words(
			to_be(32, gen_address(&s->dst, flow % s->dst.count)));
		flow /= s->dst.count;
		sum += gen_words(
			to_be(32, gen_address(&s->src, flow % s->src.count)));
		flow /= s->src.count;
	}
	port = s->udp_src + flow;
	sum = csum_fold64(sum + to_be(16, port));
	return s->odd ? __builtin_bswap16(sum) : sum;
}

/* @flow is the number that it has in its stream. */
static __always_inline int trailer_is_intact(const struct intact *s,
					     const __u8 *trailer, __u32 flow)
{
	__u64 sum;

	if (s->any_flow)
		return 1;
	sum = intact_head(s, s->first_flow + flow);
	sum += trailer_at(const __u16, trailer, TRAILER_OFF_ID);
	sum += trailer_at(const __u32, trailer, TRAILER_OFF_SEQ);
	sum += trailer_at(const __u32, trailer, TRAILER_OFF_NS);
	sum += trailer_at(const __u32, trailer, TRAILER_OFF_NS + 4);
	sum += trailer_at(const __u16, trailer, TRAILER_OFF_COMP);
	return csum_fold64(sum) == 0xffff;
}

/* The last @bytes (1 to 8) of the eight that @word has in memory's order. */
static __always_inline __u64 last_bytes(__u64 word, __u32 bytes)
{
	return to_be(64, word) << (64 - 8 * bytes);
}

#endif
