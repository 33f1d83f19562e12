// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The main thread while senders run.  It shares a sender's core, so it sleeps:
 * woken by senders that are done, by signals and, for progress, once a second.
 */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include "counts.h"
#include "util.h"
#include "watch.h"

/* Scheduler statistics are read this long before the trial begins. */
#define BASELINE_NS 5000000
/* A sender that is this late will not come any more. */
#define GIVE_UP_NS (5 * NSEC_PER_SEC)

/* What an event is of: a sender, then a signal, then the link of a port. */
#define SIGNAL_EVENT GEN_STREAMS
#define LINK_EVENT   (SIGNAL_EVENT + 1)

struct watch {
	struct run *run;
	int epoll;
	int signals;
	int running;
	__u64 next_progress_ns;
	bool baseline_taken;
};

static void wake_up(int signal)
{
	(void)signal; /* only there to end system calls with EINTR */
}

void watch_prepare(void)
{
	struct sigaction action = { .sa_handler = wake_up };
	sigset_t set;

	sigaction(SIGUSR1, &action, NULL);
	stop_signals(&set);
	sigaddset(&set, SIGUSR1); /* senders unblock it */
	sigprocmask(SIG_BLOCK, &set, NULL);
}

bool watch_pause(long ns)
{
	struct timespec pause = { .tv_nsec = ns };
	sigset_t set;

	stop_signals(&set);
	return sigtimedwait(&set, NULL, &pause) > 0;
}

bool watch_input(FILE *in)
{
	struct pollfd fds[] = { { .fd = fileno(in), .events = POLLIN },
				{ .fd = -1, .events = POLLIN } };
	sigset_t set;
	int c;

	stop_signals(&set);
	fds[1].fd = signalfd(-1, &set, SFD_CLOEXEC);
	do
		c = poll(fds, ARRAY_SIZE(fds), -1) < 0 || fds[1].revents ?
			    EOF :
			    getc(in);
	while (isspace(c));
	close(fds[1].fd);
	return ungetc(c, in) != EOF;
}

static int add(struct watch *w, int fd, __u32 what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = what };

	return epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int watch_open(struct watch *w)
{
	struct run *run = w->run;
	sigset_t set;
	int i, err;

	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (w->epoll < 0)
		return -errno;
	stop_signals(&set);
	w->signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (w->signals < 0)
		return -errno;
	err = add(w, w->signals, SIGNAL_EVENT);
	for (i = 0; !err && i < run->num_senders; i++) {
		err = add(w, run->senders[i].exit_fd, i);
		if (!err && run->senders[i].done_fd >= 0)
			err = add(w, run->senders[i].done_fd, i);
	}
	for (i = 0; !err && i < run->links.count; i++)
		err = add(w, run->links.fd[i], LINK_EVENT + i);
	w->running = run->num_senders;
	return err;
}

/*
 * A real-time sender never leaves its core, which this thread shares: so it
 * has the next higher priority.
 */
int watch_above_senders(struct run *run)
{
	int policy = sched_getscheduler(0), i;
	struct sched_param param;
	int highest;

	if (policy != SCHED_FIFO && policy != SCHED_RR)
		return 0;
	if (!run->priority) {
		if (sched_getparam(0, &param))
			return -errno;
		highest = sched_get_priority_max(policy);
		run->priority = min(param.sched_priority, highest - 1);
	}
	for (i = 0; i < run->num_senders; i++) {
		run->senders[i].policy = policy;
		run->senders[i].priority = run->priority;
	}
	param.sched_priority = run->priority + 1;
	return sched_setscheduler(0, policy, &param) ? -errno : 0;
}

/* Stay off the cores of the forwarder: share that of the first sender. */
static void share_core(const struct sender *s)
{
	cpu_set_t cpus;

	if (s->cpu == NO_CPU)
		return;
	CPU_ZERO(&cpus);
	CPU_SET(s->cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

static void print_progress(const struct run *run, __u64 now)
{
	fprintf(stderr,
		"progress {\"t\":%.1f,\"sent\":%llu,\"received\":%llu}\n",
		(now - run->trial_ns) / 1e9, run_sent(run), run_received(run));
}

static void take_baseline(struct watch *w)
{
	int i;

	w->baseline_taken = true;
	for (i = 0; i < w->run->num_senders; i++)
		sender_sched_stats(&w->run->senders[i],
				   &w->run->senders[i].before);
}

/* Do what is due; returns when to wake up next. */
static __u64 on_time(struct watch *w, __u64 now)
{
	const struct run *run = w->run;
	__u64 baseline = run->trial_ns - BASELINE_NS;
	__u64 next = run->end_ns + GIVE_UP_NS;

	if (!w->baseline_taken && now >= baseline)
		take_baseline(w);
	if (!w->baseline_taken)
		next = baseline;
	if (!run->cfg.progress)
		return next;
	if (now >= w->next_progress_ns) {
		print_progress(run, now);
		w->next_progress_ns += NSEC_PER_SEC;
	}
	return min(next, w->next_progress_ns);
}

static int on_event(struct watch *w, __u32 what)
{
	struct run *run = w->run;
	struct sender *s;

	if (what >= LINK_EVENT)
		return links_read(&run->links, &run->cfg, what - LINK_EVENT,
				  run->error, sizeof(run->error));
	if (what == SIGNAL_EVENT) {
		watch_pause(0); /* takes the signal: a second one is another */
		run->interrupted = true;
		w->running = 0;
		return 0;
	}
	s = &run->senders[what];
	if (s->done_fd >= 0)
		epoll_ctl(w->epoll, EPOLL_CTL_DEL, s->done_fd, NULL);
	sender_stop(s);
	w->running--;
	return 0;
}

static int watch_loop(struct watch *w)
{
	struct epoll_event event;
	__u64 now, next;
	int n, err = 0;

	w->next_progress_ns = w->run->trial_ns + NSEC_PER_SEC;
	while (w->running && !err) {
		now = now_ns();
		if (now > w->run->end_ns + GIVE_UP_NS)
			return -ETIMEDOUT;
		next = on_time(w, now);
		n = epoll_wait(w->epoll, &event, 1,
			       next > now ? (next - now) / 1000000 + 1 : 0);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 1)
			err = on_event(w, event.data.u32);
	}
	return err;
}

int watch_senders(struct run *run)
{
	struct watch w = { .run = run, .epoll = -1, .signals = -1 };
	int err;

	share_core(&run->senders[0]);
	err = watch_open(&w) ?: watch_loop(&w);
	if (w.signals >= 0)
		close(w.signals);
	if (w.epoll >= 0)
		close(w.epoll);
	return err;
}
