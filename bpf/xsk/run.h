/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One run: programs, workers, and what ended it. */
#ifndef XSK_RUN_H
#define XSK_RUN_H

#include <stdbool.h>
#include "program.h"
#include "worker.h"

#define XSK_VERSION "1"

struct run {
	struct options opt;
	const struct role_ops *role;
	struct program programs[XSK_PORTS];
	void *shared; /* by the role's workers */
	struct worker workers[XSK_WORKERS];
	int num_workers;
	int latency_fd; /* holds /dev/cpu_dma_latency, or -1 */
	bool mlocked;
	__u64 started_ns;
	__u64 ended_ns;
	bool interrupted;
	char error[256]; /* why it ended early */
};

/* Open everything.  Returns 0 or -errno after one line on stderr. */
int run_open(struct run *run);
/* Start the workers and tell what is in use.  As run_open(). */
int run_start(struct run *run);
/* Wait for the end; fills run->error if something broke. */
int run_traffic(struct run *run);
void run_close(struct run *run);

#endif
