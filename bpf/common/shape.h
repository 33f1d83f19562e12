/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the streams of a thread have.  A sender that defines GEN_HAS(what) before
 * it includes gen.h has no code for the rest.
 */
#ifndef XDPLAB_SHAPE_H
#define XDPLAB_SHAPE_H

#include <linux/types.h>

struct gen_shape {
	__u8 several; /* more than one stream */
	__u8 paced;
	__u8 poisson;
	__u8 bursts;
	__u8 drawn; /* flows that do not take turns */
	__u8 ranged;
	__u8 scrubs;
	__u8 requests;
	__u8 stamped; /* somebody asks when each frame left */
};

#ifndef GEN_HAS
#define GEN_HAS(what) 1
#endif

#endif
