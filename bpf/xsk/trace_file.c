// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The main thread's side of the traces: SIGUSR2 begins, and the next one ends and writes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "report.h"
#include "trace_file.h"
#include "util.h"

/* A worker that sleeps in poll() looks ten times a second. */
#define SWITCH_TRIES	500
#define SWITCH_PAUSE_US 1000

static bool wait_for_workers(struct run *run, bool wanted)
{
	int tries, i;

	for (tries = SWITCH_TRIES; tries; tries--) {
		for (i = 0; i < run->num_workers; i++)
			if (atomic_load(&run->workers[i].trace.recording) !=
			    wanted)
				break;
		if (i == run->num_workers)
			return true;
		usleep(SWITCH_PAUSE_US);
	}
	return false;
}

static void write_records(FILE *file, const struct trace *t, bool *first)
{
	__u64 kept = min(t->count, (__u64)TRACE_RECORDS), i;

	for (i = t->count - kept; i < t->count; i++) {
		batch_print(file, &t->records[i & (TRACE_RECORDS - 1)], *first);
		*first = false;
	}
}

/* As ovsprobe prints its own; `full`: older ones that newer ones replaced. */
static int write_traces(const struct run *run)
{
	__u64 count = 0, untimed = 0, replaced = 0;
	const char *path = run->opt.trace;
	FILE *file = fopen(path, "we");
	bool first = true;
	int i, err;

	if (!file)
		return fail(-errno, "cannot write trace: %s: %s", path,
			    strerror(errno));
	fputc('{', file);
	batches_begin(file);
	for (i = 0; i < run->num_workers; i++) {
		const struct trace *t = &run->workers[i].trace;

		write_records(file, t, &first);
		count += t->count;
		untimed += t->untimed;
		replaced += t->count - min(t->count, (__u64)TRACE_RECORDS);
	}
	fprintf(file,
		"],\"batches\":%llu,\"unmatched\":%llu,\"unsent\":0,\"full\":%llu}\n",
		count, untimed, replaced);
	err = ferror(file);
	if (fclose(file) || err)
		return fail(-EIO, "cannot write trace: %s: %s", path,
			    strerror(errno));
	return 0;
}

int traces_switch(struct run *run)
{
	bool wanted = !atomic_load(&run->workers[0].trace.wanted);
	const char *error = NULL;
	int i;

	if (!run->opt.trace[0])
		return print_trace(false, "there is no trace in the options");
	for (i = 0; i < run->num_workers; i++)
		atomic_store(&run->workers[i].trace.wanted, wanted);
	if (!wait_for_workers(run, wanted))
		error = "a worker did not answer";
	else if (!wanted && write_traces(run))
		error = "it cannot be written";
	return print_trace(wanted, error);
}
