/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The clock of a card, by which it stamps frames. */
#ifndef XSK_CARD_CLOCK_H
#define XSK_CARD_CLOCK_H

#include <linux/types.h>

/* What it may be off CLOCK_TAI for its time stamps to be used. */
#define CARD_CLOCK_OFF_NS 1000

/*
 * How far the clock of a port of the current namespace is ahead of CLOCK_TAI.
 * Returns 0, or -errno: it has none, or it cannot be read.
 */
int card_clock_ahead(const char *ifname, __s64 *ns);

#endif
