/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The object "nf" of a configuration: which functions run, where, on what. */
#ifndef NF_OPTIONS_H
#define NF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>
#include "nf.h"

enum nf_place { NF_IN_XDP, NF_IN_AF_XDP, NF_COMBINED };

struct nf_route {
	__u32 ip; /* host byte order */
	__u32 bits;
	__u32 hop;
};

struct nf_options {
	struct nf_setup setup;
	int place;
	bool stack_port; /* the second port leads to the local stack */
	/* entries of the tables; those of the traffic first, then others */
	long long acl_entries;
	long long sessions;
	long long routes;
	long long drop_percent; /* of the flows that are denied */
	/* given one by one */
	struct nf_flow *acl;
	size_t num_acl;
	struct nf_route *route_list;
	size_t num_routes;
	/* the traffic: flow i is that of address pair i / flows_per_pair */
	long long flows;
	long long flows_per_pair;
	__u32 flow_src_ip; /* host byte order; a pair is 256 apart */
	__u32 flow_dst_ip;
	long long flow_src_port;
	long long flow_dst_port;
	json_t *as_read; /* all of it, defaults filled in */
};

/* Print the keys. */
void nf_options_help(void);
/* Returns 0 or -EINVAL after one line on stderr. */
int nf_options_read(const json_t *object, struct nf_options *o);
/* After the ports are known: their number, and who sends. */
int nf_options_check(struct nf_options *o, int num_ports);
void nf_options_free(struct nf_options *o);

/* Does one of the functions from @first up to @last do @function? */
bool nf_options_has(const struct nf_options *o, __u32 first, __u32 last,
		    enum nf_function function);

#endif
