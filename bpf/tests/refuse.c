// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * LD_PRELOAD: a busy kernel.  The first REFUSE_CALLS calls that ask it to send
 * what is in a ring (of the AF_XDP socket of port REFUSE_PORT, if it is given)
 * fail with REFUSE_ERRNO; the first REFUSE_BINDS of AF_XDP sockets are told
 * that the queue is busy.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <net/if.h>
#include <linux/if_xdp.h>

static int refused_fd = -1;

static bool is_refused(const char *name, int *done)
{
	const char *count = getenv(name);

	return count && (*done)++ < atoi(count);
}

ssize_t sendto(int fd, const void *data, size_t bytes, int flags,
	       const struct sockaddr *to, socklen_t to_bytes)
{
	static int done;

	if (!data && (!getenv("REFUSE_PORT") || fd == refused_fd) &&
	    is_refused("REFUSE_CALLS", &done)) {
		errno = atoi(getenv("REFUSE_ERRNO"));
		return -1;
	}
	return syscall(SYS_sendto, fd, data, bytes, flags, to, to_bytes);
}

int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	const struct sockaddr_xdp *xdp = (const void *)address;
	const char *port = getenv("REFUSE_PORT");
	static int done;

	if (address->sa_family == AF_XDP && port &&
	    if_nametoindex(port) == xdp->sxdp_ifindex)
		refused_fd = fd;
	if (address->sa_family == AF_XDP && is_refused("REFUSE_BINDS", &done)) {
		errno = EBUSY;
		return -1;
	}
	return syscall(SYS_bind, fd, address, bytes);
}
