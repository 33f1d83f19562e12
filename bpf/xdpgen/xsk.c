// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The sender in user space: AF_XDP, copy mode, transmit only.  For kernels
 * without live frames, and the yardstick of AF_XDP copy-mode transmit.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include "hdr_index.h"
#include "sender.h"
#include "user_sender.h"
#include "util.h"

#define RING  1024
#define CHUNK 4096
/* How long it waits at the end for what it has queued to be sent. */
#define DRAIN_NS 200000000ULL

/* Frames that fit a chunk; of those that do not, as many as fill the ring. */
static const struct io_options one_chunk = {
	.transmit = true,
	.bind = BIND_COPY,
	.tx_ring = RING,
	.fill_ring = RING, /* unused, but there must be one */
	.completion_ring = RING,
	.chunk_bytes = CHUNK,
};

static struct io_options options_for(const struct sender *s)
{
	struct io_options o = one_chunk;
	int i;

	o.span = 1;
	for (i = 0; i < s->count; i++) {
		const struct stream *stream = &s->cfg->streams[s->index[i]];

		/* a power of two: an address tells whether a frame begins */
		while (stream_kernel_bytes(stream) > o.span * CHUNK)
			o.span *= 2;
	}
	return o;
}

struct xsk_state {
	struct gen_thread gen;
	struct gen_stream streams[GEN_STREAMS];
	struct io ios[GEN_STREAMS];
	struct umem umems[GEN_STREAMS];
	int num_ios;
	struct io_options options;
	struct user_sender sending;
	struct tx_busy busy; /* of all sockets, once they are done */
	struct trace trace;  /* none */
	__u64 lateness[];    /* HDR_COUNTS per stream */
};

static int port_open(struct io *io, const struct port *port, struct umem *umem,
		     const struct io_options *options, struct trace *trace)
{
	int ns, err;

	*io = (struct io){ .ops = &xdp_ops,
			   .opt = options,
			   .port = port,
			   .ifname = port->ifname,
			   .umem = umem,
			   .rings = &io->own_rings,
			   .trace = trace };
	err = umem_open(umem, options, 1);
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
	x->sending.io_of[stream] = &x->ios[i];
	if (i < x->num_ios)
		return 0;
	x->num_ios++;
	return port_open(&x->ios[i], port, &x->umems[i], &x->options,
			 &x->trace);
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
	x->options = options_for(s);
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

static int xsk_run(struct sender *s)
{
	struct xsk_state *x = s->private;
	__u64 deadline;
	int err = 0, i;

	x->sending.gen = &x->gen;
	x->sending.streams = x->streams;
	x->sending.choices = s->cfg->columns;
	x->sending.ios = x->ios;
	x->sending.num_ios = x->num_ios;
	x->sending.batch = s->batch;
	x->sending.lateness = x->lateness;
	while (err >= 0 && !s->stop && x->gen.stage != GEN_DONE)
		err = user_send(&x->sending, now_ns(),
				s->cpu == NO_CPU ? sched_getcpu() : s->cpu);
	err = min(err, 0);
	deadline = now_ns() + DRAIN_NS;
	for (i = 0; i < x->num_ios; i++) {
		struct io *io = &x->ios[i];

		do
			err = err ?: io_kick(io);
		while (!err && io->ops->unsent(io) && now_ns() < deadline);
		x->busy.eagain += io->n.tx_busy.eagain;
		x->busy.ebusy += io->n.tx_busy.ebusy;
		x->busy.enobufs += io->n.tx_busy.enobufs;
	}
	return err;
}

const struct sender_ops xsk_sender = {
	.name = "xsk",
	.card_batch = 64,
	.open = xsk_open,
	.run = xsk_run,
	.close = xsk_close,
};
