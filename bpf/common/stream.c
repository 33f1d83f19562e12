// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <linux/if_ether.h>
#include "fields.h"
#include "stream.h"
#include "trailer.h"
#include "util.h"

static const char *const kind_names[] = { "latency", "load", NULL };

#define AT(type, member) .key = #member, .offset = offsetof(struct type, member)
#define SIZED(type, member) \
	AT(type, member), .size = sizeof(((struct type *)0)->member)

static const struct field stream_fields[] = {
	{ AT(stream, id), .type = FIELD_INT, .max = GEN_STREAMS - 1,
	  .required = true },
	{ AT(stream, kind), .type = FIELD_ENUM, .names = kind_names },
	{ AT(stream, tx_port), .type = FIELD_INT, .max = 31, .required = true },
	{ AT(stream, rx_port), .type = FIELD_INT, .max = 31, .required = true },
	{ AT(stream, pps), .type = FIELD_NUMBER, .min = 0.001, .max = 1e8,
	  .required = true, .nullable = true },
	{ AT(stream, start_ns), .type = FIELD_INT, .max = 1e12 },
	{ AT(stream, count), .type = FIELD_INT, .max = 1e15 },
	{ AT(stream, frame_bytes), .type = FIELD_INT, .min = 64,
	  .max = GEN_MAX_FRAME, .required = true },
	{ AT(stream, src_mac), .type = FIELD_MAC, .required = true },
	{ AT(stream, dst_mac), .type = FIELD_MAC, .required = true },
	{ AT(stream, vlan), .type = FIELD_INT, .min = 1, .max = 4094,
	  .nullable = true },
	{ AT(stream, added_bytes), .type = FIELD_INT, .max = 255 },
	{ AT(stream, ip), .type = FIELD_INT, .min = 4, .max = 6 },
	{ SIZED(stream, src_ip), .type = FIELD_STRING, .required = true },
	{ SIZED(stream, dst_ip), .type = FIELD_STRING, .required = true },
	{ AT(stream, udp_src), .type = FIELD_INT, .min = 1, .max = 65535 },
	{ AT(stream, udp_dst), .type = FIELD_INT, .min = 1, .max = 65535 },
	{ AT(stream, flows), .type = FIELD_INT, .min = 1, .max = 10000 },
};

int stream_header_bytes(const struct stream *s)
{
	return ETH_HLEN + (s->vlan ? 4 : 0) + (s->ip == 4 ? 20 : 40) + 8;
}

int streams_read(const json_t *array, struct stream *streams)
{
	char where[32];
	size_t i;
	int err;

	if (!json_array_size(array) || json_array_size(array) > GEN_STREAMS)
		return bad_value("streams", "", "must have 1 to 16 entries");
	for (i = 0; i < json_array_size(array); i++) {
		snprintf(where, sizeof(where), "streams[%zu]", i);
		streams[i] = (struct stream){
			.ip = 4, .udp_src = 10000, .udp_dst = 20000, .flows = 1
		};
		err = fields_read(json_array_get(array, i), where,
				  stream_fields, ARRAY_SIZE(stream_fields),
				  &streams[i]);
		if (err)
			return err;
	}
	return i;
}

static int check_addresses(const struct stream *s, const char *where)
{
	int family = s->ip == 4 ? AF_INET : AF_INET6;
	unsigned char address[16];

	if (s->ip != 4 && s->ip != 6)
		return bad_value(where, "ip", "must be 4 or 6");
	if (inet_pton(family, s->src_ip, address) != 1)
		return bad_value(where, "src_ip",
				 s->ip == 4 ? "must be an IPv4 address" :
					      "must be an IPv6 address");
	if (inet_pton(family, s->dst_ip, address) != 1)
		return bad_value(where, "dst_ip",
				 s->ip == 4 ? "must be an IPv4 address" :
					      "must be an IPv6 address");
	if (s->udp_src + s->flows - 1 > 65535)
		return bad_value(where, "flows",
				 "udp_src + flows - 1 exceeds 65535");
	return 0;
}

static int check_size(const struct stream *s, const char *where,
		      const char *ifname, int mtu, int largest)
{
	int smallest = stream_header_bytes(s) + TRAILER_BYTES + ETH_FCS_LEN;
	int fits = mtu + ETH_HLEN + (s->vlan ? 4 : 0);
	char text[128];

	largest = min(largest, fits) + ETH_FCS_LEN;
	smallest = max(smallest, 64);
	if (s->frame_bytes >= smallest && s->frame_bytes <= largest)
		return 0;
	snprintf(text, sizeof(text),
		 "must be from %d (headers) to %d (MTU %d of %s)", smallest,
		 largest, mtu, ifname);
	return bad_value(where, "frame_bytes", text);
}

int stream_check(const struct stream *streams, int index,
		 const struct gen_timing *timing, const char *ifname, int mtu,
		 int largest)
{
	const struct stream *s = &streams[index];
	char where[32];
	int i;

	snprintf(where, sizeof(where), "streams[%d]", index);
	for (i = 0; i < index; i++)
		if (streams[i].id == s->id)
			return bad_value(where, "id", "is there twice");
	if (s->start_ns >= timing->duration_s * 1e9)
		return bad_value(where, "start_ns", "must be below duration_s");
	return check_addresses(s, where) ?:
		       check_size(s, where, ifname, mtu, largest);
}
