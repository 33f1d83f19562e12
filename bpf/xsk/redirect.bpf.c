// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Hand every frame of a queue to its AF_XDP sockets, in turn. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "redirect.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 sockets = 1; /* per queue */

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
	*turn = *turn + 1 < sockets ? *turn + 1 : 0;
	return *turn;
}

SEC("xdp")
int xsk_redirect(struct xdp_md *ctx)
{
	__u32 index = ctx->rx_queue_index;

	if (sockets > 1)
		index = index * sockets + next_socket(index);
	return bpf_redirect_map(&targets, index, XDP_PASS);
}
