/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef XSK_REPORT_H
#define XSK_REPORT_H

#include "run.h"

/* One JSON object on one line each: what is in use, and what was counted. */
int print_ready(const struct run *run);
int print_counters(const struct run *run, const char *event);
/* @error: why nothing is recorded, or was written; or NULL. */
int print_trace(bool recording, const char *error);

#endif
