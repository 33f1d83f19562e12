/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Clocks beside the senders: ticks of CPUs, and what threads waited for. */
#ifndef XDPGEN_CLOCKS_H
#define XDPGEN_CLOCKS_H

#include "clocks_shared.h"
#include "config.h"
#include "sender.h"

struct clocks {
	struct clocks_bpf *skel; /* NULL: nothing is watched */
	int cpu[MAX_WATCHED + GEN_STREAMS];
	struct bpf_link *ticks[MAX_WATCHED + GEN_STREAMS];
	int tick_errors[MAX_WATCHED + GEN_STREAMS];
	int num_cpus;
	__u32 tid[CLOCK_THREADS]; /* senders first */
	int num_threads;
	int num_senders;
	bool foreign_ids; /* thread ids are of another namespace */
	int load_error;
	int switch_error;
	const struct clock_event *events;
	const struct clock_softirq *softirqs;
};

/*
 * Have the CPUs and threads of a configuration watched, and the senders', which
 * run already; what was attached for an earlier trial stays where it can.  What
 * cannot be watched is told by clocks_why_not_*(): no trial fails for it.
 */
void clocks_open(struct clocks *c, const struct config *cfg,
		 const struct sender *senders, int num_senders);
/* What happens from then until then is recorded. */
void clocks_begin(struct clocks *c, __u64 from_ns, __u64 until_ns);
/* Wait until each clock has told of what was before @until_ns, and read them. */
void clocks_end(struct clocks *c, __u64 until_ns);
void clocks_close(struct clocks *c);

/* Number of events, and whether there were more than are recorded. */
int clocks_events(const struct clocks *c, bool *more);
int clocks_softirqs(const struct clocks *c);

/* NULL, or why a clock tells nothing. */
const char *clocks_why_not_ticks(const struct clocks *c, int index);
const char *clocks_why_not_steal(const struct clocks *c, int index);
const char *clocks_why_not_waits(const struct clocks *c, bool of_senders);

#endif
