// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * gen: send one frame as fast as the socket takes it.  Untouched, it is
 * written once into all memory; touched, again for each departure.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "traffic.h"
#include "util.h"

static int gen_role_open(struct worker *w)
{
	struct traffic *t = traffic_open(w->opt);
	static __u8 bytes[GEN_MAX_FRAME + 1];
	struct frame frame = { .data = bytes };
	int i;

	if (!t)
		return -ENOMEM;
	w->private = t;
	user_write(&t->streams[0], t->choices, &frame, t->gen.epoch[GEN_TRIAL],
		   0, 0, 0);
	for (i = 0; i < w->num_ios; i++)
		w->ios[i].ops->prefill(&w->ios[i], &frame);
	return 0;
}

static void gen_role_close(struct worker *w)
{
	traffic_close(w->private);
}

static int gen_io(struct worker *w, struct io *io)
{
	struct traffic *t = w->private;
	struct gen_stream *g = &t->streams[0];
	struct frame frames[XSK_BATCH];
	__u32 batch = w->opt->io.batch, n, i;
	int err;

	n = io->ops->get(io, frames, io_available(io, batch));
	if (n < batch)
		io->n.tx_full++;
	io->wants_room = !n;
	for (i = 0; i < n; i++) {
		frames[i].len = g->len;
		if (w->opt->touch != TOUCH_NONE)
			user_write(g, t->choices, &frames[i],
				   t->gen.epoch[GEN_TRIAL], g->seq++, 0, 0);
	}
	if (n)
		io->ops->tx(io, frames, n);
	err = io->ops->kick(io);
	return err ?: (int)n;
}

static int gen_turn(struct worker *w)
{
	int handled = 0, i, n;

	for (i = 0; i < w->num_ios; i++) {
		n = gen_io(w, &w->ios[i]);
		if (n < 0) {
			w->broken = w->ios[i].port;
			return n;
		}
		handled += n;
	}
	return handled;
}

const struct role_ops gen_role = { .open = gen_role_open,
				   .turn = gen_turn,
				   .close = gen_role_close };
