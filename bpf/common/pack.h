/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Many counts, most of them zero, in little text: ZigZag LEB128, zlib, base64. */
#ifndef XDPLAB_PACK_H
#define XDPLAB_PACK_H

#include <stddef.h>
#include <linux/types.h>

/* Bytes that put_counts() may write. */
size_t pack_room(size_t count);

/*
 * Write counts as HdrHistogram V2 does: a run of n zeroes as -n, those at the
 * end not at all.  Returns the end of what is written.
 */
__u8 *put_counts(__u8 *p, const __u64 *counts, size_t count);

/* Both to be freed, or NULL. */
char *base64(const __u8 *data, size_t bytes);
char *pack_counts(const __u64 *counts, size_t count);

#endif
