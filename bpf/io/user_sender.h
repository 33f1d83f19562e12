/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The paced sender in user space, over sockets: xdpgen's sender "xsk" and role
 * probe of xsk.  In the kernel it is xdpgen/live.bpf.c.
 */
#ifndef XDPLAB_USER_SENDER_H
#define XDPLAB_USER_SENDER_H

#include <stdbool.h>
#include "gen.h"
#include "io.h"

struct user_sender {
	struct gen_thread *gen;
	struct gen_stream *streams;
	const struct choice_column *choices; /* of all streams */
	struct io *io_of[GEN_STREAMS];	     /* by stream */
	struct io *ios;			     /* all sockets */
	int num_ios;
	__u32 batch; /* frames of a socket before one system call sends them */
	__u64 *lateness;	 /* HDR_COUNTS per stream */
	bool held;		 /* frames wait for room in a TX ring */
	bool stuck[GEN_STREAMS]; /* its port took no more frames in the trial */
};

/*
 * Write frame @seq of a stream; the last thing is the departure time.
 * Returns that time: @left, or if it is 0 the time when all else is written,
 * and not before @due.
 */
__u64 user_write(const struct gen_stream *g,
		 const struct choice_column *choices, struct frame *f,
		 __u8 epoch, __u64 seq, __u64 left, __u64 due);

/*
 * One look at the schedule at @now on CPU @cpu.  Returns 1 if a frame was
 * queued, 0, or -errno when a socket is broken.
 */
int user_send(struct user_sender *s, __u64 now, int cpu);

#endif
