// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "counts.h"
#include "frames.h"
#include "util.h"

__u64 run_received(const struct run *run)
{
	struct rx_counters c;
	__u64 sum = 0;
	int i;

	for (i = 0; i < run->cfg.num_streams; i++) {
		const struct stream *s = &run->cfg.streams[i];

		if (!receiver_read(&run->receivers[s->rx_port], s->id, &c,
				   NULL))
			sum += c.arrived.received + c.arrived.duplicated;
	}
	return sum;
}

__u64 run_sent(const struct run *run)
{
	__u64 sum = 0;
	int i, j;

	for (i = 0; i < run->num_senders; i++)
		for (j = 0; j < run->senders[i].count; j++)
			sum += sender_sent(&run->senders[i], GEN_TRIAL, j);
	return sum;
}

/* When the last thread stopped looking at its schedule, or @start_ns. */
static __u64 last_poll(const struct run *run)
{
	__u64 last = run->trial_ns;
	int i;

	for (i = 0; i < run->num_senders; i++)
		last = max(last, run->senders[i].gen->last_poll_ns);
	return min(last, run->end_ns);
}

__u64 run_trial_end(const struct run *run)
{
	__u64 end = run->trial_ns;
	int i;

	if (run->interrupted)
		return last_poll(run);
	for (i = 0; i < run->num_senders; i++)
		end = max(end, gen_trial_end(run->senders[i].gen,
					     run->senders[i].streams));
	return end;
}
