/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The network functions, written once: nf.bpf.c compiles them into the XDP
 * program, role_nf.c into the application.  What differs is in two headers,
 * each with its own `struct nf_env`:
 *
 *   NF_SETUP(env)                     the struct nf_setup in force
 *   NF_STATE(env)                     struct nf_state * of this CPU or thread
 *   bool nf_acl_has(env, flow)
 *   int nf_route_find(env, ip)        next hop, or -1
 *   bool nf_session_find(env, flow, session)
 *   bool nf_session_add(env, flow, session)    false: there already, or full
 *   __u64 *nf_line(env, index)        a cache line of the array, or NULL
 */
#ifndef NF_FUNCTIONS_H
#define NF_FUNCTIONS_H

#include "nf_packet.h"
#ifdef __bpf__
#include "nf_maps.h"
#else
#include "nf_tables.h"
#endif

static __always_inline enum nf_verdict nf_macswap(__u8 *data, __u8 *end)
{
	__u16 kept;
	int i;

	if (data + ETH_HLEN > end)
		return NF_DROP;
	for (i = 0; i < ETH_ALEN; i += 2) {
		kept = nf_word(data + i);
		nf_word(data + i) = nf_word(data + ETH_ALEN + i);
		nf_word(data + ETH_ALEN + i) = kept;
	}
	return NF_NEXT;
}

/* Addressed to the next hop; returns its port. */
static __always_inline __u32 nf_address(struct nf_env *env, __u8 *data,
					__u32 hop)
{
	__u32 port;

	hop &= NF_HOPS - 1;
	port = NF_SETUP(env)->hop[hop].port & (NF_PORTS - 1);
	nf_copy_mac(data, NF_SETUP(env)->hop[hop].mac);
	nf_copy_mac(data + ETH_ALEN, NF_SETUP(env)->mac[port]);
	return port;
}

/* Addressed to the port that it came in by; where there are two, that is not @port. */
static __always_inline bool nf_to_us(struct nf_env *env, const __u8 *data,
				     __u32 port)
{
	__u32 in = port ^ (NF_SETUP(env)->ports == NF_PORTS);
	/* the XDP program's is a constant: read otherwise, clang 19 takes it for 0 */
	const volatile __u8 *ours = NF_SETUP(env)->mac[in & (NF_PORTS - 1)];
	int i;

	for (i = 0; i < ETH_ALEN; i++)
		if (data[i] != ours[i])
			return false;
	return true;
}

/*
 * RFC 1812: what is wrong is dropped; what is not IPv4 or whose time to live
 * ends here is the stack's, which answers.
 */
static __always_inline enum nf_verdict nf_router(struct nf_env *env, __u8 *data,
						 __u8 *end, __u32 *port)
{
	struct nf_headers h;
	struct nf_flow flow;
	enum nf_kind kind = nf_parse(data, end, &h, &flow);
	__u16 old;
	int hop;

	if (kind == NF_NOT_IPV4)
		return NF_LOCAL;
	/* a router does not mind what is wrong behind the IP header */
	if (kind == NF_MALFORMED ||
	    csum_fold64(nf_sum((__u8 *)h.ip, end, h.ip->ihl * 4)) != 0xffff)
		return NF_DROP;
	if (h.ip->ttl <= 1 ||
	    (NF_SETUP(env)->own_address && !nf_to_us(env, data, *port)))
		return NF_LOCAL;
	hop = nf_route_find(env, h.ip->daddr);
	if (hop < 0)
		return NF_DROP;
	old = nf_word(&h.ip->ttl);
	h.ip->ttl--;
	h.ip->check = nf_csum_word(h.ip->check, old, nf_word(&h.ip->ttl));
	*port = nf_address(env, data, hop);
	return NF_NEXT;
}

/* Both checksums, from all of the packet.  A fragment has no second one. */
static __always_inline enum nf_verdict nf_checksummer(__u8 *data, __u8 *end)
{
	struct nf_headers h;
	struct nf_flow flow;
	enum nf_kind kind = nf_parse(data, end, &h, &flow);
	__u32 bytes;
	__u16 *at;
	__u64 sum;

	if (kind == NF_NOT_IPV4)
		return NF_NEXT;
	if (kind == NF_MALFORMED)
		return NF_DROP;
	h.ip->check = 0;
	h.ip->check = ~csum_fold64(nf_sum((__u8 *)h.ip, end, h.ip->ihl * 4));
	if (kind != NF_IS_FLOW || h.first)
		return NF_NEXT;
	bytes = h.l4_bytes;
	if (flow.protocol == IPPROTO_UDP) {
		bytes = to_be(16, nf_word(h.l4 + 4));
		if (bytes < sizeof(struct udphdr) || bytes > h.l4_bytes)
			return NF_DROP;
	}
	at = nf_l4_checksum(&h, end);
	if (!at)
		return NF_DROP;
	*at = 0;
	sum = nf_sum(h.l4, end, bytes);
	sum += flow.src_ip;
	sum += flow.dst_ip;
	sum += to_be(16, (__u16)flow.protocol);
	sum += to_be(16, (__u16)bytes);
	*at = ~csum_fold64(sum);
	if (!*at && flow.protocol == IPPROTO_UDP)
		*at = 0xffff; /* RFC 768: zero would say there is none */
	return NF_NEXT;
}

/* A list of denied flows.  What hides its ports is denied as well. */
static __always_inline enum nf_verdict nf_firewall(struct nf_env *env,
						   __u8 *data, __u8 *end)
{
	struct nf_headers h;
	struct nf_flow flow;

	switch (nf_parse(data, end, &h, &flow)) {
	case NF_IS_FLOW:
		return nf_acl_has(env, &flow) ? NF_DROP : NF_NEXT;
	case NF_NOT_IPV4:
	case NF_NO_PORTS:
		return NF_NEXT;
	default:
		return NF_DROP;
	}
}

/* Replies first: without their entry there is no session. */
static __always_inline bool nf_session_new(struct nf_env *env,
					   const struct nf_flow *flow,
					   struct nf_session *session)
{
	__u32 hop = nf_server_of(flow, NF_SETUP(env)->hops);
	struct nf_flow back = {
		.src_ip = NF_SETUP(env)->hop[hop & (NF_HOPS - 1)].ip,
		.dst_ip = flow->src_ip,
		.src_port = flow->dst_port,
		.dst_port = flow->src_port,
		.protocol = flow->protocol
	};
	struct nf_session reply = { .ip = flow->dst_ip, .replies = 1 };

	*session = (struct nf_session){ .ip = back.src_ip, .hop = hop };
	if (!nf_session_add(env, &back, &reply))
		return false;
	return nf_session_add(env, flow, session);
}

/* Replace an address, and mend both checksums. */
static __always_inline enum nf_verdict
nf_translate(struct nf_headers *h, __u8 *end, __u32 *ip, __u32 to)
{
	bool udp = h->ip->protocol == IPPROTO_UDP;
	__u16 *check = nf_l4_checksum(h, end);
	__u32 from = *ip;

	if (!check)
		return NF_DROP;
	*ip = to;
	h->ip->check = nf_csum_long(h->ip->check, from, to);
	if (udp && !*check)
		return NF_NEXT;
	*check = nf_csum_long(*check, from, to);
	if (udp && !*check)
		*check = 0xffff;
	return NF_NEXT;
}

/*
 * Network address translation to one of the servers (the next hops), and
 * back.  Replies leave by the other port than the one of their server, with
 * their MAC addresses as they came.
 */
static __always_inline enum nf_verdict
nf_load_balancer(struct nf_env *env, __u8 *data, __u8 *end, __u32 *port)
{
	struct nf_session session;
	struct nf_headers h;
	struct nf_flow flow;
	enum nf_kind kind = nf_parse(data, end, &h, &flow);

	if (kind == NF_MALFORMED || kind == NF_PIECE)
		return NF_DROP;
	if (kind != NF_IS_FLOW)
		return NF_NEXT;
	if (!nf_session_find(env, &flow, &session)) {
		if ((flow.dst_ip & NF_SETUP(env)->service_mask) !=
			    NF_SETUP(env)->service_ip ||
		    flow.dst_port != NF_SETUP(env)->service_port)
			return NF_NEXT;
		if (!nf_session_new(env, &flow, &session)) {
			NF_STATE(env)->n.sessions_refused++;
			return NF_DROP;
		}
		NF_STATE(env)->n.sessions_new++;
	}
	if (session.replies)
		return nf_translate(&h, end, &h.ip->saddr, session.ip);
	*port = nf_address(env, data, session.hop);
	return nf_translate(&h, end, &h.ip->daddr, session.ip);
}

/* Some 40 cycles of a chain that no compiler and no core can shorten. */
static __always_inline __u64 nf_iteration(__u64 x)
{
	int i;

	for (i = 0; i < 8; i++)
		x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9;
	return x;
}

/* Work that no function does: in the core, and in memory. */
static __always_inline void nf_work(struct nf_env *env)
{
	__u32 iterations = NF_SETUP(env)->iterations, i;
	__u32 lookups = NF_SETUP(env)->lookups;
	__u32 lines = NF_SETUP(env)->lines;
	__u64 x = NF_STATE(env)->random + 0x9e3779b97f4a7c15, *line;

	for (i = 0; i < NF_ITERATIONS && i < iterations; i++)
		x = nf_iteration(x);
	for (i = 0; i < NF_LOOKUPS && i < lookups; i++) {
		line = nf_line(env, (x >> 32) & (lines - 1));
		if (!line)
			break;
		/* the next address is known when this one was read */
		x = (x + *line) * 0x5851f42d4c957f2d + 0x14057b7ef767814f;
	}
	NF_STATE(env)->random = x;
}

static __always_inline enum nf_verdict nf_function(struct nf_env *env,
						   __u32 function, __u8 *data,
						   __u8 *end, __u32 *port)
{
	switch (function) {
	case NF_ROUTER:
		return nf_router(env, data, end, port);
	case NF_CHECKSUMMER:
		return nf_checksummer(data, end);
	case NF_MACSWAP:
		return nf_macswap(data, end);
	case NF_FIREWALL:
		return nf_firewall(env, data, end);
	default:
		return nf_load_balancer(env, data, end, port);
	}
}

/*
 * The functions from @first up to @last on one frame that came in at @port,
 * where the port that it is to leave by is put.  NF_NEXT: there are more.
 */
static __always_inline enum nf_verdict nf_chain(struct nf_env *env, __u32 first,
						__u32 last, __u8 *data,
						__u8 *end, __u32 *port)
{
	enum nf_verdict verdict;
	__u32 i;

	if (!first && (NF_SETUP(env)->iterations || NF_SETUP(env)->lookups))
		nf_work(env);
	if (NF_SETUP(env)->ports == NF_PORTS)
		*port ^= 1;
	for (i = first; i < NF_CHAIN && i < last; i++) {
		verdict = nf_function(env, NF_SETUP(env)->functions[i], data,
				      end, port);
		if (verdict != NF_NEXT)
			return verdict;
	}
	return last < NF_SETUP(env)->num_functions ? NF_NEXT :
						     NF_SETUP(env)->then;
}

#endif
