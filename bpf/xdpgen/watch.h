/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The main thread while senders run. */
#ifndef XDPGEN_WATCH_H
#define XDPGEN_WATCH_H

#include <stdio.h>
#include "run.h"

/* Block and catch signals; call before any thread exists. */
void watch_prepare(void);
/* Have the calling thread run when a real-time sender of its core does not sleep. */
int watch_above_senders(struct run *run);
/* Wait for the senders to end; stops each.  0 or -errno. */
int watch_senders(struct run *run);
/* Sleep for @ns, < 1 s; true when a signal to stop came. */
bool watch_pause(long ns);
/*
 * Wait for another configuration in @in, which is not buffered; false at its end
 * or when a signal to stop came.
 */
bool watch_input(FILE *in);

#endif
