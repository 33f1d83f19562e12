// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* sink: receive and drop, and measure the stages of the way if asked to. */
#include <errno.h>
#include <stdlib.h>
#include "stages.h"
#include "touch.h"
#include "util.h"
#include "worker.h"

static int sink_open(struct worker *w)
{
	if (!w->opt->io.stages)
		return 0;
	w->private = calloc(1, sizeof(struct stages));
	return w->private ? 0 : fail(-ENOMEM, "cannot allocate: stages");
}

static void sink_close(struct worker *w)
{
	free(w->private);
}

static int sink_io(struct worker *w, struct io *io)
{
	struct frame frames[XSK_BATCH];
	__u32 n, i;
	__u64 now;

	n = io->ops->rx(io, frames, w->opt->io.batch);
	if (!n)
		return io->ops->idle(io);
	if (w->private) {
		now = now_ns();
		for (i = 0; i < n; i++)
			stages_add(w->private, &frames[i], now);
	}
	touch_frames(w->opt->touch, frames, n);
	io->ops->put(io, frames, n);
	return n;
}

static int sink_turn(struct worker *w)
{
	int handled = 0, i, n;

	for (i = 0; i < w->num_ios; i++) {
		n = sink_io(w, &w->ios[i]);
		if (n < 0) {
			w->broken = w->ios[i].port;
			return n;
		}
		handled += n;
	}
	return handled;
}

static void sink_report(const struct worker *w, json_t *root)
{
	if (w->private)
		json_object_set_new(root, "stages", stages_json(w->private));
}

const struct role_ops sink_role = { .open = sink_open,
				    .turn = sink_turn,
				    .report = sink_report,
				    .close = sink_close };
