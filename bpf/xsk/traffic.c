// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "frame.h"
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
	t->lateness = calloc(o->num_streams, sizeof(*t->lateness));
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

__u64 traffic_write(const struct traffic *t, struct gen_stream *g,
		    struct frame *f, __u8 epoch, __u32 seq, __u64 due)
{
	__u16 id_word = gen_id_word(g->id, epoch);
	__u32 flow;
	__u64 now;
	__s64 sum;

	/* the chunk may have held somebody else's frame */
	if (g->len > GEN_TEMPLATE)
		memset(f->data + GEN_TEMPLATE, 0, g->len - GEN_TEMPLATE);
	flow = g->first_flow + choice_flow(&g->choice, t->choices, seq);
	sum = gen_write_head(g, flow, f->data, f->data + g->len);
	f->len = g->len;
	do
		now = now_ns();
	while (now < due);
	gen_write_trailer(f->data + g->len - TRAILER_BYTES, sum, id_word, seq,
			  now);
	return now;
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
		samples_add(&t->samples, got.id, got.seq, got.sent_ns, now);
		PROBE3(received, got.id, got.seq, now - got.sent_ns);
	}
	io->ops->put(io, frames, n);
	return n;
}

bool traffic_all_arrived(const struct traffic *t, const struct options *o)
{
	int i;

	for (i = 0; i < o->num_streams; i++)
		if (t->account.by_id[o->streams[i].id]->received <
		    t->streams[i].sent[GEN_TRIAL])
			return false;
	return true;
}

static json_t *one_json(const struct traffic *t, const struct stream *s, int i,
			__u64 end_ns)
{
	const struct arrivals *in = t->account.by_id[s->id];
	const struct gen_stream *g = &t->streams[i];
	struct stream_figures f = {
		.trial_ns = t->gen.stage_end_ns[GEN_WARMUP],
		.end_ns = end_ns,
		.sent = g->sent[GEN_TRIAL],
		.numbered = g->sent[GEN_TRIAL],
		.received = in->received,
		.duplicated = in->duplicated,
		.out_of_order = in->out_of_order,
		.beyond_window = in->beyond_window,
		.longest_gap_ns = in->longest_gap_ns,
		.any_lost = in->any_lost,
		.last_lost = in->last_lost,
		.next = in->next,
	};

	if (s->kind == STREAM_LATENCY)
		f.latency = distribution_json(&in->latency);
	if (g->paced)
		f.lateness = distribution_json(&t->lateness[i]);
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
