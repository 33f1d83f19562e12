// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Frames of one stream through the account of xsk: of the sequences FIRST[-LAST]. */
#include <stdio.h>
#include <stdlib.h>
#include "account.h"
#include "trailer.h"

#define BYTES 60

int main(int argc, char **argv)
{
	static const struct stream stream = { .kind = STREAM_LOAD,
					      .frame_bytes = BYTES + 4,
					      .flows = 1 };
	__u8 frame[BYTES] = {}, *trailer = frame + BYTES - TRAILER_BYTES;
	const struct account_stream *in;
	const struct arrivals *a;
	bool any;
	__u64 lost;
	struct account account;
	char *rest;
	int i;

	if (account_open(&account, &stream, 1, 0, 0))
		return 2;
	trailer_at(__u16, trailer, 0) = to_be(16, TRAILER_MAGIC);
	trailer[TRAILER_OFF_EP] = 1;
	for (i = 1; i < argc; i++) {
		__u64 seq = strtoull(argv[i], &rest, 0), last = seq;

		if (*rest)
			last = strtoull(rest + 1, NULL, 0);
		for (; seq <= last; seq++) {
			trailer_at(__u32, trailer, TRAILER_OFF_SEQ) =
				to_be(32, (__u32)seq);
			account_frame(&account, frame, BYTES, i);
		}
	}
	in = account.by_id[0];
	a = &in->arrived;
	any = arrivals_last_missing(a, in->window, &lost);
	printf("{\"received\": %llu, \"duplicated\": %llu, \"out_of_order\": %llu, \"late_beyond_window\": %llu, \"last_lost\": %lld, \"next\": %llu}\n",
	       a->received, a->duplicated, a->out_of_order, a->beyond_window,
	       any ? (long long)lost : -1, a->next);
	return 0;
}
