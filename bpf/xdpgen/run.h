/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One run: receivers, senders and what was measured. */
#ifndef XDPGEN_RUN_H
#define XDPGEN_RUN_H

#include <jansson.h>
#include "config.h"
#include "links.h"
#include "receiver.h"
#include "sender.h"
#include "util.h"

#define XDPGEN_VERSION "1.0.0"

struct run {
	struct config cfg;
	struct receiver receivers[MAX_PORTS];
	struct sender senders[GEN_STREAMS];
	int num_senders;
	struct links links;
	__u8 epoch;
	char sender_reason[160]; /* why auto is not live */
	__u64 start_ns;		 /* of the warm-up */
	__u64 trial_ns;
	__u64 end_ns;			      /* of the trial as configured */
	__u64 stop_ns;			      /* when the senders had ended */
	struct link_counts before[MAX_PORTS]; /* and before they began */
	int priority; /* of the senders, if it is real-time */
	bool interrupted;
	char error[200];
};

/*
 * Load and attach everything for a trial; what the last one had loaded stays
 * where it can.  0, or -errno after one line on stderr.
 */
int run_open(struct run *run, const struct config *cfg);
/* Send, drain.  0, or -errno with run->error set. */
int run_traffic(struct run *run);
void run_close(struct run *run);

/* Print the JSON result on stdout. */
int result_print(struct run *run);

#endif
