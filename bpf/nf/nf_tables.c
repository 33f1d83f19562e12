// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include "nf_tables.h"
#include "nf_packet.h"
#include "util.h"

/* Entries that no frame meets: neither TCP nor UDP; routes from 20.0.0.0 on. */
#define OTHER_PROTOCOL 253 /* RFC 3692: for experiments */
#define OTHER_FLOWS    0x0a000000
#define OTHER_ROUTES   0x14000000
#define OTHER_BITS     24
/* The addresses of the traffic's 16 pairs. */
#define TRAFFIC_BITS 16

static int no_memory(void)
{
	return fail(-ENOMEM, "cannot allocate: the tables of nf are too large");
}

/* Flow @i of the traffic. */
static struct nf_flow traffic_flow(const struct nf_options *o, size_t i)
{
	__u32 pair = i / o->flows_per_pair << 8;

	return (struct nf_flow){
		.src_ip = htonl(o->flow_src_ip + pair),
		.dst_ip = htonl(o->flow_dst_ip + pair),
		.src_port = htons(o->flow_src_port + i % o->flows_per_pair),
		.dst_port = htons(o->flow_dst_port),
		.protocol = IPPROTO_UDP,
	};
}

static struct nf_flow other_flow(const struct nf_options *o, size_t i)
{
	return (struct nf_flow){
		.src_ip = htonl(OTHER_FLOWS + i),
		.dst_ip = htonl(o->flow_dst_ip),
		.src_port = htons(o->flow_src_port),
		.dst_port = htons(o->flow_dst_port),
		.protocol = OTHER_PROTOCOL,
	};
}

static int make_acl(struct nf_entries *e, const struct nf_options *o)
{
	size_t i, n = 0;

	e->acl = calloc(o->acl_entries + 1, sizeof(*e->acl));
	if (!e->acl)
		return no_memory();
	for (i = 0; i < o->num_acl; i++)
		e->acl[n++] = o->acl[i];
	for (i = 0; i < (size_t)o->flows; i++)
		if ((long long)(i % 100) < o->drop_percent)
			e->acl[n++] = traffic_flow(o, i);
	for (i = 0; n < (size_t)o->acl_entries; i++)
		e->acl[n++] = other_flow(o, i);
	e->num_acl = n;
	return 0;
}

static void add_session(struct nf_entries *e, const struct nf_options *o,
			struct nf_flow flow)
{
	size_t n = e->num_sessions;
	__u32 hop = nf_server_of(&flow, o->setup.hops);
	__u32 server = o->setup.hop[hop].ip;

	e->session_keys[n] = flow;
	e->sessions[n] = (struct nf_session){ .ip = server, .hop = hop };
	e->session_keys[n + 1] = (struct nf_flow){ .src_ip = server,
						   .dst_ip = flow.src_ip,
						   .src_port = flow.dst_port,
						   .dst_port = flow.src_port,
						   .protocol = flow.protocol };
	e->sessions[n + 1] =
		(struct nf_session){ .ip = flow.dst_ip, .replies = 1 };
	e->num_sessions += 2;
}

static int make_sessions(struct nf_entries *e, const struct nf_options *o)
{
	size_t i, count = o->sessions, flows = o->flows;

	e->session_keys = calloc(2 * count + 1, sizeof(*e->session_keys));
	e->sessions = calloc(2 * count + 1, sizeof(*e->sessions));
	if (!e->session_keys || !e->sessions)
		return no_memory();
	for (i = 0; i < count && i < flows; i++)
		add_session(e, o, traffic_flow(o, i));
	for (; i < count; i++)
		add_session(e, o, other_flow(o, i));
	return 0;
}

static int by_length(const void *a, const void *b)
{
	const struct nf_route *left = a, *right = b;

	return (int)left->bits - (int)right->bits;
}

static int make_routes(struct nf_entries *e, const struct nf_options *o)
{
	size_t i, n = 0;

	e->routes = calloc(o->routes + 1, sizeof(*e->routes));
	if (!e->routes)
		return no_memory();
	for (i = 0; i < o->num_routes; i++)
		e->routes[n++] = o->route_list[i];
	if (!n && o->routes)
		e->routes[n++] =
			(struct nf_route){ .ip = o->flow_dst_ip &
						 ~0U << (32 - TRAFFIC_BITS),
					   .bits = TRAFFIC_BITS };
	for (i = 0; n < (size_t)o->routes; i++)
		e->routes[n++] =
			(struct nf_route){ .ip = OTHER_ROUTES +
						 (i << (32 - OTHER_BITS)),
					   .bits = OTHER_BITS,
					   .hop = i % o->setup.hops };
	e->num_routes = n;
	qsort(e->routes, n, sizeof(*e->routes), by_length);
	return 0;
}

int nf_entries_make(struct nf_entries *e, const struct nf_options *o)
{
	__u32 num_functions = o->setup.num_functions;
	int err = 0;

	*e = (struct nf_entries){};
	if (nf_options_has(o, 0, num_functions, NF_FIREWALL))
		err = make_acl(e, o);
	if (!err && nf_options_has(o, 0, num_functions, NF_LOAD_BALANCER))
		err = make_sessions(e, o);
	if (!err && nf_options_has(o, 0, num_functions, NF_ROUTER))
		err = make_routes(e, o);
	return err;
}

void nf_entries_free(struct nf_entries *e)
{
	free(e->acl);
	free(e->session_keys);
	free(e->sessions);
	free(e->routes);
	*e = (struct nf_entries){};
}

int nf_hash_make(struct nf_hash *h, size_t limit)
{
	__u64 slots = 16;

	while (slots < 2 * limit)
		slots *= 2;
	*h = (struct nf_hash){ .mask = slots - 1, .limit = limit };
	h->slots = calloc(slots, sizeof(*h->slots));
	return h->slots ? 0 : no_memory();
}

bool nf_hash_add(struct nf_hash *h, const struct nf_flow *key,
		 const struct nf_session *session)
{
	__u64 i = nf_hash_slot(h, key);

	if (h->used == h->limit || nf_hash_find(h, key))
		return false;
	while (h->slots[i].used)
		i = (i + 1) & h->mask;
	h->slots[i] =
		(struct nf_slot){ .key = *key, .session = *session, .used = 1 };
	h->used++;
	return true;
}

void nf_hash_free(struct nf_hash *h)
{
	free(h->slots);
	h->slots = NULL;
}

/* The block behind @entry; made, and filled with what was there, if need be. */
static __u32 *block_of(struct nf_trie *t, __u32 *entry)
{
	__u32 kept = *entry, i, (*more)[NF_BLOCK];

	if (kept & NF_POINTER)
		return t->blocks[kept & ~NF_POINTER];
	*entry = NF_POINTER | (__u32)t->used;
	if (t->used == t->room) {
		/* @entry may lie in what moves here: it is written before */
		t->room = t->room ? 2 * t->room : 64;
		more = realloc(t->blocks, t->room * sizeof(*more));
		if (!more)
			return NULL;
		t->blocks = more;
	}
	for (i = 0; i < NF_BLOCK; i++)
		t->blocks[t->used][i] = kept;
	return t->blocks[t->used++];
}

static void fill(__u32 *entries, __u32 index, __u32 count, __u32 hop)
{
	__u32 i;

	for (i = 0; i < count; i++)
		entries[index + i] = hop + 1;
}

static int insert(struct nf_trie *t, const struct nf_route *r)
{
	__u32 *block;

	if (r->bits <= 16) {
		fill(t->top, r->ip >> 16, 1U << (16 - r->bits), r->hop);
		return 0;
	}
	block = block_of(t, &t->top[r->ip >> 16]);
	if (block && r->bits > 24)
		block = block_of(t, &block[r->ip >> 8 & 0xff]);
	if (!block)
		return no_memory();
	if (r->bits <= 24)
		fill(block, r->ip >> 8 & 0xff, 1U << (24 - r->bits), r->hop);
	else
		fill(block, r->ip & 0xff, 1U << (32 - r->bits), r->hop);
	return 0;
}

int nf_trie_make(struct nf_trie *t, const struct nf_route *routes, size_t n)
{
	size_t i;
	int err = 0;

	*t = (struct nf_trie){ .top = calloc(1 << 16, sizeof(*t->top)) };
	if (!t->top)
		return no_memory();
	for (i = 0; !err && i < n; i++)
		err = insert(t, &routes[i]);
	return err;
}

void nf_trie_free(struct nf_trie *t)
{
	free(t->top);
	free(t->blocks);
	*t = (struct nf_trie){};
}
