// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <arpa/inet.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include "frames.h"
#include "stream.h"
#include "util.h"

static __u64 sum_words(const void *data, size_t bytes)
{
	__u64 sum = 0;
	__u16 word;
	size_t i;

	for (i = 0; i < bytes; i += 2) {
		memcpy(&word, (const char *)data + i, 2);
		sum += word;
	}
	return sum;
}

static __u8 *put_ethernet(const struct stream *s, __u8 *p)
{
	__u16 marks = s->pcp << 13 | s->dei << 12;
	__be16 outer[2] = { htons(ETH_P_8021AD), htons(marks | s->outer_vlan) };
	__be16 words[2] = { htons(ETH_P_8021Q), htons(marks | s->vlan) };
	__be16 type = htons(s->ip == 4 ? ETH_P_IP : ETH_P_IPV6);

	memcpy(p, s->dst_mac, ETH_ALEN);
	memcpy(p + ETH_ALEN, s->src_mac, ETH_ALEN);
	p += 2 * ETH_ALEN;
	if (s->outer_vlan) {
		memcpy(p, outer, sizeof(outer));
		p += sizeof(outer);
	}
	if (s->vlan) {
		memcpy(p, words, sizeof(words));
		p += sizeof(words);
	}
	memcpy(p, &type, sizeof(type));
	return p + sizeof(type);
}

/*
 * Both return the sum of the addresses for the UDP pseudo header, without those
 * that are written into each frame.
 */
static __u64 put_ipv4(const struct stream *s, struct gen_stream *g, __u8 *p,
		      int udp_bytes)
{
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tos = s->dscp << 2,
		.tot_len = htons(sizeof(ip) + udp_bytes),
		.frag_off = htons(0x4000), /* don't fragment */
		.ttl = 64,
		.protocol = IPPROTO_UDP,
	};

	g->src_off = p - g->template + offsetof(struct iphdr, saddr);
	g->dst_off = p - g->template + offsetof(struct iphdr, daddr);
	g->check_off = p - g->template + offsetof(struct iphdr, check);
	g->ip_sum = sum_words(&ip, sizeof(ip));
	if (!g->ranged) {
		inet_pton(AF_INET, s->src_ip, &ip.saddr);
		inet_pton(AF_INET, s->dst_ip, &ip.daddr);
	}
	ip.check = ~csum_fold64(sum_words(&ip, sizeof(ip)));
	memcpy(p, &ip, sizeof(ip));
	return sum_words(&ip.saddr, 8);
}

static __u64 put_ipv6(const struct stream *s, struct gen_stream *g, __u8 *p,
		      int udp_bytes)
{
	struct ipv6hdr ip = {
		.version = 6,
		.priority = s->dscp >> 2,
		.flow_lbl = { (s->dscp & 3) << 6 },
		.payload_len = htons(udp_bytes),
		.nexthdr = IPPROTO_UDP,
		.hop_limit = 64,
	};

	inet_pton(AF_INET6, s->src_ip, &ip.saddr);
	inet_pton(AF_INET6, s->dst_ip, &ip.daddr);
	g->src_off = p - g->template + offsetof(struct ipv6hdr, saddr) + 12;
	g->dst_off = p - g->template + offsetof(struct ipv6hdr, daddr) + 12;
	if (g->ranged)
		ip.saddr.s6_addr32[3] = ip.daddr.s6_addr32[3] = 0;
	memcpy(p, &ip, sizeof(ip));
	return sum_words(&ip.saddr, 32);
}

/* The sum of the request's words without the trailer, which frames have. */
static __u64 put_request(const struct stream *s, struct gen_stream *g)
{
	__u8 words[GEN_REQUEST] = {};

	g->trailer_off = stream_trailer_offset(s);
	g->odd = g->trailer_off & 1;
	g->request_off = stream_header_bytes(s);
	g->request_len = stream_request(s, g->request);
	if (!g->request_len)
		return 0;
	memcpy(words, g->request, g->request_len);
	memset(words + s->trailer_at, 0, TRAILER_BYTES);
	return sum_words(words, sizeof(words));
}

void frame_template(const struct stream *s, struct gen_stream *g)
{
	int udp_off = stream_header_bytes(s) - sizeof(struct udphdr);
	int udp_bytes = stream_kernel_bytes(s) - udp_off;
	struct udphdr udp = { .dest = htons(s->udp_dst),
			      .len = htons(udp_bytes) };
	__be16 magic = htons(TRAILER_MAGIC);
	__u8 *ip;
	__u64 sum;

	memset(g->template, 0, sizeof(g->template));
	g->len = stream_kernel_bytes(s);
	g->udp_src_off = udp_off;
	g->ranged = s->src_addresses > 1 || s->dst_addresses > 1;
	g->src = stream_sources(s);
	g->dst = stream_targets(s);

	ip = put_ethernet(s, g->template);
	sum = s->ip == 4 ? put_ipv4(s, g, ip, udp_bytes) :
			   put_ipv6(s, g, ip, udp_bytes);
	sum += htons(IPPROTO_UDP) + udp.len + sum_words(&udp, sizeof(udp));
	sum += put_request(s, g);
	sum += g->odd ? __builtin_bswap16(magic) : magic;
	udp.check = ~csum_fold64(sum);
	if (!udp.check)
		udp.check = 0xffff;
	memcpy(g->template + udp_off, &udp, sizeof(udp));
}

static void set_schedule(const struct stream *s, struct gen_stream *g,
			 const struct gen_timing *timing)
{
	long double interval;

	g->paced = s->pps > 0;
	g->poisson = s->departures == DEPARTURES_POISSON;
	g->burst = s->burst;
	g->count = s->count;
	if (!g->paced)
		return;
	interval = 1e9L / s->pps;
	g->int_ns = interval;
	g->int_frac = (interval - g->int_ns) * 4294967296.0L;
	/* the last frame of a burst waits for the others */
	g->max_late_ns = interval * (timing->max_burst + s->burst - 1);
}

/* Where other streams of the thread leave a trailer inside this frame. */
static void set_scrubs(struct gen_stream *streams, int count,
		       struct gen_stream *g)
{
	int i, j;

	for (i = 0; i < count; i++) {
		int offset = streams[i].len - TRAILER_BYTES;

		if (streams[i].len >= g->len)
			continue;
		for (j = 0; j < g->scrubs; j++)
			if (g->scrub[j] == offset)
				break;
		if (j == g->scrubs)
			g->scrub[g->scrubs++] = offset;
	}
}

void gen_init(struct gen_thread *t, struct gen_stream *streams,
	      const struct stream *wanted, const int *index, int count,
	      const struct gen_timing *timing, __u8 epoch)
{
	int i;

	memset(t, 0, sizeof(*t));
	t->wake_ns = GEN_NEVER;
	t->slot_ns = GEN_SLOT_NS;
	t->streams = count;
	t->stall_ns = timing->stall_ns;
	t->late_ns = timing->late_ns;
	t->epoch[GEN_WARMUP] = epoch;
	t->epoch[GEN_TRIAL] = epoch + 1;
	for (i = 0; i < count; i++) {
		const struct stream *s = &wanted[index[i]];
		struct gen_stream *g = &streams[i];

		memset(g, 0, sizeof(*g));
		g->id = s->id;
		g->udp_src = s->udp_src;
		g->choice = stream_choice(wanted, index[i]);
		g->first_flow = s->first_flow;
		frame_template(s, g);
		set_schedule(s, g, timing);
	}
	for (i = 0; i < count; i++)
		set_scrubs(streams, count, &streams[i]);
}

struct gen_shape gen_shape_of(const struct stream *wanted, const int *index,
			      int count)
{
	struct gen_shape shape = { .several = count > 1 };
	int i;

	for (i = 0; i < count; i++) {
		const struct stream *s = &wanted[index[i]];

		shape.paced |= s->pps > 0;
		shape.poisson |= s->departures == DEPARTURES_POISSON;
		shape.bursts |= s->burst > 1;
		shape.drawn |=
			stream_choice(wanted, index[i]).kind != CHOICE_TURNS;
		shape.ranged |= s->src_addresses > 1 || s->dst_addresses > 1;
		shape.scrubs |= s->frame_bytes != wanted[index[0]].frame_bytes;
		shape.requests |= s->request[0] != 0;
		shape.stamped |= s->count || s->kind == STREAM_LATENCY;
	}
	return shape;
}

void gen_schedule(struct gen_thread *t, struct gen_stream *streams,
		  const struct stream *wanted, const int *index,
		  const struct gen_timing *timing, __u64 start_ns)
{
	__u64 trial_ns = start_ns + (__u64)(timing->warmup_s * 1e9);
	__u32 i;

	t->stage_end_ns[GEN_WARMUP] = trial_ns;
	t->stage_end_ns[GEN_TRIAL] =
		trial_ns + (__u64)(timing->duration_s * 1e9);
	for (i = 0; i < t->streams; i++) {
		const struct stream *s = &wanted[index[i]];
		struct gen_stream *g = &streams[i];

		g->first_ns = trial_ns + s->start_ns;
		g->due_ns = start_ns + s->start_ns;
		if (g->due_ns >= trial_ns)
			g->due_ns = GEN_NEVER;
	}
	/* arms the thread: nobody looks at the rest before wake_ns */
	gen_choose(t, streams);
}

__u64 gen_cut_off(const struct gen_stream *g, __u64 trial_ns, __u64 end_ns)
{
	double interval = g->int_ns + g->int_frac / 4294967296.0;

	/* GEN_NEVER when the stream came to its end */
	if (!g->paced || g->due_ns >= end_ns || g->due_ns < trial_ns)
		return 0;
	return ceil((end_ns - g->due_ns) / (interval * g->burst)) * g->burst -
	       g->stage_sent % g->burst;
}

__u64 gen_trial_end(const struct gen_thread *t,
		    const struct gen_stream *streams)
{
	__u64 last = t->stage_end_ns[GEN_WARMUP];
	__u64 end = t->stage_end_ns[GEN_TRIAL];
	__u32 i;

	for (i = 0; i < t->streams; i++) {
		if (!streams[i].count)
			return end;
		last = max(last, streams[i].last_ns);
	}
	return min(last, end);
}

double gen_sending_s(const struct gen_stream *g, __u64 end_ns)
{
	if (!gen_counted(g, GEN_TRIAL))
		return end_ns > g->first_ns ? (end_ns - g->first_ns) / 1e9 : 0;
	if (g->skipped[GEN_TRIAL])
		return (g->int_ns + g->int_frac / 4294967296.0) * g->count /
		       1e9;
	if (g->count == 1)
		return 0;
	return (g->last_ns - g->began_ns) / 1e9 * g->count / (g->count - 1);
}
