/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef XSK_OPTIONS_CHECK_H
#define XSK_OPTIONS_CHECK_H

#include "options_types.h"

/*
 * Checks that need more than one value, or the system: finds the ports.
 * Returns 0 or -errno after one line on stderr.
 */
int options_check(struct options *o);

#endif
