// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The server of xdpapp: answers, takes and gives; ends with its standard input. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "link.h"
#include "payload.h"
#include "serve.h"
#include "util.h"

#define EVENTS	 64
#define TURN	 (256 << 10) /* bytes of one connection, then comes the next */
#define UDP_ROOM (4 << 20)

struct server {
	int epoll;
	int listener;
	int udp;
	__u64 connections;
	__u64 bytes;
	__u64 damaged; /* connections and datagrams */
	__u64 datagrams;
	__u64 datagram_bytes;
	__u64 first_ns; /* of the datagrams */
	__u64 last_ns;
};

/* Where the ends of a connection differ is what they owe. */
static void reckon(struct link *l)
{
	const struct hello *h = &l->hello;

	if (!h->request_bytes)
		l->owed = h->answer_bytes ? 0 : LINK_ENDLESS;
	else
		l->owed = l->received / h->request_bytes * h->answer_bytes;
}

static void drop(struct server *s, struct link *l)
{
	s->bytes += l->received;
	close(l->fd);
	free(l);
}

/* The hello is the first that a client sends, and comes as a whole. */
static enum link_state greet(struct link *l)
{
	ssize_t bytes = recv(l->fd, &l->hello, sizeof(l->hello), MSG_PEEK);

	if (!bytes)
		return LINK_ENDED;
	if (bytes < (ssize_t)sizeof(l->hello)) {
		memset(&l->hello, 0, sizeof(l->hello));
		return bytes > 0 || errno == EAGAIN ? LINK_GOES_ON : LINK_LOST;
	}
	recv(l->fd, &l->hello, sizeof(l->hello), 0);
	return l->hello.magic == LINK_MAGIC ? LINK_GOES_ON : LINK_DAMAGED;
}

static void turn(struct server *s, struct link *l)
{
	enum link_state state = LINK_GOES_ON;

	if (!l->hello.magic)
		state = greet(l);
	if (l->hello.magic && state == LINK_GOES_ON) {
		state = link_receive(l, TURN);
		reckon(l);
		if (state == LINK_GOES_ON)
			state = link_send(l, TURN);
	}
	if (state == LINK_GOES_ON) {
		link_watch(l, s->epoll);
		return;
	}
	s->damaged += state == LINK_DAMAGED;
	drop(s, l);
}

static void accept_all(struct server *s)
{
	struct link *l;
	int fd;

	while ((fd = accept(s->listener, NULL, NULL)) >= 0) {
		l = calloc(1, sizeof(*l));
		if (!l || watch_socket(s->epoll, fd, l)) {
			free(l);
			close(fd);
			continue;
		}
		l->fd = fd;
		s->connections++;
		turn(s, l);
	}
}

static void take_datagrams(struct server *s)
{
	static __u8 data[65536];
	struct datagram head;
	ssize_t bytes;
	int i;

	for (i = 0; i < EVENTS; i++) {
		bytes = recv(s->udp, data, sizeof(data), MSG_DONTWAIT);
		if (bytes < 0)
			return;
		s->last_ns = now_ns();
		if (!s->first_ns)
			s->first_ns = s->last_ns;
		memcpy(&head, data, min((size_t)bytes, sizeof(head)));
		if (bytes < (ssize_t)sizeof(head) || head.magic != LINK_MAGIC ||
		    bytes > PAYLOAD_CHUNK ||
		    !payload_intact(head.number, 0, data + sizeof(head),
				    bytes - sizeof(head))) {
			s->damaged++;
			continue;
		}
		s->datagrams++;
		s->datagram_bytes += bytes;
	}
}

static int open_sockets(struct server *s, const struct options *o)
{
	const struct sockaddr *address = (const struct sockaddr *)&o->address;
	int one = 1, room = UDP_ROOM;

	s->epoll = epoll_create1(0);
	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	s->udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	if (s->epoll < 0 || s->listener < 0 || s->udp < 0)
		return -errno;
	setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	/* beyond net.core.rmem_max as root only */
	if (setsockopt(s->udp, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)))
		setsockopt(s->udp, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	if (bind(s->listener, address, sizeof(o->address)) ||
	    bind(s->udp, address, sizeof(o->address)) ||
	    listen(s->listener, 4096))
		return -errno;
	if (watch_socket(s->epoll, s->listener, &s->listener) ||
	    watch_socket(s->epoll, s->udp, &s->udp) ||
	    watch_socket(s->epoll, STDIN_FILENO, s))
		return -errno;
	return 0;
}

static int report(const struct server *s)
{
	printf("{\"event\":\"end\",\"connections\":%llu,\"bytes\":%llu,\"damaged\":%llu,\"datagrams\":%llu,\"datagram_bytes\":%llu,\"datagram_ns\":%llu}\n",
	       s->connections, s->bytes, s->damaged, s->datagrams,
	       s->datagram_bytes, s->last_ns - s->first_ns);
	return 0;
}

int serve(const struct options *o)
{
	struct epoll_event events[EVENTS];
	struct server s = {};
	int i, n, err;

	err = open_sockets(&s, o);
	if (err)
		return fail(1, "cannot listen: %s", explain(-err));
	printf("{\"event\":\"ready\"}\n");
	fflush(stdout);
	for (;;) {
		n = epoll_wait(s.epoll, events, EVENTS, -1);
		for (i = 0; i < n; i++) {
			void *what = events[i].data.ptr;
			char byte;

			if (what == &s.listener)
				accept_all(&s);
			else if (what == &s.udp)
				take_datagrams(&s);
			else if (what != &s)
				turn(&s, what);
			else if (read(STDIN_FILENO, &byte, 1) <= 0)
				return report(&s);
			else
				report(&s), fflush(stdout);
		}
	}
}
