// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The sender in user space: AF_XDP, copy mode, transmit only.  For kernels
 * without live frames, and the yardstick of AF_XDP copy-mode transmit.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <xdp/xsk.h>
#include "frame.h"
#include "hdr_index.h"
#include "sender.h"
#include "tx_busy.h"
#include "util.h"

#define RING	   1024
#define CHUNK	   4096
#define UMEM_BYTES ((size_t)RING * CHUNK)
/* The kernel takes 32 frames per call by default. */
#define KICK_FRAMES 32
#define DRAIN_TRIES 1000

struct xsk_port {
	struct xsk_umem *umem;
	struct xsk_socket *socket;
	struct xsk_ring_prod tx, fill;
	struct xsk_ring_cons completion;
	__u8 *area;
	int port;   /* index in the configuration */
	__u32 next; /* chunk, taken in turn: the kernel copies the data */
	__u32 unfinished;
	__u32 unkicked;
	struct tx_busy *busy; /* of the thread */
};

struct xsk_state {
	struct gen_thread gen;
	struct gen_stream streams[GEN_STREAMS];
	struct xsk_port ports[GEN_STREAMS];
	int num_ports;
	struct xsk_port *port_of[GEN_STREAMS]; /* by stream */
	struct tx_busy busy;
	__u64 lateness[]; /* HDR_COUNTS per stream */
};

static void port_close(struct xsk_port *p)
{
	if (p->socket)
		xsk_socket__delete(p->socket);
	if (p->umem)
		xsk_umem__delete(p->umem);
	if (p->area)
		munmap(p->area, UMEM_BYTES);
}

static int port_create(struct xsk_port *p, const char *ifname)
{
	struct xsk_umem_config umem = {
		.fill_size = RING,
		.comp_size = RING,
		.frame_size = CHUNK,
	};
	struct xsk_socket_config config = {
		.tx_size = RING,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = XDP_COPY,
	};
	int err;

	p->area = mmap(NULL, UMEM_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p->area == MAP_FAILED) {
		p->area = NULL;
		return -errno;
	}
	err = xsk_umem__create(&p->umem, p->area, UMEM_BYTES, &p->fill,
			       &p->completion, &umem);
	return err   ?:
		       xsk_socket__create(&p->socket, ifname, 0, p->umem, NULL,
					  &p->tx, &config);
}

static int port_open(struct xsk_port *p, const struct port *port)
{
	int ns, err;

	ns = netns_enter(port_netns(port));
	if (ns < 0)
		return ns;
	err = port_create(p, port->ifname);
	netns_leave(ns);
	return err;
}

/* Streams of the same port share its socket. */
static int add_stream(struct sender *s, struct xsk_state *x, int stream)
{
	int port = s->cfg->streams[s->index[stream]].tx_port, i;

	for (i = 0; i < x->num_ports; i++)
		if (x->ports[i].port == port)
			break;
	x->port_of[stream] = &x->ports[i];
	if (i < x->num_ports)
		return 0;
	x->ports[i].port = port;
	x->ports[i].busy = &x->busy;
	x->num_ports++;
	return port_open(&x->ports[i], &s->cfg->ports[port]);
}

static void xsk_close(struct sender *s)
{
	struct xsk_state *x = s->private;
	int i;

	if (!x)
		return;
	for (i = 0; i < x->num_ports; i++)
		port_close(&x->ports[i]);
	free(x);
	s->private = NULL;
}

static int xsk_open(struct sender *s)
{
	struct xsk_state *x;
	int i, err = 0;

	x = calloc(1, sizeof(*x) + s->count * HDR_COUNTS * sizeof(__u64));
	if (!x)
		return -ENOMEM;
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

static void reclaim(struct xsk_port *p)
{
	__u32 index, n;

	n = xsk_ring_cons__peek(&p->completion, RING, &index);
	xsk_ring_cons__release(&p->completion, n);
	p->unfinished -= n;
}

/* Frames in the ring that the kernel has not taken. */
static __u32 pending(const struct xsk_port *p)
{
	return p->tx.cached_prod -
	       __atomic_load_n(p->tx.consumer, __ATOMIC_ACQUIRE);
}

/* Let the kernel send what is in the ring; what it leaves stays there. */
static int kick(struct xsk_port *p)
{
	__u32 calls = pending(p) / KICK_FRAMES + 1;
	int err = 0;
	long sent;

	p->unkicked = 0;
	do {
		sent = sendto(xsk_socket__fd(p->socket), NULL, 0, MSG_DONTWAIT,
			      NULL, 0);
		err = tx_busy_note(p->busy, sent);
	} while (!err && sent < 0 && --calls);
	reclaim(p);
	return err;
}

/* Also what the kernel refused before: it is late already. */
static int kick_all(struct xsk_state *x)
{
	int i, err = 0;

	for (i = 0; !err && i < x->num_ports; i++)
		if (pending(&x->ports[i]))
			err = kick(&x->ports[i]);
	return err;
}

static void account_late(struct sender *s, struct xsk_state *x)
{
	__u32 key = hdr_index(s->gen->pending_late_ns);

	key += gen_account_late(s->gen, s->streams) * HDR_COUNTS;
	x->lateness[key]++;
}

/* Same steps as live_send() in live.bpf.c. */
static void send_frame(struct sender *s, struct xsk_port *p, __u32 pick,
		       __u32 index, __u64 now)
{
	struct gen_thread *gen = s->gen;
	struct gen_stream *g = &s->streams[pick];
	__u64 addr = (__u64)p->next++ % RING * CHUNK, due = g->due_ns,
	      left = now;
	bool paced = g->paced, trial = gen->stage == GEN_TRIAL;
	__u16 id_word = gen_id_word(g->id, gen->epoch[gen->stage & 1]);
	__u8 *data = p->area + addr;
	struct xdp_desc *desc;
	__u32 seq = g->seq;
	__s64 sum;

	sum = gen_write_head(g, data, data + g->len);
	gen_advance(gen, g, now);
	gen_choose(gen, s->streams);
	desc = xsk_ring_prod__tx_desc(&p->tx, index);
	*desc = (struct xdp_desc){ .addr = addr, .len = g->len };
	if (paced)
		while ((left = now_ns()) < due)
			;
	gen_write_trailer(data + g->len - TRAILER_BYTES, sum, id_word, seq,
			  left);
	xsk_ring_prod__submit(&p->tx, 1);
	p->unfinished++;
	p->unkicked++;
	if (paced && trial) {
		gen->pending = pick + 1;
		gen->pending_late_ns = left - due;
	}
}

static int poll_once(struct sender *s, struct xsk_state *x)
{
	__u64 now = now_ns();
	__u32 pick = x->gen.pick, index = 0;
	struct xsk_port *p = x->port_of[pick];
	int err = 0;

	if (x->gen.pending)
		account_late(s, x);
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
	if (p->unfinished == RING || !xsk_ring_prod__reserve(&p->tx, 1, &index))
		return kick(p); /* late, then, or skipped */
	send_frame(s, p, pick, index, now);
	if (p->unkicked >= (__u32)s->batch)
		err = kick(p);
	return err;
}

static int xsk_run(struct sender *s)
{
	struct xsk_state *x = s->private;
	int err = 0, i, tries;

	while (!err && !s->stop && x->gen.stage != GEN_DONE)
		err = poll_once(s, x);
	for (i = 0; !err && i < x->num_ports; i++)
		for (tries = DRAIN_TRIES; x->ports[i].unfinished && tries;
		     tries--)
			err = kick(&x->ports[i]);
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
