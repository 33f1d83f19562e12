/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which flow a frame is of: a function of all 64 bits of its sequence, so that
 * the receiver knows it whatever the switch has rewritten, and each trial has
 * the same.
 */
#ifndef XDPLAB_CHOICE_H
#define XDPLAB_CHOICE_H

#include <linux/types.h>

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

/* CHOICE_NEW: each frame is the first of its flow. */
enum choice_kind { CHOICE_TURNS, CHOICE_UNIFORM, CHOICE_ZIPF, CHOICE_NEW };

struct choice {
	__u64 seed;
	__u32 kind;
	__u32 flows;
	__u32 first; /* CHOICE_ZIPF: of its entries in the table of all */
	__u32 unused;
};

/*
 * The alias method draws from any distribution with one look: column i keeps
 * what falls below @keep (in 2^-32), the rest of it is of flow @alias.
 * M. D. Vose, "A linear algorithm for generating random numbers with a given
 * distribution", IEEE Trans. Software Eng. 17(9), 1991.
 */
struct choice_column {
	__u32 keep;
	__u32 alias;
};

/*
 * Number @seq of the sequence that SplitMix64 makes of @seed.  G. L. Steele,
 * D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators",
 * OOPSLA 2014.
 */
static __always_inline __u64 choice_draw(__u64 seed, __u64 seq)
{
	__u64 z = seed + (seq + 1) * 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* One of @n, each as often; the lower half of @draw is not used. */
static __always_inline __u32 choice_uniform(__u64 draw, __u32 n)
{
	return (draw >> 32) * n >> 32;
}

/* The flow that column @i stands for, by the lower half of @draw. */
static __always_inline __u32 choice_resolve(const struct choice_column *column,
					    __u32 i, __u64 draw)
{
	return (__u32)draw < column->keep ? i : column->alias;
}

#ifndef __bpf__
/*
 * The choice of stream @id; @first is where its columns are among those of
 * all streams, if it has any.
 */
struct choice choice_of(int kind, __u32 flows, __u64 seed, int id, __u32 first);

/*
 * Fill @c->flows columns of @columns: flow k, from 0 on, has the weight
 * (k + 1) ^ -@exponent.  Returns 0 or -ENOMEM.
 */
int choice_fill(const struct choice *c, double exponent,
		struct choice_column *columns);

/* The flow of frame @seq; @columns: those of all streams. */
static inline __u32 choice_flow(const struct choice *c,
				const struct choice_column *columns, __u64 seq)
{
	__u64 draw = choice_draw(c->seed, seq);
	__u32 i = choice_uniform(draw, c->flows);

	if (c->kind == CHOICE_NEW)
		return seq;
	if (c->kind == CHOICE_TURNS)
		return seq % c->flows;
	if (c->kind == CHOICE_UNIFORM)
		return i;
	return choice_resolve(&columns[c->first + i], i, draw);
}
#endif

#endif
