// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/if_ether.h>
#include "account.h"
#include "trailer.h"
#include "util.h"

#define VLAN_BYTES 4

int account_open(struct account *a, const struct stream *streams, int count,
		 __u8 epoch, __u64 since_ns)
{
	int i;

	*a = (struct account){ .epoch = epoch, .since_ns = since_ns };
	for (i = 0; i < count; i++) {
		struct account_stream *in = calloc(1, sizeof(*in));

		if (!in)
			return -ENOMEM;
		in->stream = &streams[i];
		in->choice = stream_choice(streams, i);
		in->intact = stream_intact(&streams[i]);
		a->by_id[streams[i].id] = in;
		in->next_of_flow = calloc(stream_known_flows(&streams[i]),
					  sizeof(*in->next_of_flow));
		if (!in->next_of_flow)
			return -ENOMEM;
	}
	return 0;
}

void account_close(struct account *a)
{
	int i;

	for (i = 0; i < GEN_STREAMS; i++) {
		if (a->by_id[i])
			free(a->by_id[i]->next_of_flow);
		free(a->by_id[i]);
	}
	*a = (struct account){};
}

/* Is it the first of its sequence? */
static bool is_new(struct account_stream *in, __u64 seq)
{
	struct arrivals *a = &in->arrived;

	switch (window_mark(&in->window[window_index(seq)], seq, a, 0, 0)) {
	case MARK_FIRST:
		return true;
	case MARK_AGAIN:
		a->duplicated++;
		return false;
	default:
		a->beyond_window++;
		return false;
	}
}

static __u32 flow_of(const struct account *a, const struct account_stream *in,
		     __u64 seq)
{
	if (in->choice.kind == CHOICE_NEW)
		return 0;
	return choice_flow(&in->choice, a->choices, seq);
}

static bool is_zero(const __u8 *data, __u32 bytes)
{
	return !bytes || (!data[0] && !memcmp(data, data + 1, bytes - 1));
}

static bool is_damaged(const struct account_stream *in, const __u8 *trailer,
		       __u32 flow)
{
	const struct intact *s = &in->intact;

	if (in->stream->kind != STREAM_LATENCY)
		return false;
	return !trailer_is_intact(s, trailer, flow) ||
	       !is_zero(trailer - s->padding, s->padding);
}

static void account_order(struct account_stream *in, __u64 seq, __u32 flow)
{
	if (in->choice.kind == CHOICE_NEW)
		return;
	in->arrived.out_of_order +=
		arrival_reordered(&in->next_of_flow[flow], seq, 0);
}

static bool is_length(const struct stream *s, __u32 len)
{
	return arrival_is_length(len, stream_kernel_bytes(s),
				 s->vlan ? VLAN_BYTES : 0, s->added_bytes);
}

struct arrival account_frame(struct account *a, const __u8 *data, __u32 len,
			     __u64 now)
{
	struct arrival got = { .kind = ARRIVAL_OTHER };
	struct account_stream *in;
	const __u8 *trailer;
	__u64 seq, age;
	__u32 flow;
	bool warmup;

	if (len < ETH_ZLEN - VLAN_BYTES)
		goto other;
	trailer = data + len - TRAILER_BYTES;
	if (!arrival_is_ours(trailer, a->epoch) ||
	    trailer[TRAILER_OFF_ID] >= GEN_STREAMS)
		goto earlier;
	in = a->by_id[trailer[TRAILER_OFF_ID]];
	if (!in || !is_length(in->stream, len))
		goto other;
	got.id = trailer[TRAILER_OFF_ID];
	got.seq = seq = whole_seq(
		in->arrived.next,
		to_be(32, trailer_at(const __u32, trailer, TRAILER_OFF_SEQ)));
	got.sent_ns =
		to_be(64, trailer_at(const __u64, trailer, TRAILER_OFF_NS));
	flow = flow_of(a, in, seq);
	warmup = trailer[TRAILER_OFF_EP] == a->epoch;
	if (!warmup && is_damaged(in, trailer, flow)) {
		in->arrived.damaged++;
		got.kind = ARRIVAL_DAMAGED;
		return got;
	}
	if (got.sent_ns < a->since_ns)
		goto earlier;
	if (warmup) {
		in->arrived.warmup++;
		got.kind = ARRIVAL_WARMUP;
		return got;
	}
	got.kind = ARRIVAL_AGAIN;
	if (!is_new(in, seq))
		return got;
	got.kind = ARRIVAL_COUNTED;
	in->arrived.received++;
	account_order(in, seq, flow);
	arrival_gap(&in->arrived, seq, got.sent_ns, 0);
	/* another CPU's clock, or a stamp that was changed, may be ahead */
	got.latency_ns = now > got.sent_ns ? now - got.sent_ns : 0;
	if (in->stream->kind == STREAM_LATENCY)
		distribution_add(&in->latency, got.latency_ns);
	return got;
earlier:
	age = arrival_age(trailer, a->since_ns);
	a->earlier += age > 0;
	a->earlier_ns = max(a->earlier_ns, age);
other:
	a->other++;
	return got;
}
