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
		struct arrivals *in = calloc(1, sizeof(*in));

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

/* Has this sequence been here before, or is that too long ago to tell? */
static bool is_new(struct arrivals *in, __u64 seq)
{
	__u64 *seen = &in->window[seq % ACCOUNT_WINDOW];

	if (*seen == seq + 1) {
		in->duplicated++;
		return false;
	}
	if (*seen && (__s64)(*seen - (seq + 1)) > 0) {
		in->beyond_window++;
		return false;
	}
	*seen = seq + 1;
	return true;
}

/* RFC 4737: a later one of its flow has been here before it. */
static void account_order(const struct account *a, struct arrivals *in,
			  __u64 seq)
{
	__u64 *next;

	if (in->choice.kind == CHOICE_NEW)
		return;
	next = &in->next_of_flow[choice_flow(&in->choice, a->choices, seq)];
	if ((__s64)(seq - *next) < 0)
		in->out_of_order++;
	else
		*next = seq + 1;
}

static void account_gap(struct arrivals *in, __u64 seq, __u64 sent_ns)
{
	__u64 since = sent_ns - in->previous_ns;

	if ((__s64)(seq - in->next) < 0)
		return;
	if (seq != in->next) {
		in->last_lost = seq - 1;
		in->any_lost = true;
	}
	in->next = seq + 1;
	if (in->previous_ns && since > in->longest_gap_ns)
		in->longest_gap_ns = since;
	in->previous_ns = sent_ns;
}

/* The length tells a frame from a lookalike; a forwarder may move a tag. */
static bool is_length(const struct stream *s, __u32 len)
{
	__u32 whole = stream_kernel_bytes(s);

	return len == whole || (s->vlan && len + VLAN_BYTES == whole);
}

struct arrival account_frame(struct account *a, const __u8 *data, __u32 len,
			     __u64 now)
{
	struct arrival got = { .kind = ARRIVAL_OTHER };
	struct arrivals *in;
	const __u8 *trailer;
	__u8 epoch;
	__u64 seq;

	if (len < ETH_ZLEN - VLAN_BYTES)
		goto other;
	trailer = data + len - TRAILER_BYTES;
	if (trailer_at(const __u16, trailer, 0) !=
		    (__u16)to_be(16, TRAILER_MAGIC) ||
	    trailer[TRAILER_OFF_ID] >= GEN_STREAMS)
		goto other;
	epoch = trailer[TRAILER_OFF_EP] - a->epoch;
	in = a->by_id[trailer[TRAILER_OFF_ID]];
	got.id = trailer[TRAILER_OFF_ID];
	got.seq = to_be(32, trailer_at(const __u32, trailer, TRAILER_OFF_SEQ));
	got.sent_ns =
		to_be(64, trailer_at(const __u64, trailer, TRAILER_OFF_NS));
	if (epoch > 1 || !in || !is_length(in->stream, len) ||
	    got.sent_ns < a->since_ns)
		goto other;
	if (!epoch) {
		in->warmup++;
		got.kind = ARRIVAL_WARMUP;
		return got;
	}
	got.kind = ARRIVAL_AGAIN;
	seq = whole_seq(in->next, got.seq);
	if (!is_new(in, seq))
		return got;
	got.kind = ARRIVAL_COUNTED;
	in->received++;
	account_order(a, in, seq);
	account_gap(in, seq, got.sent_ns);
	if (in->stream->kind == STREAM_LATENCY)
		distribution_add(&in->latency, now - got.sent_ns);
	return got;
other:
	a->other++;
	return got;
}
