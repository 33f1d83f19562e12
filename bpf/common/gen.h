/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The departure schedule of one sender thread.  The same code runs in the
 * kernel (live.bpf.c) and in user space (xsk.c).
 */
#ifndef XDPLAB_GEN_H
#define XDPLAB_GEN_H

#include <stdbool.h>
#include <linux/types.h>
#include "choice.h"
#include "shape.h"
#include "trailer.h"

#define GEN_STREAMS   16   /* power of two */
#define GEN_CPUS      1024 /* power of two; higher CPU numbers fold */
#define GEN_NEVER     (~0ULL)
#define GEN_TEMPLATE  72    /* longest header is 70, then zeroes */
#define GEN_SHORT     56    /* part that fits every frame of >= 60 bytes */
#define GEN_MAX_FRAME 16383 /* all bits */
#define GEN_REQUEST   256   /* longest request, a power of two */
/*
 * A frame is written up to GEN_LEAD_NS before it is due and then waits for its
 * time: in a virtual machine a poll takes 100 to 210 ns, and writing as long
 * again.  The loop that waits is bounded for the verifier; one look at the
 * clock takes > 8 ns.
 */
#define GEN_LEAD_NS    500
#define GEN_LEAD_LOOKS 64
/*
 * Where nothing is due the clock is looked at so often before the call returns:
 * for 1 us or less, so that no softirq of this CPU waits for longer.
 */
#define GEN_IDLE_LOOKS 32
/* A call that does nothing takes 30 to 60 ns; until it was seen: as much. */
#define GEN_SLOT_NS   60
#define GEN_SLOT_MOST 1000
/* Each frame of a batch may take such a part of stall_ns, and is no stall. */
#define GEN_STALL_SHIFT 5
/*
 * Gaps of a Poisson process, in 2^-GEN_GAP_BITS of their mean: the quantiles of
 * the exponential distribution, linear in between.  Beyond the last but one it
 * begins anew, for it has no memory.  What lies in between is a little more
 * than the curve: entries are scaled so that the mean is 1 (gaps.c).
 */
#define GEN_GAP_BITS	  24
#define GEN_GAP_CELL_BITS 10
#define GEN_GAP_CELLS	  (1 << GEN_GAP_CELL_BITS)
#define GEN_GAP_DRAWS	  4

enum gen_stage { GEN_WARMUP, GEN_TRIAL, GEN_DONE };

struct gen_lateness {
	__u64 count;
	__u64 on_schedule;
	__u64 sum_ns;
	__u64 max_ns;
	__u64 min_inv; /* ~min, so that zeroed memory is empty */
};

/* Addresses in turns: @first, then from @first + @jump on each @step more. */
struct gen_range {
	__u32 first;
	__u32 count;
	__u32 jump;
	__u32 step;
};

static __always_inline __u32 gen_address(const struct gen_range *r, __u32 turn)
{
	return turn ? r->first + r->jump + (turn - 1) * r->step : r->first;
}

/* The sum of its words of 16 bits. */
static __always_inline __u32 gen_words(__u32 address)
{
	return (address >> 16) + (address & 0xffff);
}

struct gen_stream {
	/* schedule; int_ns.int_frac is the interval, int_frac in 2^-32 ns */
	__u64 due_ns;
	__u64 int_ns;
	__u32 due_frac;
	__u32 int_frac;
	__u64 max_late_ns;
	__u64 first_ns; /* start in the trial */
	__u64 count;	/* frames that are due in a stage, 0 = no limit */
	__u64 stage_sent;
	__u64 began_ns; /* first departure of the stage */
	__u64 last_ns;	/* last departure */
	/* frame */
	__u64 seq;  /* of which the frame carries 32 bits */
	__u32 flow; /* whose turn it is */
	__u32 first_flow;
	struct choice choice;
	struct gen_range src; /* the lowest 32 bits */
	struct gen_range dst;
	__u32 ip_sum; /* IPv4, without addresses */
	__u16 udp_src;
	__u16 len; /* without FCS */
	__u8 udp_src_off;
	__u8 src_off;
	__u8 dst_off;
	__u8 check_off; /* 0: IPv6 */
	__u8 ranged;	/* addresses differ from flow to flow */
	__u8 paced;
	__u8 poisson;
	__u32 burst; /* frames that are due together */
	__u8 id;
	__u8 alone; /* its frames have a batch of their own, see gen_slot() */
	__u8 odd;   /* trailer at an odd offset */
	__u8 scrubs;
	__u16 scrub[GEN_STREAMS]; /* where shorter frames left their trailer */
	__u16 trailer_off;
	__u16 request_len; /* 0: zeroes between headers and trailer */
	__u8 request_off;
	__u8 template[GEN_TEMPLATE] __attribute__((aligned(8)));
	__u8 request[GEN_REQUEST] __attribute__((aligned(8)));
	/* results, by stage */
	__u64 sent[2];
	__u64 skipped[2];
	struct gen_lateness late;
};

struct gen_thread {
	__u64 wake_ns; /* nothing to do before */
	__u64 last_poll_ns;
	__u64 stage_end_ns[2];
	__u64 stall_ns;
	__u64 late_ns;
	__u64 pending_late_ns; /* of the last departure, to be accounted */
	__u32 pending;	       /* its stream's index + 1 */
	__u32 stage;
	__u32 streams;
	__u32 pick;	 /* the stream that is due first */
	__u32 none_left; /* no stream has a departure left in this stage */
	__u8 epoch[2];
	__u16 errors;
	__u32 done_told;
	__u32 unlooked; /* frames that leave before the next look at the clock */
	/* calls whose frames the kernel hands on together, and those that were */
	__u32 batch;
	__u32 in_batch;
	__u32 batch_sends; /* frames that leave with it */
	__u32 pass;	   /* so many calls that come do nothing */
	__u32 passed;	   /* as many did, between the last two polls */
	__u64 slot_ns;	   /* what each of them takes, as seen so far */
	__u64 sent_ns;	   /* the last departure, until the poll after it */
	/* results of the trial */
	__u64 sending_ns;	  /* from departures to the polls after them */
	__u64 sending_stalled_ns; /* those that were stalls */
	__u64 handovers;	  /* batches with frames */
	__u64 stalls;
	__u64 stalled_ns;
	__u64 longest_gap_ns;
	__u64 polls[GEN_CPUS];
};

/* The stream that leaves next is chosen, and due at @best. */
static __always_inline void gen_chosen(struct gen_thread *t, __u64 best)
{
	t->none_left = best == GEN_NEVER;
	if (t->none_left && t->stage == GEN_WARMUP)
		best = t->stage_end_ns[GEN_WARMUP];
	else if (t->none_left)
		best = 0;
	t->wake_ns = best;
}

/* Choose the stream that leaves next: earliest due first. */
static __always_inline void gen_choose(struct gen_thread *t,
				       struct gen_stream *streams)
{
	__u64 best = GEN_NEVER;
	__u32 i;

	/* t->pick lives in memory so that the verifier does not follow it */
	for (i = 0; i < GEN_STREAMS; i++) {
		if (i >= t->streams)
			break;
		if (streams[i].due_ns < best) {
			best = streams[i].due_ns;
			t->pick = i;
		}
	}
	gen_chosen(t, best);
}

/* What a look at the schedule came to. */
enum gen_answer {
	GEN_WAIT,
	GEN_SEND,   /* the next frame of the chosen stream */
	GEN_CHANGE, /* nothing now; gen_choose() comes next */
};

static __always_inline enum gen_answer
gen_next_stage(struct gen_thread *t, struct gen_stream *streams)
{
	__u32 i;

	if (t->stage != GEN_WARMUP) {
		t->stage = GEN_DONE;
		t->wake_ns = GEN_NEVER;
		return GEN_WAIT;
	}
	t->stage = GEN_TRIAL;
	for (i = 0; i < GEN_STREAMS; i++) {
		if (i >= t->streams)
			break;
		streams[i].due_ns = streams[i].first_ns;
		streams[i].due_frac = 0;
		streams[i].stage_sent = 0;
		/* what the warm-up has sent is not new any more */
		if (streams[i].choice.kind == CHOICE_NEW)
			streams[i].first_flow += streams[i].seq;
		streams[i].seq = 0;
		streams[i].flow = 0;
	}
	return GEN_CHANGE;
}

/*
 * Was the machine away in a gap between two polls?  Not while frames that were
 * handed on in between took their time.
 */
static __always_inline bool gen_is_stall(const struct gen_thread *t, __u64 gap)
{
	__u64 sends = GEN_HAS(paced) ? t->batch_sends : t->batch;

	return gap > t->stall_ns + sends * (t->stall_ns >> GEN_STALL_SHIFT);
}

/* Account one run of the poll loop; @cpu is where it ran. */
static __always_inline void gen_account_poll(struct gen_thread *t, __u64 now,
					     __u32 cpu)
{
	__u64 gap = now - t->last_poll_ns;

	t->last_poll_ns = now;
	if (t->stage != GEN_TRIAL)
		return;
	t->polls[cpu & (GEN_CPUS - 1)]++;
	if (gap > t->longest_gap_ns)
		t->longest_gap_ns = gap;
	if (gen_is_stall(t, gap)) {
		t->stalls++;
		t->stalled_ns += gap;
	}
}

/* What a call takes that does nothing, from @gap in which t->passed did. */
static __always_inline void gen_learn_slot(struct gen_thread *t, __u64 gap)
{
	__u64 each = gap / (t->passed + 1);

	if (each < GEN_SLOT_MOST) /* else the machine was away */
		t->slot_ns = (t->slot_ns * 15 + each) / 16;
}

/*
 * Account what the CPU did for the frames that left: from a departure, and from
 * the end of a batch with one, to the next poll.  On veth that is also the
 * work of whoever receives them.  The rest of the time the sender just polls.
 * @before is the poll before @now.
 */
static __always_inline void gen_account_sending(struct gen_thread *t,
						__u64 before, __u64 now)
{
	__u64 from = t->sent_ns, gap = now - before;

	t->sent_ns = 0;
	if (t->passed && !t->batch_sends)
		gen_learn_slot(t, gap);
	if (!from && t->batch_sends && t->in_batch >= t->batch)
		from = before + t->passed * t->slot_ns;
	t->passed = 0;
	if (!from || from >= now || t->stage != GEN_TRIAL)
		return;
	t->sending_ns += now - from;
	if (gen_is_stall(t, gap))
		t->sending_stalled_ns += now - from;
}

/*
 * A call is a slot of a batch, which is handed on behind its last slot.  Who is
 * on time leaves in that slot, and so waits for nobody; the slots before it are
 * passed over while there is time.  Who is late leaves in the next slot: a
 * sender that falls behind hands on the more frames together, the more it
 * does.  A frame of a stream that is @alone is the only one of its batch.
 *
 * Returns whether a frame of @s, which is due first, may leave in this slot if
 * it is due; if not, t->pass says how many calls to pass over behind this one.
 */
static __always_inline bool gen_slot(struct gen_thread *t,
				     const struct gen_stream *s, __u64 now)
{
	__u32 left;

	if (t->in_batch >= t->batch) {
		t->in_batch = 0;
		t->batch_sends = 0;
	}
	t->in_batch++;
	left = t->batch - t->in_batch;
	if (t->batch_sends) {
		if (now >= t->wake_ns && !s->alone)
			return true;
	} else {
		if (!left || (now >= t->wake_ns && !s->alone))
			return true;
		left--;
		/* it would come too late to the last slot: look in the next */
		if (!s->alone && now + left * 2 * t->slot_ns >= t->wake_ns)
			left = 0;
	}
	t->pass = left;
	t->passed = left;
	t->in_batch += left;
	return false;
}

/*
 * Account the last departure's lateness; done in the poll after it so that
 * the time between time stamp and transmission stays short.  Returns the
 * stream's index.
 */
static __always_inline __u32 gen_account_late(struct gen_thread *t,
					      struct gen_stream *streams)
{
	__u32 index = (t->pending - 1) & (GEN_STREAMS - 1);
	struct gen_lateness *late = &streams[index].late;
	__u64 ns = t->pending_late_ns;

	t->pending = 0;
	late->count++;
	late->sum_ns += ns;
	late->on_schedule += ns <= t->late_ns;
	if (ns > late->max_ns)
		late->max_ns = ns;
	if (~ns > late->min_inv)
		late->min_inv = ~ns;
	return index;
}

/* Move a stream's next departure by k intervals. */
static __always_inline void gen_step(struct gen_stream *s, __u64 k)
{
	__u64 frac = s->due_frac + k * s->int_frac;

	s->due_ns += k * s->int_ns + (frac >> 32);
	s->due_frac = frac;
}

/* A gap for the bits of @draw; @gaps: GEN_GAP_CELLS quantiles. */
static __always_inline __u64 gen_gap(const volatile __u32 *gaps, __u64 draw)
{
	__u64 gap = 0, low, high;
	__u32 cell = 0, i;

	for (i = 0; i < GEN_GAP_DRAWS; i++) {
		cell = draw & (GEN_GAP_CELLS - 1);
		draw >>= GEN_GAP_CELL_BITS;
		if (cell != GEN_GAP_CELLS - 1)
			break;
		gap += gaps[GEN_GAP_CELLS - 1];
	}
	if (cell >= GEN_GAP_CELLS - 1)
		return gap;
	low = gaps[cell];
	high = gaps[cell + 1];
	return gap + low + ((high - low) * (draw & 0xffff) >> 16);
}

/* The same by one interval of a Poisson process. */
static __always_inline void gen_step_poisson(struct gen_stream *s,
					     const volatile __u32 *gaps)
{
	__u64 gap = gen_gap(gaps, choice_draw(~s->choice.seed, s->stage_sent));
	__u64 ns = s->int_ns * gap;
	__u64 frac = s->due_frac + (s->int_frac * gap >> GEN_GAP_BITS);

	frac += ns << (64 - GEN_GAP_BITS) >> 32;
	s->due_ns += (ns >> GEN_GAP_BITS) + (frac >> 32);
	s->due_frac = frac;
}

/*
 * Has the stream come to its count in this stage?  What was skipped was due:
 * nothing leaves in its place later.
 */
static __always_inline int gen_counted(const struct gen_stream *s, __u32 stage)
{
	return s->count && s->stage_sent + s->skipped[stage] >= s->count;
}

/*
 * Is a frame due?  If so it is the next one of @s = streams[t->pick].  A
 * stream that is late by more than max_burst intervals loses whole intervals.
 */
static __always_inline enum gen_answer gen_due(struct gen_thread *t,
					       struct gen_stream *streams,
					       struct gen_stream *s, __u64 now)
{
	__u64 late, lost, end;
	__u32 stage = t->stage & 1;

	now += GEN_LEAD_NS;
	if (now < t->wake_ns)
		return GEN_WAIT;
	if (t->none_left)
		return gen_next_stage(t, streams);
	end = t->stage_end_ns[stage];
	if (!GEN_HAS(paced) || !s->paced) {
		if (now < end)
			return GEN_SEND;
		s->due_ns = GEN_NEVER;
		return GEN_CHANGE;
	}
	late = now - s->due_ns;
	if (late <= s->max_late_ns)
		return GEN_SEND;
	if (now >= end)
		late = end - s->due_ns; /* nothing was asked for after that */
	/* + 1 rounds down: what is left over leaves late, or is cut next */
	lost = late / (s->int_ns + 1);
	gen_step(s, lost);
	if (s->count && lost > s->count - s->stage_sent - s->skipped[stage])
		lost = s->count - s->stage_sent - s->skipped[stage];
	s->skipped[stage] += lost;
	if (s->due_ns < end && !gen_counted(s, stage))
		return GEN_SEND;
	s->due_ns = GEN_NEVER;
	return GEN_CHANGE;
}

/* The frame of @s is written: schedule its next one; gen_choose() comes next. */
static __always_inline void gen_advance(const struct gen_thread *t,
					struct gen_stream *s,
					const volatile __u32 *gaps, __u64 now)
{
	__u32 stage = t->stage & 1, paced = GEN_HAS(paced) && s->paced;
	__u64 leaves = paced && s->due_ns > now ? s->due_ns : now;

	if (!s->stage_sent)
		s->began_ns = leaves;
	s->last_ns = leaves;
	s->seq++;
	s->flow++;
	if (s->flow >= s->choice.flows)
		s->flow = 0;
	s->sent[stage]++;
	s->stage_sent++;
	if (!paced)
		s->due_ns = now;
	else if (GEN_HAS(poisson) && s->poisson)
		gen_step_poisson(s, gaps);
	else if (!GEN_HAS(bursts) || s->burst == 1)
		gen_step(s, 1);
	else if (s->stage_sent % s->burst == 0)
		gen_step(s, s->burst);
	if (gen_counted(s, stage) || s->due_ns >= t->stage_end_ns[stage])
		s->due_ns = GEN_NEVER;
}

/*
 * The last frame of @s was not sent: the next has its sequence, and is of its
 * flow.  It has left the schedule all the same.
 */
static __always_inline void gen_refused(struct gen_stream *s)
{
	s->seq--;
	if (!s->flow)
		s->flow = s->choice.flows;
	s->flow--;
}

#endif
