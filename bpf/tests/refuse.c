// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * LD_PRELOAD: a busy kernel.  The first REFUSE_CALLS calls that ask it to send
 * what is in a ring fail with REFUSE_ERRNO.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t sendto(int fd, const void *data, size_t bytes, int flags,
	       const struct sockaddr *to, socklen_t to_bytes)
{
	static int left = -1;

	if (left < 0)
		left = atoi(getenv("REFUSE_CALLS"));
	if (!data && left > 0) {
		left--;
		errno = atoi(getenv("REFUSE_ERRNO"));
		return -1;
	}
	return syscall(SYS_sendto, fd, data, bytes, flags, to, to_bytes);
}
