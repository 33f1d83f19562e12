/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The main thread while workers run. */
#ifndef XSK_WATCH_H
#define XSK_WATCH_H

#include "run.h"

/* Sleep until the time is over, a signal, or a broken port or socket. */
int watch(struct run *run);
/* Block the signals that watch() reads; before any thread starts. */
void watch_prepare(void);

#endif
