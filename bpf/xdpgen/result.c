// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The JSON result. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "counts.h"
#include "hdr_index.h"
#include "stream_json.h"
#include "util.h"

static json_t *integer(__u64 value)
{
	return json_integer(value);
}

static json_t *integer_or_null(const __u64 *value)
{
	return value ? integer(*value) : json_null();
}

static json_t *string_or_null(const char *string)
{
	return string && *string ? json_string(string) : json_null();
}

static json_t *latency(const struct receiver *r, int id,
		       const struct rx_counters *c)
{
	const __u64 *counts = receiver_latency(r, id);

	if (!counts)
		return NULL;
	return distribution_pack(c->arrived.received, c->sum_ns, c->min_inv,
				 c->max_ns, counts);
}

enum flow_column { SENT, RECEIVED, LOST, MIN_NS, MEAN_NS, MAX_NS };

static void add_flow(json_t *columns[], const struct rx_flow *flow, __u64 sent,
		     bool timed)
{
	json_array_append_new(columns[SENT], integer(sent));
	json_array_append_new(columns[RECEIVED], integer(flow->received));
	json_array_append_new(columns[LOST], integer(sent - flow->received));
	timed &= flow->received > 0;
	json_array_append_new(columns[MIN_NS],
			      timed ? integer(~flow->min_inv) : json_null());
	json_array_append_new(columns[MEAN_NS],
			      timed ? integer(flow->sum_ns / flow->received) :
				      json_null());
	json_array_append_new(columns[MAX_NS],
			      timed ? integer(flow->max_ns) : json_null());
}

/* The sequences that were sent tell how many frames each flow was given. */
static __u64 *sent_by_flow(const struct choice *c,
			   const struct choice_column *columns, __u64 sent)
{
	__u64 *by_flow = calloc(c->flows, sizeof(*by_flow)), i;

	if (by_flow && c->kind == CHOICE_TURNS)
		for (i = 0; i < c->flows; i++)
			by_flow[i] = sent / c->flows + (i < sent % c->flows);
	else if (by_flow)
		for (i = 0; i < sent; i++)
			by_flow[choice_flow(c, columns, i)]++;
	return by_flow;
}

/* A column for each figure with an entry for each flow, or null. */
static json_t *flow_figures(const struct receiver *r, const struct stream *cfg,
			    const struct choice *choice,
			    const struct choice_column *choices, __u64 sent)
{
	static const char *const names[] = { "sent",   "received", "lost",
					     "min_ns", "mean_ns",  "max_ns" };
	const struct rx_flow *flows = receiver_flows(r, cfg->id);
	json_t *columns[ARRAY_SIZE(names)], *json;
	__u64 *by_flow, i;

	if (choice->kind == CHOICE_NEW)
		return json_null();
	by_flow = flows ? sent_by_flow(choice, choices, sent) : NULL;
	if (!by_flow)
		return json_null();
	json = json_object();
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		columns[i] = json_array();
		json_object_set_new(json, names[i], columns[i]);
	}
	for (i = 0; i < choice->flows; i++)
		add_flow(columns, &flows[i], by_flow[i],
			 cfg->kind == STREAM_LATENCY);
	free(by_flow);
	return json;
}

static json_t *sender_stream_json(const struct run *run, const struct sender *s,
				  int i)
{
	const struct stream *cfg = &run->cfg.streams[s->index[i]];
	const struct receiver *r = &run->receivers[cfg->rx_port];
	__u64 refused = sender_refused(s, GEN_TRIAL, i);
	__u64 dropped = sender_dropped(s, GEN_TRIAL, i);
	struct stream_figures f = {
		.trial_ns = run->trial_ns,
		.end_ns = run_trial_end(run),
		.sent = sender_sent(s, GEN_TRIAL, i),
		.numbered = sender_numbered(s, GEN_TRIAL, i),
		.refused = refused + dropped,
		.window = receiver_window(r, cfg->id),
		.lateness = lateness_json(&s->streams[i],
					  s->lateness + i * HDR_COUNTS),
	};
	struct rx_counters c;
	json_t *json;

	receiver_read(r, cfg->id, &c, &f.in_turns);
	f.arrived = c.arrived;
	f.latency = latency(r, cfg->id, &c);
	json = stream_json(cfg, &s->streams[i], &f);
	json_object_set_new(json, "redirect_errors", integer(refused));
	json_object_set_new(json, "tx_drops",
			    sender_sees_drops(s, i) ? integer(dropped) :
						      json_null());
	json_object_set_new(json, "flow_figures",
			    flow_figures(r, cfg, &s->streams[i].choice,
					 run->cfg.columns, f.numbered));
	return json;
}

/* In the order of the configuration, not of the threads. */
static json_t *streams_json(const struct run *run)
{
	json_t *array = json_array();
	int wanted, i, j;

	for (wanted = 0; wanted < run->cfg.num_streams; wanted++)
		for (i = 0; i < run->num_senders; i++)
			for (j = 0; j < run->senders[i].count; j++)
				if (run->senders[i].index[j] == wanted)
					json_array_append_new(
						array,
						sender_stream_json(
							run, &run->senders[i],
							j));
	return array;
}

static json_t *cpus_json(const __u64 *frames, int count)
{
	json_t *object = json_object();
	char key[16];
	int i;

	for (i = 0; i < count; i++) {
		if (!frames[i])
			continue;
		snprintf(key, sizeof(key), "%d", i);
		json_object_set_new(object, key, integer(frames[i]));
	}
	return object;
}

/* Sums of the streams that leave at a port; drops only where they are seen. */
static void add_unsent(const struct run *run, int port, json_t *object)
{
	__u64 refused = 0, dropped = 0;
	bool seen = false;
	int i, j;

	for (i = 0; i < run->num_senders; i++) {
		const struct sender *s = &run->senders[i];

		for (j = 0; j < s->count; j++) {
			if (run->cfg.streams[s->index[j]].tx_port != port)
				continue;
			refused += sender_refused(s, GEN_TRIAL, j);
			dropped += sender_dropped(s, GEN_TRIAL, j);
			seen |= sender_sees_drops(s, j);
		}
	}
	json_object_set_new(object, "redirect_errors", integer(refused));
	json_object_set_new(object, "tx_drops",
			    seen ? integer(dropped) : json_null());
}

static json_t *port_json(const struct run *run, int index)
{
	static const char *const rx[] = { "xdp", "tc", "none" };
	const struct receiver *r = &run->receivers[index];
	const struct port *port = &run->cfg.ports[index];
	struct rx_port_counters c;
	__u64 by_cpu[r->cpus];
	json_t *json;

	receiver_read_port(r, &c, by_cpu);
	json = json_pack(
		"{s:s, s:s, s:i, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}",
		"name", port->name, "ifname", port->ifname, "ifindex",
		port->ifindex, "rx", rx[port->rx], "xdp_attach", r->at.xdp,
		"tc_attach", r->at.tc, "other", integer(c.other), "reflected",
		integer(c.reflected), "earlier", integer(c.earlier),
		"earlier_ns", integer(c.earlier_ns), "link_changes",
		integer(links_changes(&run->links, index)), "rx_cpus",
		cpus_json(by_cpu, r->cpus));
	add_unsent(run, index, json);
	return json;
}

static json_t *thread_ports(const struct sender *s)
{
	json_t *array = json_array();
	__u32 seen = 0;
	int i;

	for (i = 0; i < s->count; i++) {
		int port = s->cfg->streams[s->index[i]].tx_port;

		if (!(seen & 1U << port))
			json_array_append_new(array, json_integer(port));
		seen |= 1U << port;
	}
	return array;
}

/* At top rate a sender does nothing but send, in batches that are full. */
static bool at_top_rate(const struct sender *s)
{
	int i;

	for (i = 0; i < s->count; i++)
		if (!s->cfg->streams[s->index[i]].pps)
			return true;
	return false;
}

static json_t *sending_json(const struct run *run, const struct sender *s,
			    bool stalled)
{
	const struct gen_thread *t = s->gen;

	if (s->ops != &live_sender)
		return json_null();
	if (at_top_rate(s))
		return integer(stalled ? t->stalled_ns :
					 run_elapsed(run) * 1e9);
	return integer(stalled ? t->sending_stalled_ns : t->sending_ns);
}

static json_t *handovers_json(const struct sender *s)
{
	__u64 sent = 0;
	int i;

	if (s->ops != &live_sender)
		return json_null();
	for (i = 0; i < s->count; i++)
		sent += s->streams[i].sent[GEN_TRIAL];
	return integer(at_top_rate(s) ? sent / s->batch : s->gen->handovers);
}

static json_t *thread_json(const struct run *run, const struct sender *s)
{
	const struct tx_busy *busy = s->tx_busy;
	const struct gen_thread *t = s->gen;
	__u64 polls = 0;
	int i;

	for (i = 0; i < GEN_CPUS; i++)
		polls += t->polls[i];
	return json_pack(
		"{s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"tx_cpu", s->cpu == NO_CPU ? json_null() : json_integer(s->cpu),
		"ports", thread_ports(s), "batch", s->batch, "polls",
		integer(polls), "cpu_seen", cpus_json(t->polls, GEN_CPUS),
		"stalls", integer(t->stalls), "stalled_ns",
		integer(t->stalled_ns), "longest_gap_ns",
		integer(t->longest_gap_ns), "sending_ns",
		sending_json(run, s, false), "sending_stalled_ns",
		sending_json(run, s, true), "handovers", handovers_json(s),
		"nonvoluntary_switches",
		integer(s->after.nonvoluntary_switches -
			s->before.nonvoluntary_switches),
		"run_delay_ns",
		integer(sched_stats_waited_ns(&s->before, &s->after)), "ran_ns",
		integer(s->after.ran_ns - s->before.ran_ns), "tx_eagain",
		integer_or_null(busy ? &busy->eagain : NULL), "tx_ebusy",
		integer_or_null(busy ? &busy->ebusy : NULL), "tx_enobufs",
		integer_or_null(busy ? &busy->enobufs : NULL));
}

static json_t *warmup_json(const struct run *run)
{
	__u64 sent = 0, received = 0;
	struct rx_counters c;
	int i, j;

	for (i = 0; i < run->num_senders; i++)
		for (j = 0; j < run->senders[i].count; j++)
			sent += sender_sent(&run->senders[i], GEN_WARMUP, j);
	for (i = 0; i < run->cfg.num_streams; i++) {
		const struct stream *s = &run->cfg.streams[i];

		receiver_read(&run->receivers[s->rx_port], s->id, &c, NULL);
		received += c.arrived.warmup;
	}
	return json_pack("{s:o, s:o}", "sent", integer(sent), "received",
			 integer(received));
}

/* Why it is not known what cards dropped. */
static const char *unwatched(const struct run *run)
{
	int i;

	for (i = 0; i < run->num_senders; i++)
		if (run->senders[i].cards_unwatched[0])
			return run->senders[i].cards_unwatched;
	return NULL;
}

int result_print(struct run *run)
{
	json_t *ports = json_array(), *threads = json_array(), *root;
	int i, err;

	for (i = 0; i < run->cfg.num_ports; i++)
		json_array_append_new(ports, port_json(run, i));
	for (i = 0; i < run->num_senders; i++)
		json_array_append_new(threads,
				      thread_json(run, &run->senders[i]));
	root = json_pack(
		"{s:i, s:s, s:o, s:i, s:b, s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:o}",
		"version", 1, "sender", run->senders[0].ops->name,
		"sender_reason", string_or_null(run->sender_reason), "batch",
		run->senders[0].batch, "interrupted", run->interrupted, "error",
		string_or_null(run->error), "tx_drops_reason",
		string_or_null(unwatched(run)), "started_ns",
		integer(run->trial_ns), "elapsed_s", run_elapsed(run), "warmup",
		warmup_json(run), "ports", ports, "threads", threads, "streams",
		streams_json(run));
	err = !root || json_dumpf(root, stdout, JSON_COMPACT) ? -ENOMEM : 0;
	putchar('\n');
	if (fflush(stdout) || err)
		err = fail(-EIO, "cannot write the result: stdout: %s",
			   strerror(errno));
	json_decref(root);
	return err;
}
