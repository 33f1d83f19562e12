/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The links of the ports: up before traffic, and watched while it lasts. */
#ifndef XDPGEN_LINKS_H
#define XDPGEN_LINKS_H

#include "config.h"

/* Netlink sockets, one for each port, in its namespace. */
struct links {
	int fd[MAX_PORTS];
	int count;
	__u32 lost[MAX_PORTS];	/* times that the carrier went, ever */
	__u32 first[MAX_PORTS]; /* the same when the watch began */
	bool watched[MAX_PORTS];
};

/*
 * Wait until all ports have a carrier, and begin to watch them.  0, or -errno
 * with @error set, e.g. -ENETDOWN: one has none.
 */
int links_open(struct links *l, const struct config *cfg, char *error,
	       size_t bytes);
/*
 * Read what has come at port @i, and how it is now.  0, or -ENODEV (the port is gone) or -ENETDOWN
 * (its carrier is, unless the configuration allows that) with @error set.
 */
int links_read(struct links *l, const struct config *cfg, int i, char *error,
	       size_t bytes);
/* Times that the carrier of a port has gone since links_open(). */
static inline __u32 links_changes(const struct links *l, int i)
{
	return l->lost[i] - l->first[i];
}

void links_close(struct links *l);

#endif
