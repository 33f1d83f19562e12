/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The settings and tables of the XDP program, and how functions look into them. */
#ifndef NF_MAPS_H
#define NF_MAPS_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "nf.h"

const volatile struct nf_setup setup;

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

#endif
