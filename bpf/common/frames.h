/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef XDPLAB_FRAMES_H
#define XDPLAB_FRAMES_H

#include "gaps.h"
#include "stream_flows.h"

/*
 * Fill the state of a sender thread from the streams wanted[index[i]]:
 * templates and intervals.  Nothing is due until gen_schedule().
 */
void gen_init(struct gen_thread *t, struct gen_stream *streams,
	      const struct stream *wanted, const int *index, int count,
	      const struct gen_timing *timing, __u8 epoch);

/* Start the warm-up at @start_ns; the thread may be polling already. */
void gen_schedule(struct gen_thread *t, struct gen_stream *streams,
		  const struct stream *wanted, const int *index,
		  const struct gen_timing *timing, __u64 start_ns);

/* What the streams wanted[index[i]] have. */
struct gen_shape gen_shape_of(const struct stream *wanted, const int *index,
			      int count);

/* Frames the schedule asked for but that the end of the trial cut off. */
__u64 gen_cut_off(const struct gen_stream *g, __u64 trial_ns, __u64 end_ns);

/*
 * When the trial of a thread's streams was over: as configured, or with the
 * last departure if each of them ends with its count.
 */
__u64 gen_trial_end(const struct gen_thread *t,
		    const struct gen_stream *streams);

/*
 * The time, in s, that the rates of a stream in the trial are over.  One that
 * came to its count: from its first departure to its last, and a mean interval
 * more, because N frames have N - 1 intervals (0: a single frame has no rate);
 * as scheduled, if some of them were skipped.  Others: from their start to
 * @end_ns, the end of the trial.
 */
double gen_sending_s(const struct gen_stream *g, __u64 end_ns);

/*
 * Write a stream's headers and checksums (udp source port left zero, and of
 * addresses in turns what differs).
 */
void frame_template(const struct stream *s, struct gen_stream *g);

#endif
