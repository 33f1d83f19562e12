/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A UMEM and the chunks of it that nobody uses.  One worker thread owns it.
 *
 * Every chunk is in one of three places: free here, with the kernel for
 * receiving (fill ring, RX ring), or with the kernel for sending (TX ring,
 * completion ring); for the time between two calls it may be in the hands of
 * the role that runs.  umem_check() adds them up.
 */
#ifndef XSK_UMEM_H
#define XSK_UMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>
#include <xdp/xsk.h>
#include "io_options.h"

enum chunk_place {
	CHUNK_FREE,
	CHUNK_FILL,
	CHUNK_TX,
	CHUNK_HELD,
	CHUNK_PLACES,
};

struct umem {
	struct xsk_umem *handle;
	__u8 *area;
	size_t bytes;
	__u32 frames;
	__u32 chunk;
	__u32 span; /* chunks that are given away at once */
	bool unaligned;
	bool hugepages; /* got, not asked for */
	__u32 quota;	/* chunks that one fill ring may have */
	__u64 *free; /* a stack: the chunk that was used last is in the cache */
	__u32 num_free;
	/* audit: where each chunk is, and moves that cannot be */
	__u8 *place;
	__u64 wrong_moves;
};

/* Map the memory of @queues queues.  Returns 0 or -errno after one line on stderr. */
int umem_open(struct umem *u, const struct io_options *o, int queues);
void umem_close(struct umem *u);

/* How many chunks the audit saw in each place; zeroes without an audit. */
void umem_places(const struct umem *u, __u64 counts[CHUNK_PLACES]);

/* The start of the chunk that a descriptor's address lies in. */
static inline __u64 umem_chunk(const struct umem *u, __u64 addr)
{
	if (u->unaligned)
		return xsk_umem__extract_addr(addr);
	return addr & ~(__u64)(u->chunk - 1);
}

static inline __u8 *umem_data(const struct umem *u, __u64 addr)
{
	if (u->unaligned)
		addr = xsk_umem__add_offset_to_addr(addr);
	return u->area + addr;
}

/* Account a move of the chunk that starts at @chunk. */
static inline void umem_move(struct umem *u, __u64 chunk, enum chunk_place from,
			     enum chunk_place to)
{
	__u64 index;

	if (__builtin_expect(!u->place, 1))
		return;
	index = chunk / u->chunk;
	if (index >= u->frames || chunk % u->chunk || u->place[index] != from) {
		u->wrong_moves++;
		return;
	}
	u->place[index] = to;
}

static inline __u64 umem_pop(struct umem *u, enum chunk_place to)
{
	__u64 chunk = u->free[--u->num_free];

	umem_move(u, chunk, CHUNK_FREE, to);
	return chunk;
}

static inline void umem_push(struct umem *u, __u64 addr, enum chunk_place from)
{
	__u64 chunk = umem_chunk(u, addr);

	umem_move(u, chunk, from, CHUNK_FREE);
	/* more than there are cannot be: a chunk came back twice */
	if (__builtin_expect(u->num_free == u->frames, 0)) {
		u->wrong_moves++;
		return;
	}
	u->free[u->num_free++] = chunk;
}

#endif
