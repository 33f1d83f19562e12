/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The options of one run, as read from JSON and checked. */
#ifndef XSK_OPTIONS_H
#define XSK_OPTIONS_H

#include "options_types.h"

/* Print every key. */
void options_help(void);

void options_free(struct options *o);

/*
 * Read and check @path ("-": stdin), looking up ports.  Returns 0 or -errno
 * after one line on stderr.
 */
int options_load(const char *path, struct options *o);

/* The settings as they are, defaults filled in. */
json_t *options_json(const struct options *o);

#endif
