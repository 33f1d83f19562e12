// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <linux/if_ether.h>
#include "account.h"
#include "trailer.h"

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

static void account_order(const struct account *a, struct account_stream *in,
			  __u64 seq)
{
	__u32 flow;

	if (in->choice.kind == CHOICE_NEW)
		return;
	flow = choice_flow(&in->choice, a->choices, seq);
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
	__u64 seq;

	if (len < ETH_ZLEN - VLAN_BYTES)
		goto other;
	trailer = data + len - TRAILER_BYTES;
	if (!arrival_is_ours(trailer, a->epoch, a->since_ns) ||
	    trailer[TRAILER_OFF_ID] >= GEN_STREAMS)
		goto other;
	in = a->by_id[trailer[TRAILER_OFF_ID]];
	if (!in || !is_length(in->stream, len))
		goto other;
	got.id = trailer[TRAILER_OFF_ID];
	got.seq = to_be(32, trailer_at(const __u32, trailer, TRAILER_OFF_SEQ));
	got.sent_ns =
		to_be(64, trailer_at(const __u64, trailer, TRAILER_OFF_NS));
	if (trailer[TRAILER_OFF_EP] == a->epoch) {
		in->arrived.warmup++;
		got.kind = ARRIVAL_WARMUP;
		return got;
	}
	got.kind = ARRIVAL_AGAIN;
	seq = whole_seq(in->arrived.next, got.seq);
	if (!is_new(in, seq))
		return got;
	got.kind = ARRIVAL_COUNTED;
	in->arrived.received++;
	account_order(a, in, seq);
	arrival_gap(&in->arrived, seq, got.sent_ns, 0);
	if (in->stream->kind == STREAM_LATENCY)
		distribution_add(&in->latency, now - got.sent_ns);
	return got;
other:
	a->other++;
	return got;
}
