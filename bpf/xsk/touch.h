/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Looking at the data of frames, or not: what it costs is an experiment. */
#ifndef XSK_TOUCH_H
#define XSK_TOUCH_H

#include <string.h>
#include <linux/if_ether.h>
#include "io.h"
#include "options.h"

static inline void swap_macs(__u8 *eth)
{
	__u8 mac[ETH_ALEN];

	memcpy(mac, eth, ETH_ALEN);
	memcpy(eth, eth + ETH_ALEN, ETH_ALEN);
	memcpy(eth + ETH_ALEN, mac, ETH_ALEN);
}

/* Runts are left alone: they have no header to look at. */
static inline void touch_frames(int touch, const struct frame *frames, __u32 n)
{
	__u32 i;

	if (touch == TOUCH_NONE)
		return;
	for (i = 0; i < n; i++) {
		if (frames[i].len < ETH_HLEN)
			continue;
		if (touch == TOUCH_MACSWAP)
			swap_macs(frames[i].data);
		else
			(void)*(volatile __u8 *)(frames[i].data + ETH_ALEN);
	}
}

#endif
