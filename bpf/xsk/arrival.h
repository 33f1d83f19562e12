/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * When a frame arrived, stored right in front of it: by the XDP program in
 * the metadata (AF_XDP), or by us from the ring header (AF_PACKET).
 */
#ifndef XSK_ARRIVAL_H
#define XSK_ARRIVAL_H

#include <linux/types.h>

#define ARRIVAL_MAGIC 0x78736b61 /* "xska" */

struct arrival_times {
	__u64 hardware_ns; /* the NIC's clock; 0 = it has none */
	__u64 tai_ns;	   /* CLOCK_TAI, which the NIC's clock follows */
	__u64 software_ns; /* CLOCK_MONOTONIC */
	__u32 magic;
	__u32 queue;
};

#endif
