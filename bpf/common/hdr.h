/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef XDPLAB_HDR_H
#define XDPLAB_HDR_H

#include <linux/types.h>
#include "hdr_index.h"

/*
 * Encode HDR_COUNTS counts as HdrHistogram V2 compressed, base64.  Returns a
 * string to free(), or NULL when out of memory.
 */
char *hdr_encode(const __u64 *counts);

#endif
