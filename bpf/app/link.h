/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One TCP connection of xdpapp: two streams of known bytes, one each way, and
 * how many of them an end owes by what it has received.
 */
#ifndef XDPLAB_LINK_H
#define XDPLAB_LINK_H

#include <stdbool.h>
#include <linux/types.h>

#define LINK_MAGIC   0x70617078 /* "xpap" */
#define LINK_ENDLESS (~0ULL)

/* What the client sends first, in the byte order of x86. */
struct hello {
	__u32 magic;
	__u32 seed; /* of the client's stream; the server's has the next */
	__u32 request_bytes; /* 0: the client's stream asks for nothing */
	__u32 answer_bytes;  /* 0: the server sends without end */
};

struct link {
	int fd;
	struct hello hello;
	bool client;
	bool wants_out; /* epoll waits for room */
	__u64 sent;	/* bytes of the own stream */
	__u64 received; /* bytes of the other one, all intact */
	__u64 owed;	/* bytes of the own stream that may go out by now */
};

enum link_state {
	LINK_GOES_ON,
	LINK_ENDED,   /* the other end has closed it */
	LINK_LOST,    /* errno has why */
	LINK_DAMAGED, /* a byte is not what was sent */
};

/* A socket on @epoll that does not block, without delay of small segments. */
int watch_socket(int epoll, int fd, void *what);

/* Read what is there, at most @most bytes, and compare it. */
enum link_state link_receive(struct link *l, __u64 most);

/* Write what is owed, at most @most bytes, as far as there is room. */
enum link_state link_send(struct link *l, __u64 most);

/* Let epoll wait for room if, and only if, something is owed. */
void link_watch(struct link *l, int epoll);

#endif
