/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A stream of frames: its JSON, and what is checked about it. */
#ifndef XDPLAB_STREAM_H
#define XDPLAB_STREAM_H

#include <jansson.h>
#include "stream_types.h"

/* Print the keys of a stream. */
void streams_help(void);

/*
 * Read an array of 1 to GEN_STREAMS streams.  Returns their number, or
 * -EINVAL after one line on stderr.
 */
int streams_read(const json_t *array, struct stream *streams);

/* The bytes of a checked stream's request.  Returns their number. */
int stream_request(const struct stream *s, unsigned char *bytes);

/*
 * Check one of @count streams: addresses, and that the frame fits what its
 * port @ifname sends: @mtu, and @largest bytes without FCS.  Returns 0 or
 * -EINVAL after one line on stderr.
 */
int stream_check(const struct stream *streams, int index,
		 const struct gen_timing *timing, const char *ifname, int mtu,
		 int largest);

#endif
