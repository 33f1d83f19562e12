// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Slices of the trial: what was sent and what arrived in each, and for how long
 * the machine was away by which clock.
 */
#include <stdlib.h>
#include <string.h>
#include "counts.h"
#include "pack.h"
#include "util.h"

/* Finer would be a tenth of the text. */
#define AWAY_UNIT_NS 100000
/* What the clocks say of one CPU, and those of the whole path. */
#define CPU_ROWS 2

enum path_row {
	ROW_SENDERS,
	ROW_FORWARDER,
	ROW_STALLS,
	ROW_MISSING,
	PATH_ROWS
};

/* All that is packed, in this order. */
struct table {
	const struct run *run;
	const struct slice_grid *grid;
	__u64 *values; /* sent, histograms, and a row for each clock */
	__u64 *away;
	size_t count;
};

static __u64 *cpu_row(const struct table *t, int index, int row)
{
	return t->away + (size_t)(index * CPU_ROWS + row) * t->grid->count;
}

static __u64 *path_row(const struct table *t, enum path_row row)
{
	return cpu_row(t, t->run->clocks.num_cpus, 0) +
	       (size_t)row * t->grid->count;
}

static __u64 overlap(__u64 from, __u64 to, __u64 other_from, __u64 other_to)
{
	from = max(from, other_from);
	to = min(to, other_to);
	return to > from ? to - from : 0;
}

/* @away_ns of the time from @from to @to, in AWAY_UNIT_NS and rounded up. */
static void spread(const struct table *t, __u64 *row, __u64 from, __u64 to,
		   __u64 away_ns)
{
	const struct slice_grid *g = t->grid;
	__u64 begin, share;
	__u32 i, last;

	from = max(from, g->from_ns);
	if (to <= from || from >= g->from_ns + g->span_ns)
		return;
	last = slice_of(g, to - 1);
	for (i = slice_of(g, from); i <= last; i++) {
		begin = g->from_ns + i * g->slice_ns;
		share = overlap(from, to, begin, begin + g->slice_ns);
		row[i] += (__u64)((double)away_ns * share / (to - from)) /
				  AWAY_UNIT_NS +
			  1;
	}
}

static void add_events(const struct table *t)
{
	const struct clocks *c = &t->run->clocks;
	int events, i, j;
	bool more;

	events = clocks_events(c, &more);
	for (i = 0; i < events; i++) {
		const struct clock_event *e = &c->events[i];
		__u64 *row = path_row(t, (int)e->of < c->num_senders ?
						 ROW_SENDERS :
						 ROW_FORWARDER);

		for (j = 0; e->kind != CLOCK_WAIT && j < c->num_cpus; j++)
			if (c->cpu[j] == (int)e->of)
				row = cpu_row(t, j, e->kind == CLOCK_STEAL);
		if (e->away_ns > CLOCK_AWAY_NS)
			spread(t, row, e->from_ns, e->to_ns, e->away_ns);
	}
	if (more)
		spread(t, path_row(t, ROW_MISSING),
		       events ? c->events[events - 1].to_ns : t->grid->from_ns,
		       t->grid->from_ns + t->grid->span_ns, t->grid->span_ns);
}

/* How much of a sender's stall other clocks know of. */
static __u64 explained(const struct clocks *c, int sender, int cpu,
		       const struct gen_stall *stall)
{
	__u64 late = 0, stolen = 0, waited = 0, shared;
	int events, i;
	bool more;

	events = clocks_events(c, &more);
	for (i = 0; i < events; i++) {
		const struct clock_event *e = &c->events[i];

		shared = overlap(e->from_ns, e->to_ns, stall->from_ns,
				 stall->to_ns);
		if (e->kind == CLOCK_WAIT && (int)e->of == sender)
			waited += shared;
		else if (e->kind == CLOCK_STEAL && (int)e->of == cpu)
			stolen += min(shared, e->away_ns);
		else if (e->kind == CLOCK_TICK && (int)e->of == cpu)
			late += overlap(e->to_ns - e->away_ns, e->to_ns,
					stall->from_ns, stall->to_ns);
	}
	return max(late, stolen) + waited;
}

static __u64 softirq_ns(const struct clocks *c, int cpu,
			const struct gen_stall *stall)
{
	int softirqs = clocks_softirqs(c), i;
	__u64 ticks = 0;

	for (i = 0; i < softirqs; i++)
		ticks += (int)c->softirqs[i].cpu == cpu &&
			 c->softirqs[i].at_ns > stall->from_ns &&
			 c->softirqs[i].at_ns < stall->to_ns;
	return ticks * CLOCK_PERIOD_NS;
}

/*
 * A sender that looked away from its schedule for longer than other clocks know
 * of has served a softirq: on veth the forwarder's receive half, which is no
 * disturbance.  Or nobody tells what took its CPU.  Ticks that found it in a
 * softirq within stalls stand for a period each: where they come to less than
 * half of what is to be explained, the stalls mark their slices.
 */
static void add_stalls(const struct table *t, int sender)
{
	const struct sender *s = &t->run->senders[sender];
	const struct clocks *c = &t->run->clocks;
	int known = min(s->gen->stalls, (__u64)GEN_STALLS), i;
	__u64 rest[GEN_STALLS] = {}, sum = 0, softirq = 0;
	const struct gen_stall *stall = s->gen->stall;

	for (i = 0; i < known; i++) {
		__u64 length = stall[i].to_ns - stall[i].from_ns;
		__u64 other = explained(c, sender, s->cpu, &stall[i]);

		rest[i] = length > other ? length - other : 0;
		if (rest[i] <= CLOCK_AWAY_NS)
			continue;
		sum += rest[i];
		softirq += softirq_ns(c, s->cpu, &stall[i]);
	}
	for (i = 0; 2 * softirq < sum && i < known; i++)
		if (rest[i] > CLOCK_AWAY_NS)
			spread(t, path_row(t, ROW_STALLS), stall[i].from_ns,
			       stall[i].to_ns, rest[i]);
	if (s->gen->stalls > GEN_STALLS)
		spread(t, path_row(t, ROW_MISSING), stall[known - 1].to_ns,
		       t->grid->from_ns + t->grid->span_ns, t->grid->span_ns);
}

/* By bucket, for one is alike from slice to slice. */
static void add_counts(const struct table *t)
{
	__u64 *histograms = t->values + t->grid->count;
	__u32 slice, bucket;
	int i;

	for (i = 0; i < t->run->num_senders; i++)
		for (slice = 0; slice < t->grid->count; slice++)
			t->values[slice] +=
				t->run->senders[i].gen->sliced[slice];
	for (i = 0; i < t->run->cfg.num_ports; i++) {
		const __u64 *from = receiver_slices(&t->run->receivers[i]);

		for (slice = 0; from && slice < t->grid->count; slice++)
			for (bucket = 0; bucket < COARSE_BUCKETS; bucket++)
				histograms[bucket * t->grid->count + slice] +=
					from[slice * COARSE_BUCKETS + bucket];
	}
}

static void add_clock(json_t *array, const char *kind, json_t *cpu,
		      const char *why_not)
{
	json_array_append_new(
		array, json_pack("{s:s, s:o, s:o}", "clock", kind, "cpu", cpu,
				 "unwatched",
				 why_not ? json_string(why_not) : json_null()));
}

/* In the order of the rows. */
static json_t *clocks_json(const struct clocks *c)
{
	json_t *array = json_array();
	int i;

	for (i = 0; i < c->num_cpus; i++) {
		add_clock(array, "ticks", json_integer(c->cpu[i]),
			  clocks_why_not_ticks(c, i));
		add_clock(array, "steal", json_integer(c->cpu[i]),
			  clocks_why_not_steal(c, i));
	}
	add_clock(array, "sender", json_null(), clocks_why_not_waits(c, true));
	add_clock(array, "forwarder", json_null(),
		  clocks_why_not_waits(c, false));
	add_clock(array, "stalls", json_null(), NULL);
	add_clock(array, "missing", json_null(), NULL);
	return array;
}

json_t *slices_json(const struct run *run)
{
	const int rows = run->clocks.num_cpus * CPU_ROWS + PATH_ROWS;
	struct table t = { .run = run, .grid = &run->grid };
	json_t *json;
	char *packed;
	int i;

	if (!run->cfg.slices || !run->grid.count)
		return json_null();
	t.count = (size_t)(1 + COARSE_BUCKETS + rows) * run->grid.count;
	t.values = calloc(t.count, sizeof(*t.values));
	if (!t.values)
		return NULL;
	t.away = t.values + (size_t)(1 + COARSE_BUCKETS) * run->grid.count;
	add_counts(&t);
	add_events(&t);
	for (i = 0; i < run->num_senders; i++)
		add_stalls(&t, i);
	packed = pack_counts(t.values, t.count);
	json = !packed ? NULL :
			 json_pack("{s:o, s:i, s:o, s:s}", "slice_ns",
				   json_integer(run->grid.slice_ns), "count",
				   (int)run->grid.count, "clocks",
				   clocks_json(&run->clocks), "packed", packed);
	free(packed);
	free(t.values);
	return json;
}
