// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A clock is AHEAD_NS ahead of that by which arrivals are taken: of the sender
 * (one frame through the account and into samples), and of the card (one frame
 * through the stages, which is with the application 1000 ns later).  The
 * kernel's sum of a thread's waits falls by AHEAD_NS, as it does where a CPU's
 * clock is that far behind the one by which the thread was queued.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "account.h"
#include "arrival.h"
#include "samples.h"
#include "sched_stats.h"
#include "stages.h"
#include "trailer.h"

#define BYTES  60
#define NOW_NS 1000000

static void through_the_account(long long ahead_ns)
{
	static const struct stream stream = { .kind = STREAM_LATENCY,
					      .frame_bytes = BYTES + 4,
					      .ip = 4,
					      .flow_choice = CHOICE_NEW,
					      .flows = 1 };
	__u8 frame[BYTES] = {}, *trailer = frame + BYTES - TRAILER_BYTES;
	struct sample room[1];
	struct samples samples = { .records = room, .room = 1 };
	const struct distribution *latency;
	struct account account;
	struct arrival got;

	if (account_open(&account, &stream, 1, 0, 1))
		exit(2);
	trailer_at(__u16, trailer, 0) = to_be(16, TRAILER_MAGIC);
	trailer[TRAILER_OFF_EP] = 1;
	trailer_at(__u64, trailer, TRAILER_OFF_NS) =
		to_be(64, (__u64)(NOW_NS + ahead_ns));
	got = account_frame(&account, frame, BYTES, NOW_NS);
	samples_add(&samples, got.id, got.seq, got.sent_ns, got.latency_ns);
	latency = &account.by_id[0]->latency;
	printf("{\"latency\": [%llu, %llu, %llu], \"sample\": %llu, ",
	       latency->count, latency->min_ns, latency->max_ns,
	       room[0].latency_ns);
	account_close(&account);
}

static void through_the_stages(long long ahead_ns)
{
	struct arrival_times at = { .magic = ARRIVAL_MAGIC,
				    .tai_ns = NOW_NS,
				    .hardware_ns = NOW_NS + ahead_ns,
				    .software_ns = NOW_NS };
	__u8 memory[sizeof(at) + BYTES] = {};
	struct frame frame = { .data = memory + sizeof(at), .len = BYTES };
	static struct stages stages;

	memcpy(memory, &at, sizeof(at));
	stages_add(&stages, &frame, NOW_NS + 1000);
	printf("\"driver\": %llu, \"stack\": %llu, \"complete\": %llu, \"reversed\": %llu, ",
	       stages.driver.max_ns, stages.stack.max_ns,
	       stages.complete.max_ns, stages.reversed);
}

static void through_the_scheduler(long long ahead_ns)
{
	struct sched_stats before = { .run_delay_ns = NOW_NS }, after = before;

	after.run_delay_ns -= ahead_ns;
	printf("\"waited\": %llu}\n", sched_stats_waited_ns(&before, &after));
}

int main(int argc, char **argv)
{
	long long ahead_ns = argc == 2 ? atoll(argv[1]) : 0;

	through_the_account(ahead_ns);
	through_the_stages(ahead_ns);
	through_the_scheduler(ahead_ns);
	return 0;
}
