// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Frames by the sender in user space into the account of xsk, as if FIRST of
 * them had left and arrived before: KIND (as in enum choice_kind) FLOWS FIRST
 * COUNT.
 */
#include <stdio.h>
#include <stdlib.h>
#include "account.h"
#include "frames.h"
#include "user_sender.h"
#include "util.h"

int main(int argc, char **argv)
{
	static const struct gen_timing timing = { .duration_s = 1e6 };
	static struct stream wanted;
	static struct gen_thread thread;
	static struct gen_stream sender;
	static __u8 bytes[GEN_MAX_FRAME];
	struct frame frame = { .data = bytes };
	struct choice_column *choices;
	const struct arrivals *a;
	struct account account;
	__u64 first, count;
	int index = 0;

	if (argc != 5)
		return 2;
	wanted = (struct stream){ .kind = STREAM_LATENCY,
				  .pps = 1000,
				  .burst = 1,
				  .frame_bytes = 64,
				  .ip = 4,
				  .src_ip = "10.0.0.1",
				  .dst_ip = "10.0.0.2",
				  .udp_src = 10000,
				  .src_addresses = 1,
				  .dst_addresses = 10,
				  .src_step = 1,
				  .dst_step = 1,
				  .flow_choice = atoi(argv[1]),
				  .flows = atoi(argv[2]),
				  .zipf_exponent = 1,
				  .flow_seed = 1 };
	first = strtoull(argv[3], NULL, 0);
	count = strtoull(argv[4], NULL, 0);
	choices = streams_choices(&wanted, 1);
	if (!choices || account_open(&account, &wanted, 1, 0, 1))
		return 2;
	account.choices = choices;
	account.by_id[0]->arrived.next = first;
	gen_init(&thread, &sender, &wanted, &index, 1, &timing, 0);
	thread.stage = GEN_TRIAL;
	sender.seq = first;
	while (count--) {
		__u64 now = user_write(&sender, choices, &frame, 1, sender.seq,
				       0, 0);

		gen_advance(&thread, &sender, gen_gaps(), now);
		account_frame(&account, frame.data, frame.len, now);
	}
	a = &account.by_id[0]->arrived;
	printf("{\"received\": %llu, \"damaged\": %llu, \"duplicated\": %llu, \"out_of_order\": %llu, \"late_beyond_window\": %llu, \"next\": %llu}\n",
	       a->received, a->damaged, a->duplicated, a->out_of_order,
	       a->beyond_window, a->next);
	return 0;
}
