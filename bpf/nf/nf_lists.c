// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include "fields.h"
#include "nf_lists.h"
#include "util.h"

#define MAX_LISTED 10000
#define MAX_ROUTES 200000

#define COUNT(at, low, high) at, .type = FIELD_INT, .min = (low), .max = (high)

int nf_read_address(const char *text, const char *where, const char *key,
		    __u32 *ip)
{
	struct in_addr address;

	if (inet_pton(AF_INET, text, &address) != 1)
		return bad_value(where, key,
				 "must be an IPv4 address like 10.0.0.1");
	*ip = ntohl(address.s_addr);
	return 0;
}

int nf_read_prefix(const char *text, const char *where, const char *key,
		   __u32 *ip, __u32 *bits)
{
	char address[NF_ADDRESS], rest;

	if (sscanf(text, "%15[0-9.]/%u%c", address, bits, &rest) != 2 ||
	    *bits > 32)
		return bad_value(where, key,
				 "must be a prefix like 10.0.0.0/8");
	if (nf_read_address(address, where, key, ip))
		return -EINVAL;
	if (*bits < 32 && *ip << *bits)
		return bad_value(where, key,
				 "has bits set behind its length: clear them");
	return 0;
}

struct hop_read {
	unsigned char mac[6];
	char ip[NF_ADDRESS];
	long long port;
};

static const struct field hop_fields[] = {
	{ .key = "mac",
	  .type = FIELD_MAC,
	  .required = true,
	  .offset = offsetof(struct hop_read, mac) },
	{ .key = "ip",
	  .type = FIELD_STRING,
	  .size = NF_ADDRESS,
	  .offset = offsetof(struct hop_read, ip) },
	{ .key = "port",
	  .type = FIELD_INT,
	  .max = NF_PORTS - 1,
	  .offset = offsetof(struct hop_read, port) },
};

int nf_read_hops(const json_t *array, struct nf_setup *s)
{
	struct hop_read hop;
	char where[48];
	__u32 ip = 0;
	size_t i;

	if (!array)
		return 0;
	if (!json_array_size(array) || json_array_size(array) > NF_HOPS)
		return bad_value(NF_WHERE, "next_hops",
				 "must have 1 to 16 entries");
	for (i = 0; i < json_array_size(array); i++) {
		hop = (struct hop_read){ .ip = "0.0.0.0" };
		snprintf(where, sizeof(where), NF_WHERE ".next_hops[%zu]", i);
		if (fields_read(json_array_get(array, i), where, hop_fields,
				ARRAY_SIZE(hop_fields), &hop) ||
		    nf_read_address(hop.ip, where, "ip", &ip))
			return -EINVAL;
		s->hop[i].ip = htonl(ip);
		s->hop[i].port = hop.port;
		memcpy(s->hop[i].mac, hop.mac, sizeof(hop.mac));
	}
	s->hops = i;
	return 0;
}

struct flow_read {
	char src_ip[NF_ADDRESS];
	char dst_ip[NF_ADDRESS];
	long long src_port;
	long long dst_port;
	long long protocol;
};

#define FLOW(member) \
	.key = #member, .offset = offsetof(struct flow_read, member)

static const struct field flow_fields[] = {
	{ FLOW(src_ip), .type = FIELD_STRING, .size = NF_ADDRESS,
	  .required = true },
	{ FLOW(dst_ip), .type = FIELD_STRING, .size = NF_ADDRESS,
	  .required = true },
	{ COUNT(FLOW(src_port), 0, 65535), .required = true },
	{ COUNT(FLOW(dst_port), 0, 65535), .required = true },
	{ COUNT(FLOW(protocol), 0, 255), .required = true },
};

int nf_read_acl(const json_t *array, struct nf_options *o)
{
	struct flow_read flow;
	char where[48];
	__u32 src = 0, dst = 0;
	size_t i;

	if (!array)
		return 0;
	if (json_array_size(array) > MAX_LISTED)
		return bad_value(NF_WHERE, "acl",
				 "has more than 10000 entries");
	o->acl = calloc(json_array_size(array) + 1, sizeof(*o->acl));
	if (!o->acl)
		return fail(-ENOMEM, "cannot allocate: nf.acl");
	for (i = 0; i < json_array_size(array); i++) {
		snprintf(where, sizeof(where), NF_WHERE ".acl[%zu]", i);
		if (fields_read(json_array_get(array, i), where, flow_fields,
				ARRAY_SIZE(flow_fields), &flow) ||
		    nf_read_address(flow.src_ip, where, "src_ip", &src) ||
		    nf_read_address(flow.dst_ip, where, "dst_ip", &dst))
			return -EINVAL;
		o->acl[i] = (struct nf_flow){ .src_ip = htonl(src),
					      .dst_ip = htonl(dst),
					      .src_port = htons(flow.src_port),
					      .dst_port = htons(flow.dst_port),
					      .protocol = flow.protocol };
	}
	o->num_acl = i;
	return 0;
}

struct route_read {
	char prefix[NF_PREFIX];
	long long hop;
};

static const struct field route_fields[] = {
	{ .key = "prefix",
	  .type = FIELD_STRING,
	  .size = NF_PREFIX,
	  .required = true,
	  .offset = offsetof(struct route_read, prefix) },
	{ .key = "hop",
	  .type = FIELD_INT,
	  .max = NF_HOPS - 1,
	  .required = true,
	  .offset = offsetof(struct route_read, hop) },
};

int nf_read_routes(const json_t *array, struct nf_options *o)
{
	struct route_read route;
	struct nf_route *to;
	char where[48];
	size_t i;

	if (!array)
		return 0;
	if (json_array_size(array) > MAX_ROUTES)
		return bad_value(NF_WHERE, "route_list",
				 "has more than 200000 entries");
	o->route_list = calloc(json_array_size(array) + 1, sizeof(*to));
	if (!o->route_list)
		return fail(-ENOMEM, "cannot allocate: nf.route_list");
	for (i = 0; i < json_array_size(array); i++) {
		to = &o->route_list[i];
		snprintf(where, sizeof(where), NF_WHERE ".route_list[%zu]", i);
		if (fields_read(json_array_get(array, i), where, route_fields,
				ARRAY_SIZE(route_fields), &route) ||
		    nf_read_prefix(route.prefix, where, "prefix", &to->ip,
				   &to->bits))
			return -EINVAL;
		to->hop = route.hop;
		if (to->hop >= o->setup.hops)
			return bad_value(where, "hop",
					 "no such entry of next_hops");
	}
	o->num_routes = i;
	return 0;
}
