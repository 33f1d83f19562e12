// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Departures of one stream on a clock of its own: PPS poisson|BURST SEED COUNT
 * [refused | stalled].  "refused": the kernel sends none of them; "stalled": for
 * twice as many intervals as are made good the clock is not looked at, once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "frames.h"

int main(int argc, char **argv)
{
	bool poisson = argc > 2 && !strcmp(argv[2], "poisson");
	struct gen_timing timing = { .duration_s = 1e9,
				     .max_burst = 32,
				     .stall_ns = 100000 };
	static struct stream wanted;
	static struct gen_thread thread;
	static struct gen_stream stream;
	bool refused = argc > 5 && !strcmp(argv[5], "refused");
	bool stalled = argc > 5 && !strcmp(argv[5], "stalled");
	__u64 now = 1000000, sent, count;
	int index = 0;

	if (argc < 5)
		return 2;
	count = strtoull(argv[4], NULL, 0);
	wanted = (struct stream){
		.kind = STREAM_LOAD,
		.pps = atof(argv[1]),
		.departures = poisson ? DEPARTURES_POISSON : DEPARTURES_PACED,
		.burst = poisson ? 1 : atoi(argv[2]),
		.count = count,
		.frame_bytes = 64,
		.ip = 4,
		.flows = 1,
		.flow_seed = atoi(argv[3]),
		.src_addresses = 1,
		.dst_addresses = 1,
	};
	gen_init(&thread, &stream, &wanted, &index, 1, &timing, 0);
	gen_schedule(&thread, &stream, &wanted, &index, &timing, now);
	/* the clock stands still while something is due */
	for (sent = 0; thread.stage != GEN_DONE;) {
		if (stalled && sent == count / 2) {
			now = stream.due_ns + 2 * stream.max_late_ns;
			stalled = false;
		}
		switch (gen_due(&thread, &stream, &stream, now)) {
		case GEN_SEND:
			printf("%llu\n", stream.due_ns);
			gen_advance(&thread, &stream, gen_gaps(), now);
			sent += thread.stage == GEN_TRIAL;
			if (refused)
				gen_refused(&stream);
			/* fall through */
		case GEN_CHANGE:
			gen_choose(&thread, &stream);
			break;
		case GEN_WAIT:
			now = thread.wake_ns;
		}
	}
	return 0;
}
