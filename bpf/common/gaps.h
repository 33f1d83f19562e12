/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef XDPLAB_GAPS_H
#define XDPLAB_GAPS_H

#include <linux/types.h>

/* GEN_GAP_CELLS entries, as gen_gap() takes them. */
const __u32 *gen_gaps(void);

#endif
