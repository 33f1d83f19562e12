// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The paced sender: BPF_PROG_TEST_RUN with BPF_F_TEST_XDP_LIVE_FRAMES calls
 * live_send on recycled frames in a loop.  Nothing due: XDP_DROP, the frame is
 * recycled at once.  Due: write it, redirect it.
 */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <bpf/bpf_helpers.h>

/* Constant: what the streams do not have, the verifier takes out. */
#define GEN_HAS(what) (shape.what)
#include "shape.h"
const volatile struct gen_shape shape;

#include "frame.h"
#include "gen.h"
#include "hdr_index.h"
#include "tx_drops.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/*
 * gen_gaps(), and one that is never used: the verifier of Linux 6.1 does not
 * see that the cell before it is the last one with a successor.
 */
const volatile __u32 gaps[GEN_GAP_CELLS + 1];

struct gen_thread gen;
struct gen_stream streams[GEN_STREAMS];

/* Indexed by stream: a redirect error can be charged to its stream. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, GEN_STREAMS);
	__type(key, __u32);
	__type(value, __u32);
} tx_ports SEC(".maps");

/* One HdrHistogram per stream of the thread. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, HDR_COUNTS); /* times streams, set before load */
	__type(key, __u32);
	__type(value, __u64);
} lateness SEC(".maps");

/* Of streams whose flows are drawn by Zipf's law. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);
	__type(value, struct choice_column);
} choices SEC(".maps");

/* At top rate the clock is looked at once for as many frames. */
#define LOOK_FRAMES 8

/* Wakes the main thread when the last departure is done. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} done SEC(".maps");

const volatile __u8 watch_tx; /* tx_drops.bpf.c reads what drivers drop */
struct tx_watch tx_watch SEC(".data.tx_watch");

__u32 tx_ports_id;
__u64 redirect_errors[2][GEN_STREAMS];
__s32 redirect_errno;

/*
 * Global, so that the verifier looks at it once: inlined where it is called, it
 * made it process nine times as many instructions (bpftool -d prog load
 * build/live.bpf.o PIN), at each start.
 */
__noinline int choose_of_several(void)
{
	gen_choose(&gen, streams);
	return 0;
}

static __always_inline void choose_next(void)
{
	if (GEN_HAS(several))
		choose_of_several();
	else
		gen_chosen(&gen, streams[0].due_ns);
}

/*
 * The time.  A look takes 20 ns in a virtual machine: where nobody asks when a
 * frame left, the next ones have the time of the last look.
 */
static __always_inline __u64 look(void)
{
	__u64 now;

	if (!GEN_HAS(paced) && !GEN_HAS(stamped)) {
		if (gen.unlooked) {
			gen.unlooked--;
			return gen.last_poll_ns;
		}
		gen.unlooked = LOOK_FRAMES - 1;
	}
	now = bpf_ktime_get_ns();
	gen_account_poll(&gen, now, bpf_get_smp_processor_id());
	return now;
}

static __always_inline void account_late(void)
{
	__u32 key = hdr_index(gen.pending_late_ns);
	__u64 *slot;

	key += gen_account_late(&gen, streams) * HDR_COUNTS;
	slot = bpf_map_lookup_elem(&lateness, &key);
	if (slot)
		(*slot)++;
}

/* The flow of the next frame. */
static __always_inline __u32 next_flow(const struct gen_stream *s)
{
	const struct choice_column *column;
	__u64 draw;
	__u32 i, key;

	if (!GEN_HAS(drawn) || s->choice.kind == CHOICE_TURNS)
		return s->flow;
	if (s->choice.kind == CHOICE_NEW)
		return s->seq;
	draw = choice_draw(s->choice.seed, s->seq);
	i = choice_uniform(draw, s->choice.flows);
	if (s->choice.kind == CHOICE_UNIFORM)
		return i;
	key = s->choice.first + i;
	column = bpf_map_lookup_elem(&choices, &key);
	return column ? choice_resolve(column, i, draw) : 0;
}

static __always_inline void tell_done(void)
{
	__u32 *event = bpf_ringbuf_reserve(&done, sizeof(*event), 0);

	if (!event)
		return;
	*event = 0;
	bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
}

static __always_inline struct tx_queue *queue_of(__u32 index)
{
	return &tx_watch.queue[tx_watch.queue_of[index & (GEN_STREAMS - 1)] &
			       (GEN_STREAMS - 1)];
}

static __always_inline void note_queued(__u32 index, int trial)
{
	struct tx_queue *queue = queue_of(index);

	queue->frames[queue->queued++ & (TX_QUEUE_FRAMES - 1)] =
		trial * GEN_STREAMS + index;
}

/* The last frame was not sent; the next has its sequence. */
static __always_inline void not_sent(__u32 index, __s32 error)
{
	if (watch_tx)
		queue_of(index)->queued--;
	redirect_errno = error;
	redirect_errors[gen.stage != GEN_WARMUP][index]++;
	gen_refused(&streams[index]);
}

/* Until something is due soon, or for GEN_IDLE_LOOKS.  Returns the time. */
static __always_inline __u64 wait_a_little(__u64 now)
{
	__u32 looks;

	for (looks = 0; looks < GEN_IDLE_LOOKS; looks++) {
		if (now + GEN_LEAD_NS >= gen.wake_ns)
			break;
		now = bpf_ktime_get_ns();
	}
	return now;
}

SEC("xdp")
int live_send(struct xdp_md *ctx)
{
	__u32 index, seq, paced, trial, looks;
	__u64 now, due, left, before;
	enum gen_answer answer;
	struct gen_stream *s;
	__u8 *data, *trailer;
	__u16 id_word;
	int change;
	__s64 sum;

	if (GEN_HAS(paced) && gen.pass) {
		gen.pass--;
		return XDP_DROP;
	}
	if (GEN_HAS(paced) && gen.pending)
		account_late();
	before = gen.last_poll_ns;
	now = left = look();
	if (GEN_HAS(paced))
		gen_account_sending(&gen, before, now);
	index = GEN_HAS(several) ? gen.pick & (GEN_STREAMS - 1) : 0;
	s = &streams[index];
	if (GEN_HAS(paced)) {
		if (!gen_slot(&gen, s, now))
			return XDP_DROP;
		if (gen.in_batch >= gen.batch)
			now = wait_a_little(now);
	}
	answer = gen_due(&gen, streams, s, now);
	if (answer == GEN_CHANGE)
		choose_next();
	if (answer != GEN_SEND) {
		gen.unlooked = 0;
		if (gen.stage == GEN_DONE && gen.done_told == 0) {
			gen.done_told = 1;
			tell_done();
		}
		return XDP_DROP;
	}

	change = s->len - (ctx->data_end - ctx->data);
	if (change && bpf_xdp_adjust_tail(ctx, change)) {
		gen.errors++;
		return XDP_DROP;
	}
	data = (__u8 *)(long)ctx->data;
	sum = gen_write_head(s, s->first_flow + next_flow(s), data,
			     (__u8 *)(long)ctx->data_end);
	trailer = data + (s->trailer_off & GEN_MAX_FRAME);
	if (sum < 0 || trailer + TRAILER_BYTES > (__u8 *)(long)ctx->data_end) {
		gen.errors++;
		return XDP_DROP;
	}
	id_word = gen_id_word(s->id, gen.epoch[gen.stage & 1]);
	seq = s->seq;
	due = s->due_ns;
	paced = GEN_HAS(paced) && s->paced;
	trial = gen.stage == GEN_TRIAL;
	gen_advance(&gen, s, gaps, now);
	choose_next();

	/* top rate has no schedule: the look before it was written is enough */
	for (looks = 0; paced && looks < GEN_LEAD_LOOKS; looks++) {
		left = bpf_ktime_get_ns();
		if (left >= due)
			break;
	}
	gen_write_trailer(trailer, sum, id_word, seq, left);
	if (paced && trial) {
		gen.pending = index + 1;
		gen.pending_late_ns = left > due ? left - due : 0;
	}
	if (GEN_HAS(paced)) {
		gen.sent_ns = left;
		gen.handovers += trial && !gen.batch_sends;
		gen.batch_sends++;
	}
	if (watch_tx)
		note_queued(index, trial);
	if (bpf_redirect_map(&tx_ports, index, 0) == XDP_REDIRECT)
		return XDP_REDIRECT;
	/* its port is gone, of which no tracepoint tells */
	not_sent(index, -ENODEV);
	return XDP_DROP;
}

struct redirect_err_args {
	__u64 dev;
	__u64 prog;
	__u64 target;
	__u64 err;
	__u64 map_type;
	__u64 map_id;
	__u64 index;
};

/*
 * Fires only when the kernel refuses a redirect (e.g. the port is down), right
 * after live_send and before it runs for the next frame: which then has the
 * sequence of the one that did not leave.
 */
SEC("raw_tp/xdp_redirect_err")
int live_redirect_err(struct redirect_err_args *args)
{
	__u32 index = args->index & (GEN_STREAMS - 1);

	if ((__u32)args->map_id != tx_ports_id)
		return 0;
	not_sent(index, args->err);
	return 0;
}
