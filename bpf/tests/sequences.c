// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Frames of one stream, with the sequences that are given, through the account of xsk. */
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
	const struct arrivals *in;
	struct account account;
	int i;

	if (account_open(&account, &stream, 1, 0, 0))
		return 2;
	trailer_at(__u16, trailer, 0) = to_be(16, TRAILER_MAGIC);
	trailer[TRAILER_OFF_EP] = 1;
	for (i = 1; i < argc; i++) {
		trailer_at(__u32, trailer, TRAILER_OFF_SEQ) =
			to_be(32, (__u32)strtoull(argv[i], NULL, 0));
		account_frame(&account, frame, BYTES, i);
	}
	in = account.by_id[0];
	printf("{\"received\": %llu, \"duplicated\": %llu, \"out_of_order\": %llu, \"late_beyond_window\": %llu, \"last_lost\": %llu, \"next\": %llu}\n",
	       in->received, in->duplicated, in->out_of_order,
	       in->beyond_window, in->last_lost, in->next);
	return 0;
}
