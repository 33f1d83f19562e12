// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The client of xdpapp: what it asks for, counts and times. */
#include <errno.h>
#include <linux/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "ask.h"
#include "hdr.h"
#include "link.h"
#include "util.h"

#define EVENTS	    64
#define TURN	    (256 << 10) /* bytes of one connection, then comes the next */
#define PROBE_BYTES 64
#define PROBES	    65536 /* more than are due within the longest patience */
#define WAIT_MS	    20

struct distribution {
	__u64 counts[HDR_COUNTS];
	__u64 count;
	__u64 min_ns;
	__u64 max_ns;
	__u64 sum_ns;
};

enum role { ROLE_UP, ROLE_DOWN, ROLE_REQUESTS, ROLE_PROBES };

struct caller {
	struct link link;
	enum role role;
	bool connected;
	__u64 answered;
	__u64 asked_ns; /* when its request was written, or connect() called */
	__u64 acked;	/* bytes that had arrived when the window began */
};

struct client {
	const struct options *o;
	int epoll;
	int count;
	struct caller callers[2 * MAX_CONNECTIONS + 1];
	struct caller *probe; /* the last caller of bulk */
	int timer;	      /* of its requests */
	__u64 due;	      /* requests that were due by now */
	__u64 left;	      /* of these, how many were written */
	__u64 due_ns[PROBES]; /* when each was, by its number */
	__u64 window_ns;      /* what counts begins, and ends */
	__u64 end_ns;
	__u64 heard_ns; /* when something came through */
	__u64 arrived;	/* bytes in all, but for answers to probes */
	bool in_window;
	/* within the window */
	__u64 up_bytes;
	__u64 down_bytes;
	__u64 asked;		      /* of probes: how many were due */
	struct distribution latency;  /* of requests, or connections */
	struct distribution lateness; /* how late they were written */
};

static void note(struct distribution *d, __u64 ns)
{
	d->min_ns = d->count ? min(d->min_ns, ns) : ns;
	d->max_ns = max(d->max_ns, ns);
	d->sum_ns += ns;
	d->counts[hdr_index(ns)]++;
	d->count++;
}

/* Is a request that was due, or written, then within what counts? */
static bool counts(const struct client *t, __u64 ns)
{
	return t->window_ns && ns >= t->window_ns && ns < t->end_ns;
}

/* Bytes of its stream that the server's kernel has. */
static __u64 acked(const struct caller *c)
{
	struct tcp_info info = {};
	socklen_t length = sizeof(info);

	getsockopt(c->link.fd, IPPROTO_TCP, TCP_INFO, &info, &length);
	return info.tcpi_bytes_acked;
}

static int call(struct client *t, struct caller *c)
{
	const struct sockaddr *address = (const void *)&t->o->address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	c->link = (struct link){
		.fd = fd,
		.hello = c->link.hello,
		.client = true,
	};
	c->link.hello.seed += 2 * MAX_CONNECTIONS + 2;
	c->answered = 0;
	c->connected = false;
	c->asked_ns = now_ns();
	if (fd < 0 || watch_socket(t->epoll, fd, &c->link))
		return -errno;
	if (connect(fd, address, sizeof(t->o->address)) && errno != EINPROGRESS)
		return -errno;
	c->link.owed = 1; /* there is room once it is connected */
	link_watch(&c->link, t->epoll);
	c->link.owed = 0;
	return 0;
}

/* By a reset: thousands of connections that wait for late frames hold ports. */
static void hang_up(struct caller *c)
{
	struct linger now = { .l_onoff = 1 };

	setsockopt(c->link.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(c->link.fd);
}

/* What a caller does from now on. */
static int start(struct client *t, struct caller *c)
{
	struct itimerspec every = {
		.it_interval.tv_sec = t->o->probe_ns / NSEC_PER_SEC,
		.it_interval.tv_nsec = t->o->probe_ns % NSEC_PER_SEC,
	};

	if (send(c->link.fd, &c->link.hello, sizeof(c->link.hello),
		 MSG_NOSIGNAL) != sizeof(c->link.hello))
		return -errno;
	if (c->role == ROLE_UP)
		c->link.owed = LINK_ENDLESS;
	if (c->role == ROLE_REQUESTS)
		c->link.owed = c->link.hello.request_bytes;
	if (t->o->work != WORK_CONNECTIONS)
		c->asked_ns = now_ns();
	every.it_value = every.it_interval;
	if (c->role == ROLE_PROBES &&
	    timerfd_settime(t->timer, 0, &every, NULL))
		return -errno;
	link_watch(&c->link, t->epoll);
	return 0;
}

/* Bulk waits for all: it would take the place of what connects. */
static int connected(struct client *t, struct caller *c)
{
	socklen_t length = sizeof(int);
	int err = 0;

	getsockopt(c->link.fd, SOL_SOCKET, SO_ERROR, &err, &length);
	if (err)
		return -err;
	c->connected = true;
	return t->o->work == WORK_BULK ? 0 : start(t, c);
}

/* A probe's latency counts from when it was due, not from when it left: what
 * waits behind others has waited. */
static void note_answers(struct client *t, struct caller *c)
{
	__u64 answers = c->link.received / c->link.hello.answer_bytes;
	__u64 now = now_ns(), from;

	for (; c->answered < answers; c->answered++) {
		from = c->role == ROLE_PROBES ?
			       t->due_ns[c->answered % PROBES] :
			       c->asked_ns;
		if (counts(t, from) && (t->in_window || c->role == ROLE_PROBES))
			note(&t->latency, now - from);
		if (c->role != ROLE_REQUESTS)
			continue;
		/* each waits for the answer before: none can be late */
		if (counts(t, from) && t->in_window)
			note(&t->lateness, 0);
		c->asked_ns = now;
		c->link.owed += c->link.hello.request_bytes;
	}
}

static void note_departures(struct client *t)
{
	__u64 now = now_ns(), due_ns;

	for (; t->left < t->probe->link.sent / PROBE_BYTES; t->left++) {
		due_ns = t->due_ns[t->left % PROBES];
		if (counts(t, due_ns))
			note(&t->lateness, now - due_ns);
	}
}

static int lost(enum link_state state)
{
	if (state == LINK_DAMAGED)
		return fail(
			3,
			"payload damaged: a byte arrived otherwise than it was sent");
	if (state == LINK_ENDED)
		return fail(1, "the server closed a connection");
	return fail(1, "a connection is lost: %s", explain(-errno));
}

static int turn(struct client *t, struct caller *c)
{
	enum link_state state;
	__u64 before;
	int err = 0;

	if (!c->connected)
		err = connected(t, c);
	if (err)
		return fail(1, "cannot connect: %s", explain(err));
	before = c->link.received;
	state = link_receive(&c->link, TURN);
	if (c->role != ROLE_PROBES)
		t->arrived += c->link.received - before;
	if (t->in_window && c->role == ROLE_DOWN)
		t->down_bytes += c->link.received - before;
	if (c->link.hello.request_bytes)
		note_answers(t, c);
	if (state != LINK_GOES_ON)
		return lost(state);
	if (t->o->work == WORK_CONNECTIONS && c->answered) {
		hang_up(c);
		err = call(t, c);
		return err ? fail(1, "cannot connect: %s", explain(err)) : 0;
	}
	state = link_send(&c->link, TURN);
	if (c == t->probe)
		note_departures(t);
	if (state != LINK_GOES_ON)
		return lost(state);
	link_watch(&c->link, t->epoll);
	return 0;
}

static int probe(struct client *t)
{
	__u64 due_ns, n;

	if (read(t->timer, &n, sizeof(n)) != sizeof(n))
		return 0;
	while (n--) {
		due_ns = t->probe->asked_ns + (t->due + 1) * t->o->probe_ns;
		if (t->window_ns && due_ns >= t->end_ns)
			break;
		t->due_ns[t->due++ % PROBES] = due_ns;
		t->asked += counts(t, due_ns);
		t->probe->link.owed += PROBE_BYTES;
	}
	return turn(t, t->probe);
}

static struct hello hello_of(const struct options *o, enum role role, int i)
{
	struct hello hello = { .magic = LINK_MAGIC, .seed = 2 * i };

	if (role == ROLE_UP)
		hello.answer_bytes = 1; /* nobody asks for it */
	if (role == ROLE_PROBES)
		hello.request_bytes = hello.answer_bytes = PROBE_BYTES;
	if (role == ROLE_REQUESTS) {
		hello.request_bytes = o->request_bytes;
		hello.answer_bytes = o->answer_bytes;
	}
	return hello;
}

static int add(struct client *t, enum role role)
{
	struct caller *c = &t->callers[t->count];

	c->role = role;
	c->link.hello = hello_of(t->o, role, t->count++);
	return call(t, c);
}

static int call_all(struct client *t)
{
	const struct options *o = t->o;
	int i, err = 0;

	for (i = 0; i < o->connections && !err; i++) {
		if (o->work != WORK_BULK)
			err = add(t, ROLE_REQUESTS);
		else if (o->up)
			err = add(t, ROLE_UP);
		if (o->work == WORK_BULK && o->down && !err)
			err = add(t, ROLE_DOWN);
	}
	if (err || o->work != WORK_BULK)
		return err;
	t->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	t->probe = &t->callers[t->count];
	if (t->timer < 0 || watch_socket(t->epoll, t->timer, &t->timer))
		return -errno;
	return add(t, ROLE_PROBES);
}

/* Bytes that uploads have brought to the server since the window began. */
static __u64 uploaded(struct client *t, bool begin)
{
	__u64 bytes = 0;
	int i;

	for (i = 0; i < t->count; i++) {
		struct caller *c = &t->callers[i];

		if (c->role != ROLE_UP || !c->connected)
			continue;
		if (begin)
			c->acked = acked(c);
		bytes += acked(c) - c->acked;
	}
	return bytes;
}

static void stop_uploads(struct client *t)
{
	int i;

	for (i = 0; i < t->count; i++) {
		struct caller *c = &t->callers[i];

		if (c->role != ROLE_UP)
			continue;
		c->link.owed = c->link.sent;
		link_watch(&c->link, t->epoll);
	}
}

/* One wait, and what it brings. */
static int wait(struct client *t)
{
	struct epoll_event events[EVENTS];
	int i, n, err = 0;

	n = epoll_wait(t->epoll, events, EVENTS, WAIT_MS);
	for (i = 0; i < n && !err; i++)
		err = events[i].data.ptr == &t->timer ?
			      probe(t) :
			      turn(t, events[i].data.ptr);
	return err;
}

static bool all_connected(const struct client *t)
{
	int i;

	for (i = 0; i < t->count; i++)
		if (!t->callers[i].connected)
			return false;
	return true;
}

/* Fails where nothing came through for as long as the user waits. */
static int patient(struct client *t, const char *what)
{
	static __u64 before;
	__u64 bytes = t->arrived + uploaded(t, false), now = now_ns();

	if (bytes != before || !t->heard_ns)
		t->heard_ns = now;
	before = bytes;
	if (now - t->heard_ns < t->o->patience_ns)
		return 0;
	return fail(4, "%s within %.3g s", what, t->o->patience_ns / 1e9);
}

static int start_all(struct client *t)
{
	int i, err = 0;

	for (i = 0; i < t->count && !err; i++)
		err = start(t, &t->callers[i]);
	return err ? fail(1, "a connection is lost: %s", explain(err)) : 0;
}

static int run(struct client *t)
{
	__u64 begin_ns = now_ns();
	int err = 0;

	while (!err && !all_connected(t)) {
		err = wait(t);
		err = err ?: patient(t, "not every connection was made");
	}
	if (!err && t->o->work == WORK_BULK)
		err = start_all(t);
	while (!err && now_ns() < begin_ns + t->o->warmup_ns) {
		err = wait(t);
		err = err ?: patient(t, "no byte came through");
	}
	uploaded(t, true);
	t->heard_ns = 0;
	t->in_window = true;
	t->window_ns = now_ns();
	t->end_ns = t->window_ns + t->o->duration_ns;
	while (!err && now_ns() < t->end_ns) {
		err = wait(t);
		err = err ?: patient(t, "no byte came through");
	}
	t->end_ns = now_ns();
	t->in_window = false;
	t->up_bytes = uploaded(t, false);
	stop_uploads(t);
	while (!err && t->probe && t->latency.count < t->asked &&
	       now_ns() < t->end_ns + t->o->patience_ns)
		err = wait(t);
	return err;
}

static int print_distribution(const char *name, const struct distribution *d)
{
	char *hdr = hdr_encode(d->counts);

	if (!hdr)
		return fail(1, "out of memory");
	printf(",\"%s\":{\"count\":%llu,\"min_ns\":%llu,\"max_ns\":%llu,\"mean_ns\":%.1f,\"hdr\":\"%s\"}",
	       name, d->count, d->min_ns, d->max_ns,
	       d->count ? (double)d->sum_ns / d->count : 0.0, hdr);
	free(hdr);
	return 0;
}

static int report(const struct client *t)
{
	int err;

	printf("{\"event\":\"end\",\"elapsed_ns\":%llu,\"up_bytes\":%llu,\"down_bytes\":%llu,\"asked\":%llu,\"answered\":%llu",
	       t->end_ns - t->window_ns, t->up_bytes, t->down_bytes,
	       t->probe ? t->asked : t->latency.count, t->latency.count);
	err = print_distribution("latency", &t->latency);
	err = err ?: print_distribution("lateness", &t->lateness);
	printf("}\n");
	return err;
}

int ask(const struct options *o)
{
	static struct client t;
	int err;

	t.o = o;
	t.epoll = epoll_create1(0);
	err = t.epoll < 0 ? -errno : call_all(&t);
	if (err)
		return fail(1, "cannot connect: %s", explain(err));
	return run(&t) ?: report(&t);
}
