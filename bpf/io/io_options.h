/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How a socket, its rings and its memory are to be. */
#ifndef XSK_IO_OPTIONS_H
#define XSK_IO_OPTIONS_H

#include <stdbool.h>

enum bind_mode { BIND_AUTO, BIND_COPY, BIND_ZEROCOPY };
enum wait_how { WAIT_SPIN, WAIT_POLL };
enum wake_how { WAKE_SYSCALL, WAKE_POLL, WAKE_NONE };

struct io_options {
	bool receive;
	bool transmit;
	bool stages; /* frames are to carry when they arrived */
	int bind;
	bool need_wakeup;
	bool multi_buffer; /* received frames may be of several chunks */
	long long rx_ring;
	long long tx_ring;
	long long fill_ring;
	long long completion_ring;
	long long tx_skb_budget; /* 0 = the kernel's */
	long long busy_poll_us;	 /* 0 = off */
	long long busy_poll_budget;
	bool prefer_busy_poll;
	/* UMEM */
	long long frames; /* 0 = automatic */
	long long chunk_bytes;
	long long headroom;
	long long span; /* chunks of a frame to send, one behind another */
	bool hugepages;
	bool unaligned;
	bool audit;
	/* AF_PACKET */
	long long packet_version;
	bool qdisc_bypass;
	long long block_timeout_ms;
	/* loop */
	long long batch;
	int wait;
	int wake_rx;
	int wake_tx;
};

#endif
