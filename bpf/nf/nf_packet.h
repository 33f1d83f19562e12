/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reading and changing frames; compiled for the kernel and for user space.
 * A frame is [data, end); nothing behind @end is looked at.
 */
#ifndef NF_PACKET_H
#define NF_PACKET_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#ifdef __bpf__
#include <linux/in.h>
#else
#include <netinet/in.h> /* libc's goes before or instead of the kernel's */
#endif
#include "nf.h"
#include "trailer.h"

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

#define NF_TAGS	     2
#define NF_SUM_BYTES 4096 /* more than a frame has */
#define NF_FRAGMENT  0x1fff
#define NF_MORE	     0x2000

#define nf_word(at) (*(__u16 *)(at))

/* What an IPv4 frame is, to functions that look at ports. */
enum nf_kind {
	NF_MALFORMED, /* headers that contradict each other or the length */
	NF_NOT_IPV4,
	NF_NO_PORTS, /* neither TCP nor UDP */
	NF_PIECE,    /* a fragment but the first: its ports are elsewhere */
	NF_IS_FLOW,
};

struct nf_headers {
	struct iphdr *ip;
	__u8 *l4;
	__u32 l4_bytes; /* up to the end of the IP packet */
	__u32 first;	/* of a fragmented packet */
};

/* Where Ethernet and up to two VLAN tags end; NULL: the frame is too short. */
static __always_inline __u8 *nf_l3(__u8 *data, __u8 *end, __u16 *proto)
{
	__u8 *at = data + ETH_HLEN;
	int i;

	if (at > end)
		return 0;
	*proto = nf_word(data + 2 * ETH_ALEN);
	for (i = 0; i < NF_TAGS; i++) {
		if (*proto != to_be(16, ETH_P_8021Q) &&
		    *proto != to_be(16, ETH_P_8021AD))
			break;
		if (at + 4 > end)
			return 0;
		*proto = nf_word(at + 2);
		at += 4;
	}
	return at;
}

/* Fill @h and, of a flow, @flow. */
static __always_inline enum nf_kind
nf_parse(__u8 *data, __u8 *end, struct nf_headers *h, struct nf_flow *flow)
{
	__u32 header, total, fragment;
	__u16 proto = 0;
	__u8 *l3 = nf_l3(data, end, &proto);
	struct iphdr *ip = (struct iphdr *)l3;

	if (!l3)
		return NF_MALFORMED;
	if (proto != to_be(16, ETH_P_IP))
		return NF_NOT_IPV4;
	if ((__u8 *)(ip + 1) > end)
		return NF_MALFORMED;
	header = ip->ihl * 4;
	total = to_be(16, ip->tot_len);
	if (ip->version != 4 || header < sizeof(*ip) || total < header ||
	    total > (__u64)(end - l3) || l3 + header > end)
		return NF_MALFORMED;
	h->ip = ip;
	h->l4 = l3 + header;
	h->l4_bytes = total - header;
	fragment = to_be(16, ip->frag_off);
	h->first = fragment & NF_MORE;
	if (fragment & NF_FRAGMENT)
		return NF_PIECE;
	if (ip->protocol != IPPROTO_UDP && ip->protocol != IPPROTO_TCP)
		return NF_NO_PORTS;
	if (h->l4_bytes < (ip->protocol == IPPROTO_UDP ?
				   sizeof(struct udphdr) :
				   sizeof(struct tcphdr)) ||
	    h->l4 + sizeof(struct udphdr) > end)
		return NF_MALFORMED;
	*flow = (struct nf_flow){ .src_ip = ip->saddr,
				  .dst_ip = ip->daddr,
				  .src_port = nf_word(h->l4),
				  .dst_port = nf_word(h->l4 + 2),
				  .protocol = ip->protocol };
	return NF_IS_FLOW;
}

/*
 * One's-complement sum of @bytes (below NF_SUM_BYTES) from @at on, in memory's
 * byte order.  The tail goes first: so the verifier sees no difference between
 * the ways out of the loop.
 */
static __always_inline __u64 nf_sum(__u8 *at, __u8 *end, __u32 bytes)
{
	__u32 whole = bytes & (NF_SUM_BYTES - 8), i;
	__u8 *tail = at + whole;
	__u64 sum = 0;

	if (bytes & 4) {
		if (tail + 4 > end)
			return 0;
		sum += *(__u32 *)tail;
		tail += 4;
	}
	if (bytes & 2) {
		if (tail + 2 > end)
			return 0;
		sum += nf_word(tail);
		tail += 2;
	}
	if (bytes & 1) {
		if (tail + 1 > end)
			return 0;
		sum += to_be(16, *tail << 8);
	}
	for (i = 0; i < whole; i += 8) {
		if (at + 8 > end)
			break;
		sum += *(__u32 *)at;
		sum += *(__u32 *)(at + 4);
		at += 8;
	}
	return sum;
}

/* RFC 1624: the checksum @old after a word became @to that was @from. */
static __always_inline __u16 nf_csum_word(__u16 old, __u16 from, __u16 to)
{
	return ~csum_fold64((__u64)(__u16)~old + (__u16)~from + to);
}

static __always_inline __u16 nf_csum_long(__u16 old, __u32 from, __u32 to)
{
	return ~csum_fold64((__u64)(__u16)~old + (__u32)~from + to);
}

static __always_inline void nf_copy_mac(__u8 *to, const volatile __u8 *from)
{
	int i;

	for (i = 0; i < ETH_ALEN; i++)
		to[i] = from[i];
}

/* The server (next hop) of a flow: always the same. */
static __always_inline __u32 nf_server_of(const struct nf_flow *flow,
					  __u32 servers)
{
	__u32 hash = flow->src_ip ^ flow->dst_ip ^ (__u32)flow->src_port << 16 ^
		     flow->dst_port;

	hash = (hash ^ hash >> 15) * 0x2c1b3c6d;
	hash ^= hash >> 12;
	return hash % (servers ?: 1);
}

/* Where the checksum of TCP or UDP lies; NULL if not inside the frame. */
static __always_inline __u16 *nf_l4_checksum(const struct nf_headers *h,
					     __u8 *end)
{
	__u8 *at = h->l4;

	at += h->ip->protocol == IPPROTO_UDP ? 6 : 16;
	return at + 2 > end ? 0 : (__u16 *)at;
}

#endif
