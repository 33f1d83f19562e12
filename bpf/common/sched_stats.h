/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the scheduler says of a thread of this process. */
#ifndef XDPLAB_SCHED_STATS_H
#define XDPLAB_SCHED_STATS_H

#include <sys/types.h>
#include <linux/types.h>

struct sched_stats {
	__u64 ran_ns;
	__u64 run_delay_ns;
	__u64 nonvoluntary_switches;
};

/* What cannot be read stays as it is. */
void sched_stats_read(pid_t tid, struct sched_stats *stats);

/*
 * How long it waited for a CPU meanwhile.  The kernel adds up differences
 * between clocks of two CPUs, which may lower the sum where these disagree.
 */
static inline __u64 sched_stats_waited_ns(const struct sched_stats *before,
					  const struct sched_stats *after)
{
	if (after->run_delay_ns < before->run_delay_ns)
		return 0;
	return after->run_delay_ns - before->run_delay_ns;
}

#endif
