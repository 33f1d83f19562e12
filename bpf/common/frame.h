/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Writing frames; shared by live.bpf.c and xsk.c. */
#ifndef XDPLAB_FRAME_H
#define XDPLAB_FRAME_H

#include "gen.h"
#include "trailer.h"

/*
 * Flow @flow has targets in turns, then sources, then ports: write its
 * addresses.  Returns the number of its port and adds to @sum, or -1.
 */
static __always_inline __s64 gen_write_addresses(const struct gen_stream *s,
						 __u32 flow, __u8 *data,
						 __u8 *end, __u32 *sum)
{
	__u32 dst, src, words;
	__u8 *at;

	dst = to_be(32, gen_address(&s->dst, flow % s->dst.count));
	flow /= s->dst.count;
	src = to_be(32, gen_address(&s->src, flow % s->src.count));
	flow /= s->src.count;
	words = gen_words(dst) + gen_words(src);
	at = data + (s->dst_off & 63);
	if (at + 4 > end)
		return -1;
	trailer_at(__u32, at, 0) = dst;
	at = data + (s->src_off & 63);
	if (at + 4 > end)
		return -1;
	trailer_at(__u32, at, 0) = src;
	at = data + (s->check_off & 63);
	if (at + 2 > end)
		return -1;
	if (s->check_off)
		trailer_at(__u16, at, 0) = ~csum_fold64(s->ip_sum + words);
	*sum += words;
	return flow;
}

/* Write what is behind the headers; its end is that of the frame. */
static __always_inline void gen_write_request(const struct gen_stream *s,
					      __u8 *data, __u8 *end)
{
	__u8 *to = data + (s->request_off & 127);
	__u32 at, i;

	for (at = 0; at < GEN_REQUEST; at += 8, to += 8) {
		if (at + 8 > s->request_len || to + 8 > end)
			break;
		trailer_at(__u64, to, 0) =
			trailer_at(const __u64, s->request, at);
	}
	for (i = 0; i < 7; i++, at++, to++) {
		if (at >= s->request_len || to + 1 > end)
			break;
		*to = s->request[at & (GEN_REQUEST - 1)];
	}
}

/*
 * Write the frame of @s up to its trailer.  The kernel does not reset the
 * contents of a recycled frame: everything a switch may change, and what
 * shorter frames left behind, is written again.  Returns the sum over the
 * changing words so far, or -1 if the frame is shorter than it must be.
 */
static __always_inline __s64 gen_write_head(const struct gen_stream *s,
					    __u32 flow, __u8 *data, __u8 *end)
{
	const __u64 *from = (const __u64 *)s->template;
	__u64 *to = (__u64 *)data;
	__u8 *port = data + (s->udp_src_off & 63);
	__s64 turn = flow;
	__u32 sum = 0, i;
	__u16 src;

	if (data + GEN_SHORT > end || port + 2 > end)
		return -1;
	/* first: an old trailer may lie where the headers go */
	for (i = 0; GEN_HAS(scrubs) && i < GEN_STREAMS; i++) {
		__u8 *old;

		if (i >= s->scrubs)
			break;
		old = data + (s->scrub[i] & GEN_MAX_FRAME);
		if (old + TRAILER_BYTES > end)
			return -1;
		trailer_at(__u64, old, 0) = 0;
		trailer_at(__u64, old, 8) = 0;
		trailer_at(__u16, old, 16) = 0;
	}
	for (i = 0; i < GEN_SHORT / 8; i++)
		to[i] = from[i];
	if (s->len >= GEN_TEMPLATE) {
		if (data + GEN_TEMPLATE > end)
			return -1;
		for (i = GEN_SHORT / 8; i < GEN_TEMPLATE / 8; i++)
			to[i] = from[i];
	}
	if (GEN_HAS(requests) && s->request_len)
		gen_write_request(s, data, end);
	if (GEN_HAS(ranged) && s->ranged)
		turn = gen_write_addresses(s, flow, data, end, &sum);
	if (turn < 0)
		return -1;
	src = to_be(16, s->udp_src + turn);
	*(__u16 *)port = src;
	sum = csum_fold64(sum + src);
	return s->odd ? __builtin_bswap16(sum) : sum;
}

/* The first word after the magic, as it lies in memory. */
static __always_inline __u16 gen_id_word(__u8 id, __u8 epoch)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return id | epoch << 8;
#else
	return id << 8 | epoch;
#endif
}

/* Write the trailer for a departure at @ns; @sum is gen_write_head()'s. */
static __always_inline void
gen_write_trailer(__u8 *trailer, __u64 sum, __u16 id_word, __u32 seq, __u64 ns)
{
	__u64 be_ns = to_be(64, ns);

	seq = to_be(32, seq);
	sum += id_word + (__u64)seq + (be_ns & 0xffffffff) + (be_ns >> 32);
	trailer_at(__u16, trailer, 0) = to_be(16, TRAILER_MAGIC);
	trailer_at(__u16, trailer, TRAILER_OFF_ID) = id_word;
	trailer_at(__u32, trailer, TRAILER_OFF_SEQ) = seq;
	trailer_at(__u64, trailer, TRAILER_OFF_NS) = be_ns;
	trailer_at(__u16, trailer, TRAILER_OFF_COMP) = ~csum_fold64(sum);
}

#endif
