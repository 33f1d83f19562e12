/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Clocks that tell when the machine took a CPU of the path away; clocks.bpf.c and user space. */
#ifndef XDPGEN_CLOCKS_SHARED_H
#define XDPGEN_CLOCKS_SHARED_H

#include <linux/types.h>
#include "gen.h"

/* Ticks of a CPU, 250 a second; at no multiple of intervals that frames have. */
#define CLOCK_PERIOD_NS 3989017ULL
/* Stolen time is taken up by the scheduler's tick (CONFIG_HZ of 250 or more). */
#define CLOCK_LAG_NS 4000000ULL
/* What is shorter is not recorded, and marks no slice. */
#define CLOCK_AWAY_NS	100000ULL
#define CLOCK_THREADS	256
#define CLOCK_PROCESSES 32
/* Of a trial; what came later is known to be missing. */
#define CLOCK_EVENTS 16384

enum clock_kind {
	CLOCK_TICK,  /* a tick of the CPU came late */
	CLOCK_STEAL, /* the hypervisor says that it took the CPU */
	CLOCK_WAIT,  /* a thread could have run and did not */
};

struct clock_event {
	__u64 from_ns;
	__u64 to_ns;
	__u64 away_ns; /* of that time; of a wait: while threads ran that are nothing of the path */
	__u32 kind;
	__u32 of; /* number of the CPU, or of the thread in the order given */
};

/* A tick that found its CPU in a softirq. */
struct clock_softirq {
	__u64 at_ns;
	__u64 cpu;
};

/* Of a thread that is watched. */
struct clock_thread {
	__u64 out_ns;	  /* since when it waits; 0: it does not */
	__u64 foreign_ns; /* of its CPU, then */
	__u32 out_cpu;
	__u32 number;
};

/* What is known of a CPU. */
struct cpu_clock {
	__u64 tick_ns;
	__u64 grid_ns; /* of the last tick that came when it should */
	__u64 steal_ns;
	__u64 switched_ns;
	__u64 foreign_ns; /* time of threads that are nothing of the path */
} __attribute__((aligned(64)));

struct clock_trial {
	__u64 from_ns;
	__u64 until_ns;
	__u64 events; /* may be more than there is room for */
	__u64 softirqs;
};

#endif
