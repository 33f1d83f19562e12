// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <stdio.h>
#include "sched_stats.h"

void sched_stats_read(pid_t tid, struct sched_stats *stats)
{
	unsigned long long ran, delay, switches;
	char path[64], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", tid);
	file = fopen(path, "re");
	if (file && fscanf(file, "%llu %llu", &ran, &delay) == 2) {
		stats->ran_ns = ran;
		stats->run_delay_ns = delay;
	}
	if (file)
		fclose(file);
	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "nonvoluntary_ctxt_switches: %llu",
			   &switches) == 1)
			stats->nonvoluntary_switches = switches;
	if (file)
		fclose(file);
}
