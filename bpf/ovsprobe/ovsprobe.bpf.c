// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The way of a batch through one PMD thread of Open vSwitch with AF_XDP ports,
 * or a worker of xsk, one direction loaded: XDP redirect, receive, transmit
 * ring, kick, completion.
 *
 * User-space probes trap, which takes about a microsecond each: only two are
 * between receive and kick.  Nothing is handed over while frames flow; the
 * ring is read when all is over.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/usdt.bpf.h>
#include "ovsprobe.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 thread; /* whose batches */
const volatile __u32
	xsk_map; /* id of the map that frames are redirected by; 0: none */
const volatile __u32 every = 1; /* one batch in so many is recorded */
/* which argument of the probes of receive and transmit is the frames */
const volatile __u32 frames_argument;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, REDIRECTS);
	__type(key, __u32);
	__type(value, __u64);
} redirects SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RECORD_BYTES);
} records SEC(".maps");

struct probe_counts counts;

/* Frames redirected and frames received so far: first in, first out. */
static __u64 head, tail;
static struct batch_record batch;
static __u64 oldest_kick, reaped;

static __always_inline __u32 frames_of(struct pt_regs *ctx)
{
	long frames = 0;

	bpf_usdt_arg(ctx, frames_argument, &frames);
	return frames;
}

static __always_inline bool mine(void)
{
	return (__u32)bpf_get_current_pid_tgid() == thread;
}

struct redirect_args {
	__u64 dev;
	__u64 prog;
	__u64 target;
	__u64 err;
	__u64 map_type;
	__u64 map_id;
	__u64 index;
};

SEC("raw_tp/xdp_redirect")
int ovsprobe_redirect(struct redirect_args *args)
{
	__u64 now = bpf_ktime_get_ns(), *slot;
	__u32 key;

	if ((__u32)args->map_id != xsk_map)
		return 0;
	key = __sync_fetch_and_add(&head, 1) & (REDIRECTS - 1);
	slot = bpf_map_lookup_elem(&redirects, &key);
	if (slot)
		*slot = now;
	counts.redirects++;
	return 0;
}

/* Time of the redirect of the next frame; @frames of them are received now. */
static __u64 take_redirects(__u32 frames)
{
	__u64 waiting = head - tail, *slot;
	__u32 key = tail & (REDIRECTS - 1);

	if (waiting < frames || waiting > REDIRECTS) {
		tail = head;
		counts.unmatched++;
		return 0;
	}
	tail += frames;
	slot = bpf_map_lookup_elem(&redirects, &key);
	return slot ? *slot : 0;
}

SEC("usdt")
int ovsprobe_rx_batch(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 frames = mine() ? frames_of(ctx) : 0;

	if (!frames)
		return 0;
	if (batch.received)
		counts.unsent++;
	counts.batches++;
	batch.begun = xsk_map ? take_redirects(frames) : 0;
	batch.received = now;
	batch.frames = frames;
	batch.queued = 0;
	return 0;
}

SEC("usdt")
int ovsprobe_tx_batch(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();

	if (!mine() || !batch.received)
		return 0;
	batch.queued = now;
	batch.sent = frames_of(ctx);
	return 0;
}

SEC("usdt")
int ovsprobe_tx_kick_end(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct batch_record *record;

	(void)ctx;
	if (!mine() || !batch.queued)
		return 0;
	if (!oldest_kick)
		oldest_kick = now;
	if (every <= 1 || counts.batches % every == 0) {
		record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
		if (record) {
			*record = batch;
			record->kicked = now;
			record->reaped = reaped;
			bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
		} else {
			counts.full++;
		}
	}
	reaped = 0;
	batch.received = 0;
	batch.queued = 0;
	return 0;
}

SEC("usdt")
int ovsprobe_tx_complete(struct pt_regs *ctx)
{
	(void)ctx;
	if (!mine() || !oldest_kick)
		return 0;
	reaped = bpf_ktime_get_ns() - oldest_kick;
	oldest_kick = 0;
	return 0;
}
