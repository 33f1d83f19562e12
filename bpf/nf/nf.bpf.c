// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The network functions as an XDP program, alone or before AF_XDP sockets. */
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "nf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct nf_setup setup;
/* By port. */
const volatile __u32 ifindexes[NF_PORTS];

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct nf_flow);
	__type(value, __u32);
} acl SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct nf_flow);
	__type(value, struct nf_session);
} sessions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct nf_route_key);
	__type(value, __u32);
} routes SEC(".maps");

struct line {
	__u64 words[NF_LINE / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct line);
} lines SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nf_state);
} states SEC(".maps");

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

struct nf_env {
	struct nf_state *state;
};

#define NF_SETUP(env) ((void)(env), &setup)
#define NF_STATE(env) ((env)->state)

static __always_inline bool nf_acl_has(struct nf_env *env,
				       const struct nf_flow *flow)
{
	(void)env;
	return bpf_map_lookup_elem(&acl, flow);
}

static __always_inline int nf_route_find(struct nf_env *env, __u32 ip)
{
	struct nf_route_key key = { .bits = 32, .ip = ip };
	__u32 *hop = bpf_map_lookup_elem(&routes, &key);

	(void)env;
	return hop ? (int)*hop : -1;
}

static __always_inline bool nf_session_find(struct nf_env *env,
					    const struct nf_flow *flow,
					    struct nf_session *session)
{
	struct nf_session *found = bpf_map_lookup_elem(&sessions, flow);

	(void)env;
	if (found)
		*session = *found;
	return found;
}

static __always_inline bool nf_session_add(struct nf_env *env,
					   const struct nf_flow *flow,
					   const struct nf_session *session)
{
	(void)env;
	return !bpf_map_update_elem(&sessions, flow, session, BPF_NOEXIST);
}

static __always_inline __u64 *nf_line(struct nf_env *env, __u32 index)
{
	(void)env;
	return bpf_map_lookup_elem(&lines, &index);
}

#include "nf_functions.h"

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
	switch (nf_chain(&env, 0, setup.xdp_stages, (__u8 *)(long)ctx->data,
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
