// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The receiver of one port, as an XDP program or at tc ingress.  It runs on
 * the core of the switch under test: everything here is paid by that switch.
 *
 * Exact on several CPUs without locks: counters are per CPU (where frames of
 * one CPU may still meet, rx_preempted, they are added to atomically), the
 * histogram is added to atomically, and words of the window of sequences
 * (arrivals.h) are replaced by compare-and-swap.  Three locked instructions are
 * a quarter of the program's time: with one receive queue (rx_serial) they
 * become plain ones.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include "hdr_index.h"
#include "receiver_shared.h"
#include "trailer.h"

#define VLAN_BYTES   4
#define ZEROES_LINES ((GEN_MAX_FRAME + 1) / 32)
#define TRAILER_COPY (TRAILER_BYTES + 6) /* eight more are read at its end */
#define PIECE_BYTES  128		 /* of the stack, which has 512 */

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u8 rx_reflect;	  /* enum rx_reflect */
const volatile __u8 rx_serial;	  /* frames arrive on one CPU at a time */
const volatile __u8 rx_preempted; /* one frame by another of the same CPU */
const volatile __u8 rx_by_flow;	  /* count each flow by itself, too */

const volatile __u8 rx_draws;	    /* flows of a stream do not take turns */
const volatile __u16 rx_trailer_at; /* of answers; 0: at the end */

struct rx_trial trial;
struct rx_near near[GEN_STREAMS];

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
	__uint(max_entries, WINDOW_WORDS); /* times slots */
	__type(key, __u32);
	__type(value, __u64);
} window SEC(".maps");

/* Per flow of each slot: the sequence after the highest that arrived. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* flows of all slots */
	__type(key, __u32);
	__type(value, __u64);
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

/* REFLECT_REDIRECT: the port itself. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} self SEC(".maps");

/* One more, in a counter of this CPU. */
static __always_inline void count(__u64 *counter)
{
	arrival_add(counter, 1, rx_preempted);
}

/* All 64 bits of a sequence of the stream of @slot. */
static __always_inline __u64 whole_of(__u32 slot, __u32 seq)
{
	return whole_seq(near[slot & (GEN_STREAMS - 1)].seq, seq);
}

static __always_inline void come_near(__u32 slot, __u64 seq)
{
	struct rx_near *n = &near[slot & (GEN_STREAMS - 1)];

	if ((__s64)(seq - n->seq) >= RX_NEAR_FRAMES)
		n->seq = seq;
}

/* Has this sequence been here before? */
static __always_inline enum arrival_mark mark(struct rx_counters *c, __u32 slot,
					      __u64 seq)
{
	__u32 key = slot * WINDOW_WORDS + window_index(seq);
	__u64 *word = bpf_map_lookup_elem(&window, &key);

	if (!word)
		return MARK_RACE;
	return window_mark(word, seq, &c->arrived, !rx_serial, rx_preempted);
}

static __always_inline __u32 drawn_flow(const struct choice *c, __u64 seq)
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
 * ports.  Its number in the stream.
 */
static __always_inline __u32 flow_of(const struct rx_stream *s, __u64 seq)
{
	if (rx_draws && s->choice.kind != CHOICE_TURNS)
		return drawn_flow(&s->choice, seq);
	return s->choice.flows > 1 ? seq % s->choice.flows : 0;
}

static __always_inline int is_reordered(__u32 flow, __u64 seq)
{
	__u64 *next = bpf_map_lookup_elem(&next_expected, &flow);

	return next && arrival_reordered(next, seq, !rx_serial);
}

static __always_inline void account_latency(struct rx_counters *c,
					    const struct rx_stream *s, __u64 ns)
{
	__u32 key = s->histogram * HDR_COUNTS + hdr_index(ns);
	__u64 *slot = bpf_map_lookup_elem(&latency, &key);

	if (slot)
		arrival_add(slot, 1, !rx_serial);
	arrival_add(&c->sum_ns, ns, rx_preempted);
	arrival_raise(&c->max_ns, ns, rx_preempted);
	arrival_raise(&c->min_inv, ~ns, rx_preempted);
}

static __always_inline void account_flow(__u32 number, int timed, __u64 ns)
{
	struct rx_flow *flow = bpf_map_lookup_elem(&by_flow, &number);

	if (!flow)
		return;
	arrival_add(&flow->received, 1, !rx_serial);
	if (!timed)
		return;
	arrival_add(&flow->sum_ns, ns, !rx_serial);
	arrival_raise(&flow->max_ns, ns, !rx_serial);
	arrival_raise(&flow->min_inv, ~ns, !rx_serial);
}

/* Of a known stream; false: it is no frame of this run. */
static __always_inline bool
account(const __u8 *trailer, const struct rx_stream *s, __u64 now, bool zeroes)
{
	__u32 slot = s->slot;
	bool probe = s->histogram != RX_NO_LATENCY;
	bool warmup = trailer[TRAILER_OFF_EP] == trial.epoch;
	__u64 sent =
		to_be(64, trailer_at(const __u64, trailer, TRAILER_OFF_NS));
	struct rx_counters *c = bpf_map_lookup_elem(&counters, &slot);
	__u64 seq, ns;
	__u32 flow;

	if (!c)
		return true;
	seq = whole_of(slot, to_be(32, trailer_at(const __u32, trailer,
						  TRAILER_OFF_SEQ)));
	flow = flow_of(s, seq);
	if (probe && !warmup &&
	    !(zeroes && trailer_is_intact(&s->intact, trailer, flow))) {
		count(&c->arrived.damaged);
		return true;
	}
	if (sent < trial.since_ns)
		return false;
	if (warmup) {
		count(&c->arrived.warmup);
		return true;
	}
	come_near(slot, seq);
	switch (mark(c, slot, seq)) {
	case MARK_FIRST:
		break;
	case MARK_AGAIN:
		count(&c->arrived.duplicated);
		return true;
	case MARK_BEYOND_WINDOW:
		count(&c->arrived.beyond_window);
		return true;
	default:
		count(&c->races);
		return true;
	}
	count(&c->arrived.received);
	flow += s->first_flow;
	if (!s->unordered && is_reordered(flow, seq))
		count(&c->arrived.out_of_order);
	arrival_gap(&c->arrived, seq, sent, rx_preempted);
	ns = now > sent ? now - sent : 0;
	if (probe)
		account_latency(c, s, ns);
	if (rx_by_flow)
		account_flow(flow, probe, ns);
	return true;
}

static __always_inline int is_ours(const __u8 *trailer)
{
	return arrival_is_ours(trailer, trial.epoch) &&
	       trailer[TRAILER_OFF_ID] < GEN_STREAMS;
}

static __always_inline int is_length(const struct rx_stream *s, __u32 len)
{
	return rx_trailer_at ||
	       arrival_is_length(len, s->len, s->tag_bytes, s->added_bytes);
}

/* Where the trailer of a frame of @len bytes begins. */
static __always_inline __u32 trailer_offset(__u32 len)
{
	return rx_trailer_at ? rx_trailer_at : len - TRAILER_BYTES;
}

/* Load frames do not pay for the clock, nor for being looked at: a throughput
 * stays the same whether probes run beside it or not.
 */
static __always_inline __u64 arrival_time(const struct rx_stream *s)
{
	return s->histogram == RX_NO_LATENCY ? 0 : bpf_ktime_get_ns();
}

/* Are @bytes in front of the trailer zero?  Four words at a time, then one. */
static __always_inline int zeroes(__u8 *data, __u8 *end, __u32 bytes)
{
	__u32 at = end - data - TRAILER_BYTES, i;
	__u64 any = 0;
	__u8 *word;

	for (i = 0; i < ZEROES_LINES && bytes >= 32; i++) {
		at = (at - 32) & GEN_MAX_FRAME;
		word = data + at;
		if (word + 32 > end)
			return 0;
		any |= trailer_at(__u64, word, 0) | trailer_at(__u64, word, 8);
		any |= trailer_at(__u64, word, 16) |
		       trailer_at(__u64, word, 24);
		bytes -= 32;
	}
	for (i = 0; i < 4 && bytes; i++) {
		__u32 part = bytes < 8 ? bytes : 8;

		at = (at - 8) & GEN_MAX_FRAME;
		word = data + at;
		if (word + 8 > end)
			return 0;
		any |= last_bytes(trailer_at(__u64, word, 0), part);
		bytes -= part;
	}
	return !any;
}

/* Global, so that the verifier looks at them once. */
__noinline int zeroes_xdp(struct xdp_md *ctx, __u32 bytes)
{
	return zeroes((__u8 *)(long)ctx->data, (__u8 *)(long)ctx->data_end,
		      bytes);
}

__noinline int zeroes_tc(struct __sk_buff *skb, __u32 bytes)
{
	if (bpf_skb_pull_data(skb, skb->len))
		return 1; /* no memory to look at it: nobody's fault */
	return zeroes((__u8 *)(long)skb->data, (__u8 *)(long)skb->data_end,
		      bytes);
}

/* Of a frame of several buffers: copied, and from its end in pieces. */
__noinline int zeroes_frags(struct xdp_md *ctx, __u32 bytes)
{
	__u32 at = bpf_xdp_get_buff_len(ctx) - TRAILER_BYTES, i, j;
	__u64 any = 0, piece[PIECE_BYTES / 8];

	for (i = 0; i < (GEN_MAX_FRAME + 1) / PIECE_BYTES + 1 && bytes; i++) {
		__u32 part = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;

		if (part < PIECE_BYTES)
			__builtin_memset(piece, 0, sizeof(piece));
		at -= part;
		bytes -= part;
		if (!part || bpf_xdp_load_bytes(ctx, at, piece, part))
			return 0;
		for (j = 0; j < PIECE_BYTES / 8; j++)
			any |= piece[j];
	}
	return !any;
}

/* A frame that is not of this run may be of an earlier one. */
static __always_inline void count_earlier(const __u8 *trailer)
{
	__u64 age = arrival_age(trailer, trial.since_ns);
	struct rx_port_counters *p;
	__u32 key = 0;

	p = bpf_map_lookup_elem(&port_counters, &key);
	if (!p || !age)
		return;
	count(&p->earlier);
	arrival_raise(&p->earlier_ns, age, rx_preempted);
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

/* Send a frame of at least ETH_ZLEN bytes back. */
static __always_inline int reflect(__u8 *data, const __u8 *trailer)
{
	swap_macs(data);
	if (trailer[TRAILER_OFF_EP] != trial.epoch)
		count_port(1);
	return rx_reflect == REFLECT_TX ? XDP_TX :
					  bpf_redirect_map(&self, 0, 0);
}

SEC("xdp")
int receive_xdp(struct xdp_md *ctx)
{
	__u8 *data = (__u8 *)(long)ctx->data;
	__u8 *end = (__u8 *)(long)ctx->data_end;
	__u32 len = end - data;
	__u8 *trailer = data + (trailer_offset(len) & GEN_MAX_FRAME);
	const struct rx_stream *s;
	__u64 now;

	if (data + ETH_ZLEN > end || trailer + TRAILER_BYTES > end)
		goto other;
	if (!is_ours(trailer))
		goto earlier;
	s = &trial.streams[trailer[TRAILER_OFF_ID] & (GEN_STREAMS - 1)];
	if (s->slot != RX_NO_SLOT && is_length(s, len)) {
		now = arrival_time(s);
		if (account(trailer, s, now,
			    !now || zeroes_xdp(ctx, s->intact.padding)))
			return XDP_DROP;
		goto earlier;
	}
	if (rx_reflect != REFLECT_OFF && s->slot == RX_NO_SLOT)
		return reflect(data, trailer);
	goto other;
earlier:
	count_earlier(trailer);
other:
	count_port(0);
	return XDP_PASS;
}

/* The same of frames that may have several buffers, as an MTU beyond a page allows: their trailers are copied. */
SEC("xdp.frags")
int receive_xdp_frags(struct xdp_md *ctx)
{
	__u8 trailer[TRAILER_COPY] __attribute__((aligned(8)));
	__u8 *data = (__u8 *)(long)ctx->data;
	__u8 *end = (__u8 *)(long)ctx->data_end;
	__u32 len = bpf_xdp_get_buff_len(ctx);
	const struct rx_stream *s;
	__u64 now;

	if (data + ETH_ZLEN > end ||
	    bpf_xdp_load_bytes(ctx, trailer_offset(len), trailer,
			       TRAILER_BYTES))
		goto other;
	if (!is_ours(trailer))
		goto earlier;
	s = &trial.streams[trailer[TRAILER_OFF_ID] & (GEN_STREAMS - 1)];
	if (s->slot != RX_NO_SLOT && is_length(s, len)) {
		now = arrival_time(s);
		if (account(trailer, s, now,
			    !now || zeroes_frags(ctx, s->intact.padding)))
			return XDP_DROP;
		goto earlier;
	}
	if (rx_reflect != REFLECT_OFF && s->slot == RX_NO_SLOT)
		return reflect(data, trailer);
	goto other;
earlier:
	count_earlier(trailer);
other:
	count_port(0);
	return XDP_PASS;
}

SEC("tc")
int receive_tc(struct __sk_buff *skb)
{
	__u8 trailer[TRAILER_COPY] __attribute__((aligned(8)));
	const struct rx_stream *s;
	__u64 now;

	if (skb->len < ETH_ZLEN - VLAN_BYTES ||
	    bpf_skb_load_bytes(skb, trailer_offset(skb->len), trailer,
			       TRAILER_BYTES))
		goto other;
	if (!is_ours(trailer))
		goto earlier;
	s = &trial.streams[trailer[TRAILER_OFF_ID] & (GEN_STREAMS - 1)];
	if (s->slot == RX_NO_SLOT || !is_length(s, skb->len))
		goto other;
	now = arrival_time(s);
	if (account(trailer, s, now, !now || zeroes_tc(skb, s->intact.padding)))
		return TC_ACT_SHOT;
earlier:
	count_earlier(trailer);
other:
	count_port(0);
	return TC_ACT_OK;
}
