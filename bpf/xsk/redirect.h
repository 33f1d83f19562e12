/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the XDP program and its loader share. */
#ifndef XSK_REDIRECT_H
#define XSK_REDIRECT_H

#include <linux/types.h>

#define REDIRECT_QUEUES 256

/* Constant while the program runs. */
struct redirect_config {
	__u32 sockets; /* per queue */
	__u8 stamp;
};

#endif
