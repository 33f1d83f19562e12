/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One run: receivers, senders and what was measured. */
#ifndef XDPGEN_RUN_H
#define XDPGEN_RUN_H

#include "config.h"
#include "receiver.h"
#include "sender.h"

#define XDPGEN_VERSION "1.0.0"

struct run {
	struct config cfg;
	struct receiver receivers[MAX_PORTS];
	struct sender senders[GEN_STREAMS];
	int num_senders;
	__u8 epoch;
	char sender_reason[160]; /* why auto is not live */
	__u64 start_ns;		 /* of the warm-up */
	__u64 trial_ns;
	__u64 end_ns;  /* of the trial as configured */
	__u64 stop_ns; /* when the senders had ended */
	bool interrupted;
	char error[160];
};

/* Attach and load everything.  0 or -errno after one line on stderr. */
int run_open(struct run *run);
/* Send, drain.  0, or -errno with run->error set. */
int run_traffic(struct run *run);
void run_close(struct run *run);

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

/* Block and catch signals; call before any thread exists. */
void watch_prepare(void);
/* Have the calling thread run when a real-time sender of its core does not sleep. */
int watch_above_senders(struct run *run);
/* Wait for the senders to end; stops each.  0 or -errno. */
int watch_senders(struct run *run);
/* Sleep for @ns, < 1 s; true when a signal to stop came. */
bool watch_pause(long ns);

/* Print the JSON result on stdout. */
int result_print(struct run *run);

#endif
