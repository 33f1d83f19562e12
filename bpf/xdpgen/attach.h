/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Attaching a receiver to its port so that nothing stays behind. */
#ifndef XDPGEN_ATTACH_H
#define XDPGEN_ATTACH_H

#include "config.h"

struct attachment {
	int link_fd;	 /* XDP or TCX: closing it, or dying, detaches */
	__u32 filter;	 /* its handle at the classic tc hook, 0: none */
	const char *xdp; /* "native", "generic" or "none" */
	const char *tc;	 /* "tcx", "clsact" or "none" */
};

/*
 * Attach program @fd as the port asks.  Returns 0 or -errno after one line
 * on stderr.
 */
int attach_port(struct attachment *at, const struct port *port, int fd);
void detach_port(struct attachment *at, const struct port *port);

#endif
