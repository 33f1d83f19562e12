/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A socket on one queue of one port: what AF_XDP and AF_PACKET have in
 * common, so that roles are written once.
 *
 * A frame is borrowed from rx() or get() and goes back by tx() or put().
 * What rx() gave may be handed to tx() of an io on the same UMEM without a
 * copy (io_same_memory()).
 */
#ifndef XSK_IO_H
#define XSK_IO_H

#include <errno.h>
#include <stdbool.h>
#include <linux/types.h>
#include "io_options.h"
#include "trace.h"
#include "tx_busy.h"
#include "umem.h"

/* Newer than the headers of Debian 12. */
#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#endif
#ifndef SO_BUSY_POLL_BUDGET
#define SO_BUSY_POLL_BUDGET 70
#endif
#ifndef XDP_MAX_TX_SKB_BUDGET
#define XDP_MAX_TX_SKB_BUDGET 9 /* Linux 6.17 */
#endif
#ifndef XDP_USE_SG
#define XDP_USE_SG    (1 << 4) /* Linux 6.6 */
#define XDP_PKT_CONTD (1 << 0)
#endif

struct frame {
	__u8 *data;
	__u64 addr; /* AF_XDP: as in its descriptor; AF_PACKET: its slot */
	__u32 len;
};

struct io_counters {
	__u64 rx;
	__u64 rx_bytes;
	__u64 tx;
	__u64 tx_bytes;
	__u64 rx_wakes;	  /* system calls for the receive side */
	__u64 tx_kicks;	  /* system calls for the transmit side */
	__u64 tx_retries; /* of these, because the kernel had left frames */
	__u64 tx_full;	  /* times a full TX ring held frames back */
	__u64 truncated;  /* did not fit a slot, dropped */
	__u64 tx_refused; /* the kernel would not send (AF_PACKET) */
	struct tx_busy tx_busy;
};

struct packet;
struct port;

/* Fill and completion ring of one queue; sockets of a queue share them. */
struct queue_rings {
	struct xsk_ring_prod fill;
	struct xsk_ring_cons completion;
	__u32 receiving; /* chunks the kernel has for receiving */
	__u32 sending;	 /* chunks the kernel has for sending */
};

struct io {
	const struct io_ops *ops;
	const struct io_options *opt;
	const struct port *port; /* as the program has it */
	const char *ifname;
	int queue;
	int number; /* of the sockets of this queue */
	int fd;
	struct io_counters n;
	__u32 unkicked;	     /* frames that a role has queued since its kick */
	bool wants_room;     /* a role has frames and nowhere to put them */
	struct trace *trace; /* of the worker */
	/* AF_XDP */
	struct umem *umem;
	struct queue_rings *rings; /* own_rings, or those of number 0 */
	struct queue_rings own_rings;
	struct xsk_socket *socket;
	struct xsk_ring_cons rx;
	struct xsk_ring_prod tx;
	bool zero_copy;
	bool wake_always; /* busy polling is on */
	__u32 bind_retries;
	bool budget_set;
	/* AF_PACKET */
	struct packet *packet;
};

struct io_ops {
	/* Returns 0 or -errno after one line on stderr. */
	int (*open)(struct io *io);
	void (*close)(struct io *io);
	/* Receive up to @n frames, without a system call. */
	__u32 (*rx)(struct io *io, struct frame *frames, __u32 n);
	/* Give frames back that are not sent on. */
	void (*put)(struct io *io, const struct frame *frames, __u32 n);
	/* How many frames tx() takes now. */
	__u32 (*room)(struct io *io, __u32 wanted);
	/* Up to @n empty frames to send; no more than room() has told. */
	__u32 (*get)(struct io *io, struct frame *frames, __u32 n);
	/* Queue frames; there is room. */
	void (*tx)(struct io *io, const struct frame *frames, __u32 n);
	/* Make the kernel send.  0, or -errno when the socket is broken. */
	int (*kick)(struct io *io);
	/* Has the kernel left frames that wait for a kick? */
	bool (*pending)(const struct io *io);
	/* Nothing was received: wake the kernel if it wants to be. */
	int (*idle)(struct io *io);
	/* Write @frame into all memory that get() will give. */
	void (*prefill)(struct io *io, const struct frame *frame);
	/* Frames queued that the kernel has not finished. */
	__u32 (*unsent)(struct io *io);
};

extern const struct io_ops xdp_ops;

/* Is this what a busy kernel says, not a broken socket? */
static inline bool io_try_again(int err)
{
	return err == EAGAIN || err == EBUSY || err == ENOBUFS || err == EINTR;
}

static inline bool io_same_memory(const struct io *a, const struct io *b)
{
	return a->umem && a->umem == b->umem;
}

static inline int io_kick(struct io *io)
{
	io->unkicked = 0;
	return io->ops->kick(io);
}

/* How many frames get() and tx() take now. */
static inline __u32 io_available(struct io *io, __u32 wanted)
{
	__u32 n = io->ops->room(io, wanted);

	return io->umem && io->umem->num_free < n ? io->umem->num_free : n;
}

/* Busy-poll options of either kind of socket; one line and -errno if refused. */
int io_set_busy_poll(struct io *io);

#endif
