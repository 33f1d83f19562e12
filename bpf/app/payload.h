/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A stream of bytes that both ends know, so that each byte can be checked. */
#ifndef XDPLAB_PAYLOAD_H
#define XDPLAB_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

/* So many bytes are there behind what payload() returns. */
#define PAYLOAD_CHUNK (64 << 10)

void payload_begin(void);

/*
 * Stream @seed from byte @offset on.  Streams repeat after a
 * prime number of bytes: what is shifted, or of another stream, is not alike.
 */
const __u8 *payload(__u32 seed, __u64 offset);

/* Is @data, at most PAYLOAD_CHUNK bytes, what payload() returns? */
bool payload_intact(__u32 seed, __u64 offset, const __u8 *data, size_t bytes);

#endif
