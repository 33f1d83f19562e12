// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* AF_XDP sockets. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include "io.h"
#include "probes.h"
#include "util.h"

/* The queue of a socket that was closed stays busy for some 30 ms. */
#define BIND_TRIES    200
#define BIND_PAUSE_NS 10000000
/* System calls for one batch at the most; what is left waits for the next. */
#define KICK_TRIES 64

static int create_umem(struct io *io)
{
	const struct io_options *o = io->opt;
	struct xsk_umem_config config = {
		.fill_size = o->fill_ring,
		.comp_size = o->completion_ring,
		.frame_size = o->chunk_bytes,
		.frame_headroom = o->headroom,
		.flags = o->unaligned ? XDP_UMEM_UNALIGNED_CHUNK_FLAG : 0,
	};
	int err;

	err = xsk_umem__create(&io->umem->handle, io->umem->area,
			       io->umem->bytes, &io->rings->fill,
			       &io->rings->completion, &config);
	if (err)
		return fail(
			err,
			"cannot register UMEM: %s: %u chunks of %u bytes, headroom %lld: %s",
			io->ifname, io->umem->frames, io->umem->chunk,
			o->headroom, explain(err));
	return 0;
}

static int create_socket(struct io *io)
{
	static const int bind_flags[] = {
		[BIND_AUTO] = 0,
		[BIND_COPY] = XDP_COPY,
		[BIND_ZEROCOPY] = XDP_ZEROCOPY,
	};
	const struct io_options *o = io->opt;
	struct xsk_socket_config config = {
		.rx_size = o->rx_ring,
		.tx_size = o->tx_ring,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = bind_flags[o->bind] |
			      (o->need_wakeup ? XDP_USE_NEED_WAKEUP : 0) |
			      (o->span > 1 || o->multi_buffer ? XDP_USE_SG : 0),
	};
	struct timespec pause = { .tv_nsec = BIND_PAUSE_NS };
	int err, tries;

	for (tries = BIND_TRIES; tries; tries--) {
		err = xsk_socket__create_shared(
			&io->socket, io->ifname, io->queue, io->umem->handle,
			o->receive ? &io->rx : NULL,
			o->transmit ? &io->tx : NULL, &io->rings->fill,
			&io->rings->completion, &config);
		if (err != -EBUSY)
			return err;
		io->bind_retries++;
		nanosleep(&pause, NULL);
	}
	return err;
}

static int explain_bind(const struct io *io, int err)
{
	const struct io_options *o = io->opt;
	const char *what;

	switch (-err) {
	case EBUSY:
		what = "another socket has this queue: end that program";
		break;
	case EINVAL:
		what = o->span > 1 || o->multi_buffer ?
			       "this kernel has no frames of several buffers (Linux 6.6)" :
			       "the interface has no such queue, or is down: look at ethtool -l and ip link";
		break;
	case ENETDOWN:
		what = "the interface is down: ip link set it up";
		break;
	case EOPNOTSUPP:
	case EPROTONOSUPPORT:
		what = o->multi_buffer ?
			       "the driver has no frames of several buffers in this mode" :
		       o->bind == BIND_ZEROCOPY ?
			       "the driver has no AF_XDP zero-copy: use bind \"copy\"" :
			       "the driver or kernel cannot do this";
		break;
	default:
		what = explain(err);
	}
	return fail(err, "cannot bind AF_XDP socket: %s queue %d: %s",
		    io->ifname, io->queue, what);
}

static int set_tx_budget(struct io *io)
{
	__u32 budget = io->opt->tx_skb_budget;

	if (!budget || !io->opt->transmit)
		return 0;
	if (!setsockopt(io->fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &budget,
			sizeof(budget))) {
		io->budget_set = true;
		return 0;
	}
	if (errno == ENOPROTOOPT)
		return fail(
			-errno,
			"cannot set tx_skb_budget: %s: this kernel has no XDP_MAX_TX_SKB_BUDGET (Linux 6.17): leave it 0",
			io->ifname);
	return fail(
		-errno,
		"cannot set tx_skb_budget: %s: %u refused (%s): use 32 to tx_ring",
		io->ifname, budget, strerror(errno));
}

static void refill(struct io *io)
{
	struct umem *u = io->umem;
	struct queue_rings *r = io->rings;
	__u32 index, n, i;

	n = xsk_prod_nb_free(&r->fill, io->opt->batch);
	n = min(n, u->num_free);
	n = min(n, u->quota - min(u->quota, r->receiving));
	if (!n || !xsk_ring_prod__reserve(&r->fill, n, &index))
		return;
	for (i = 0; i < n; i++)
		*xsk_ring_prod__fill_addr(&r->fill, index + i) =
			umem_pop(u, CHUNK_FILL);
	xsk_ring_prod__submit(&r->fill, n);
	r->receiving += n;
	if (io->trace->now)
		PROBE2(fill, io->fd, n);
}

/* Returns how many chunks came back. */
static __u32 reap(struct io *io)
{
	struct queue_rings *r = io->rings;
	__u32 index, n, i;

	n = xsk_ring_cons__peek(&r->completion, r->sending, &index);
	if (!n)
		return 0;
	for (i = 0; i < n; i++) {
		__u64 addr =
			*xsk_ring_cons__comp_addr(&r->completion, index + i);

		/* in copy mode all chunks of a frame come back at once */
		if (io->umem->span == 1 ||
		    addr % (io->umem->span * io->umem->chunk) == 0)
			umem_push(io->umem, addr, CHUNK_TX);
	}
	xsk_ring_cons__release(&r->completion, n);
	r->sending -= n;
	if (io->trace->now)
		PROBE2(complete, io->fd, n);
	return n;
}

static int xdp_open(struct io *io)
{
	struct xdp_options options = {};
	socklen_t bytes = sizeof(options);
	int err;

	if (!io->umem->handle) {
		err = create_umem(io);
		if (err)
			return err;
	}
	err = create_socket(io);
	if (err)
		return explain_bind(io, err);
	io->fd = xsk_socket__fd(io->socket);
	if (getsockopt(io->fd, SOL_XDP, XDP_OPTIONS, &options, &bytes))
		return fail(-errno, "cannot read XDP_OPTIONS: %s: %s",
			    io->ifname, explain(-errno));
	io->zero_copy = options.flags & XDP_OPTIONS_ZEROCOPY;
	if (!io->zero_copy && io->opt->wake_tx == WAKE_NONE &&
	    io->opt->transmit)
		return fail(
			-EINVAL,
			"bad configuration: wake_tx none: in copy mode nothing would be sent: use sendto (%s)",
			io->ifname);
	io->wake_always = io->opt->busy_poll_us > 0;
	err = io_set_busy_poll(io) ?: set_tx_budget(io);
	if (!err && io->opt->receive && !io->number)
		refill(io);
	return err;
}

static void xdp_close(struct io *io)
{
	if (io->socket)
		xsk_socket__delete(io->socket);
	io->socket = NULL;
}

static __u32 whole_frames(struct io *io, __u32 index, __u32 n)
{
	__u32 i, ends = 0;

	for (i = 0; i < n; i++)
		ends += !(xsk_ring_cons__rx_desc(&io->rx, index + i)->options &
			  XDP_PKT_CONTD);
	return ends;
}

static __u32 xdp_rx(struct io *io, struct frame *frames, __u32 n)
{
	struct umem *u = io->umem;
	__u64 bytes = 0;
	__u32 index, i;

	n = xsk_ring_cons__peek(&io->rx, n, &index);
	if (!n)
		return 0;
	for (i = 0; i < n; i++) {
		const struct xdp_desc *desc =
			xsk_ring_cons__rx_desc(&io->rx, index + i);

		frames[i] = (struct frame){ .data = umem_data(u, desc->addr),
					    .addr = desc->addr,
					    .len = desc->len };
		bytes += desc->len;
		umem_move(u, umem_chunk(u, desc->addr), CHUNK_FILL, CHUNK_HELD);
	}
	io->n.rx += io->opt->multi_buffer ? whole_frames(io, index, n) : n;
	xsk_ring_cons__release(&io->rx, n);
	io->rings->receiving -= n;
	io->n.rx_bytes += bytes;
	if (trace_batch(io->trace))
		PROBE3(rx, io->fd, n, frames[0].data);
	refill(io);
	return n;
}

static void xdp_put(struct io *io, const struct frame *frames, __u32 n)
{
	__u32 i;

	for (i = 0; i < n; i++)
		umem_push(io->umem, frames[i].addr, CHUNK_HELD);
}

/* Descriptors that each frame may take. */
static __u32 xdp_room(struct io *io, __u32 wanted)
{
	__u32 span = io->umem->span;

	reap(io);
	return min(xsk_prod_nb_free(&io->tx, wanted * span) / span, wanted);
}

static __u32 xdp_get(struct io *io, struct frame *frames, __u32 n)
{
	struct umem *u = io->umem;
	__u32 i;

	n = min(n, u->num_free);
	for (i = 0; i < n; i++) {
		__u64 addr = umem_pop(u, CHUNK_HELD);

		frames[i] = (struct frame){ .data = u->area + addr,
					    .addr = addr,
					    .len = u->chunk * u->span };
	}
	return n;
}

static __u32 chunks_of(const struct umem *u, const struct frame *frame)
{
	return u->span == 1 ? 1 : (frame->len + u->chunk - 1) / u->chunk;
}

/* A descriptor for each chunk of a frame; all but its last say so. */
static void write_descs(struct io *io, const struct frame *frame, __u32 index)
{
	__u32 n = chunks_of(io->umem, frame), chunk = io->umem->chunk, i;

	for (i = 0; i < n; i++)
		*xsk_ring_prod__tx_desc(&io->tx, index + i) = (struct xdp_desc){
			.addr = frame->addr + i * chunk,
			.len = i + 1 < n ? chunk : frame->len - i * chunk,
			.options = i + 1 < n ? XDP_PKT_CONTD : 0,
		};
}

static void xdp_tx(struct io *io, const struct frame *frames, __u32 n)
{
	struct umem *u = io->umem;
	__u32 index, i, descs = 0;
	__u64 bytes = 0;

	for (i = 0; i < n; i++)
		descs += chunks_of(u, &frames[i]);
	if (!xsk_ring_prod__reserve(&io->tx, descs, &index))
		return;
	for (i = 0; i < n; i++) {
		write_descs(io, &frames[i], index);
		index += chunks_of(u, &frames[i]);
		bytes += frames[i].len;
		umem_move(u, umem_chunk(u, frames[i].addr), CHUNK_HELD,
			  CHUNK_TX);
	}
	xsk_ring_prod__submit(&io->tx, descs);
	io->rings->sending += descs;
	io->n.tx += n;
	io->n.tx_bytes += bytes;
	if (io->trace->now)
		PROBE3(tx, io->fd, n, frames[0].data);
}

/* How far the kernel has come in the TX ring. */
static __u32 taken(const struct io *io)
{
	return __atomic_load_n(io->tx.consumer, __ATOMIC_ACQUIRE);
}

static bool xdp_pending(const struct io *io)
{
	if (io->opt->wake_tx == WAKE_NONE)
		return false;
	/* the driver asks for it once it has nothing more to do */
	if (io->zero_copy && io->opt->need_wakeup && !io->wake_always &&
	    !xsk_ring_prod__needs_wakeup(&io->tx))
		return false;
	return io->tx.cached_prod != taken(io);
}

static int kick_once(struct io *io)
{
	struct pollfd fd = { .fd = io->fd, .events = POLLOUT };
	int err;

	io->n.tx_kicks++;
	if (io->trace->now)
		PROBE1(kick_begin, io->fd);
	if (io->opt->wake_tx == WAKE_POLL)
		err = poll(&fd, 1, 0);
	else
		err = sendto(io->fd, NULL, 0, MSG_DONTWAIT, NULL, 0);
	err = tx_busy_note(&io->n.tx_busy, err);
	if (io->trace->now)
		PROBE2(kick_end, io->fd, err);
	return err;
}

/*
 * In copy mode the kernel sends inside the system call, tx_skb_budget frames
 * of it at a time; with zero copy one call wakes the driver.  Where the ring is
 * full a call that sends none is repeated by the next kick: a driver whose
 * queue has stopped must not take the time of the thread's other sockets.
 */
static int xdp_kick(struct io *io)
{
	int err = 0, tries = io->zero_copy ? 1 : KICK_TRIES;
	__u32 before;
	bool moved;

	while (!err && tries-- && xdp_pending(io)) {
		before = taken(io);
		err = kick_once(io);
		moved = taken(io) != before;
		if (!err && !io->zero_copy && xdp_pending(io)) {
			io->n.tx_retries++;
			/* a full completion ring holds it up */
			moved |= reap(io) > 0;
		}
		if (io->wants_room && !moved)
			break;
	}
	return err;
}

static int xdp_idle(struct io *io)
{
	struct pollfd fd = { .fd = io->fd, .events = POLLIN };
	int err;

	refill(io);
	if (io->opt->wake_rx == WAKE_NONE)
		return 0;
	if (!io->wake_always &&
	    !(io->opt->need_wakeup &&
	      xsk_ring_prod__needs_wakeup(&io->rings->fill)))
		return 0;
	io->n.rx_wakes++;
	PROBE1(wake_rx_begin, io->fd);
	if (io->opt->wake_rx == WAKE_POLL)
		err = poll(&fd, 1, 0);
	else
		err = recvfrom(io->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
	err = err < 0 && !io_try_again(errno) ? -errno : 0;
	PROBE2(wake_rx_end, io->fd, err);
	return err;
}

static void xdp_prefill(struct io *io, const struct frame *frame)
{
	struct umem *u = io->umem;
	__u32 i;

	for (i = 0; i < u->num_free; i++)
		memcpy(u->area + u->free[i], frame->data, frame->len);
}

static __u32 xdp_unsent(struct io *io)
{
	reap(io);
	return io->rings->sending;
}

const struct io_ops xdp_ops = {
	.open = xdp_open,
	.close = xdp_close,
	.rx = xdp_rx,
	.put = xdp_put,
	.room = xdp_room,
	.get = xdp_get,
	.tx = xdp_tx,
	.kick = xdp_kick,
	.pending = xdp_pending,
	.idle = xdp_idle,
	.prefill = xdp_prefill,
	.unsent = xdp_unsent,
};
