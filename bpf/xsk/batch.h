/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The sequences of one batch in flight, and which of them are not back.  A
 * count would do only if nothing came late or twice.
 */
#ifndef XSK_BATCH_H
#define XSK_BATCH_H

#include <stdbool.h>
#include "account.h"
#include "options.h"

struct batch {
	bool warmup; /* its sequences are those of the warm-up */
	__u32 first;
	__u32 sent;
	__u32 missing;
	__u64 back[XSK_BATCH / 64];
};

static inline void batch_begin(struct batch *b, bool warmup, __u32 first,
			       __u32 sent)
{
	*b = (struct batch){
		.warmup = warmup, .first = first, .sent = sent, .missing = sent
	};
}

static inline void batch_arrival(struct batch *b, const struct arrival *got)
{
	__u32 index = got->seq - b->first;
	__u64 bit = 1ULL << (index & 63);

	if (got->kind == ARRIVAL_OTHER || index >= b->sent ||
	    (got->kind == ARRIVAL_WARMUP) != b->warmup ||
	    b->back[index / 64] & bit)
		return;
	b->back[index / 64] |= bit;
	b->missing--;
}

#endif
