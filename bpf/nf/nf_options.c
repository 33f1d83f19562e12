// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include "fields.h"
#include "nf_lists.h"
#include "util.h"

static const char *const function_names[] = { "router",	       "checksummer",
					      "macswap",       "firewall",
					      "load_balancer", NULL };
static const char *const place_names[] = { "xdp", "af_xdp", "combined", NULL };
static const char *const then_names[] = { "drop", "forward", "local", NULL };

struct document {
	const json_t *functions;
	const json_t *next_hops;
	const json_t *acl;
	const json_t *route_list;
	int place;
	int then;
	long long xdp_functions; /* -1 = all */
	char flow_src_ip[NF_ADDRESS];
	char flow_dst_ip[NF_ADDRESS];
	char service_prefix[NF_PREFIX];
	long long service_port;
	bool own_address;
	long long work_iterations;
	long long work_lookups;
	long long work_bytes;
	struct nf_options o;
};

#define DOC(member) .key = #member, .offset = offsetof(struct document, member)
#define OPT(member) \
	.key = #member, .offset = offsetof(struct document, o.member)
#define COUNT(at, low, high) at, .type = FIELD_INT, .min = (low), .max = (high)
#define LIST(member)	     DOC(member), .type = FIELD_ARRAY
#define TEXT(member, bytes)  DOC(member), .type = FIELD_STRING, .size = (bytes)

static const struct field fields[] = {
	{ LIST(functions), .required = true,
	  .help = "in this order: router, checksummer, macswap, firewall, load_balancer" },
	{ DOC(place), .type = FIELD_ENUM, .names = place_names,
	  .required = true, .help = "where they run" },
	{ DOC(then), .type = FIELD_ENUM, .names = then_names,
	  .help = "what happens to a frame behind the last" },
	{ COUNT(DOC(xdp_functions), 0, NF_CHAIN), .nullable = true,
	  .help = "the first so many run in XDP; null: all" },
	{ OPT(stack_port), .type = FIELD_BOOL,
	  .help = "the second port leads to the stack" },
	{ DOC(own_address), .type = FIELD_BOOL,
	  .help = "frames to other stations are local to the router" },
	{ COUNT(OPT(acl_entries), 0, NF_TABLE),
	  .help = "entries of the access list" },
	{ COUNT(OPT(drop_percent), 0, 100),
	  .help = "share of the flows that are denied" },
	{ COUNT(OPT(sessions), 0, NF_TABLE),
	  .help = "sessions of the load balancer" },
	{ COUNT(OPT(routes), 0, NF_TABLE),
	  .help = "entries of the routing table" },
	{ LIST(acl), .help = "entries given one by one" },
	{ LIST(route_list), .help = "routes given one by one" },
	{ LIST(next_hops), .help = "MAC address, IP address and port of each" },
	{ TEXT(service_prefix, NF_PREFIX), .help = "of the load balancer" },
	{ COUNT(DOC(service_port), 1, 65535), .help = "of the load balancer" },
	{ COUNT(OPT(flows), 1, NF_TABLE), .help = "flows of the traffic" },
	{ COUNT(OPT(flows_per_pair), 1, 65535),
	  .help = "of each pair of addresses" },
	{ TEXT(flow_src_ip, NF_ADDRESS), .help = "of the first flow" },
	{ TEXT(flow_dst_ip, NF_ADDRESS), .help = "of the first flow" },
	{ COUNT(OPT(flow_src_port), 0, 65535), .help = "of the first flow" },
	{ COUNT(OPT(flow_dst_port), 0, 65535), .help = "of the first flow" },
	{ COUNT(DOC(work_iterations), 0, NF_ITERATIONS),
	  .help = "of the loop added to each frame" },
	{ COUNT(DOC(work_lookups), 0, NF_LOOKUPS),
	  .help = "dependent reads added to each frame" },
	{ COUNT(DOC(work_bytes), NF_LINE, 1 << 30),
	  .help = "bytes of the array that they read" },
};

static const struct document defaults = {
	.then = NF_FORWARD - NF_DROP,
	.xdp_functions = -1,
	.flow_src_ip = "198.18.0.1",
	.flow_dst_ip = "198.19.0.1",
	.service_prefix = "198.19.0.0/16",
	.service_port = 20000,
	.work_bytes = 1 << 16,
	.o = { .acl_entries = 1000,
	       .sessions = 1000,
	       .routes = 1,
	       .flows = 1,
	       .flows_per_pair = 10000,
	       .flow_src_port = 10000,
	       .flow_dst_port = 20000 },
};

void nf_options_help(void)
{
	fields_help("nf:", fields, ARRAY_SIZE(fields), &defaults);
}

static int read_functions(const json_t *array, struct nf_setup *s)
{
	const char *name;
	size_t i, j;
	int f;

	if (!json_array_size(array) || json_array_size(array) > NF_CHAIN)
		return bad_value(NF_WHERE, "functions",
				 "must have 1 to 5 entries");
	for (i = 0; i < json_array_size(array); i++) {
		name = json_string_value(json_array_get(array, i)) ?: "";
		for (f = 0; function_names[f]; f++)
			if (!strcmp(name, function_names[f]))
				break;
		if (!function_names[f])
			return bad_value(
				NF_WHERE, "functions",
				"are router checksummer macswap firewall load_balancer");
		for (j = 0; j < i; j++)
			if (s->functions[j] == (__u32)f)
				return bad_value(NF_WHERE, "functions",
						 "one is there twice");
		s->functions[i] = f;
	}
	s->num_functions = i;
	return 0;
}

static int read_place(const struct document *doc, struct nf_options *o)
{
	struct nf_setup *s = &o->setup;

	o->place = doc->place;
	if (doc->xdp_functions >= 0 && o->place != NF_COMBINED)
		return bad_value(NF_WHERE, "xdp_functions",
				 "belongs to place combined: leave it out");
	if (doc->xdp_functions > s->num_functions)
		return bad_value(NF_WHERE, "xdp_functions",
				 "is more than there are functions");
	s->xdp_functions = doc->xdp_functions >= 0 ? (__u32)doc->xdp_functions :
			   o->place == NF_IN_AF_XDP ? 0 :
						      s->num_functions;
	if (o->stack_port && o->place != NF_IN_AF_XDP)
		return bad_value(
			NF_WHERE, "stack_port",
			"belongs to place af_xdp: an XDP program passes frames to the stack by itself");
	if (doc->own_address && s->functions[0] != NF_ROUTER)
		return bad_value(NF_WHERE, "own_address",
				 "needs router as the first function");
	s->then = NF_DROP + doc->then;
	return 0;
}

static int read_numbers(const struct document *doc, struct nf_options *o)
{
	struct nf_setup *s = &o->setup;
	__u32 ip, bits;

	if (doc->work_bytes & (doc->work_bytes - 1))
		return bad_value(NF_WHERE, "work_bytes",
				 "must be a power of two");
	s->own_address = doc->own_address;
	s->iterations = doc->work_iterations;
	s->lookups = doc->work_lookups;
	s->lines = doc->work_bytes / NF_LINE;
	if (nf_read_prefix(doc->service_prefix, NF_WHERE, "service_prefix", &ip,
			   &bits) ||
	    nf_read_address(doc->flow_src_ip, NF_WHERE, "flow_src_ip",
			    &o->flow_src_ip) ||
	    nf_read_address(doc->flow_dst_ip, NF_WHERE, "flow_dst_ip",
			    &o->flow_dst_ip))
		return -EINVAL;
	s->service_ip = htonl(ip);
	s->service_mask = htonl(bits ? ~0U << (32 - bits) : 0);
	s->service_port = htons(doc->service_port);
	return 0;
}

/* Defaults and what was given, as one object; lists may be long. */
static json_t *as_read(const json_t *object, const struct document *doc)
{
	json_t *all = json_object(), *value;
	const struct field *f;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(fields); i++) {
		const void *at;

		f = &fields[i];
		at = (const char *)doc + f->offset;
		if (f->type == FIELD_INT)
			value = json_integer(*(const long long *)at);
		else if (f->type == FIELD_ENUM)
			value = json_string(f->names[*(const int *)at]);
		else if (f->type == FIELD_BOOL)
			value = json_boolean(*(const bool *)at);
		else if (f->type == FIELD_STRING)
			value = json_string(at);
		else
			continue;
		json_object_set_new(all, f->key, value);
	}
	json_object_update((json_t *)all, (json_t *)object);
	json_object_del(all, "acl");
	json_object_del(all, "route_list");
	json_object_set_new(all, "xdp_functions",
			    json_integer(doc->o.setup.xdp_functions));
	return all;
}

int nf_options_read(const json_t *object, struct nf_options *o)
{
	struct document doc = defaults;
	int err;

	if (!object)
		return bad_value("", "nf", "missing: add it");
	err = fields_read(object, NF_WHERE, fields, ARRAY_SIZE(fields), &doc) ?:
		      read_functions(doc.functions, &doc.o.setup)	      ?:
		      nf_read_hops(doc.next_hops, &doc.o.setup)		      ?:
		      read_place(&doc, &doc.o)				      ?:
		      read_numbers(&doc, &doc.o)			      ?:
		      nf_read_acl(doc.acl, &doc.o)			      ?:
		      nf_read_routes(doc.route_list, &doc.o);
	if (!err)
		doc.o.as_read = as_read(object, &doc);
	*o = doc.o;
	return err;
}

bool nf_options_has(const struct nf_options *o, __u32 first, __u32 last,
		    enum nf_function function)
{
	__u32 i;

	for (i = first; i < last; i++)
		if (o->setup.functions[i] == function)
			return true;
	return false;
}

static int check_tables(const struct nf_options *o)
{
	long long denied = o->flows * o->drop_percent / 100;
	__u32 num_functions = o->setup.num_functions;

	if (o->drop_percent % 100 && o->flows % 100)
		return bad_value(
			NF_WHERE, "flows",
			"must be a multiple of 100 for this drop_percent");
	if (nf_options_has(o, 0, num_functions, NF_FIREWALL)) {
		if (denied + (long long)o->num_acl > o->acl_entries)
			return bad_value(
				NF_WHERE, "acl_entries",
				"is less than what is denied: raise it");
	} else if (o->drop_percent || o->num_acl) {
		return bad_value(NF_WHERE, o->num_acl ? "acl" : "drop_percent",
				 "needs function firewall");
	}
	if (o->num_routes > (size_t)o->routes)
		return bad_value(NF_WHERE, "routes",
				 "is less than route_list has: raise it");
	if (!o->setup.hops &&
	    (nf_options_has(o, 0, num_functions, NF_ROUTER) ||
	     nf_options_has(o, 0, num_functions, NF_LOAD_BALANCER)))
		return bad_value(NF_WHERE, "next_hops",
				 "missing: router and load_balancer need them");
	return 0;
}

int nf_options_check(struct nf_options *o, int num_ports)
{
	__u32 i;

	if (o->stack_port && num_ports != 2)
		return bad_value(
			NF_WHERE, "stack_port",
			"needs two ports: that of the wire, then that to the stack");
	o->setup.ports = o->stack_port ? 1 : num_ports;
	for (i = 0; i < o->setup.hops; i++)
		if (o->setup.hop[i].port >= o->setup.ports)
			return bad_value(NF_WHERE, "next_hops",
					 "one is at a port that there is not");
	return check_tables(o);
}

void nf_options_free(struct nf_options *o)
{
	free(o->acl);
	free(o->route_list);
	json_decref(o->as_read);
	*o = (struct nf_options){};
}
