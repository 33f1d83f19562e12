/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef XDPGEN_FRAMES_H
#define XDPGEN_FRAMES_H

#include "config.h"

/*
 * Fill the state of a sender thread from the streams cfg->streams[index[i]]:
 * templates, intervals, first departures.  The warm-up starts at @start_ns.
 */
void gen_init(struct gen_thread *t, struct gen_stream *streams,
	      const struct config *cfg, const int *index, int count,
	      __u64 start_ns, __u8 epoch);

/* Write a stream's headers and checksums (udp source port left zero). */
void frame_template(const struct stream *s, struct gen_stream *g);

#endif
