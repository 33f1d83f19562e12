/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef XDPFWD_H
#define XDPFWD_H

#include <linux/types.h>

#define FWD_PORTS 2

/* Per port of arrival. */
struct fwd_counters {
	__u64 rx;
	__u64 sent; /* redirected, or sent back with XDP_TX */
};

#endif
