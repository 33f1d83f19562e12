// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "trace.h"
#include "util.h"

int trace_open(struct trace *t, __u32 every, bool records)
{
	/* roles that send without receiving pass the probes always */
	*t = (struct trace){ .every = every, .left = 1, .now = every == 1 };
	if (!records)
		return 0;
	t->records = malloc(TRACE_RECORDS * sizeof(*t->records));
	if (!t->records)
		return fail(-ENOMEM, "cannot allocate: trace");
	/* no page faults later */
	memset(t->records, 0, TRACE_RECORDS * sizeof(*t->records));
	return 0;
}

void trace_close(struct trace *t)
{
	free(t->records);
	t->records = NULL;
}

void trace_switch(struct trace *t)
{
	bool wanted = atomic_load_explicit(&t->wanted, memory_order_acquire);

	if (wanted == atomic_load_explicit(&t->recording, memory_order_relaxed))
		return;
	if (wanted) {
		t->count = 0;
		t->untimed = 0;
	}
	atomic_store_explicit(&t->recording, wanted, memory_order_release);
}

void trace_received(struct trace *t, __u32 n)
{
	t->batch = (struct batch_record){ .received = now_ns(), .frames = n };
}

void trace_queued(struct trace *t, __u32 n)
{
	t->batch.queued = now_ns();
	t->batch.sent = n;
}

void trace_kicked(struct trace *t)
{
	t->batch.kicked = now_ns();
}

void trace_keep(struct trace *t, __u64 departure)
{
	t->batch.begun = departure;
	t->untimed += !departure;
	t->records[t->count++ & (TRACE_RECORDS - 1)] = t->batch;
}
