// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * probe: open loop.  Streams leave on a schedule (common/gen.h) whatever
 * comes back, and are received at any port.
 */
#include <errno.h>
#include <sched.h>
#include "frames.h"
#include "probes.h"
#include "traffic.h"
#include "util.h"

/* Between the first turn and the first departure. */
#define START_DELAY_NS 2000000

static int probe_open(struct worker *w)
{
	struct traffic *t = traffic_open(w->opt);
	int i;

	w->private = t;
	if (!t)
		return -ENOMEM;
	t->sending = (struct user_sender){ .gen = &t->gen,
					   .streams = t->streams,
					   .choices = t->choices,
					   .ios = w->ios,
					   .num_ios = w->num_ios,
					   .batch = w->opt->io.batch,
					   .lateness = t->lateness };
	for (i = 0; i < w->opt->num_streams; i++)
		t->sending.io_of[i] =
			worker_io(w, w->opt->streams[i].tx_port, 0);
	return 0;
}

static void probe_close(struct worker *w)
{
	traffic_close(w->private);
}

static int receive_all(struct worker *w)
{
	int handled = 0, i, n;

	for (i = 0; i < w->num_ios; i++) {
		n = traffic_receive(w->private, &w->ios[i]);
		if (n < 0) {
			w->broken = w->ios[i].port;
			return n;
		}
		handled += n;
	}
	return handled;
}

/* Nothing more leaves: what comes back until the drain is over still counts. */
static void end_schedule(struct traffic *t, __u64 now)
{
	t->finish_ns = now;
	t->gen.stage = GEN_DONE;
	t->gen.wake_ns = GEN_NEVER;
}

static __u64 drain_end(const struct worker *w)
{
	const struct traffic *t = w->private;

	return t->done_ns + (__u64)(w->opt->drain_s * 1e9);
}

/* Whoever held frames back has until drain_s are over. */
static bool is_over(const struct worker *w, __u64 now)
{
	struct traffic *t = w->private;

	if (t->gen.stage != GEN_DONE)
		return false;
	if (!t->done_ns)
		t->done_ns = now;
	return now >= drain_end(w) || traffic_all_arrived(t, w->opt);
}

static int probe_turn(struct worker *w)
{
	struct traffic *t = w->private;
	__u64 now = now_ns();
	int sent, received;

	if (!w->turns)
		gen_schedule(&t->gen, t->streams, w->opt->streams, t->index,
			     &w->opt->timing, now + START_DELAY_NS);
	if (w->finish && t->gen.stage != GEN_DONE)
		end_schedule(t, now);
	sent = user_send(&t->sending, now,
			 w->cpu >= 0 ? w->cpu : sched_getcpu());
	if (sent < 0)
		return sent;
	received = receive_all(w);
	if (received < 0)
		return received;
	w->over = is_over(w, now);
	w->wake_ns = t->done_ns ? drain_end(w) : t->gen.wake_ns;
	return sent + received;
}

/* Names of the ports that took no more frames. */
static json_t *stuck_ports(const struct worker *w)
{
	const struct traffic *t = w->private;
	json_t *names = json_array();
	bool stuck;
	int i, j;

	for (i = 0; i < w->opt->num_ports; i++) {
		stuck = false;
		for (j = 0; j < w->opt->num_streams; j++)
			stuck |= t->sending.stuck[j] &&
				 w->opt->streams[j].tx_port == i;
		if (stuck)
			json_array_append_new(
				names, json_string(w->opt->ports[i].ifname));
	}
	return names;
}

static void probe_report(const struct worker *w, json_t *root)
{
	const struct traffic *t = w->private;
	const struct gen_thread *gen = &t->gen;
	__u64 begin = gen->stage_end_ns[GEN_WARMUP];
	__u64 end = gen_trial_end(gen, t->streams);
	double elapsed_s;

	if (t->finish_ns)
		end = min(end, t->finish_ns);
	else if (gen->stage != GEN_DONE) /* its socket broke */
		end = min(end, gen->last_poll_ns);
	elapsed_s = end > begin ? (end - begin) / 1e9 : 0;
	json_object_set_new(root, "trial_s", json_real(elapsed_s));
	json_object_set_new(root, "streams", traffic_json(t, w->opt, end));
	json_object_set_new(root, "tx_stuck", stuck_ports(w));
	traffic_add_others(t, root);
	json_object_set_new(root, "stalls", json_integer(gen->stalls));
	json_object_set_new(root, "stalled_ns", json_integer(gen->stalled_ns));
	json_object_set_new(root, "longest_gap_ns",
			    json_integer(gen->longest_gap_ns));
	json_object_set_new(root, "samples_missed",
			    json_integer(t->samples.missed));
	samples_write(&t->samples, w->opt->samples);
}

const struct role_ops probe_role = { .open = probe_open,
				     .turn = probe_turn,
				     .report = probe_report,
				     .close = probe_close };
