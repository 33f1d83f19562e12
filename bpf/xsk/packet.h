/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The rings of an AF_PACKET socket. */
#ifndef XSK_PACKET_H
#define XSK_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>
#include "io.h"

struct tpacket3_hdr;

struct packet {
	__u8 *map; /* RX ring, then TX ring */
	size_t map_bytes;
	int version;
	__u32 slot_bytes;
	__u32 block_bytes;
	/* receive: counts of frames taken and put back */
	__u32 rx_slots;
	__u64 rx_next;
	__u64 rx_done;
	bool cut; /* the last frame did not fit its slot */
	bool stamps;
	__u64 realtime_ahead_ns; /* of CLOCK_MONOTONIC */
	__u32 idles;
	/* receive, version 3 */
	__u32 blocks;
	__u32 block;
	__u32 left;
	struct tpacket3_hdr *next;
	/* transmit: counts of frames queued and finished */
	__u8 *tx_base;
	__u32 tx_slots;
	__u32 tx_data; /* offset in the slot */
	__u64 tx_next;
	__u64 tx_done;
	__u32 unkicked;
	/* PACKET_STATISTICS, which reading clears, summed up */
	__u64 packets;
	__u64 drops;
};

extern const struct io_ops packet_ops;

#endif
