/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which frames of a stream have arrived, in which order, and where some are
 * missing: the same rules in the kernel (xdpgen/receiver.bpf.c) and in user
 * space (xsk/account.c).
 *
 * Sequences have 64 bits, of which a frame carries 32.  The window is an array
 * of words
 *
 *	bits 63..32  lap (sequence >> WINDOW_BITS) + 1, 0 = never used
 *	bits 31..0   which of 32 consecutive sequences have arrived
 *
 * which a later lap replaces, so nothing is ever cleared.
 */
#ifndef XDPLAB_ARRIVALS_H
#define XDPLAB_ARRIVALS_H

#include <linux/types.h>
#include "trailer.h"

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

/*
 * A frame may be so many sequences behind the last, and be known for new or
 * again: half a second of 8 Mpps.
 */
#define WINDOW_BITS   22
#define WINDOW_FRAMES (1ULL << WINDOW_BITS)
#define WINDOW_WORDS  (1 << (WINDOW_BITS - 5))

#define LAP_BITS (32 - WINDOW_BITS)
#define LAP_MASK ((1U << LAP_BITS) - 1)
#define LAP_USED (1U << LAP_BITS)

/* Bounds loops for the verifier. */
#define ARRIVAL_TRIES 64

/* Of one stream, counted by one CPU. */
struct arrivals {
	__u64 received;
	__u64 duplicated;
	__u64 damaged; /* not as it was sent: not received */
	__u64 out_of_order;
	__u64 beyond_window;
	__u64 warmup;
	__u64 next;	   /* sequence after the highest that arrived */
	__u64 first_ns;	   /* departures: of the first frame */
	__u64 previous_ns; /* of the last one in order */
	__u64 longest_ns;  /* between two that arrived in a row */
	__u64 gone; /* after the highest that left the window unseen; 0: none */
};

enum arrival_mark {
	MARK_FIRST,
	MARK_AGAIN,
	MARK_BEYOND_WINDOW, /* too old to tell */
	MARK_RACE,	    /* gave up after ARRIVAL_TRIES; never seen */
};

/* @locked: others may write it at the same time. */
static __always_inline void arrival_add(__u64 *counter, __u64 value, int locked)
{
	if (locked)
		__sync_fetch_and_add(counter, value);
	else
		*counter += value;
}

/* *@highest becomes @value where that is more.  Returns what it was. */
static __always_inline __u64 arrival_raise(__u64 *highest, __u64 value,
					   int locked)
{
	__u64 old = 0;
	__u32 tries;

	for (tries = 0; tries < ARRIVAL_TRIES; tries++) {
		old = *(volatile __u64 *)highest;
		if (value <= old)
			return old;
		if (!locked) {
			*highest = value;
			return old;
		}
		if (__sync_val_compare_and_swap(highest, old, value) == old)
			return old;
	}
	return old;
}

static __always_inline __u32 window_index(__u64 seq)
{
	return (seq >> 5) & (WINDOW_WORDS - 1);
}

static __always_inline __u32 window_lap(__u64 seq)
{
	return (__u32)seq >> WINDOW_BITS | LAP_USED;
}

/* The highest bit of @bits that is set; there is one. */
static __always_inline __u32 highest_bit(__u32 bits)
{
	__u32 n = 0;

	if (bits >> 16)
		n += 16;
	if (bits >> (n + 8))
		n += 8;
	if (bits >> (n + 4))
		n += 4;
	if (bits >> (n + 2))
		n += 2;
	return n + (bits >> (n + 1));
}

/*
 * The word of @seq had the value @old: the sequence after the highest of the
 * lap before that had not arrived, which now never will; or 0.
 */
static __always_inline __u64 window_gone(__u64 old, __u64 seq)
{
	__u64 before = seq - WINDOW_FRAMES;
	__u32 missing = ~0;

	if (seq < WINDOW_FRAMES)
		return 0;
	if (old >> 32 == window_lap(before))
		missing = ~(__u32)old;
	if (!missing)
		return 0;
	return (before & ~31ULL) + highest_bit(missing) + 1;
}

/*
 * Has @seq, whose word is @word, been here before?  @locked: the word, and
 * @preempted: @a, which is of this CPU, may be written by others meanwhile.
 */
static __always_inline enum arrival_mark window_mark(__u64 *word, __u64 seq,
						     struct arrivals *a,
						     int locked, int preempted)
{
	__u32 bit = 1U << (seq & 31), lap = window_lap(seq), tries, ahead;
	__u64 old, new;

	for (tries = 0; tries < ARRIVAL_TRIES; tries++) {
		old = *(volatile __u64 *)word;
		new = (__u64)lap << 32 | bit;
		if (old >> 32 == lap) {
			if (old & bit)
				return MARK_AGAIN;
			new |= old;
		} else if (old) {
			/* laps count modulo 2^LAP_BITS */
			ahead = (lap - (__u32)(old >> 32)) & LAP_MASK;
			if (ahead > LAP_MASK / 2)
				return MARK_BEYOND_WINDOW;
		}
		if (!locked)
			*word = new;
		else if (__sync_val_compare_and_swap(word, old, new) != old)
			continue;
		if (old >> 32 != lap)
			arrival_raise(&a->gone, window_gone(old, seq),
				      preempted);
		return MARK_FIRST;
	}
	return MARK_RACE;
}

/*
 * RFC 4737: a frame is reordered if a later one of its flow has been here
 * before it.  @next: the sequence after the highest of the flow.
 */
static __always_inline int arrival_reordered(__u64 *next, __u64 seq, int locked)
{
	return arrival_raise(next, seq + 1, locked) > seq;
}

/* RFC 2544 26.5 and 26.6 ask since when none of the stream was missing. */
static __always_inline void arrival_gap(struct arrivals *a, __u64 seq,
					__u64 sent_ns, int locked)
{
	__u64 before;

	arrival_raise(&a->next, seq + 1, locked);
	before = arrival_raise(&a->previous_ns, sent_ns, locked);
	if (!before)
		a->first_ns = sent_ns;
	else if (sent_ns > before)
		arrival_raise(&a->longest_ns, sent_ns - before, locked);
}

/*
 * Is it the trailer of a frame of this run, or of its warm-up?  One of an
 * earlier run may have its epoch: the time of departure tells.
 */
static __always_inline int arrival_is_ours(const __u8 *trailer,
					   __u8 warmup_epoch)
{
	__u8 epoch = trailer[TRAILER_OFF_EP] - warmup_epoch;

	return trailer_at(const __u16, trailer, 0) ==
		       (__u16)to_be(16, TRAILER_MAGIC) &&
	       epoch <= 1;
}

/*
 * How long before @since_ns a frame of an earlier run was sent; 0: it is no
 * such frame.
 */
static __always_inline __u64 arrival_age(const __u8 *trailer, __u64 since_ns)
{
	__u64 sent =
		to_be(64, trailer_at(const __u64, trailer, TRAILER_OFF_NS));

	if (trailer_at(const __u16, trailer, 0) !=
		    (__u16)to_be(16, TRAILER_MAGIC) ||
	    sent >= since_ns)
		return 0;
	return since_ns - sent;
}

/*
 * A frame's length tells it from a lookalike.  A tag may have been moved out of
 * the data: by the stack before tc ingress, or by VLAN offload of a forwarder
 * that sends through the stack.  What the switch put in front of the frame is
 * part of it, the trailer stays at its end.
 */
static __always_inline int arrival_is_length(__u32 len, __u32 whole,
					     __u32 tag_bytes, __u32 added_bytes)
{
	return len == whole || len + tag_bytes == whole ||
	       len == whole + added_bytes;
}

#ifndef __bpf__
#include <stdbool.h>

/*
 * The highest sequence below @a->next that has not arrived, by the window and
 * what has left it; false: none is missing.
 */
bool arrivals_last_missing(const struct arrivals *a, const __u64 *window,
			   __u64 *seq);

/*
 * Add what another CPU counted.  Gaps are known where one took over from the
 * other; where both received at a time, the result is false, and stays so.
 */
bool arrivals_merge(struct arrivals *sum, const struct arrivals *other);
#endif

#endif
