// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <linux/if_ether.h>
#include "fields.h"
#include "stream.h"
#include "stream_flows.h"
#include "trailer.h"
#include "util.h"

static const char *const kind_names[] = { "latency", "load", NULL };
static const char *const departure_names[] = { "paced", "poisson", NULL };
static const char *const choice_names[] = { "round-robin", "uniform", "zipf",
					    "new", NULL };

#define MAX_FLOWS 100000
#define MAX_32	  4294967295.0

#define AT(type, member) .key = #member, .offset = offsetof(struct type, member)
#define SIZED(type, member) \
	AT(type, member), .size = sizeof(((struct type *)0)->member)

static const struct field stream_fields[] = {
	{ AT(stream, id), .type = FIELD_INT, .max = GEN_STREAMS - 1,
	  .required = true, .help = "number of the stream" },
	{ AT(stream, kind), .type = FIELD_ENUM, .names = kind_names,
	  .help = "latency: each frame carries its departure; load: counted only" },
	{ AT(stream, tx_port), .type = FIELD_INT, .max = 31, .required = true,
	  .help = "index of the port that sends" },
	{ AT(stream, tx_cpu), .type = FIELD_INT, .max = GEN_CPUS - 1,
	  .nullable = true, .help = "CPU that sends; null: that of the port" },
	{ AT(stream, rx_port), .type = FIELD_INT, .max = 31, .required = true,
	  .help = "index of the port that receives" },
	{ AT(stream, pps), .type = FIELD_NUMBER, .min = 0.001, .max = 1e8,
	  .required = true, .nullable = true,
	  .help = "frames per second; null: as fast as possible" },
	{ AT(stream, departures), .type = FIELD_ENUM, .names = departure_names,
	  .help = "gaps between frames" },
	{ AT(stream, burst), .type = FIELD_INT, .min = 1, .max = 10000,
	  .help = "frames that leave at once, as many intervals apart" },
	{ AT(stream, start_ns), .type = FIELD_INT, .max = 1e12,
	  .help = "begin so much after the trial" },
	{ AT(stream, count), .type = FIELD_INT, .max = 1e15,
	  .help = "frames; 0: until the trial ends" },
	{ AT(stream, frame_bytes), .type = FIELD_INT, .min = 64,
	  .max = GEN_MAX_FRAME, .required = true, .help = "with FCS" },
	{ AT(stream, src_mac), .type = FIELD_MAC, .required = true },
	{ AT(stream, dst_mac), .type = FIELD_MAC, .required = true },
	{ AT(stream, vlan), .type = FIELD_INT, .min = 1, .max = 4094,
	  .nullable = true, .help = "802.1Q tag; null: none" },
	{ AT(stream, outer_vlan), .type = FIELD_INT, .min = 1, .max = 4094,
	  .nullable = true, .help = "802.1ad tag; null: none" },
	{ AT(stream, pcp), .type = FIELD_INT, .max = 7,
	  .help = "priority in the tag" },
	{ AT(stream, dei), .type = FIELD_BOOL,
	  .help = "drop eligible in the tag" },
	{ AT(stream, dscp), .type = FIELD_INT, .max = 63 },
	{ AT(stream, added_bytes), .type = FIELD_INT, .max = 255,
	  .help = "bytes that a forwarder adds: part of the rate, not of the frame" },
	{ AT(stream, ip), .type = FIELD_INT, .min = 4, .max = 6,
	  .help = "4 or 6" },
	{ SIZED(stream, src_ip), .type = FIELD_STRING, .required = true,
	  .help = "first source" },
	{ SIZED(stream, dst_ip), .type = FIELD_STRING, .required = true,
	  .help = "first target" },
	{ AT(stream, udp_src), .type = FIELD_INT, .min = 1, .max = 65535,
	  .help = "first source port" },
	{ AT(stream, udp_dst), .type = FIELD_INT, .min = 1, .max = 65535,
	  .help = "target port" },
	{ AT(stream, src_addresses), .type = FIELD_INT, .min = 1,
	  .max = MAX_FLOWS, .help = "number of sources" },
	{ AT(stream, dst_addresses), .type = FIELD_INT, .min = 1,
	  .max = MAX_FLOWS, .help = "number of targets" },
	{ SIZED(stream, src_next), .type = FIELD_STRING, .nullable = true,
	  .help = "second source; null: behind the first" },
	{ SIZED(stream, dst_next), .type = FIELD_STRING, .nullable = true,
	  .help = "second target; null: behind the first" },
	{ AT(stream, src_step), .type = FIELD_INT, .min = 1, .max = 65536,
	  .help = "from one source to the next" },
	{ AT(stream, dst_step), .type = FIELD_INT, .min = 1, .max = 65536,
	  .help = "from one target to the next" },
	{ AT(stream, flows), .type = FIELD_INT, .min = 1, .max = MAX_32,
	  .help = "number of flows" },
	{ AT(stream, first_flow), .type = FIELD_INT, .max = MAX_32,
	  .help = "number of the first flow" },
	{ AT(stream, flow_choice), .type = FIELD_ENUM, .names = choice_names,
	  .help = "how a frame's flow is chosen" },
	{ AT(stream, zipf_exponent), .type = FIELD_NUMBER, .max = 10,
	  .help = "of choice zipf" },
	{ AT(stream, flow_seed), .type = FIELD_INT, .max = MAX_32,
	  .help = "of all that is drawn" },
	{ SIZED(stream, request), .type = FIELD_STRING,
	  .help = "UDP payload, in hex digits; default: zeroes" },
	{ AT(stream, trailer_at), .type = FIELD_INT, .max = GEN_REQUEST,
	  .help = "which 18 bytes of the request identify the frame" },
	{ AT(stream, answer_at), .type = FIELD_INT, .min = -1,
	  .max = GEN_REQUEST,
	  .help = "where the answer has them; -1: in the same place" },
};

static const struct stream stream_defaults = {
	.tx_cpu = NO_CPU,
	.burst = 1,
	.ip = 4,
	.udp_src = 10000,
	.udp_dst = 20000,
	.src_addresses = 1,
	.dst_addresses = 1,
	.src_step = 1,
	.dst_step = 1,
	.flows = 1,
	.zipf_exponent = 1,
	.flow_seed = 1,
	.answer_at = -1,
};

void streams_help(void)
{
	fields_help("streams[]:", stream_fields, ARRAY_SIZE(stream_fields),
		    &stream_defaults);
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
		streams[i] = stream_defaults;
		err = fields_read(json_array_get(array, i), where,
				  stream_fields, ARRAY_SIZE(stream_fields),
				  &streams[i]);
		if (err)
			return err;
	}
	return i;
}

static int check_range(const char *where, const char *key,
		       struct gen_range range, int family, const char *next)
{
	unsigned char address[16];
	__u64 last = range.first;

	if (*next && inet_pton(family, next, address) != 1)
		return bad_value(where, key[0] == 's' ? "src_next" : "dst_next",
				 family == AF_INET ? "must be an IPv4 address" :
						     "must be an IPv6 address");
	last = (__u32)(range.first + range.jump);
	last += (range.count - 1ULL) * range.step;
	if (range.count > 1 && last > (1ULL << 32))
		return bad_value(where, key,
				 "the last of them exceeds 32 bits: fewer");
	return 0;
}

/* Addresses and ports tell flows apart. */
static int check_flows(const struct stream *s, const char *where)
{
	long long pairs = s->src_addresses * s->dst_addresses;
	long long last = s->first_flow + s->flows;
	long long ports = (last + pairs - 1) / pairs;

	if (s->flow_choice != CHOICE_NEW && s->flows > MAX_FLOWS)
		return bad_value(where, "flows",
				 "100000 at the most, unless all are new");
	if (last > MAX_32 || s->udp_src + ports - 1 > 65535)
		return bad_value(
			where, "flows",
			"udp_src + (first_flow + flows) / (src_addresses x dst_addresses) - 1 exceeds 65535");
	return 0;
}

/* None comes twice, in the warm-up or in the trial. */
static int check_new_flows(const struct stream *s,
			   const struct gen_timing *timing, const char *where)
{
	double seconds = timing->warmup_s + timing->duration_s;
	double arrivals = ceil(s->pps * timing->warmup_s) +
			  ceil(s->pps * timing->duration_s);
	char text[128];

	if (s->flow_choice != CHOICE_NEW)
		return 0;
	if (!s->pps)
		return bad_value(where, "flow_choice",
				 "\"new\" needs pps, the rate of arrivals");
	if (s->departures == DEPARTURES_POISSON)
		return bad_value(where, "flow_choice",
				 "\"new\" needs departures \"paced\"");
	if (arrivals <= s->flows)
		return 0;
	snprintf(
		text, sizeof(text),
		"fewer than the %.0f that arrive in %g s: more addresses, or a lower pps",
		arrivals, seconds);
	return bad_value(where, "flows", text);
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
	return check_range(where, "src_addresses", stream_sources(s), family, s->src_next) ?:
		       check_range(where, "dst_addresses", stream_targets(s), family, s->dst_next) ?:
		       check_flows(s, where);
}

static int check_departures(const struct stream *s, const char *where)
{
	const char *key = s->burst > 1 ? "burst" : "departures";

	if (s->burst == 1 && s->departures == DEPARTURES_PACED)
		return 0;
	if (s->burst > 1 && s->departures == DEPARTURES_POISSON)
		return bad_value(where, key, "needs departures \"paced\"");
	if (!s->pps)
		return bad_value(where, key, "needs pps, the mean rate");
	if (s->pps < 1)
		return bad_value(where, key, "needs pps of 1 or more");
	return 0;
}

static int check_tags(const struct stream *s, const char *where)
{
	if (s->vlan)
		return 0;
	if (s->outer_vlan)
		return bad_value(where, "outer_vlan",
				 "needs vlan, the tag behind it");
	if (s->pcp || s->dei)
		return bad_value(where, s->pcp ? "pcp" : "dei",
				 "needs vlan, the tag that has it");
	return 0;
}

/* Whether the digits of a request are those of whole bytes, and how many. */
static int request_bytes(const struct stream *s)
{
	size_t digits = strlen(s->request);

	if (digits % 2 ||
	    strspn(s->request, "0123456789abcdefABCDEF") != digits)
		return -EINVAL;
	return digits / 2;
}

int stream_request(const struct stream *s, unsigned char *bytes)
{
	int count = request_bytes(s), i;

	for (i = 0; i < count; i++)
		sscanf(s->request + 2 * i, "%2hhx", &bytes[i]);
	return count;
}

static int check_request(const struct stream *s, const char *where)
{
	int bytes = request_bytes(s);

	if (!s->request[0])
		return s->trailer_at || s->answer_at >= 0 ?
			       bad_value(where, "request",
					 "needed by trailer_at and answer_at") :
			       0;
	if (bytes < 0)
		return bad_value(where, "request",
				 "must be pairs of hex digits");
	if (s->trailer_at + TRAILER_BYTES > bytes)
		return bad_value(where, "trailer_at",
				 "18 bytes of the request must be there");
	/* the trailer is looked for at one distance from a frame's begin */
	if (s->vlan || s->added_bytes)
		return bad_value(where, "request",
				 "needs vlan null and added_bytes 0");
	if (s->frame_bytes != stream_header_bytes(s) + bytes + ETH_FCS_LEN)
		return bad_value(where, "frame_bytes",
				 "must be that of headers, request and FCS");
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
	return check_addresses(s, where)		 ?:
		       check_new_flows(s, timing, where) ?:
		       check_tags(s, where)		 ?:
		       check_departures(s, where)	 ?:
		       check_request(s, where)		 ?:
		       check_size(s, where, ifname, mtu, largest);
}
