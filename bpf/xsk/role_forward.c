// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * forward: what comes in at one port leaves by the other.  reflect: it leaves
 * by the port it came from.
 *
 * A frame is taken only when there is room to send it, so none is lost here:
 * what is too much stays in the receive ring, where the kernel counts it.
 */
#include <errno.h>
#include <string.h>
#include <linux/if_ether.h>
#include "departure.h"
#include "touch.h"
#include "util.h"
#include "worker.h"

/* Frames that fit are copied to @to; returns how many, all others counted. */
static __u32 copy_frames(struct io *in, const struct frame *from,
			 struct frame *to, __u32 n)
{
	__u32 i, fit = 0;

	for (i = 0; i < n; i++) {
		if (from[i].len > to[fit].len) {
			in->n.truncated++;
			continue;
		}
		memcpy(to[fit].data, from[i].data, from[i].len);
		to[fit++].len = from[i].len;
	}
	return fit;
}

static void send_copies(struct io *in, struct io *out,
			const struct frame *frames, __u32 n)
{
	struct frame copies[XSK_BATCH];
	__u32 fit;

	n = out->ops->get(out, copies, n);
	fit = copy_frames(in, frames, copies, n);
	if (fit)
		out->ops->tx(out, copies, fit);
	if (fit < n && out->umem)
		out->ops->put(out, copies + fit, n - fit);
	in->ops->put(in, frames, n);
}

static int forward_lane(const struct options *o, struct io *in, struct io *out)
{
	bool same = io_same_memory(in, out), stamps;
	struct frame frames[XSK_BATCH];
	__u32 batch = o->io.batch, n;
	__u64 sent = 0;
	int err;

	n = same ? out->ops->room(out, batch) : io_available(out, batch);
	if (n < batch)
		out->n.tx_full++;
	if (n)
		n = in->ops->rx(in, frames, n);
	if (!n)
		return out->ops->kick(out) ?: in->ops->idle(in);
	stamps = trace_stamps(in->trace);
	if (stamps)
		trace_received(in->trace, n);
	/* a slot of AF_PACKET is the kernel's again once it was put back */
	if (stamps && !in->umem)
		sent = frame_departure(frames);
	touch_frames(o->touch, frames, n);
	if (same)
		out->ops->tx(out, frames, n);
	else
		send_copies(in, out, frames, n);
	if (stamps)
		trace_queued(in->trace, n);
	err = out->ops->kick(out);
	if (stamps) {
		trace_kicked(in->trace);
		/* a chunk of a UMEM is ours to read until this thread refills */
		trace_keep(in->trace,
			   in->umem ? frame_departure(frames) : sent);
	}
	return err ?: (int)n;
}

static int turn_between(struct worker *w, int ports)
{
	int handled = 0, port, lane, n;

	for (port = 0; port < ports; port++) {
		for (lane = 0; lane < w->lanes; lane++) {
			struct io *in = worker_io(w, port, lane);

			n = forward_lane(w->opt, in,
					 worker_io(w, ports - 1 - port, lane));
			if (n < 0) {
				w->broken = in->port;
				return n;
			}
			handled += n;
		}
	}
	return handled;
}

static int nothing_to_open(struct worker *w)
{
	(void)w;
	return 0;
}

static int forward_turn(struct worker *w)
{
	return turn_between(w, 2);
}

static int reflect_turn(struct worker *w)
{
	return turn_between(w, 1);
}

const struct role_ops forward_role = { .open = nothing_to_open,
				       .turn = forward_turn };
const struct role_ops reflect_role = { .open = nothing_to_open,
				       .turn = reflect_turn };
