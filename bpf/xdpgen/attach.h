/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Attaching a receiver to its port so that nothing stays behind. */
#ifndef XDPGEN_ATTACH_H
#define XDPGEN_ATTACH_H

#include "config.h"

struct attachment {
	int link_fd;	 /* XDP or TCX: closing it, or dying, detaches */
	__u32 filter;	 /* its handle at the classic tc hook, 0: none */
	const char *xdp; /* "native", "generic", "pass" or "none" */
	const char *tc;	 /* "tcx", "clsact" or "none" */
	/*
	 * The XDP link of a card, which stays from trial to trial: a driver may
	 * reset its card when the first program comes and when the last goes.
	 */
	int card_link; /* + 1, 0: none */
	int pass_fd;   /* program of the link when nobody receives */
};

/* 0, or -EBUSY after one line if a port carries an XDP program. */
int check_ports_free(const struct config *cfg);

/*
 * Attach program @fd (-1: none) as the port asks.  A card that @sends has an
 * XDP program in any case: most drivers take redirected frames only then.
 * Returns 0 or -errno after one line on stderr.
 */
int attach_port(struct attachment *at, const struct port *port, int fd,
		bool sends);
/* The trial is over: receive no more. */
void detach_port(struct attachment *at, const struct port *port);
/* Nothing stays. */
void leave_port(struct attachment *at, const struct port *port);

#endif
