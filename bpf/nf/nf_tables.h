/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the tables hold at the start, and the tables of the user space form:
 * an open-addressing hash and a trie of 16, 8 and 8 bits.  The kernel's are
 * its own maps.
 */
#ifndef NF_TABLES_H
#define NF_TABLES_H

#include <stdbool.h>
#include <arpa/inet.h>
#include "nf_options.h"

/* Entries, in the order of the traffic's flows. */
struct nf_entries {
	struct nf_flow *acl;
	size_t num_acl;
	struct nf_flow *session_keys; /* both directions of each session */
	struct nf_session *sessions;
	size_t num_sessions;
	struct nf_route *routes; /* shortest prefixes first */
	size_t num_routes;
};

/* Returns 0 or -ENOMEM after one line on stderr. */
int nf_entries_make(struct nf_entries *e, const struct nf_options *o);
void nf_entries_free(struct nf_entries *e);

/* Half a cache line. */
struct nf_slot {
	struct nf_flow key;
	struct nf_session session;
	__u32 used;
	__u32 zero;
};

struct nf_hash {
	struct nf_slot *slots;
	__u64 mask;
	size_t used;
	size_t limit; /* entries that may be in it */
};

int nf_hash_make(struct nf_hash *h, size_t limit);
/* false: the key is there already, or the table is full. */
bool nf_hash_add(struct nf_hash *h, const struct nf_flow *key,
		 const struct nf_session *session);
void nf_hash_free(struct nf_hash *h);

static inline __u64 nf_hash_slot(const struct nf_hash *h,
				 const struct nf_flow *key)
{
	const __u64 *words = (const __u64 *)key;
	__u64 x = words[0] * 0x9e3779b97f4a7c15 ^ words[1];

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
	return (x ^ x >> 32) & h->mask;
}

static inline bool nf_flow_same(const struct nf_flow *a,
				const struct nf_flow *b)
{
	const __u64 *left = (const __u64 *)a, *right = (const __u64 *)b;

	return left[0] == right[0] && left[1] == right[1];
}

/* At most half of the slots are used: a free one ends the search. */
static inline const struct nf_slot *nf_hash_find(const struct nf_hash *h,
						 const struct nf_flow *key)
{
	__u64 i = nf_hash_slot(h, key);

	while (h->slots[i].used) {
		if (nf_flow_same(&h->slots[i].key, key))
			return &h->slots[i];
		i = (i + 1) & h->mask;
	}
	return NULL;
}

#define NF_BLOCK   256
#define NF_POINTER 0x80000000U

/* An entry: 0 = no route, NF_POINTER | block, or next hop + 1. */
struct nf_trie {
	__u32 *top; /* by the first 16 bits */
	__u32 (*blocks)[NF_BLOCK];
	size_t used;
	size_t room;
};

/* @routes: shortest prefixes first. */
int nf_trie_make(struct nf_trie *t, const struct nf_route *routes, size_t n);
void nf_trie_free(struct nf_trie *t);

/* Next hop of @ip (host byte order), or -1. */
static inline int nf_trie_find(const struct nf_trie *t, __u32 ip)
{
	__u32 entry = t->top[ip >> 16];

	if (entry & NF_POINTER)
		entry = t->blocks[entry & ~NF_POINTER][ip >> 8 & 0xff];
	if (entry & NF_POINTER)
		entry = t->blocks[entry & ~NF_POINTER][ip & 0xff];
	return (int)entry - 1;
}

/* What a thread has; the functions look into it by the names of nf_functions.h. */
struct nf_env {
	const struct nf_setup *setup;
	struct nf_state state;
	/* denied flows and routes are only read, but each thread has its own */
	struct nf_hash acl;
	struct nf_hash sessions;
	struct nf_trie routes;
	__u64 (*lines)[NF_LINE / 8];
};

#define NF_SETUP(env) ((env)->setup)
#define NF_STATE(env) (&(env)->state)

static inline bool nf_acl_has(struct nf_env *env, const struct nf_flow *flow)
{
	return nf_hash_find(&env->acl, flow);
}

static inline int nf_route_find(struct nf_env *env, __u32 ip)
{
	return nf_trie_find(&env->routes, ntohl(ip));
}

static inline bool nf_session_find(struct nf_env *env,
				   const struct nf_flow *flow,
				   struct nf_session *session)
{
	const struct nf_slot *slot = nf_hash_find(&env->sessions, flow);

	if (slot)
		*session = slot->session;
	return slot;
}

static inline bool nf_session_add(struct nf_env *env,
				  const struct nf_flow *flow,
				  const struct nf_session *session)
{
	return nf_hash_add(&env->sessions, flow, session);
}

static inline __u64 *nf_line(struct nf_env *env, __u32 index)
{
	return env->lines[index];
}

#endif
