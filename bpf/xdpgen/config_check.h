/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef XDPGEN_CONFIG_CHECK_H
#define XDPGEN_CONFIG_CHECK_H

#include "config_types.h"

/*
 * Checks that need more than one value, or the system: finds the ports.
 * Returns 0 or -errno after one line on stderr.
 */
int config_check(struct config *cfg);

#endif
