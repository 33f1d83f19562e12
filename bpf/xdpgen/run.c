// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>
#include "counts.h"
#include "frames.h"
#include "run.h"
#include "util.h"
#include "watch.h"

/* Between the decision to start and the first departure. */
#define START_DELAY_NS 2000000
#define START_WAIT_US  1000
#define START_TRIES    5000
/* How often it is looked whether all has arrived. */
#define DRAIN_LOOK_NS 1000000
/* From the loss of a carrier to the removal of its port, where that is why. */
#define REMOVAL_LOOKS	20
#define REMOVAL_LOOK_US 50000

static void close_senders(struct run *run)
{
	int i;

	for (i = 0; i < run->num_senders; i++) {
		sender_stop(&run->senders[i]);
		run->senders[i].ops->close(&run->senders[i]);
	}
	run->num_senders = 0;
}

static int open_senders(struct run *run, const struct sender_ops *ops)
{
	int i, err = 0;

	run->num_senders = senders_plan(&run->cfg, run->senders);
	for (i = 0; i < run->num_senders; i++) {
		run->senders[i].ops = ops;
		run->senders[i].batch = sender_batch(&run->senders[i]);
	}
	for (i = 0; !err && i < run->num_senders; i++)
		err = ops->open(&run->senders[i]);
	if (err)
		close_senders(run);
	return err;
}

static int choose_sender(struct run *run)
{
	int err;

	run->sender_reason[0] = '\0';
	if (run->cfg.sender != SENDER_XSK) {
		err = open_senders(run, &live_sender);
		if (!err)
			return 0;
		if (run->cfg.sender == SENDER_LIVE || err == -EPERM)
			return fail(err, "cannot start live sender: %s: %s",
				    explain(err), "try sender \"xsk\"");
		snprintf(run->sender_reason, sizeof(run->sender_reason),
			 "live frames are not available: %s", explain(err));
	}
	if (config_several_cpus(&run->cfg))
		return fail(
			-EINVAL,
			"cannot start xsk sender: its socket of a port is of one CPU%s%s",
			run->sender_reason[0] ? "; " : "", run->sender_reason);
	return open_senders(run, &xsk_sender);
}

static bool same_ports(const struct config *a, const struct config *b)
{
	int i;

	if (a->num_ports != b->num_ports)
		return false;
	for (i = 0; i < a->num_ports; i++) {
		const struct port *p = &a->ports[i], *q = &b->ports[i];

		if (p->ifindex != q->ifindex ||
		    p->netns_inode != q->netns_inode ||
		    strcmp(p->netns, q->netns) || p->tx_cpu != q->tx_cpu ||
		    p->rx != q->rx || p->xdp_mode != q->xdp_mode ||
		    p->tc_hook != q->tc_hook || p->reflect != q->reflect ||
		    p->rx_queues != q->rx_queues)
			return false;
	}
	return true;
}

/* The same threads, whatever they send. */
static bool same_senders(const struct run *run, const struct config *cfg,
			 const struct sender *planned, int count)
{
	int i;

	if (!count || count != run->num_senders ||
	    cfg->sender != run->cfg.sender || !run->senders[0].ops->again)
		return false;
	for (i = 0; i < count; i++)
		if (planned[i].cpu != run->senders[i].cpu)
			return false;
	return true;
}

static int senders_again(struct run *run, const struct sender *planned)
{
	int i, err = 0;

	for (i = 0; !err && i < run->num_senders; i++) {
		struct sender *s = &run->senders[i];

		memcpy(s->index, planned[i].index, sizeof(s->index));
		s->count = planned[i].count;
		s->batch = sender_batch(s);
		s->stop = false;
		s->tid = 0;
		err = s->ops->again(s);
	}
	if (err == -E2BIG) {
		close_senders(run);
		return choose_sender(run);
	}
	return err ? fail(err, "cannot use live sender again: %s",
			  explain(err)) :
		     0;
}

int run_open(struct run *run, const struct config *cfg)
{
	struct sender planned[GEN_STREAMS] = {};
	int count = senders_plan(cfg, planned), err = 0, i;
	bool ports = same_ports(&run->cfg, cfg);
	bool again = ports && same_senders(run, cfg, planned, count);

	if (!ports)
		run_close(run);
	else if (!again)
		close_senders(run);
	free(run->cfg.columns);
	run->cfg = *cfg;
	run->cfg.num_columns = streams_columns(cfg->streams, cfg->num_streams);
	run->cfg.columns = streams_choices(cfg->streams, cfg->num_streams);
	if (!run->cfg.columns)
		err = fail(-ENOMEM, "cannot allocate: %u flows",
			   run->cfg.num_columns);
	run->error[0] = '\0';
	/* frames of an earlier run that are still on their way do not count */
	if (getrandom(&run->epoch, 1, 0) != 1)
		run->epoch = now_ns() >> 20;
	run->epoch &= 0xfe;
	for (i = 0; !err && i < run->cfg.num_ports; i++)
		err = receiver_open(&run->receivers[i], &run->cfg, i,
				    run->epoch);
	if (!err && again)
		err = senders_again(run, planned);
	else if (!err)
		err = choose_sender(run);
	if (err)
		run_close(run);
	return err;
}

void run_close(struct run *run)
{
	int i;

	close_senders(run);
	for (i = 0; i < run->cfg.num_ports; i++)
		receiver_close(&run->receivers[i]);
	free(run->cfg.columns);
	run->cfg.columns = NULL;
}

/*
 * Whether each frame that was sent is here; duplicates do not make up for it.
 * @received is increased by those that are.
 */
static bool all_arrived(const struct run *run, __u64 *received)
{
	struct rx_counters c;
	bool all = true;
	int i, j;

	for (i = 0; i < run->num_senders; i++) {
		const struct sender *s = &run->senders[i];

		for (j = 0; j < s->count; j++) {
			const struct stream *cfg =
				&run->cfg.streams[s->index[j]];

			receiver_read(&run->receivers[cfg->rx_port], cfg->id,
				      &c, NULL);
			*received += c.arrived.received;
			all &= c.arrived.received >=
			       sender_sent(s, GEN_TRIAL, j);
		}
	}
	return all;
}

/*
 * Frames that were held back, for however long, are waited for until @drain_s
 * are over, or until none has arrived for @drain_idle_s: what is missing then
 * is lost.  Idle time is counted in looks, which a machine that stands still
 * does not take.
 */
static void drain(struct run *run)
{
	__u64 deadline = run->stop_ns + (__u64)(run->cfg.drain_s * 1e9);
	__u64 most = run->cfg.drain_idle_s * 1e9 / DRAIN_LOOK_NS;
	__u64 received = 0, before, idle = 0;

	for (;;) {
		before = received;
		received = 0;
		if (all_arrived(run, &received) || now_ns() >= deadline)
			return;
		idle = received == before ? idle + 1 : 0;
		if (run->cfg.drain_idle_s && idle >= most)
			return;
		if (watch_pause(DRAIN_LOOK_NS)) {
			run->interrupted = true;
			return;
		}
	}
}

static __u64 count_races(const struct run *run)
{
	struct rx_counters c;
	__u64 sum = 0;
	int i;

	for (i = 0; i < run->cfg.num_streams; i++) {
		const struct stream *s = &run->cfg.streams[i];

		receiver_read(&run->receivers[s->rx_port], s->id, &c, NULL);
		sum += c.races;
	}
	return sum;
}

static struct link_counts counts_of(const struct port *port)
{
	int ns = netns_enter(port_netns(port));
	struct link_counts counts;

	if (ns < 0)
		return (struct link_counts){};
	counts = link_counts(port->ifname);
	netns_leave(ns);
	return counts;
}

/* Does a sender know what the driver of a card did not take? */
static bool watched(const struct run *run)
{
	int i;

	for (i = 0; i < run->num_senders; i++)
		if (run->senders[i].cards_unwatched[0])
			return false;
	return true;
}

/*
 * Frames of ports that sent none of those they were given, so that none arrived:
 * they dropped them, or are cards whose drivers refused them while nobody looked.
 */
static __u64 never_left(const struct run *run)
{
	__u64 sent[MAX_PORTS] = {}, received[MAX_PORTS] = {}, sum = 0;
	struct link_counts now;
	struct rx_counters c;
	int i, j;

	for (i = 0; i < run->num_senders; i++) {
		const struct sender *s = &run->senders[i];

		for (j = 0; j < s->count; j++) {
			const struct stream *cfg =
				&run->cfg.streams[s->index[j]];

			receiver_read(&run->receivers[cfg->rx_port], cfg->id,
				      &c, NULL);
			received[cfg->tx_port] += c.arrived.received;
			sent[cfg->tx_port] += sender_sent(s, GEN_TRIAL, j);
		}
	}
	for (i = 0; i < run->cfg.num_ports; i++) {
		const struct port *port = &run->cfg.ports[i];

		if (!sent[i] || received[i])
			continue;
		now = counts_of(port);
		if (now.tx_dropped - run->before[i].tx_dropped >= sent[i] ||
		    (!port->veth && !watched(run) &&
		     now.tx_packets == run->before[i].tx_packets))
			sum += sent[i];
	}
	return sum;
}

/* Redirects that the kernel refused: to ports that are down, or gone. */
static __u64 redirects_refused(const struct run *run, int *why)
{
	__u64 sum = 0;
	int i, j;

	for (i = 0; i < run->num_senders; i++) {
		const struct sender *s = &run->senders[i];

		for (j = 0; j < s->count; j++)
			sum += sender_refused(s, GEN_TRIAL, j);
		if (s->redirect_errno && *s->redirect_errno)
			*why = *s->redirect_errno;
	}
	return sum;
}

/* Frames that a card did not take for another reason than a full ring. */
static __u64 cards_refused(const struct run *run, const struct sender **by)
{
	__u64 sum = 0;
	int i, j;

	for (i = 0; i < run->num_senders; i++) {
		const struct sender *s = &run->senders[i];

		if (!s->cards || !s->cards->error)
			continue;
		for (j = 0; j < s->count; j++)
			sum += s->cards->refused[j];
		*by = s;
	}
	return sum;
}

static int check_traffic(struct run *run)
{
	__u64 races = count_races(run), dropped = never_left(run);
	__u64 refused, by_card;
	const struct sender *s;
	int why = 0;

	refused = redirects_refused(run, &why);
	by_card = cards_refused(run, &s);
	if (races) {
		snprintf(
			run->error, sizeof(run->error),
			"%llu frames not accounted: too many CPUs received the same stream at once",
			races);
		return -EIO;
	}
	if (refused && why == -ENODEV) {
		snprintf(
			run->error, sizeof(run->error),
			"%llu frames not sent: their port was removed during the trial",
			refused);
		return why;
	}
	if (by_card) {
		snprintf(
			run->error, sizeof(run->error),
			"%llu frames refused by the card's driver (%s): %s %d",
			by_card, strerror(-s->cards->error),
			"is it up, and has it a transmit queue (ethtool -L) for CPU",
			s->cpu);
		return s->cards->error;
	}
	if (refused)
		snprintf(run->error, sizeof(run->error),
			 "%llu redirects refused (%s): " PEER_TAKES_NONE,
			 refused, strerror(-why));
	else if (dropped)
		snprintf(
			run->error, sizeof(run->error),
			"%llu frames did not leave the tx port (by its counters): " PEER_TAKES_NONE,
			dropped);
	else
		return 0;
	return run_sent(run) > dropped || run->interrupted ? 0 : -EIO;
}

static int collect_errors(struct run *run)
{
	int i;

	for (i = 0; i < run->num_senders; i++) {
		struct sender *s = &run->senders[i];

		if (s->error) {
			snprintf(run->error, sizeof(run->error),
				 "%s sender stopped: CPU %d: %s", s->ops->name,
				 s->cpu, explain(s->error));
			return s->error;
		}
	}
	return check_traffic(run);
}

/* Do all threads look at their (still empty) schedules? */
static bool all_polling(const struct run *run)
{
	int i;

	for (i = 0; i < run->num_senders; i++)
		if (!*(volatile __u64 *)&run->senders[i].gen->last_poll_ns)
			return false;
	return true;
}

/*
 * Loading a program into test_run waits for RCU, for milliseconds: so the
 * threads run idle first and are given their schedule when all do.
 */
static int start_senders(struct run *run)
{
	int i, j, err = watch_above_senders(run);

	for (i = 0; !err && i < run->num_senders; i++) {
		struct sender *s = &run->senders[i];

		gen_init(s->gen, s->streams, run->cfg.streams, s->index,
			 s->count, &run->cfg.timing, run->epoch);
		for (j = 0; j < s->count; j++)
			s->streams[j].alone = sender_alone(s, j);
		err = sender_start(s);
	}
	for (i = 0; !err && i < START_TRIES && !all_polling(run); i++)
		usleep(START_WAIT_US);
	run->start_ns = now_ns() + START_DELAY_NS;
	run->trial_ns = run->start_ns + (__u64)(run->cfg.timing.warmup_s * 1e9);
	run->end_ns = run->trial_ns + (__u64)(run->cfg.timing.duration_s * 1e9);
	for (i = 0; !err && i < run->num_senders; i++) {
		struct sender *s = &run->senders[i];

		gen_schedule(s->gen, s->streams, run->cfg.streams, s->index,
			     &run->cfg.timing, run->start_ns);
	}
	return err;
}

/* Of all ports; a port that is gone comes before one without a carrier. */
static int read_links(struct run *run)
{
	int err = 0, i;

	for (i = 0; err != -ENODEV && i < run->links.count; i++)
		err = links_read(&run->links, &run->cfg, i, run->error, sizeof(run->error)) ?:
			      err;
	return err;
}

int run_traffic(struct run *run)
{
	int err, i;

	for (i = 0; i < run->cfg.num_ports; i++)
		run->before[i] = counts_of(&run->cfg.ports[i]);
	err = links_open(&run->links, &run->cfg, run->error, sizeof(run->error)) ?:
		      start_senders(run) ?:
					   watch_senders(run);
	for (i = 0; i < run->num_senders; i++)
		sender_stop(&run->senders[i]);
	run->stop_ns = now_ns();
	if (!err)
		drain(run);
	err = err ?: read_links(run);
	/* one that is removed loses its carrier first */
	for (i = 0; err == -ENETDOWN && i < REMOVAL_LOOKS; i++) {
		usleep(REMOVAL_LOOK_US);
		if (read_links(run) == -ENODEV)
			break;
	}
	links_close(&run->links);
	/* nothing more is counted: the parts of the result belong together */
	for (i = 0; i < run->cfg.num_ports; i++)
		receiver_detach(&run->receivers[i]);
	if (!err)
		return collect_errors(run);
	if (run->error[0])
		return err;
	snprintf(run->error, sizeof(run->error), "cannot run senders: %s",
		 explain(err));
	return err;
}
