// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * probe: open loop.  Streams leave on a schedule (common/gen.h) whatever
 * comes back, and are received at any port.
 */
#include <errno.h>
#include <sched.h>
#include "frames.h"
#include "probes.h"
#include "traffic.h"
#include "util.h"

/* Between the first turn and the first departure. */
#define START_DELAY_NS 2000000
/* How long after the trial late frames wait for room in a full TX ring. */
#define GIVE_UP_NS 200000000ULL

static int probe_open(struct worker *w)
{
	w->private = traffic_open(w->opt);
	return w->private ? 0 : -ENOMEM;
}

static void probe_close(struct worker *w)
{
	traffic_close(w->private);
}

static void account_late(struct traffic *t)
{
	__u64 ns = t->gen.pending_late_ns;

	distribution_add(&t->lateness[gen_account_late(&t->gen, t->streams)],
			 ns);
}

/* Also what the kernel refused before: it is late already. */
static int kick_all(struct worker *w)
{
	int err = 0, i;

	for (i = 0; !err && i < w->num_ios; i++)
		err = io_kick(&w->ios[i]);
	return err;
}

/* What is left of a stream in this stage does not leave: it is skipped. */
static void cut_short(struct gen_thread *gen, struct gen_stream *g)
{
	__u32 stage = gen->stage & 1;
	__u64 end = gen->stage_end_ns[stage];
	__u64 left = gen_cut_off(g, 0, end);

	if (g->count)
		left = min(left, g->count - g->stage_sent);
	g->skipped[stage] += left;
	g->due_ns = GEN_NEVER;
}

/*
 * The TX ring of @port is full.  A kernel that takes no frames (a driver
 * whose queue has stopped, a used up send buffer) must not keep the stage
 * from ending: a warm-up ends at its end, a trial a little later.
 */
static void end_if_stuck(struct worker *w, int port, __u64 now)
{
	struct traffic *t = w->private;
	struct gen_thread *gen = &t->gen;
	bool trial = gen->stage == GEN_TRIAL;
	__u32 i;

	if (now < gen->stage_end_ns[gen->stage & 1] + (trial ? GIVE_UP_NS : 0))
		return;
	for (i = 0; i < gen->streams; i++)
		if (w->opt->streams[t->index[i]].tx_port == port)
			cut_short(gen, &t->streams[i]);
	gen_choose(gen, t->streams);
	if (trial)
		t->stuck[port] = true;
}

/* Write and queue the frame of stream @pick, which is due. */
static int send_one(struct worker *w, __u32 pick, __u64 now)
{
	struct traffic *t = w->private;
	struct gen_thread *gen = &t->gen;
	struct gen_stream *g = &t->streams[pick];
	struct io *io = worker_io(w, w->opt->streams[pick].tx_port, 0);
	bool trial = gen->stage == GEN_TRIAL, paced = g->paced;
	__u8 epoch = gen->epoch[gen->stage & 1];
	__u64 due = g->due_ns, left;
	struct frame frame;
	__u32 seq = g->seq;

	if (!io_available(io, 1)) {
		io->n.tx_full++;
		end_if_stuck(w, w->opt->streams[pick].tx_port, now);
		return io_kick(io); /* late, then, or skipped */
	}
	io->ops->get(io, &frame, 1);
	left = traffic_write(t, g, &frame, epoch, seq, paced ? due : 0);
	gen_advance(gen, g, gen_gaps(), now);
	gen_choose(gen, t->streams);
	io->ops->tx(io, &frame, 1);
	io->unkicked++;
	PROBE3(sent, g->id, seq, left);
	if (paced && trial) {
		gen->pending = pick + 1;
		gen->pending_late_ns = left - due;
	}
	return io->unkicked >= w->opt->io.batch ? io_kick(io) : 0;
}

static int send_due(struct worker *w, __u64 now)
{
	struct traffic *t = w->private;
	__u32 pick = t->gen.pick;

	if (t->gen.pending)
		account_late(t);
	gen_account_poll(&t->gen, now, w->cpu >= 0 ? w->cpu : sched_getcpu());
	switch (gen_due(&t->gen, t->streams, &t->streams[pick], now)) {
	case GEN_SEND:
		return send_one(w, pick, now) ?: 1;
	case GEN_CHANGE:
		gen_choose(&t->gen, t->streams);
		break;
	case GEN_WAIT:
		break;
	}
	return kick_all(w);
}

static int receive_all(struct worker *w)
{
	int handled = 0, i, n;

	for (i = 0; i < w->num_ios; i++) {
		n = traffic_receive(w->private, &w->ios[i]);
		if (n < 0) {
			w->broken = w->ios[i].port;
			return n;
		}
		handled += n;
	}
	return handled;
}

/* Nothing more leaves: what comes back until the drain is over still counts. */
static void end_schedule(struct traffic *t, __u64 now)
{
	t->finish_ns = now;
	t->gen.stage = GEN_DONE;
	t->gen.wake_ns = GEN_NEVER;
}

static __u64 drain_end(const struct worker *w)
{
	const struct traffic *t = w->private;

	return t->done_ns + (__u64)(w->opt->drain_s * 1e9);
}

/* Whoever held frames back has until drain_s are over. */
static bool is_over(const struct worker *w, __u64 now)
{
	struct traffic *t = w->private;

	if (t->gen.stage != GEN_DONE)
		return false;
	if (!t->done_ns)
		t->done_ns = now;
	return now >= drain_end(w) || traffic_all_arrived(t, w->opt);
}

static int probe_turn(struct worker *w)
{
	struct traffic *t = w->private;
	__u64 now = now_ns();
	int sent, received;

	if (!w->turns)
		gen_schedule(&t->gen, t->streams, w->opt->streams, t->index,
			     &w->opt->timing, now + START_DELAY_NS);
	if (w->finish && t->gen.stage != GEN_DONE)
		end_schedule(t, now);
	sent = send_due(w, now);
	if (sent < 0)
		return sent;
	received = receive_all(w);
	if (received < 0)
		return received;
	w->over = is_over(w, now);
	w->wake_ns = t->done_ns ? drain_end(w) : t->gen.wake_ns;
	return sent + received;
}

/* Names of the ports that took no more frames. */
static json_t *stuck_ports(const struct worker *w)
{
	const struct traffic *t = w->private;
	json_t *names = json_array();
	int i;

	for (i = 0; i < w->opt->num_ports; i++)
		if (t->stuck[i])
			json_array_append_new(
				names, json_string(w->opt->ports[i].ifname));
	return names;
}

static void probe_report(const struct worker *w, json_t *root)
{
	const struct traffic *t = w->private;
	const struct gen_thread *gen = &t->gen;
	__u64 begin = gen->stage_end_ns[GEN_WARMUP];
	__u64 end = gen_trial_end(gen, t->streams);
	double elapsed_s;

	if (t->finish_ns)
		end = min(end, t->finish_ns);
	else if (gen->stage != GEN_DONE) /* its socket broke */
		end = min(end, gen->last_poll_ns);
	elapsed_s = end > begin ? (end - begin) / 1e9 : 0;
	json_object_set_new(root, "trial_s", json_real(elapsed_s));
	json_object_set_new(root, "streams", traffic_json(t, w->opt, end));
	json_object_set_new(root, "tx_stuck", stuck_ports(w));
	json_object_set_new(root, "other", json_integer(t->account.other));
	json_object_set_new(root, "stalls", json_integer(gen->stalls));
	json_object_set_new(root, "stalled_ns", json_integer(gen->stalled_ns));
	json_object_set_new(root, "longest_gap_ns",
			    json_integer(gen->longest_gap_ns));
	json_object_set_new(root, "samples_missed",
			    json_integer(t->samples.missed));
	samples_write(&t->samples, w->opt->samples);
}

const struct role_ops probe_role = { .open = probe_open,
				     .turn = probe_turn,
				     .report = probe_report,
				     .close = probe_close };
