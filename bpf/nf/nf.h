/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the kernel's and the user space form of the network functions share. */
#ifndef NF_H
#define NF_H

#include <linux/types.h>

#define NF_PORTS      2
#define NF_CHAIN      5
#define NF_HOPS	      16
#define NF_LINE	      64   /* bytes of an element of the array in memory */
#define NF_ITERATIONS 4096 /* at most; the verifier walks through all */
#define NF_LOOKUPS    1024
#define NF_TABLE      1000000
#define NF_NEW	      1024 /* sessions that may come beyond those at the start */
#define NF_QUEUES     256

enum nf_function {
	NF_ROUTER,
	NF_CHECKSUMMER,
	NF_MACSWAP,
	NF_FIREWALL,
	NF_LOAD_BALANCER,
};

enum nf_verdict {
	NF_NEXT, /* the next function, or what comes after the last */
	NF_DROP,
	NF_FORWARD, /* out of a port of the wire */
	NF_LOCAL,   /* to the network stack of this machine */
};

/* All in network byte order. */
struct nf_flow {
	__u32 src_ip;
	__u32 dst_ip;
	__u16 src_port;
	__u16 dst_port;
	__u8 protocol;
	__u8 zero[3];
};

/* What a session does to its frames: an address is replaced. */
struct nf_session {
	__u32 ip;      /* network byte order */
	__u16 hop;     /* where it leaves */
	__u16 replies; /* the source is replaced, not the destination */
};

struct nf_route_key {
	__u32 bits; /* struct bpf_lpm_trie_key */
	__u32 ip;
};

/* A next hop of the router, a server of the load balancer. */
struct nf_hop {
	__u32 ip; /* network byte order; of the load balancer only */
	__u16 port;
	__u8 mac[6];
};

struct nf_setup {
	__u32 num_functions;
	__u32 functions[NF_CHAIN];
	__u32 xdp_functions; /* of these, from the first, in the kernel */
	__u32 then;	     /* verdict after the last function */
	__u32 ports;	     /* of the wire */
	__u32 iterations;
	__u32 lookups;
	__u32 lines;	   /* of the array in memory, a power of two */
	__u32 own_address; /* the router leaves frames to other stations alone */
	__u32 hops;
	struct nf_hop hop[NF_HOPS];
	__u8 mac[NF_PORTS][6];
	/* what the load balancer serves */
	__u32 service_ip;
	__u32 service_mask;
	__u16 service_port;
};

struct nf_counters {
	__u64 rx;
	__u64 dropped;
	__u64 forwarded;
	__u64 local;
	__u64 to_socket;   /* handed to the second half in user space */
	__u64 undelivered; /* to the stack, and there is no way to it */
	__u64 sessions_new;
	__u64 sessions_refused; /* the table was full */
};

/* Of one CPU in the kernel, of one thread in user space. */
struct nf_state {
	struct nf_counters n;
	__u64 random;
};

#endif
