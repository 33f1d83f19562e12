/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What has become of the frames of streams: the same counters under the same
 * rules as xdpgen's receiver (xdpgen/receiver.bpf.c), in user space.
 */
#ifndef XSK_ACCOUNT_H
#define XSK_ACCOUNT_H

#include <stdbool.h>
#include "arrivals.h"
#include "distribution.h"
#include "intact.h"
#include "stream_flows.h"

struct account_stream {
	const struct stream *stream;
	struct choice choice;
	struct intact intact;
	struct arrivals arrived;
	__u64 *next_of_flow;
	struct distribution latency;
	__u64 window[WINDOW_WORDS];
};

struct account {
	__u8 epoch;	/* of the warm-up; the trial's is + 1 */
	__u64 since_ns; /* what was sent earlier is of another run */
	struct account_stream *by_id[GEN_STREAMS];
	const struct choice_column *choices; /* of all streams, or NULL */
	__u64 other;	  /* frames that are not of these streams */
	__u64 earlier;	  /* those of them that were sent before this run */
	__u64 earlier_ns; /* the oldest of these: how long before */
};

/* What a frame was. */
enum arrival_kind {
	ARRIVAL_OTHER,
	ARRIVAL_WARMUP,
	ARRIVAL_COUNTED,
	ARRIVAL_AGAIN,
	ARRIVAL_DAMAGED
};

struct arrival {
	enum arrival_kind kind;
	__u8 id;
	__u64 seq;
	__u64 sent_ns;
	__u64 latency_ns; /* of ARRIVAL_COUNTED */
};

/* Returns 0 or -ENOMEM. */
int account_open(struct account *a, const struct stream *streams, int count,
		 __u8 epoch, __u64 since_ns);
void account_close(struct account *a);

/* Account a frame of @len bytes that the application saw at @now. */
struct arrival account_frame(struct account *a, const __u8 *data, __u32 len,
			     __u64 now);

#endif
