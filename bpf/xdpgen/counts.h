/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a run has come to so far, over all its threads and ports. */
#ifndef XDPGEN_COUNTS_H
#define XDPGEN_COUNTS_H

#include "run.h"

/* Frames received in the trial (duplicates included) on all ports. */
__u64 run_received(const struct run *run);
__u64 run_sent(const struct run *run);

/* When the trial ended: as configured, by interruption, or by counts. */
__u64 run_trial_end(const struct run *run);

/* Seconds of traffic without warm-up. */
static inline double run_elapsed(const struct run *run)
{
	return (run_trial_end(run) - run->trial_ns) / 1e9;
}

#endif
