// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <string.h>
#include "frame.h"
#include "frames.h"
#include "hdr_index.h"
#include "probes.h"
#include "user_sender.h"
#include "util.h"

/* How long after the trial late frames wait for room in a full TX ring. */
#define GIVE_UP_NS 200000000ULL

__u64 user_write(const struct gen_stream *g,
		 const struct choice_column *choices, struct frame *f,
		 __u8 epoch, __u64 seq, __u64 left, __u64 due)
{
	__u16 id_word = gen_id_word(g->id, epoch);
	__u32 flow;
	__s64 sum;

	/* the chunk may have held somebody else's frame */
	if (g->len > GEN_TEMPLATE)
		memset(f->data + GEN_TEMPLATE, 0, g->len - GEN_TEMPLATE);
	flow = g->first_flow + choice_flow(&g->choice, choices, seq);
	sum = gen_write_head(g, flow, f->data, f->data + g->len);
	f->len = g->len;
	while (!left || left < due)
		left = now_ns();
	gen_write_trailer(f->data + g->trailer_off, sum, id_word, seq, left);
	return left;
}

static int kick(struct user_sender *s, struct io *io)
{
	s->gen->batch_sends += io->unkicked;
	return io_kick(io);
}

/* Also what the kernel refused before: it is late already. */
static int kick_all(struct user_sender *s)
{
	int err = 0, i;

	for (i = 0; !err && i < s->num_ios; i++)
		err = kick(s, &s->ios[i]);
	return err;
}

/* What is left of a stream in this stage does not leave: it is skipped. */
static void cut_short(struct gen_thread *gen, struct gen_stream *g)
{
	__u32 stage = gen->stage & 1;
	__u64 end = gen->stage_end_ns[stage];
	__u64 left = gen_cut_off(g, 0, end);

	if (g->count)
		left = min(left, g->count - g->stage_sent - g->skipped[stage]);
	g->skipped[stage] += left;
	g->due_ns = GEN_NEVER;
}

/*
 * The TX ring of @io is full.  A kernel that takes no frames (a driver whose
 * queue has stopped, a used up send buffer) must not keep the stage from
 * ending: a warm-up ends at its end, a trial a little later.
 */
static void end_if_stuck(struct user_sender *s, const struct io *io, __u64 now)
{
	struct gen_thread *gen = s->gen;
	bool trial = gen->stage == GEN_TRIAL;
	__u32 i;

	if (now < gen->stage_end_ns[gen->stage & 1] + (trial ? GIVE_UP_NS : 0))
		return;
	for (i = 0; i < gen->streams; i++) {
		if (s->io_of[i] != io)
			continue;
		cut_short(gen, &s->streams[i]);
		s->stuck[i] = trial;
	}
	gen_choose(gen, s->streams);
}

/* Which TX rings are full?  They are kicked; sleepers wait for their room. */
static int look_at_rings(struct user_sender *s)
{
	int err = 0, i;

	s->held = false;
	for (i = 0; !err && i < s->num_ios; i++) {
		struct io *io = &s->ios[i];

		io->wants_room =
			s->gen->stage != GEN_DONE && !io_available(io, 1);
		if (!io->wants_room)
			continue;
		s->held = true;
		err = kick(s, io);
	}
	return err;
}

/*
 * A TX ring was full: what waits for it does not hold up the frames of other
 * ports.  Chosen is what is due first of those whose rings have room; where
 * none has, the earliest of all waits.
 */
static int choose_among_others(struct user_sender *s)
{
	struct gen_thread *gen = s->gen;
	__u64 best = GEN_NEVER;
	int err = look_at_rings(s);
	__u32 i;

	if (err || gen->stage == GEN_DONE)
		return err;
	gen_choose(gen, s->streams);
	for (i = 0; s->held && i < gen->streams; i++) {
		if (s->io_of[i]->wants_room || s->streams[i].due_ns >= best)
			continue;
		best = s->streams[i].due_ns;
		gen->pick = i;
	}
	if (best != GEN_NEVER)
		gen_chosen(gen, best);
	return 0;
}

/* Write and queue the frame of stream @pick, which is due. */
static int send_frame(struct user_sender *s, __u32 pick, __u64 now)
{
	struct gen_thread *gen = s->gen;
	struct gen_stream *g = &s->streams[pick];
	struct io *io = s->io_of[pick];
	bool trial = gen->stage == GEN_TRIAL, paced = g->paced;
	__u8 epoch = gen->epoch[gen->stage & 1];
	__u64 due = g->due_ns, seq = g->seq, left;
	struct frame frame;

	if (!io_available(io, 1)) {
		io->n.tx_full++;
		end_if_stuck(s, io, now);
		s->held = true;
		return kick(s, io); /* late, then, or skipped */
	}
	io->ops->get(io, &frame, 1);
	/* top rate has no schedule: the look before it is enough */
	left = user_write(g, s->choices, &frame, epoch, seq, paced ? 0 : now,
			  paced ? due : 0);
	gen_advance(gen, g, gen_gaps(), now);
	gen_choose(gen, s->streams);
	io->ops->tx(io, &frame, 1);
	io->unkicked++;
	PROBE3(sent, g->id, seq, left);
	if (paced && trial) {
		gen->pending = pick + 1;
		gen->pending_late_ns = left - due;
	}
	return (io->unkicked >= s->batch ? kick(s, io) : 0) ?: 1;
}

int user_send(struct user_sender *s, __u64 now, int cpu)
{
	struct gen_thread *gen = s->gen;
	int err = s->held ? choose_among_others(s) : 0;
	__u32 pick = gen->pick;

	if (err)
		return err;
	if (gen->pending) {
		__u32 key = hdr_index(gen->pending_late_ns);

		key += gen_account_late(gen, s->streams) * HDR_COUNTS;
		s->lateness[key]++;
	}
	gen_account_poll(gen, now, cpu);
	gen->batch_sends = 0;
	switch (gen_due(gen, s->streams, &s->streams[pick], now)) {
	case GEN_SEND:
		return send_frame(s, pick, now);
	case GEN_CHANGE:
		gen_choose(gen, s->streams);
		break;
	case GEN_WAIT:
		break;
	}
	return kick_all(s);
}
