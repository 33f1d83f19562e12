/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Stage latencies, after "XDP for TSN" (Linaro Connect BKK19): driver from
 * the wire to the network subsystem, stack from there to the application,
 * complete from the wire to the application.  The wire is the NIC's time
 * stamp, or else the departure time in the frame's trailer, which a sender on
 * this machine wrote.
 */
#ifndef XSK_STAGES_H
#define XSK_STAGES_H

#include "distribution.h"
#include "io.h"

struct stages {
	struct distribution driver;
	struct distribution stack;
	struct distribution complete;
	__u64 hardware; /* frames with a time stamp of the NIC */
	__u64 software;
	__u64 unstamped; /* neither, nor a trailer */
	__u64 reversed;	 /* a stage ended before it began: it took 0 ns */
};

/* Account a frame that the application saw at @now. */
void stages_add(struct stages *s, const struct frame *f, __u64 now);
json_t *stages_json(const struct stages *s);

#endif
