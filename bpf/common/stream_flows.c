// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <arpa/inet.h>
#include <stdlib.h>
#include "stream_flows.h"
#include "trailer.h"

/* The lowest 32 bits of an address that is known to be one. */
static __u32 address_bits(const struct stream *s, const char *text)
{
	__be32 words[4] = {};

	inet_pton(s->ip == 4 ? AF_INET : AF_INET6, text, words);
	return ntohl(words[s->ip == 4 ? 0 : 3]);
}

static struct gen_range range_of(const struct stream *s, const char *first,
				 const char *next, __u32 count, __u32 step)
{
	struct gen_range range = { .first = address_bits(s, first),
				   .count = count,
				   .jump = 1,
				   .step = step };

	if (*next)
		range.jump = address_bits(s, next) - range.first;
	return range;
}

struct gen_range stream_sources(const struct stream *s)
{
	return range_of(s, s->src_ip, s->src_next, s->src_addresses,
			s->src_step);
}

struct gen_range stream_targets(const struct stream *s)
{
	return range_of(s, s->dst_ip, s->dst_next, s->dst_addresses,
			s->dst_step);
}

struct choice stream_choice(const struct stream *streams, int index)
{
	const struct stream *s = &streams[index];

	return choice_of(s->flow_choice, s->flows, s->flow_seed, s->id,
			 streams_columns(streams, index));
}

struct intact stream_intact(const struct stream *s)
{
	int at = stream_trailer_offset(s);

	return (struct intact){
		.padding = s->request[0] ? 0 : at - stream_header_bytes(s),
		.first_flow = s->first_flow,
		.src = stream_sources(s),
		.dst = stream_targets(s),
		.ranged = s->src_addresses > 1 || s->dst_addresses > 1,
		.udp_src = s->udp_src,
		.odd = at & 1,
		.any_flow = s->flow_choice == CHOICE_NEW,
	};
}

struct choice_column *streams_choices(const struct stream *streams, int count)
{
	struct choice_column *columns;
	int i;

	columns = calloc(streams_columns(streams, count) + 1, sizeof(*columns));
	for (i = 0; columns && i < count; i++) {
		struct choice c = stream_choice(streams, i);

		if (c.kind == CHOICE_ZIPF &&
		    choice_fill(&c, streams[i].zipf_exponent,
				columns + c.first)) {
			free(columns);
			columns = NULL;
		}
	}
	return columns;
}
