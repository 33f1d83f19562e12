/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the XDP programs of sockets have in common: hand every frame of a queue
 * to its AF_XDP sockets, in turn, and note on it when it arrived.
 */
#ifndef XSK_REDIRECT_PROGRAM_H
#define XSK_REDIRECT_PROGRAM_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "arrival.h"
#include "redirect.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct redirect_config config = { .sockets = 1 };

/* Index: queue * sockets + number of the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REDIRECT_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} turns SEC(".maps");

static __always_inline __u32 next_socket(__u32 queue)
{
	__u32 *turn = bpf_map_lookup_elem(&turns, &queue);

	if (!turn)
		return 0;
	*turn = *turn + 1 < config.sockets ? *turn + 1 : 0;
	return *turn;
}

static __always_inline int redirect(struct xdp_md *ctx)
{
	__u32 index = ctx->rx_queue_index;

	if (config.sockets > 1)
		index = index * config.sockets + next_socket(index);
	return bpf_redirect_map(&targets, index, XDP_PASS);
}

static __always_inline void note_arrival(struct xdp_md *ctx, __u64 hardware_ns)
{
	struct arrival_times *at;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*at)))
		return;
	at = (void *)(long)ctx->data_meta;
	if ((void *)(at + 1) > (void *)(long)ctx->data)
		return;
	at->hardware_ns = hardware_ns;
	at->tai_ns = hardware_ns ? bpf_ktime_get_tai_ns() : 0;
	at->software_ns = bpf_ktime_get_ns();
	at->queue = ctx->rx_queue_index;
	at->magic = ARRIVAL_MAGIC;
}

#endif
