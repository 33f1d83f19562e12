// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The sender in user space: AF_XDP, copy mode, transmit only.  For kernels
 * without live frames, and the yardstick of AF_XDP copy-mode transmit.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include "frame.h"
#include "frames.h"
#include "hdr_index.h"
#include "io.h"
#include "sender.h"
#include "util.h"

#define RING	    1024
#define CHUNK	    4096
#define DRAIN_TRIES 1000

static const struct io_options options = {
	.transmit = true,
	.bind = BIND_COPY,
	.tx_ring = RING,
	.fill_ring = RING, /* unused, but there must be one */
	.completion_ring = RING,
	.chunk_bytes = CHUNK,
};

struct xsk_state {
	struct gen_thread gen;
	struct gen_stream streams[GEN_STREAMS];
	struct io ios[GEN_STREAMS];
	struct umem umems[GEN_STREAMS];
	int num_ios;
	struct io *io_of[GEN_STREAMS]; /* by stream */
	struct tx_busy busy;	       /* of all sockets, once they are done */
	struct trace trace;	       /* none */
	__u64 lateness[];	       /* HDR_COUNTS per stream */
};

static int port_open(struct io *io, const struct port *port, struct umem *umem,
		     struct trace *trace)
{
	int ns, err;

	*io = (struct io){ .ops = &xdp_ops,
			   .opt = &options,
			   .port = port,
			   .ifname = port->ifname,
			   .umem = umem,
			   .rings = &io->own_rings,
			   .trace = trace };
	err = umem_open(umem, &options, 1);
	if (err)
		return err;
	ns = netns_enter(port_netns(port));
	if (ns < 0)
		return fail(ns, "cannot enter network namespace: %s: %s",
			    port->netns, explain(ns));
	err = io->ops->open(io);
	netns_leave(ns);
	return err;
}

/* Streams of the same port share its socket. */
static int add_stream(struct sender *s, struct xsk_state *x, int stream)
{
	const struct port *port =
		&s->cfg->ports[s->cfg->streams[s->index[stream]].tx_port];
	int i;

	for (i = 0; i < x->num_ios; i++)
		if (x->ios[i].port == port)
			break;
	x->io_of[stream] = &x->ios[i];
	if (i < x->num_ios)
		return 0;
	x->num_ios++;
	return port_open(&x->ios[i], port, &x->umems[i], &x->trace);
}

static void xsk_close(struct sender *s)
{
	struct xsk_state *x = s->private;
	int i;

	for (i = 0; x && i < x->num_ios; i++) {
		x->ios[i].ops->close(&x->ios[i]);
		umem_close(&x->umems[i]);
	}
	free(x);
	s->private = NULL;
}

static int xsk_open(struct sender *s)
{
	struct xsk_state *x;
	int i, err = 0;

	x = calloc(1, sizeof(*x) + s->count * HDR_COUNTS * sizeof(__u64));
	if (!x)
		return fail(-ENOMEM, "cannot allocate: %d streams", s->count);
	s->private = x;
	s->gen = &x->gen;
	s->streams = x->streams;
	s->lateness = x->lateness;
	s->tx_busy = &x->busy;
	s->redirect_errors = NULL;
	s->done_fd = -1;
	for (i = 0; !err && i < s->count; i++)
		err = add_stream(s, x, i);
	if (err)
		xsk_close(s);
	return err;
}

/* Also what the kernel refused before: it is late already. */
static int kick_all(struct xsk_state *x)
{
	int i, err = 0;

	for (i = 0; !err && i < x->num_ios; i++)
		err = io_kick(&x->ios[i]);
	return err;
}

static void account_late(struct sender *s, struct xsk_state *x)
{
	__u32 key = hdr_index(s->gen->pending_late_ns);

	key += gen_account_late(s->gen, s->streams) * HDR_COUNTS;
	x->lateness[key]++;
}

/* Same steps as live_send() in live.bpf.c. */
static void send_frame(struct sender *s, struct io *io, __u32 pick, __u64 now)
{
	struct gen_thread *gen = s->gen;
	struct gen_stream *g = &s->streams[pick];
	bool paced = g->paced, trial = gen->stage == GEN_TRIAL;
	bool sliced = trial && g->sliced;
	__u16 id_word = gen_id_word(g->id, gen->epoch[gen->stage & 1]);
	__u64 due = g->due_ns, left = now;
	struct frame frame;
	__u32 seq = g->seq, flow;
	__s64 sum;

	io->ops->get(io, &frame, 1);
	frame.len = g->len;
	flow = choice_flow(&g->choice, s->cfg->columns, seq);
	sum = gen_write_head(g, g->first_flow + flow, frame.data,
			     frame.data + frame.len);
	gen_advance(gen, g, gen_gaps(), now);
	gen_choose(gen, s->streams);
	if (paced)
		while ((left = now_ns()) < due)
			;
	gen_write_trailer(frame.data + frame.len - TRAILER_BYTES, sum, id_word,
			  seq, left);
	io->ops->tx(io, &frame, 1);
	io->unkicked++;
	if (paced && trial) {
		gen->pending = pick + 1;
		gen->pending_late_ns = left - due;
	}
	if (sliced)
		gen->sliced_ns = left;
}

static int poll_once(struct sender *s, struct xsk_state *x)
{
	__u64 now = now_ns();
	__u32 pick = x->gen.pick;
	struct io *io = x->io_of[pick];

	if (x->gen.pending)
		account_late(s, x);
	if (x->gen.sliced_ns)
		gen_account_slice(&x->gen);
	gen_account_poll(&x->gen, now,
			 s->cpu == NO_CPU ? sched_getcpu() : s->cpu);
	switch (gen_due(&x->gen, x->streams, &x->streams[pick], now)) {
	case GEN_SEND:
		break;
	case GEN_CHANGE:
		gen_choose(&x->gen, x->streams);
		return kick_all(x);
	case GEN_WAIT:
		return kick_all(x);
	}
	if (!io_available(io, 1))
		return io_kick(io); /* late, then, or skipped */
	send_frame(s, io, pick, now);
	return io->unkicked >= (__u32)s->batch ? io_kick(io) : 0;
}

static int xsk_run(struct sender *s)
{
	struct xsk_state *x = s->private;
	int err = 0, i, tries;

	while (!err && !s->stop && x->gen.stage != GEN_DONE)
		err = poll_once(s, x);
	for (i = 0; i < x->num_ios; i++) {
		struct io *io = &x->ios[i];

		for (tries = DRAIN_TRIES; !err && tries; tries--) {
			err = io_kick(io);
			if (!io->ops->unsent(io))
				break;
		}
		x->busy.eagain += io->n.tx_busy.eagain;
		x->busy.ebusy += io->n.tx_busy.ebusy;
		x->busy.enobufs += io->n.tx_busy.enobufs;
	}
	return err;
}

const struct sender_ops xsk_sender = {
	.name = "xsk",
	/* one system call per frame costs more than a frame in a batch */
	.single_max_pps = 200000,
	.small_max_pps = 200000,
	.open = xsk_open,
	.run = xsk_run,
	.close = xsk_close,
};
