// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "sender.h"
#include "util.h"

/* Handing a batch on takes up to 1 us: no more than a sixth of a core. */
#define BATCHES_PER_S 150000
/* A probe waits for the others of its batch, or they for it. */
#define PROBES_BATCH 16
#define TOP_BATCH    64
/* A batch for a frame takes up to 1.6 us: no more than a tenth of a core. */
#define ALONE_MAX_PPS 60000

double sender_pps(const struct sender *s)
{
	double sum = 0;
	int i;

	for (i = 0; i < s->count; i++) {
		double pps = s->cfg->streams[s->index[i]].pps;

		if (!pps)
			return INFINITY;
		sum += pps;
	}
	return sum;
}

/* The ring of a veth has room for 256 frames, which its peer has to take. */
static bool on_cards(const struct sender *s)
{
	int i;

	for (i = 0; i < s->count; i++)
		if (s->cfg->ports[s->cfg->streams[s->index[i]].tx_port].veth)
			return false;
	return true;
}

static double probes_pps(const struct sender *s)
{
	double sum = 0;
	int i;

	for (i = 0; i < s->count; i++) {
		const struct stream *stream = &s->cfg->streams[s->index[i]];

		if (stream->kind == STREAM_LATENCY)
			sum += stream->pps ?: INFINITY;
	}
	return sum;
}

bool sender_alone(const struct sender *s, int i)
{
	const struct stream *stream = &s->cfg->streams[s->index[i]];

	/* those of a burst leave together */
	return stream->kind == STREAM_LATENCY && stream->burst == 1 &&
	       probes_pps(s) <= ALONE_MAX_PPS;
}

int sender_batch(const struct sender *s)
{
	double pps = sender_pps(s);

	int most = on_cards(s) ? s->ops->card_batch : TOP_BATCH, batch = 1;

	if (s->cfg->batch)
		return s->cfg->batch;
	if (probes_pps(s))
		most = PROBES_BATCH;
	while (batch < most && pps > (double)batch * BATCHES_PER_S)
		batch *= 2;
	return batch;
}

int senders_plan(const struct config *cfg, struct sender *senders)
{
	int count = 0, i, j;

	for (i = 0; i < cfg->num_streams; i++) {
		int cpu = config_tx_cpu(cfg, i);

		for (j = 0; j < count; j++)
			if (senders[j].cpu == cpu)
				break;
		if (j == count)
			senders[count++] = (struct sender){ .cfg = cfg,
							    .cpu = cpu,
							    .done_fd = -1,
							    .exit_fd = -1 };
		senders[j].index[senders[j].count++] = i;
	}
	return count;
}

static int set_scheduling(const struct sender *s)
{
	struct sched_param param = { .sched_priority = s->priority };
	cpu_set_t cpus;

	if (s->cpu != NO_CPU) {
		CPU_ZERO(&cpus);
		CPU_SET(s->cpu, &cpus);
		if (sched_setaffinity(0, sizeof(cpus), &cpus))
			return -errno;
	}
	if (s->priority && sched_setscheduler(0, s->policy, &param))
		return -errno;
	return 0;
}

static void *thread_main(void *arg)
{
	struct sender *s = arg;
	__u64 one = 1;
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &mask, NULL);
	s->tid = syscall(SYS_gettid);
	s->error = set_scheduling(s);
	if (!s->error)
		s->error = s->ops->run(s);
	sender_sched_stats(s, &s->after);
	if (write(s->exit_fd, &one, sizeof(one)) < 0)
		s->error = s->error ?: -errno;
	return NULL;
}

int sender_start(struct sender *s)
{
	int err;

	s->exit_fd = eventfd(0, EFD_CLOEXEC);
	if (s->exit_fd < 0)
		return -errno;
	err = pthread_create(&s->thread, NULL, thread_main, s);
	s->started = !err;
	return -err;
}

void sender_stop(struct sender *s)
{
	struct timespec until;
	int err;

	if (!s->started)
		return;
	s->stop = true;
	/* again and again: a signal before the system call would be lost */
	do {
		pthread_kill(s->thread, SIGUSR1);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 20000000;
		if (until.tv_nsec >= (long)NSEC_PER_SEC) {
			until.tv_nsec -= NSEC_PER_SEC;
			until.tv_sec++;
		}
		err = pthread_timedjoin_np(s->thread, NULL, &until);
	} while (err == ETIMEDOUT);
	s->started = false;
	close(s->exit_fd);
}

void sender_sched_stats(const struct sender *s, struct sched_stats *stats)
{
	if (s->tid)
		sched_stats_read(s->tid, stats);
}
