/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The configuration of one run, as read from JSON and checked. */
#ifndef XDPGEN_CONFIG_H
#define XDPGEN_CONFIG_H

#include <stdio.h>
#include "config_types.h"

/*
 * Read the next configuration of @in and check it, looking up ports; @path is
 * its name in errors.  Returns 0 or -errno after one line on stderr.
 */
int config_read(FILE *in, const char *path, struct config *cfg);

/* Print every key. */
void config_help(void);

#endif
