// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "frames.h"
#include "probes.h"
#include "stream_json.h"
#include "traffic.h"
#include "util.h"

struct traffic *traffic_open(const struct options *o)
{
	struct traffic *t = calloc(1, sizeof(*t));
	__u8 epoch;
	int i, err;

	if (!t)
		goto out_memory;
	/* frames of an earlier run that are still on their way do not count */
	if (getrandom(&epoch, 1, 0) != 1)
		epoch = now_ns() >> 20;
	epoch &= 0xfe;
	for (i = 0; i < o->num_streams; i++)
		t->index[i] = i;
	gen_init(&t->gen, t->streams, o->streams, t->index, o->num_streams,
		 &o->timing, epoch);
	t->choices = streams_choices(o->streams, o->num_streams);
	t->lateness = calloc(o->num_streams * HDR_COUNTS, sizeof(*t->lateness));
	err = account_open(&t->account, o->streams, o->num_streams, epoch,
			   now_ns());
	t->account.choices = t->choices;
	if (!t->lateness || !t->choices || err)
		goto out_memory;
	if (!samples_open(&t->samples, o->samples, o->samples_max))
		return t;
	traffic_close(t);
	return NULL;
out_memory:
	fail(-ENOMEM, "cannot allocate: %d streams", o->num_streams);
	if (t)
		traffic_close(t);
	return NULL;
}

void traffic_close(struct traffic *t)
{
	samples_close(&t->samples);
	account_close(&t->account);
	free(t->lateness);
	free(t->choices);
	free(t);
}

int traffic_receive(struct traffic *t, struct io *io)
{
	struct frame frames[XSK_BATCH];
	__u32 n, i;
	__u64 now;

	n = io->ops->rx(io, frames, io->opt->batch);
	if (!n)
		return io->ops->idle(io);
	/* one look at the clock for all: they were here before it */
	now = now_ns();
	for (i = 0; i < n; i++) {
		struct arrival got = account_frame(&t->account, frames[i].data,
						   frames[i].len, now);

		batch_arrival(&t->in_flight, &got);
		if (got.kind != ARRIVAL_COUNTED)
			continue;
		samples_add(&t->samples, got.id, got.seq, got.sent_ns,
			    got.latency_ns);
		PROBE3(received, got.id, got.seq, got.latency_ns);
	}
	io->ops->put(io, frames, n);
	return n;
}

bool traffic_all_arrived(const struct traffic *t, const struct options *o)
{
	int i;

	for (i = 0; i < o->num_streams; i++)
		if (t->account.by_id[o->streams[i].id]->arrived.received <
		    t->streams[i].sent[GEN_TRIAL])
			return false;
	return true;
}

static json_t *one_json(const struct traffic *t, const struct stream *s, int i,
			__u64 end_ns)
{
	const struct account_stream *in = t->account.by_id[s->id];
	const struct gen_stream *g = &t->streams[i];
	struct stream_figures f = {
		.trial_ns = t->gen.stage_end_ns[GEN_WARMUP],
		.end_ns = end_ns,
		.sent = g->sent[GEN_TRIAL],
		.numbered = g->sent[GEN_TRIAL],
		.arrived = in->arrived,
		.in_turns = true,
		.window = in->window,
		.lateness = lateness_json(g, t->lateness + i * HDR_COUNTS),
	};

	if (s->kind == STREAM_LATENCY)
		f.latency = distribution_json(&in->latency);
	return stream_json(s, g, &f);
}

json_t *traffic_json(const struct traffic *t, const struct options *o,
		     __u64 end_ns)
{
	json_t *array = json_array();
	int i;

	for (i = 0; i < o->num_streams; i++)
		json_array_append_new(array,
				      one_json(t, &o->streams[i], i, end_ns));
	return array;
}

void traffic_add_others(const struct traffic *t, json_t *root)
{
	const struct account *a = &t->account;

	json_object_set_new(root, "other", json_integer(a->other));
	json_object_set_new(root, "earlier", json_integer(a->earlier));
	json_object_set_new(root, "earlier_ns", json_integer(a->earlier_ns));
}
