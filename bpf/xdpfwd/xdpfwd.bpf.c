// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Forward every frame from one port to the other, unchanged; or leave each to the kernel. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "xdpfwd.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 ifindexes[FWD_PORTS];

/* Indexed by the port of arrival: where its frames go. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, FWD_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FWD_PORTS);
	__type(key, __u32);
	__type(value, struct fwd_counters);
} counters SEC(".maps");

__u32 targets_id;
__u64 errors[FWD_PORTS];

/* None looks at a frame, so it may have any number of buffers. */
SEC("xdp.frags")
int xdpfwd_redirect(struct xdp_md *ctx)
{
	__u32 port = ctx->ingress_ifindex != ifindexes[0];
	struct fwd_counters *c = bpf_map_lookup_elem(&counters, &port);

	if (!c)
		return XDP_ABORTED;
	c->rx++;
	c->sent++; /* refusals are counted below */
	return bpf_redirect_map(&targets, port, 0);
}

SEC("xdp.frags")
int xdpfwd_hairpin(struct xdp_md *ctx)
{
	__u32 port = 0;
	struct fwd_counters *c = bpf_map_lookup_elem(&counters, &port);

	(void)ctx;
	if (!c)
		return XDP_ABORTED;
	c->rx++;
	c->sent++;
	return XDP_TX;
}

SEC("xdp.frags")
int xdpfwd_pass(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_PASS;
}

struct redirect_err_args {
	__u64 dev;
	__u64 prog;
	__u64 target;
	__u64 err;
	__u64 map_type;
	__u64 map_id;
	__u64 index;
};

SEC("raw_tp/xdp_redirect_err")
int xdpfwd_error(struct redirect_err_args *args)
{
	if ((__u32)args->map_id == targets_id)
		__sync_fetch_and_add(&errors[args->index & 1], 1);
	return 0;
}
