// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include "link.h"
#include "payload.h"
#include "util.h"

int watch_socket(int epoll, int fd, void *what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = what };
	int one = 1;

	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	/* an error where it is no connection, which needs none of it */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static __u32 own_seed(const struct link *l)
{
	return l->hello.seed + !l->client;
}

enum link_state link_receive(struct link *l, __u64 most)
{
	static __u8 data[PAYLOAD_CHUNK];
	__u32 seed = l->hello.seed + l->client;
	ssize_t bytes;

	while (most) {
		bytes = recv(l->fd, data, min((__u64)sizeof(data), most), 0);
		if (!bytes)
			return LINK_ENDED;
		if (bytes < 0)
			return errno == EAGAIN ? LINK_GOES_ON : LINK_LOST;
		if (!payload_intact(seed, l->received, data, bytes))
			return LINK_DAMAGED;
		l->received += bytes;
		most -= bytes;
	}
	return LINK_GOES_ON;
}

enum link_state link_send(struct link *l, __u64 most)
{
	ssize_t bytes;
	__u64 left;

	while (most && l->sent < l->owed) {
		left = min(min(l->owed - l->sent, most), (__u64)PAYLOAD_CHUNK);
		bytes = send(l->fd, payload(own_seed(l), l->sent), left,
			     MSG_NOSIGNAL);
		if (bytes < 0)
			return errno == EAGAIN ? LINK_GOES_ON : LINK_LOST;
		l->sent += bytes;
		most -= bytes;
	}
	return LINK_GOES_ON;
}

void link_watch(struct link *l, int epoll)
{
	bool wants_out = l->sent < l->owed;
	struct epoll_event event = {
		.events = EPOLLIN | (wants_out ? EPOLLOUT : 0),
		.data.ptr = l,
	};

	if (wants_out == l->wants_out)
		return;
	l->wants_out = wants_out;
	epoll_ctl(epoll, EPOLL_CTL_MOD, l->fd, &event);
}
