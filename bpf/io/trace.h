/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What becomes of batches, told by the application itself.  One batch in
 * trace_every passes the static probes, and is stamped while records are
 * wanted: a look at the clock costs a thirtieth of a traced probe.
 *
 * A trace belongs to its worker; the main thread asks for records and reads
 * them when the worker has left them alone.
 */
#ifndef XSK_TRACE_H
#define XSK_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <linux/types.h>
#include "batch_record.h"

/* The newest ones stay; a power of two. */
#define TRACE_RECORDS (1 << 15)

struct trace {
	__u32 every;
	__u32 left;
	bool now;		      /* the batch in hand is one of them */
	struct batch_record *records; /* NULL: never wanted */
	struct batch_record batch;
	__u64 count;   /* of all since records were wanted */
	__u64 untimed; /* of these, without a time of departure */
	atomic_bool wanted;
	atomic_bool recording;
};

/* Returns 0 or -errno after one line on stderr. */
int trace_open(struct trace *t, __u32 every, bool records);
void trace_close(struct trace *t);

/* Called by the worker between batches. */
void trace_switch(struct trace *t);
void trace_received(struct trace *t, __u32 n);
void trace_queued(struct trace *t, __u32 n);
void trace_kicked(struct trace *t);
/* @departure: of the first frame, by its trailer, or 0. */
void trace_keep(struct trace *t, __u64 departure);

/* A batch has come: does it pass the probes? */
static inline bool trace_batch(struct trace *t)
{
	t->now = !--t->left;
	if (t->now)
		t->left = t->every;
	return t->now;
}

static inline bool trace_stamps(const struct trace *t)
{
	return t->now &&
	       atomic_load_explicit(&t->recording, memory_order_relaxed);
}

#endif
