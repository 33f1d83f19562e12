// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * ping: closed loop.  One batch is in flight; when all of it is back, or the
 * timeout is over, the next leaves after the interval.  Batches that leave in
 * the warm-up are not counted.
 */
#include <errno.h>
#include <stdlib.h>
#include "gen.h"
#include "probes.h"
#include "traffic.h"
#include "util.h"

struct ping {
	struct traffic *traffic;
	__u64 begin_ns; /* the warm-up is over */
	__u64 end_ns;
	__u64 next_ns;	   /* the next batch leaves then */
	__u64 deadline_ns; /* of the batch in flight */
	__u64 batches;
	__u64 timeouts;
	__u32 stage; /* of the batch in flight */
};

static int ping_open(struct worker *w)
{
	struct ping *p = calloc(1, sizeof(*p));

	if (!p)
		return fail(-ENOMEM, "cannot allocate: role ping");
	w->private = p;
	p->traffic = traffic_open(w->opt);
	return p->traffic ? 0 : -ENOMEM;
}

static void ping_close(struct worker *w)
{
	struct ping *p = w->private;

	if (p->traffic)
		traffic_close(p->traffic);
	free(p);
}

/* Sequences begin anew, as those of role probe do. */
static void choose_stage(struct ping *p, __u64 now)
{
	if (p->stage == GEN_TRIAL || now < p->begin_ns)
		return;
	p->stage = GEN_TRIAL;
	p->traffic->streams[0].seq = 0;
	p->traffic->streams[0].flow = 0;
}

/* Also what the kernel refused before. */
static int kick(struct worker *w)
{
	return io_kick(worker_io(w, w->opt->streams[0].tx_port, 0));
}

/* Everything of an earlier batch that still comes is counted, but late. */
static int send_batch(struct worker *w, __u64 now)
{
	struct ping *p = w->private;
	struct gen_stream *g = &p->traffic->streams[0];
	struct io *io = worker_io(w, w->opt->streams[0].tx_port, 0);
	__u32 n = w->opt->ping_batch, i;
	struct frame frames[XSK_BATCH];
	__u8 epoch;

	choose_stage(p, now);
	epoch = p->traffic->gen.epoch[p->stage];
	n = io->ops->get(io, frames, io_available(io, n));
	if (!n) {
		io->n.tx_full++;
		return kick(w);
	}
	batch_begin(&p->traffic->in_flight, p->stage == GEN_WARMUP, g->seq, n);
	for (i = 0; i < n; i++) {
		__u64 left = user_write(g, p->traffic->choices, &frames[i],
					epoch, g->seq, 0, 0);

		PROBE3(sent, g->id, g->seq, left);
		g->seq++;
	}
	io->ops->tx(io, frames, n);
	g->sent[p->stage] += n;
	p->next_ns = now + w->opt->interval_us * 1000;
	p->deadline_ns = now + w->opt->timeout_us * 1000;
	p->batches += p->stage == GEN_TRIAL;
	return kick(w) ?: (int)n;
}

/* Is the batch in flight back, or too late? */
static bool is_batch_over(struct ping *p, __u64 now)
{
	struct batch *b = &p->traffic->in_flight;

	if (b->missing && now <= p->deadline_ns)
		return false;
	p->timeouts += b->missing && p->stage == GEN_TRIAL;
	b->missing = 0;
	return true;
}

/* The last batch is waited for. */
static bool is_over(const struct worker *w, __u64 now)
{
	const struct ping *p = w->private;
	const struct options *o = w->opt;

	return w->finish || (o->count && p->batches == (__u64)o->count) ||
	       (o->duration_s > 0 && now > p->begin_ns + o->duration_s * 1e9);
}

/* No batch is in flight: the next leaves if it is time. */
static int send_next(struct worker *w, __u64 now)
{
	struct ping *p = w->private;

	w->over = is_over(w, now);
	return !w->over && now >= p->next_ns ? send_batch(w, now) : 0;
}

static int ping_turn(struct worker *w)
{
	struct ping *p = w->private;
	__u64 now = now_ns();
	int handled = 0, i, n;

	if (!w->turns) {
		p->begin_ns = now + w->opt->timing.warmup_s * 1e9;
		p->traffic->streams[0].first_ns = p->begin_ns;
	}
	p->end_ns = now;
	for (i = 0; i < w->num_ios; i++) {
		n = traffic_receive(p->traffic, &w->ios[i]);
		if (n < 0) {
			w->broken = w->ios[i].port;
			return n;
		}
		handled += n;
	}
	n = is_batch_over(p, now) ? send_next(w, now) : kick(w);
	if (n < 0) {
		w->broken = &w->opt->ports[w->opt->streams[0].tx_port];
		return n;
	}
	w->wake_ns =
		p->traffic->in_flight.missing ? p->deadline_ns : p->next_ns;
	return handled + n;
}

static void ping_report(const struct worker *w, json_t *root)
{
	const struct ping *p = w->private;
	double elapsed_s =
		p->end_ns > p->begin_ns ? (p->end_ns - p->begin_ns) / 1e9 : 0;

	json_object_set_new(root, "trial_s", json_real(elapsed_s));
	json_object_set_new(root, "streams",
			    traffic_json(p->traffic, w->opt, p->end_ns));
	traffic_add_others(p->traffic, root);
	json_object_set_new(root, "batches", json_integer(p->batches));
	json_object_set_new(root, "timeouts", json_integer(p->timeouts));
	json_object_set_new(root, "samples_missed",
			    json_integer(p->traffic->samples.missed));
	samples_write(&p->traffic->samples, w->opt->samples);
}

const struct role_ops ping_role = { .open = ping_open,
				    .turn = ping_turn,
				    .report = ping_report,
				    .close = ping_close };
