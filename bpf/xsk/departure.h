/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef XSK_DEPARTURE_H
#define XSK_DEPARTURE_H

#include <linux/if_ether.h>
#include "io.h"
#include "trailer.h"

/* Departure time of a frame of xdpgen or xsk, or 0. */
static inline __u64 frame_departure(const struct frame *f)
{
	const __u8 *trailer = f->data + f->len - TRAILER_BYTES;

	if (f->len < ETH_HLEN + TRAILER_BYTES ||
	    trailer_at(const __u16, trailer, 0) !=
		    (__u16)to_be(16, TRAILER_MAGIC))
		return 0;
	return to_be(64, trailer_at(const __u64, trailer, TRAILER_OFF_NS));
}

#endif
