// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The main thread: signals, the clock, and what happens to the ports. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <net/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include "report.h"
#include "trace_file.h"
#include "util.h"
#include "watch.h"

/* How often the queues are counted: nothing tells of a change. */
#define LOOK_MS 500
/* What is set down may be on its way out. */
#define REMOVAL_TRIES	 20
#define REMOVAL_PAUSE_US 5000

enum event {
	EVENT_SIGNAL,
	EVENT_WORKER,
	EVENT_LINK = EVENT_WORKER + XSK_WORKERS
};

struct watch {
	struct run *run;
	int epoll;
	int signals;
	int links[XSK_PORTS];
	bool over;
};

static void signals_watched(sigset_t *set)
{
	stop_signals(set);
	sigaddset(set, SIGUSR1);
	sigaddset(set, SIGUSR2);
}

void watch_prepare(void)
{
	sigset_t set;

	signals_watched(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static int add(struct watch *w, int fd, __u32 what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = what };

	return epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* A netlink socket that hears of links in the port's namespace. */
static int open_links(struct watch *w, int port)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK,
				       .nl_groups = RTMGRP_LINK };
	int ns, fd;

	ns = netns_enter(port_netns(&w->run->opt.ports[port]));
	if (ns < 0)
		return ns;
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    NETLINK_ROUTE);
	netns_leave(ns);
	if (fd < 0)
		return -errno;
	w->links[port] = fd;
	if (bind(fd, (void *)&address, sizeof(address)))
		return -errno;
	return add(w, fd, EVENT_LINK + port);
}

static int watch_open(struct watch *w)
{
	struct run *run = w->run;
	sigset_t set;
	int i, err;

	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (w->epoll < 0)
		return -errno;
	signals_watched(&set);
	w->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (w->signals < 0)
		return -errno;
	err = add(w, w->signals, EVENT_SIGNAL);
	for (i = 0; !err && i < run->num_workers; i++)
		err = add(w, run->workers[i].exit_fd, EVENT_WORKER + i);
	for (i = 0; !err && i < run->opt.num_ports; i++)
		err = open_links(w, i);
	return err;
}

/* Roles with a schedule know themselves when they are done. */
static bool ends_by_itself(const struct options *o)
{
	return o->role == ROLE_PING || o->role == ROLE_PROBE;
}

/* Such a role waits for what is under way, unless it is asked again. */
static void ask_to_end(struct watch *w)
{
	struct run *run = w->run;
	int i;

	if (run->interrupted || !ends_by_itself(&run->opt))
		w->over = true;
	run->interrupted = true;
	for (i = 0; i < run->num_workers; i++)
		run->workers[i].finish = true;
}

static void on_signal(struct watch *w)
{
	struct signalfd_siginfo info;

	if (read(w->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGUSR1) {
		programs_check_clocks(w->run->programs, &w->run->opt);
		print_counters(w->run, "counters");
		return;
	}
	if (info.ssi_signo == SIGUSR2) {
		traces_switch(w->run);
		return;
	}
	ask_to_end(w);
}

static void broken(struct watch *w, const struct port *port, const char *what)
{
	if (!w->run->error[0])
		snprintf(w->run->error, sizeof(w->run->error),
			 "port lost: %s: %s", port->ifname, what);
	w->over = true;
}

/* Is it still there?  false also when its namespace is not. */
static bool is_there(const struct port *port)
{
	char name[IF_NAMESIZE];
	bool there;
	int ns;

	ns = netns_enter(port_netns(port));
	if (ns < 0)
		return false;
	there = if_indextoname(port->ifindex, name);
	netns_leave(ns);
	return there;
}

/* An interface goes down just before it is removed: wait for that. */
static void broken_link(struct watch *w, const struct port *port)
{
	int tries;

	for (tries = REMOVAL_TRIES; tries; tries--) {
		if (!is_there(port)) {
			broken(w, port, "the interface was removed");
			return;
		}
		usleep(REMOVAL_PAUSE_US);
	}
	broken(w, port, "the interface was set down");
}

static void on_link(struct watch *w, int index)
{
	const struct port *port = &w->run->opt.ports[index];
	char buffer[8192] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct nlmsghdr *h;
	bool lost = false;
	ssize_t bytes;
	unsigned int left;

	while ((bytes = recv(w->links[index], buffer, sizeof(buffer), 0)) > 0) {
		left = bytes;
		for (h = (void *)buffer; NLMSG_OK(h, left);
		     h = NLMSG_NEXT(h, left)) {
			const struct ifinfomsg *link = NLMSG_DATA(h);

			if (link->ifi_index == port->ifindex)
				lost |= h->nlmsg_type == RTM_DELLINK ||
					!(link->ifi_flags & IFF_UP);
		}
	}
	if (lost)
		broken_link(w, port);
}

/* A worker has ended: because of its port?  The kernel told us why, then. */
static void on_worker(struct watch *w, int index)
{
	const struct worker *worker = &w->run->workers[index];
	int i;

	w->over = true;
	for (i = 0; worker->error && i < w->run->opt.num_ports; i++)
		on_link(w, i);
}

static void look_at_queues(struct watch *w, int index)
{
	const struct port *port = &w->run->opt.ports[index];
	char text[96];
	int ns, queues;

	if (!port->rx_queues)
		return;
	ns = netns_enter(port_netns(port));
	if (ns < 0) {
		broken(w, port, "its network namespace is gone");
		return;
	}
	queues = receive_queues(port->ifname);
	netns_leave(ns);
	if (!queues || queues == port->rx_queues)
		return;
	snprintf(text, sizeof(text),
		 "its receive queues were changed from %d to %d",
		 port->rx_queues, queues);
	broken(w, port, text);
}

static void on_event(struct watch *w, __u32 what)
{
	if (what == EVENT_SIGNAL)
		on_signal(w);
	else if (what >= EVENT_LINK)
		on_link(w, what - EVENT_LINK);
	else
		on_worker(w, what - EVENT_WORKER);
}

/* Milliseconds until there is something to do by the clock. */
static int pause_ms(const struct run *run, __u64 now)
{
	__u64 end = run->started_ns + (__u64)(run->opt.duration_s * 1e9);

	if (!(run->opt.duration_s > 0) || ends_by_itself(&run->opt))
		return LOOK_MS;
	if (now >= end)
		return 0;
	return min(LOOK_MS, (int)min((end - now) / 1000000 + 1, 1000000ULL));
}

static int watch_loop(struct watch *w)
{
	__u64 looked = now_ns();
	struct epoll_event event;
	int n, i, pause;

	while (!w->over) {
		pause = pause_ms(w->run, now_ns());
		if (!pause)
			break;
		n = epoll_wait(w->epoll, &event, 1, pause);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 1)
			on_event(w, event.data.u32);
		if (now_ns() - looked < LOOK_MS * 1000000ULL)
			continue;
		looked = now_ns();
		for (i = 0; i < w->run->opt.num_ports; i++)
			look_at_queues(w, i);
	}
	return 0;
}

int watch(struct run *run)
{
	struct watch w = {
		.run = run, .epoll = -1, .signals = -1, .links = { -1, -1 }
	};
	int i, err;

	err = watch_open(&w) ?: watch_loop(&w);
	if (err)
		fail(err, "cannot watch: %s", explain(err));
	for (i = 0; i < XSK_PORTS; i++)
		if (w.links[i] >= 0)
			close(w.links[i]);
	if (w.signals >= 0)
		close(w.signals);
	if (w.epoll >= 0)
		close(w.epoll);
	return err;
}
