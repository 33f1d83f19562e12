// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The receiver of one port, as an XDP program or at tc ingress.  It runs on
 * the core of the switch under test: everything here is paid by that switch.
 *
 * Exact on several CPUs without locks: counters are per CPU (where frames of
 * one CPU may still meet, rx_preempted, they are added to atomically), the
 * histogram is added to atomically, and the duplicate window is an array of
 * words
 *
 *	bits 63..32  lap (sequence >> 18) + 1, 0 = never used
 *	bits 31..0   which of 32 consecutive sequences have arrived
 *
 * replaced by compare-and-swap, so nothing is ever cleared.  Three locked
 * instructions are a quarter of the program's time: with one receive queue
 * (rx_serial) they become plain ones.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "hdr_index.h"
#include "receiver_shared.h"
#include "trailer.h"

#define RX_TRIES   64
#define VLAN_BYTES 4

#define LAP_BITS (32 - RX_WINDOW_BITS)
#define LAP_MASK ((1U << LAP_BITS) - 1)
#define LAP_USED (1U << LAP_BITS)

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u8 rx_reflect;	  /* enum rx_reflect */
const volatile __u8 rx_serial;	  /* frames arrive on one CPU at a time */
const volatile __u8 rx_preempted; /* one frame by another of the same CPU */
const volatile __u8 rx_by_flow;	  /* count each flow by itself, too */

const volatile __u8 rx_draws; /* flows of a stream do not take turns */

const volatile __u8 rx_slices; /* a histogram for each slice of time, too */

struct rx_trial trial;
struct rx_gaps gaps[GEN_STREAMS];

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, GEN_STREAMS);
	__type(key, __u32);
	__type(value, struct rx_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rx_port_counters);
} port_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RX_WINDOW_WORDS); /* times slots */
	__type(key, __u32);
	__type(value, __u64);
} window SEC(".maps");

/* Per flow of each slot: the sequence after the highest that arrived. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* flows of all slots */
	__type(key, __u32);
	__type(value, __u32);
} next_expected SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* flows of all slots, if rx_by_flow */
	__type(key, __u32);
	__type(value, struct rx_flow);
} by_flow SEC(".maps");

/* Of streams whose flows are drawn by Zipf's law. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);
	__type(value, struct choice_column);
} choices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, HDR_COUNTS); /* times latency streams */
	__type(key, __u32);
	__type(value, __u64);
} latency SEC(".maps");

/* Of all latency streams together. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* COARSE_BUCKETS of SLICES_MAX, if rx_slices */
	__type(key, __u32);
	__type(value, __u64);
} slices SEC(".maps");

/* REFLECT_REDIRECT: the port itself. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} self SEC(".maps");

/* @locked: others may write it at the same time. */
static __always_inline void add(__u64 *counter, __u64 value, int locked)
{
	if (locked)
		__sync_fetch_and_add(counter, value);
	else
		*counter += value;
}

static __always_inline void keep_highest(__u64 *highest, __u64 value,
					 int locked)
{
	__u32 tries;
	__u64 old;

	for (tries = 0; tries < RX_TRIES; tries++) {
		old = *(volatile __u64 *)highest;
		if (value <= old)
			return;
		if (!locked) {
			*highest = value;
			return;
		}
		if (__sync_val_compare_and_swap(highest, old, value) == old)
			return;
	}
}

/* One more, in a counter of this CPU. */
static __always_inline void count(__u64 *counter)
{
	add(counter, 1, rx_preempted);
}

enum arrival { FIRST, AGAIN, BEYOND_WINDOW, RACE };

/* Has this sequence been here before? */
static __always_inline enum arrival window_mark(__u32 slot, __u32 seq)
{
	__u32 key =
		slot * RX_WINDOW_WORDS + ((seq >> 5) & (RX_WINDOW_WORDS - 1));
	__u32 lap = (seq >> RX_WINDOW_BITS) | LAP_USED, tries, ahead;
	__u64 *word, old, new;

	word = bpf_map_lookup_elem(&window, &key);
	if (!word)
		return RACE;
	for (tries = 0; tries < RX_TRIES; tries++) {
		old = *(volatile __u64 *)word;
		new = (__u64)lap << 32 | 1U << (seq & 31);
		if (old >> 32 == lap) {
			if (old & (1U << (seq & 31)))
				return AGAIN;
			new |= old;
		} else if (old) {
			/* laps count modulo 2^LAP_BITS */
			ahead = (lap - (__u32)(old >> 32)) & LAP_MASK;
			if (ahead > LAP_MASK / 2)
				return BEYOND_WINDOW;
		}
		if (rx_serial) {
			*word = new;
			return FIRST;
		}
		if (__sync_val_compare_and_swap(word, old, new) == old)
			return FIRST;
	}
	return RACE;
}

static __always_inline __u32 drawn_flow(const struct choice *c, __u32 seq)
{
	__u64 draw = choice_draw(c->seed, seq);
	__u32 i = choice_uniform(draw, c->flows), key = c->first + i;
	const struct choice_column *column;

	if (c->kind == CHOICE_UNIFORM)
		return i;
	column = bpf_map_lookup_elem(&choices, &key);
	return column ? choice_resolve(column, i, draw) : 0;
}

/*
 * The sequence tells the flow, whatever the switch has done to addresses and
 * ports.  Its number in the maps of flows.
 */
static __always_inline __u32 flow_of(const struct rx_stream *s, __u32 seq)
{
	__u32 flow = s->first_flow;

	if (rx_draws && s->choice.kind != CHOICE_TURNS)
		flow += drawn_flow(&s->choice, seq);
	else if (s->choice.flows > 1)
		flow += whole_seq(gaps[s->slot & (GEN_STREAMS - 1)].next, seq) %
			s->choice.flows;
	return flow;
}

/*
 * RFC 4737: a frame is reordered if a later one of its flow has been here
 * before it.
 */
static __always_inline int is_reordered(__u32 flow, __u32 seq)
{
	__u32 *next, old, tries;

	next = bpf_map_lookup_elem(&next_expected, &flow);
	if (!next)
		return 0;
	for (tries = 0; tries < RX_TRIES; tries++) {
		old = *(volatile __u32 *)next;
		if ((__s32)(seq - old) < 0)
			return 1;
		if (rx_serial) {
			*next = seq + 1;
			return 0;
		}
		if (__sync_val_compare_and_swap(next, old, seq + 1) == old)
			return 0;
	}
	return 0;
}

/* RFC 2544 26.5 and 26.6 want to know since when none of the stream was missing. */
static __always_inline void account_gap(__u32 slot, __u32 seq, __u64 sent)
{
	struct rx_gaps *g = &gaps[slot & (GEN_STREAMS - 1)];
	__u64 since = sent - g->previous_ns, whole = whole_seq(g->next, seq);

	if ((__s64)(whole - g->next) < 0)
		return;
	if (whole != g->next) {
		g->last_lost = whole - 1;
		g->any = 1;
	}
	g->next = whole + 1;
	if (g->previous_ns && since > g->longest_ns)
		g->longest_ns = since;
	g->previous_ns = sent;
}

/*
 * By departure: what the sender counted in a slice arrives in it, or is lost.
 * Apart from the code that a frame passes before its arrival is stamped.
 */
static __noinline void account_slice(__u32 bucket, __u64 sent)
{
	__u32 key = slice_of(&trial.grid, sent) * COARSE_BUCKETS + bucket;
	__u64 *slot = bpf_map_lookup_elem(&slices, &key);

	if (slot)
		add(slot, 1, !rx_serial);
}

static __always_inline void account_latency(struct rx_counters *c,
					    const struct rx_stream *s,
					    __u64 sent, __u64 ns)
{
	__u32 index = hdr_index(ns), key = s->histogram * HDR_COUNTS + index;
	__u64 *slot = bpf_map_lookup_elem(&latency, &key);

	if (slot)
		add(slot, 1, !rx_serial);
	if (rx_slices && s->sliced)
		account_slice(coarse_index(index), sent);
	add(&c->sum_ns, ns, rx_preempted);
	keep_highest(&c->max_ns, ns, rx_preempted);
	keep_highest(&c->min_inv, ~ns, rx_preempted);
}

static __always_inline void account_flow(__u32 number, int timed, __u64 ns)
{
	struct rx_flow *flow = bpf_map_lookup_elem(&by_flow, &number);

	if (!flow)
		return;
	add(&flow->received, 1, !rx_serial);
	if (!timed)
		return;
	add(&flow->sum_ns, ns, !rx_serial);
	keep_highest(&flow->max_ns, ns, !rx_serial);
	keep_highest(&flow->min_inv, ~ns, !rx_serial);
}

static __always_inline void account(const __u8 *trailer,
				    const struct rx_stream *s)
{
	__u32 slot = s->slot, histogram = s->histogram;
	/* Load frames do not pay for the clock: a throughput stays the same
	 * whether probes run beside it or not.
	 */
	__u64 now = histogram == RX_NO_LATENCY ? 0 : bpf_ktime_get_ns();
	__u32 seq =
		to_be(32, trailer_at(const __u32, trailer, TRAILER_OFF_SEQ));
	__u64 sent =
		to_be(64, trailer_at(const __u64, trailer, TRAILER_OFF_NS));
	struct rx_counters *c = bpf_map_lookup_elem(&counters, &slot);
	__u32 flow;
	__u64 ns;

	if (!c)
		return;
	if (trailer[TRAILER_OFF_EP] == trial.epoch) {
		count(&c->warmup);
		return;
	}
	switch (window_mark(slot, seq)) {
	case FIRST:
		break;
	case AGAIN:
		count(&c->duplicated);
		return;
	case BEYOND_WINDOW:
		count(&c->beyond_window);
		return;
	default:
		count(&c->races);
		return;
	}
	count(&c->received);
	flow = flow_of(s, seq);
	if (!s->unordered && is_reordered(flow, seq))
		count(&c->out_of_order);
	account_gap(slot, seq, sent);
	ns = now > sent ? now - sent : 0;
	if (histogram != RX_NO_LATENCY)
		account_latency(c, s, sent, ns);
	if (rx_by_flow)
		account_flow(flow, histogram != RX_NO_LATENCY, ns);
}

/* Is it a frame of this run? */
static __always_inline int is_ours(const __u8 *trailer)
{
	__u8 epoch = trailer[TRAILER_OFF_EP] - trial.epoch;

	return trailer_at(const __u16, trailer, 0) ==
		       (__u16)to_be(16, TRAILER_MAGIC) &&
	       trailer[TRAILER_OFF_ID] < GEN_STREAMS && epoch <= 1 &&
	       to_be(64, trailer_at(const __u64, trailer, TRAILER_OFF_NS)) >=
		       trial.since_ns;
}

/*
 * The frame's length tells it from a lookalike.  A tag may have been moved
 * out of the data: by the stack before tc ingress, or by VLAN offload of a
 * forwarder that sends through the stack.  What the switch put in front of the
 * frame is part of it, the trailer stays at its end.
 */
static __always_inline int is_length(const struct rx_stream *s, __u32 len)
{
	return len == s->len || len + s->tag_bytes == s->len ||
	       len == s->len + s->added_bytes;
}

static __always_inline void count_port(int reflected)
{
	struct rx_port_counters *p;
	__u32 key = 0;

	p = bpf_map_lookup_elem(&port_counters, &key);
	if (!p)
		return;
	if (reflected)
		count(&p->reflected);
	else
		count(&p->other);
}

static __always_inline void swap_macs(__u8 *eth)
{
	__u32 low = trailer_at(__u32, eth, 0);
	__u16 high = trailer_at(__u16, eth, 4);

	trailer_at(__u32, eth, 0) = trailer_at(__u32, eth, ETH_ALEN);
	trailer_at(__u16, eth, 4) = trailer_at(__u16, eth, ETH_ALEN + 4);
	trailer_at(__u32, eth, ETH_ALEN) = low;
	trailer_at(__u16, eth, ETH_ALEN + 4) = high;
}

SEC("xdp")
int receive_xdp(struct xdp_md *ctx)
{
	__u8 *data = (__u8 *)(long)ctx->data;
	__u8 *end = (__u8 *)(long)ctx->data_end;
	__u32 len = end - data;
	__u8 *trailer = data + ((len - TRAILER_BYTES) & GEN_MAX_FRAME);
	const struct rx_stream *s;

	if (data + ETH_ZLEN > end || trailer + TRAILER_BYTES > end ||
	    !is_ours(trailer))
		goto other;
	s = &trial.streams[trailer[TRAILER_OFF_ID] & (GEN_STREAMS - 1)];
	if (s->slot != RX_NO_SLOT && is_length(s, len)) {
		account(trailer, s);
		return XDP_DROP;
	}
	if (rx_reflect != REFLECT_OFF && s->slot == RX_NO_SLOT) {
		swap_macs(data);
		if (trailer[TRAILER_OFF_EP] != trial.epoch)
			count_port(1);
		return rx_reflect == REFLECT_TX ? XDP_TX :
						  bpf_redirect_map(&self, 0, 0);
	}
other:
	count_port(0);
	return XDP_PASS;
}

SEC("tc")
int receive_tc(struct __sk_buff *skb)
{
	__u8 trailer[TRAILER_BYTES + 6] __attribute__((aligned(8)));
	const struct rx_stream *s;

	if (skb->len < ETH_ZLEN - VLAN_BYTES ||
	    bpf_skb_load_bytes(skb, skb->len - TRAILER_BYTES, trailer,
			       TRAILER_BYTES) ||
	    !is_ours(trailer))
		goto other;
	s = &trial.streams[trailer[TRAILER_OFF_ID] & (GEN_STREAMS - 1)];
	if (s->slot == RX_NO_SLOT || !is_length(s, skb->len))
		goto other;
	account(trailer, s);
	return TC_ACT_SHOT;
other:
	count_port(0);
	return TC_ACT_OK;
}
