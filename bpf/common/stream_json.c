// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "frames.h"
#include "stream_json.h"

static json_t *integer(__u64 value)
{
	return json_integer(value);
}

static json_t *rate(__u64 frames, double sending_s)
{
	return json_real(sending_s > 0 ? frames / sending_s : 0);
}

static json_t *lateness(const struct gen_stream *g, json_t *json)
{
	if (json)
		json_object_set_new(json, "on_schedule",
				    integer(g->late.on_schedule));
	return json ?: json_null();
}

static json_t *gaps(const struct stream_figures *f)
{
	return json_pack(
		"{s:o, s:o, s:o}", "longest_ns", integer(f->longest_gap_ns),
		"last_lost", f->any_lost ? integer(f->last_lost) : json_null(),
		"trailing",
		integer(f->numbered > f->next ? f->numbered - f->next : 0));
}

json_t *stream_json(const struct stream *s, const struct gen_stream *g,
		    const struct stream_figures *f)
{
	__u64 skipped =
		g->skipped[GEN_TRIAL] + gen_cut_off(g, f->trial_ns, f->end_ns);
	double sending_s = gen_sending_s(g, f->end_ns);

	return json_pack(
		"{s:I, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"id", s->id, "kind",
		s->kind == STREAM_LATENCY ? "latency" : "load", "tx_port",
		s->tx_port, "rx_port", s->rx_port, "frame_bytes",
		s->frame_bytes, "offered_pps",
		s->pps ? json_real(s->pps) : json_null(), "intended",
		integer(f->sent + f->refused + skipped), "sent",
		integer(f->sent), "skipped", integer(skipped), "received",
		integer(f->received), "lost",
		(json_int_t)(f->sent - f->received), "duplicated",
		integer(f->duplicated), "out_of_order",
		integer(f->out_of_order), "late_beyond_window",
		integer(f->beyond_window), "achieved_pps",
		rate(f->sent, sending_s), "rx_pps",
		rate(f->received, sending_s), "latency",
		f->latency ?: json_null(), "lateness", lateness(g, f->lateness),
		"gaps", gaps(f));
}
