/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A sender thread: what the live and the xsk sender have in common. */
#ifndef XDPGEN_SENDER_H
#define XDPGEN_SENDER_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>
#include "config.h"
#include "sched_stats.h"
#include "tx_busy.h"
#include "tx_drops.h"

struct sender;

struct sender_ops {
	const char *name;
	int card_batch; /* at the most, if all its ports are cards */
	/* Prepare to send; sets gen, streams and lateness.  xsk tells why not. */
	int (*open)(struct sender *s);
	/*
	 * The same for another trial after one on these ports, also of other
	 * streams; -E2BIG, or NULL: close and open.
	 */
	int (*again)(struct sender *s);
	/* Thread body: send until GEN_DONE or s->stop.  Returns -errno. */
	int (*run)(struct sender *s);
	void (*close)(struct sender *s);
};

extern const struct sender_ops live_sender;
extern const struct sender_ops xsk_sender;

struct sender {
	const struct sender_ops *ops;
	const struct config *cfg;
	int cpu;    /* or NO_CPU */
	int policy; /* real-time, if there is a priority */
	int priority;
	int index[GEN_STREAMS]; /* into cfg->streams */
	int count;
	int batch;

	struct gen_thread *gen;
	struct gen_stream *streams;
	const __u64 *lateness;			     /* HDR_COUNTS per stream */
	const __u64 (*redirect_errors)[GEN_STREAMS]; /* by stage; or NULL */
	const __s32 *redirect_errno;
	const struct tx_watch *cards;  /* what they did not take; or NULL */
	char cards_unwatched[120];     /* why not, if it has any */
	const struct tx_busy *tx_busy; /* or NULL: the sender makes no calls */
	int done_fd; /* readable when the schedule is done, or -1 */
	void *private;

	pthread_t thread;
	bool started;
	pid_t tid;
	int exit_fd; /* eventfd, readable when the thread has ended */
	volatile bool stop;
	int error;
	struct sched_stats before;
	struct sched_stats after;
};

/*
 * Group the streams by CPU into sender threads.  Returns their number
 * (<= GEN_STREAMS).
 */
int senders_plan(const struct config *cfg, struct sender *senders);

/* Offered load of the thread in frames/s; INFINITY for top rate. */
double sender_pps(const struct sender *s);

/* Frames per batch at the most: as configured, or as few as can keep up. */
int sender_batch(const struct sender *s);

/* Has each frame of a stream of the thread a batch of its own? */
bool sender_alone(const struct sender *s, int i);

int sender_start(struct sender *s);
/* End the thread, even inside a system call, and join it. */
void sender_stop(struct sender *s);

/* Scheduler statistics of the thread so far. */
void sender_sched_stats(const struct sender *s, struct sched_stats *stats);

static inline __u64 sender_refused(const struct sender *s, int stage, int i)
{
	return s->redirect_errors ? s->redirect_errors[stage][i] : 0;
}

/* Is it known what the card of a stream's port dropped? */
static inline bool sender_sees_drops(const struct sender *s, int i)
{
	return s->cards &&
	       !s->cfg->ports[s->cfg->streams[s->index[i]].tx_port].veth;
}

static inline __u64 sender_dropped(const struct sender *s, int stage, int i)
{
	return s->cards ? s->cards->drops[stage][i] : 0;
}

/* Frames of a stream that have a sequence: also those that its card dropped. */
static inline __u64 sender_numbered(const struct sender *s, int stage, int i)
{
	return s->streams[i].sent[stage] - sender_refused(s, stage, i);
}

/* Frames of a stream that left. */
static inline __u64 sender_sent(const struct sender *s, int stage, int i)
{
	return sender_numbered(s, stage, i) - sender_dropped(s, stage, i);
}

#endif
