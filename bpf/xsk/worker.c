// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include "packet.h"
#include "probes.h"
#include "util.h"
#include "worker.h"

/* How long a thread sleeps at the most before it looks whether to stop. */
#define WAIT_MS 100
/* How long before a departure it is awake: what waking up takes. */
#define WAKE_EARLY_NS 100000
/* How long it waits at the end for what it has queued to be sent. */
#define DRAIN_NS 200000000ULL

/* Queues are dealt to the workers in turn. */
static int count_queues(const struct options *o, int index)
{
	int workers = o->num_cpus ?: 1;

	return (o->queues - index + workers - 1) / workers;
}

/* Sockets of one queue must share; otherwise as asked. */
static struct umem *umem_of(struct worker *w, int port, int lane)
{
	int queues = w->lanes / w->opt->sockets;

	if (w->opt->backend == BACKEND_AF_PACKET)
		return NULL;
	if (w->opt->shared_umem)
		return &w->umems[0];
	return &w->umems[port * queues + lane / w->opt->sockets];
}

static int open_umems(struct worker *w)
{
	const struct options *o = w->opt;
	int count = o->shared_umem ? 1 : w->num_ios / o->sockets, err = 0;

	if (o->backend == BACKEND_AF_PACKET)
		return 0;
	w->umems = calloc(count, sizeof(*w->umems));
	if (!w->umems)
		return fail(-ENOMEM, "cannot allocate: worker %d", w->index);
	/* rings are per queue: that is what the number of chunks follows */
	while (!err && w->num_umems < count)
		err = umem_open(&w->umems[w->num_umems++], &o->io,
				w->num_ios / o->sockets / count);
	return err;
}

static int open_io(struct worker *w, int port, int lane,
		   struct program *program)
{
	const struct options *o = w->opt;
	struct io *io = worker_io(w, port, lane);
	int workers = o->num_cpus ?: 1, number = lane % o->sockets, ns, err;

	*io = (struct io){
		.ops = o->backend == BACKEND_AF_XDP ? &xdp_ops : &packet_ops,
		.opt = &o->io,
		.port = &o->ports[port],
		.ifname = o->ports[port].ifname,
		.queue = o->queue + w->index + lane / o->sockets * workers,
		.number = number,
		.fd = -1,
		.umem = umem_of(w, port, lane),
		.trace = &w->trace,
	};
	io->rings = number ? worker_io(w, port, lane - number)->rings :
			     &io->own_rings;
	ns = netns_enter(port_netns(&o->ports[port]));
	if (ns < 0)
		return fail(ns, "cannot enter network namespace: %s: %s",
			    o->ports[port].netns, explain(ns));
	err = io->ops->open(io);
	netns_leave(ns);
	if (!err && program->sockets_fd >= 0)
		err = program_add(program, o, io);
	return err;
}

int worker_open(struct worker *w, const struct role_ops *role,
		const struct options *o, int index, struct program *programs)
{
	int port, lane, err;

	*w = (struct worker){ .opt = o,
			      .role = role,
			      .index = index,
			      .cpu = o->num_cpus ? o->cpus[index] : -1,
			      .exit_fd = -1 };
	sem_init(&w->ready, 0, 0);
	w->lanes = count_queues(o, index) * o->sockets;
	w->num_ios = w->lanes * o->num_ports;
	w->ios = calloc(w->num_ios, sizeof(*w->ios));
	if (!w->ios)
		return fail(-ENOMEM, "cannot allocate: worker %d", index);
	err = trace_open(&w->trace, o->trace_every, o->trace[0]) ?:
								   open_umems(w);
	for (port = 0; !err && port < o->num_ports; port++)
		for (lane = 0; !err && lane < w->lanes; lane++)
			err = open_io(w, port, lane, &programs[port]);
	return err ?: w->role->open(w);
}

static int set_scheduling(struct worker *w)
{
	static const int policies[] = { SCHED_OTHER, SCHED_FIFO, SCHED_RR };
	const struct options *o = w->opt;
	struct sched_param param = {
		.sched_priority = o->policy == POLICY_OTHER ? 0 : o->priority,
	};
	cpu_set_t cpus;

	if (w->cpu >= 0) {
		CPU_ZERO(&cpus);
		CPU_SET(w->cpu, &cpus);
		if (sched_setaffinity(0, sizeof(cpus), &cpus))
			return -errno;
	}
	if (sched_setscheduler(0, policies[o->policy], &param))
		return -errno;
	return 0;
}

/* How long there is nothing to do by the clock; false: too short to sleep. */
static bool time_to_sleep(const struct worker *w, struct timespec *pause)
{
	__u64 ns = WAIT_MS * 1000000ULL, now = now_ns();

	if (w->wake_ns) {
		if (w->wake_ns < now + WAKE_EARLY_NS)
			return false;
		ns = min(ns, w->wake_ns - now - WAKE_EARLY_NS);
	}
	*pause = (struct timespec){ .tv_nsec = ns };
	return true;
}

/* Frames that the kernel left, or that have no room, wait for it to send. */
static short events_of(const struct io *io)
{
	if (io->opt->transmit && (io->wants_room || io->ops->pending(io)))
		return POLLIN | POLLOUT;
	return POLLIN;
}

/* Nothing to do: sleep until a socket has something. */
static int sleep_in_poll(struct worker *w)
{
	struct pollfd fds[w->num_ios];
	struct timespec pause;
	int i, n, error = 0;
	socklen_t bytes = sizeof(error);

	for (i = 0; i < w->num_ios; i++)
		fds[i] = (struct pollfd){ .fd = w->ios[i].fd,
					  .events = events_of(&w->ios[i]) };
	if (!time_to_sleep(w, &pause))
		return 0;
	w->waits++;
	PROBE1(wait_begin, w->index);
	n = ppoll(fds, w->num_ios, &pause, NULL);
	PROBE2(wait_end, w->index, n);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (i = 0; n && i < w->num_ios; i++) {
		if (!(fds[i].revents & (POLLERR | POLLHUP | POLLNVAL)))
			continue;
		w->broken = w->ios[i].port;
		getsockopt(fds[i].fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
		return -(error ?: EIO);
	}
	return 0;
}

static void drain(struct worker *w)
{
	__u64 deadline = now_ns() + DRAIN_NS;
	__u32 unsent;
	int i;

	if (!w->opt->io.transmit)
		return;
	do {
		unsent = 0;
		for (i = 0; i < w->num_ios; i++) {
			if (w->ios[i].ops->kick(&w->ios[i]))
				return;
			unsent += w->ios[i].ops->unsent(&w->ios[i]);
		}
	} while (unsent && now_ns() < deadline);
}

static int work(struct worker *w)
{
	int err = 0, n;

	while (!w->stop && !w->over) {
		trace_switch(&w->trace);
		n = w->role->turn(w);
		w->turns++;
		if (n > 0)
			continue;
		w->idle_turns++;
		if (!n && w->opt->io.wait == WAIT_POLL)
			n = sleep_in_poll(w);
		if (n < 0) {
			err = n;
			break;
		}
	}
	drain(w);
	return err;
}

static void *thread_main(void *arg)
{
	struct worker *w = arg;
	char name[16];
	__u64 one = 1;

	snprintf(name, sizeof(name), "xsk-worker-%d", w->index);
	pthread_setname_np(pthread_self(), name);
	w->tid = syscall(SYS_gettid);
	w->error = set_scheduling(w);
	w->refused = w->error;
	sched_stats_read(w->tid, &w->before);
	sem_post(&w->ready);
	if (!w->error)
		w->error = work(w);
	sched_stats_read(w->tid, &w->after);
	if (write(w->exit_fd, &one, sizeof(one)) < 0)
		w->error = w->error ?: -errno;
	return NULL;
}

int worker_start(struct worker *w)
{
	int err;

	w->exit_fd = eventfd(0, EFD_CLOEXEC);
	if (w->exit_fd < 0)
		return fail(-errno, "cannot start worker %d: %s", w->index,
			    explain(-errno));
	err = pthread_create(&w->thread, NULL, thread_main, w);
	if (err)
		return fail(-err, "cannot start worker %d: %s", w->index,
			    explain(-err));
	w->started = true;
	while (sem_wait(&w->ready))
		;
	if (w->refused)
		return fail(
			w->refused,
			"cannot schedule worker %d: CPU %d, policy, priority: %s",
			w->index, w->cpu, explain(w->refused));
	return 0;
}

void worker_stop(struct worker *w)
{
	if (!w->started)
		return;
	w->stop = true;
	pthread_join(w->thread, NULL);
	w->started = false;
}

void worker_close(struct worker *w)
{
	int i;

	if (w->private)
		w->role->close(w);
	for (i = w->num_ios - 1; w->ios && i >= 0; i--)
		if (w->ios[i].ops)
			w->ios[i].ops->close(&w->ios[i]);
	for (i = 0; i < w->num_umems; i++)
		umem_close(&w->umems[i]);
	if (w->exit_fd >= 0)
		close(w->exit_fd);
	trace_close(&w->trace);
	free(w->umems);
	free(w->ios);
	*w = (struct worker){ .exit_fd = -1 };
}
