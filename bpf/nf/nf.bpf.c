// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The network functions as an XDP program, alone or before AF_XDP sockets. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "nf_functions.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* By port. */
const volatile __u32 ifindexes[NF_PORTS];

/* Where frames leave. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, NF_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} targets SEC(".maps");

/* Index: port * NF_QUEUES + queue. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, NF_PORTS *NF_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

static __always_inline int to_socket(struct xdp_md *ctx, __u32 port)
{
	__u32 queue = ctx->rx_queue_index & (NF_QUEUES - 1);

	return bpf_redirect_map(&sockets, port * NF_QUEUES + queue, XDP_DROP);
}

SEC("xdp")
int nf(struct xdp_md *ctx)
{
	__u32 in = ctx->ingress_ifindex != ifindexes[0], port = in, zero = 0;
	struct nf_env env = { .state = bpf_map_lookup_elem(&states, &zero) };
	struct nf_counters *n;

	if (!env.state)
		return XDP_ABORTED;
	n = &env.state->n;
	n->rx++;
	switch (nf_chain(&env, 0, setup.xdp_functions, (__u8 *)(long)ctx->data,
			 (__u8 *)(long)ctx->data_end, &port)) {
	case NF_NEXT:
		n->to_socket++;
		return to_socket(ctx, in);
	case NF_FORWARD:
		n->forwarded++;
		return bpf_redirect_map(&targets, port & (NF_PORTS - 1),
					XDP_TX);
	case NF_LOCAL:
		n->local++;
		return XDP_PASS;
	default:
		n->dropped++;
		return XDP_DROP;
	}
}

/* What comes from the local stack's port, and all when no stage is here. */
SEC("xdp")
int nf_sockets(struct xdp_md *ctx)
{
	return to_socket(ctx, ctx->ingress_ifindex != ifindexes[0]);
}
