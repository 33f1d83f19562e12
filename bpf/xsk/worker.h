/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A thread with its sockets and its UMEMs; nothing is shared between them. */
#ifndef XSK_WORKER_H
#define XSK_WORKER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <sys/types.h>
#include "io.h"
#include "program.h"
#include "sched_stats.h"

struct worker;

/* What a role does; one object each in role_*.c. */
struct role_ops {
	/*
	 * Attach XDP programs of its own to all ports; NULL: those of sockets.
	 * @shared: what it keeps of them.  Returns 0 or -errno after one line.
	 */
	int (*attach)(const struct options *o, struct program *programs,
		      void **shared);
	void (*detach)(void *shared);
	/* Before the thread starts.  Returns 0 or -errno after one line. */
	int (*open)(struct worker *w);
	/*
	 * One turn over all sockets.  Returns the number of frames handled (0:
	 * nothing to do), or -errno when a socket is broken.
	 */
	int (*turn)(struct worker *w);
	/* Add what it has counted to the result; may be NULL. */
	void (*report)(const struct worker *w, json_t *root);
	void (*close)(struct worker *w);
	/*
	 * Add what it has in use, and has counted, that is of no one worker,
	 * to what is printed; may be NULL.
	 */
	void (*in_use)(const struct worker *workers, int count,
		       const void *shared, json_t *root);
	void (*counters)(const struct worker *workers, int count,
			 const void *shared, json_t *root);
};

extern const struct role_ops forward_role, reflect_role, sink_role, gen_role,
	ping_role, probe_role, nf_role;

struct worker {
	const struct options *opt;
	const struct role_ops *role;
	int index;
	int cpu; /* or -1 */
	/* ios[port * lanes + lane]; a lane is a socket of a queue */
	struct io *ios;
	int lanes;
	int num_ios;
	struct umem *umems;
	int num_umems;
	struct trace trace;
	void *private; /* of the role */
	/* result of the thread */
	pthread_t thread;
	bool started;
	sem_t ready; /* the thread has its tid, CPU and policy */
	int refused; /* -errno of that */
	pid_t tid;
	int exit_fd;
	/* asked to begin nothing more: the role says when it is over */
	volatile bool finish;
	volatile bool stop; /* asked to end at once */
	bool over;	    /* the role has done what it was asked */
	__u64 wake_ns;	    /* there is something to do then; 0 = not known */
	int error;
	const struct port *broken; /* where the error happened */
	__u64 turns;
	__u64 idle_turns;
	__u64 waits;
	struct sched_stats before;
	struct sched_stats after;
};

static inline struct io *worker_io(const struct worker *w, int port, int lane)
{
	return &w->ios[port * w->lanes + lane];
}

/* Open the sockets of worker @index.  One line on stderr and -errno, or 0. */
int worker_open(struct worker *w, const struct role_ops *role,
		const struct options *o, int index, struct program *programs);
int worker_start(struct worker *w);
/* Let it send what it has queued, and join it. */
void worker_stop(struct worker *w);
void worker_close(struct worker *w);

#endif
