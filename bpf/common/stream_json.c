// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <stdlib.h>
#include "frames.h"
#include "hdr.h"
#include "stream_json.h"

static json_t *integer(__u64 value)
{
	return json_integer(value);
}

static json_t *rate(__u64 frames, double sending_s)
{
	return json_real(sending_s > 0 ? frames / sending_s : 0);
}

static json_t *histogram(const __u64 *counts)
{
	char *text = hdr_encode(counts);
	json_t *json = text ? json_string(text) : NULL;

	free(text);
	return json;
}

json_t *distribution_pack(__u64 count, double sum_ns, __u64 min_inv,
			  __u64 max_ns, const __u64 *counts)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "count", integer(count),
			 "min_ns", count ? integer(~min_inv) : json_null(),
			 "max_ns", count ? integer(max_ns) : json_null(),
			 "mean_ns",
			 count ? json_real(sum_ns / count) : json_null(), "hdr",
			 histogram(counts));
}

json_t *lateness_json(const struct gen_stream *g, const __u64 *counts)
{
	const struct gen_lateness *late = &g->late;
	json_t *json;

	if (!g->paced)
		return NULL;
	json = distribution_pack(late->count, late->sum_ns, late->min_inv,
				 late->max_ns, counts);
	json_object_set_new(json, "on_schedule", integer(late->on_schedule));
	return json;
}

static json_t *gaps(const struct stream_figures *f)
{
	__u64 numbered = f->numbered, next = f->arrived.next, lost;
	bool any = f->window &&
		   arrivals_last_missing(&f->arrived, f->window, &lost);

	return json_pack(
		"{s:o, s:o, s:o}", "longest_ns",
		f->in_turns ? integer(f->arrived.longest_ns) : json_null(),
		"last_lost", any ? integer(lost) : json_null(), "trailing",
		integer(numbered > next ? numbered - next : 0));
}

json_t *stream_json(const struct stream *s, const struct gen_stream *g,
		    const struct stream_figures *f)
{
	__u64 skipped =
		g->skipped[GEN_TRIAL] + gen_cut_off(g, f->trial_ns, f->end_ns);
	double sending_s = gen_sending_s(g, f->end_ns);

	return json_pack(
		"{s:I, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"id", s->id, "kind",
		s->kind == STREAM_LATENCY ? "latency" : "load", "tx_port",
		s->tx_port, "rx_port", s->rx_port, "frame_bytes",
		s->frame_bytes, "offered_pps",
		s->pps ? json_real(s->pps) : json_null(), "intended",
		integer(f->sent + f->refused + skipped), "sent",
		integer(f->sent), "skipped", integer(skipped), "received",
		integer(f->arrived.received), "lost",
		(json_int_t)(f->sent - f->arrived.received), "duplicated",
		integer(f->arrived.duplicated), "damaged",
		s->kind == STREAM_LATENCY ? integer(f->arrived.damaged) :
					    json_null(),
		"out_of_order", integer(f->arrived.out_of_order),
		"late_beyond_window", integer(f->arrived.beyond_window),
		"achieved_pps", rate(f->sent, sending_s), "rx_pps",
		rate(f->arrived.received, sending_s), "latency",
		f->latency ?: json_null(), "lateness",
		f->lateness ?: json_null(), "gaps", gaps(f));
}
