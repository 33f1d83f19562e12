/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Send calls that a busy kernel refused: the frames stay in the ring, and the
 * call has to be repeated for as long as some are there.
 */
#ifndef XDPLAB_TX_BUSY_H
#define XDPLAB_TX_BUSY_H

#include <errno.h>
#include <linux/types.h>

struct tx_busy {
	__u64 eagain; /* also: the budget of one call is used up */
	__u64 ebusy;
	__u64 enobufs;
};

/* Count what a call came to.  0, or -errno when the socket is broken. */
static inline int tx_busy_note(struct tx_busy *b, long result)
{
	if (result >= 0)
		return 0;
	switch (errno) {
	case EAGAIN:
		b->eagain++;
		return 0;
	case EBUSY:
		b->ebusy++;
		return 0;
	case ENOBUFS:
		b->enobufs++;
		return 0;
	case EINTR:
		return 0;
	}
	return -errno;
}

#endif
