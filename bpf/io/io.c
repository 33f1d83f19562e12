// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <sys/socket.h>
#include "io.h"
#include "util.h"

static int set_option(struct io *io, int name, int value, const char *key)
{
	if (!setsockopt(io->fd, SOL_SOCKET, name, &value, sizeof(value)))
		return 0;
	return fail(-errno, "cannot set %s: %s: %d refused: %s", key,
		    io->ifname, value, explain(-errno));
}

int io_set_busy_poll(struct io *io)
{
	const struct io_options *o = io->opt;
	int err = 0;

	if (o->prefer_busy_poll)
		err = set_option(io, SO_PREFER_BUSY_POLL, 1,
				 "prefer_busy_poll");
	if (!err && o->busy_poll_us)
		err = set_option(io, SO_BUSY_POLL, o->busy_poll_us,
				 "busy_poll_us");
	if (!err && o->busy_poll_budget)
		err = set_option(io, SO_BUSY_POLL_BUDGET, o->busy_poll_budget,
				 "busy_poll_budget");
	return err;
}
