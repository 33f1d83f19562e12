// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The sender in the kernel: loads live.bpf.c and keeps it running. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <linux/if_ether.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "frames.h"
#include "hdr_index.h"
#include "hold.h"
#include "tx_drops.h"
#include "live.skel.h"
#include "sender.h"
#include "tx_drops.skel.h"
#include "util.h"

/* Above it a program has no code for what its streams do not have. */
#define ANY_SHAPE_MAX_PPS 600000

struct live_state {
	struct live_bpf *skel;
	struct gen_shape shape;	    /* of which it has code */
	struct tx_drops_bpf *drops; /* NULL: nobody looks */
	void *lateness;
	size_t lateness_bytes;
	struct choice_column *choices;
	size_t choices_bytes;
	unsigned char frame[GEN_MAX_FRAME];
};

/* The devmap takes interfaces of the namespace the caller is in. */
static int add_port(struct sender *s, int map, __u32 index)
{
	const struct stream *stream = &s->cfg->streams[s->index[index]];
	const struct port *port = &s->cfg->ports[stream->tx_port];
	__u32 ifindex = port->ifindex;
	int ns, err;

	ns = netns_enter(port_netns(port));
	if (ns < 0)
		return ns;
	err = bpf_map_update_elem(map, &index, &ifindex, BPF_ANY);
	netns_leave(ns);
	return err;
}

/* One run of the program; until the schedule is set it only drops. */
static int run_once(struct sender *s, __u32 repeat, __u32 batch)
{
	struct live_state *live = s->private;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = live->frame,
		    .data_size_in = ETH_ZLEN, .repeat = repeat,
		    .flags = BPF_F_TEST_XDP_LIVE_FRAMES, .batch_size = batch);
	int i;

	/* all frames are made for the longest stream, others are cut */
	for (i = 0; i < s->count; i++)
		opts.data_size_in =
			max(opts.data_size_in, (__u32)s->streams[i].len);
	return bpf_prog_test_run_opts(
		bpf_program__fd(live->skel->progs.live_send), &opts);
}

static int map_lateness(struct sender *s, struct live_state *live)
{
	live->lateness_bytes = GEN_STREAMS * HDR_COUNTS * sizeof(__u64);
	live->lateness =
		mmap(NULL, live->lateness_bytes, PROT_READ | PROT_WRITE,
		     MAP_SHARED, bpf_map__fd(live->skel->maps.lateness), 0);
	if (live->lateness == MAP_FAILED) {
		live->lateness = NULL;
		return -errno;
	}
	s->lateness = live->lateness;
	return 0;
}

static int map_choices(struct sender *s, struct live_state *live)
{
	live->choices_bytes =
		(s->cfg->num_columns + 1) * sizeof(*live->choices);
	live->choices =
		mmap(NULL, live->choices_bytes, PROT_READ | PROT_WRITE,
		     MAP_SHARED, bpf_map__fd(live->skel->maps.choices), 0);
	if (live->choices == MAP_FAILED) {
		live->choices = NULL;
		return -errno;
	}
	memcpy(live->choices, s->cfg->columns, live->choices_bytes);
	return 0;
}

/* The cards of the thread; on veth the full ring is that of its peer. */
static void set_queues(const struct sender *s, struct tx_watch *watch)
{
	__u8 queues[MAX_PORTS] = {}; /* number + 1 */
	int i;

	watch->queues = 0;
	for (i = 0; i < s->count; i++) {
		int index = s->cfg->streams[s->index[i]].tx_port;
		const struct port *port = &s->cfg->ports[index];

		if (!queues[index]) {
			watch->queue[watch->queues].netns = port->netns_inode;
			watch->queue[watch->queues].ifindex =
				port->veth ? 0 : port->ifindex;
			queues[index] = ++watch->queues;
		}
		watch->queue_of[i] = queues[index] - 1;
	}
}

static bool has_card(const struct config *cfg)
{
	int i;

	for (i = 0; i < cfg->num_ports; i++)
		if (!cfg->ports[i].veth)
			return true;
	return false;
}

/* A kernel without BTF, or another tracepoint: drops just stay uncounted. */
static void watch_cards(struct sender *s, struct live_state *live)
{
	int err;

	s->cards_unwatched[0] = '\0';
	if (!has_card(s->cfg))
		return;
	forget_warnings();
	live->drops = tx_drops_bpf__open_and_load();
	if (live->drops) {
		set_queues(s, &live->drops->data_tx_watch->tx_watch);
		live->drops->data_tx_watch->tx_watch.cpu = s->cpu;
		err = tx_drops_bpf__attach(live->drops);
	} else {
		err = -errno;
	}
	if (!err)
		return;
	snprintf(s->cards_unwatched, sizeof(s->cards_unwatched),
		 "cannot read the tracepoint: %s", explain(err));
	tx_drops_bpf__destroy(live->drops);
	live->drops = NULL;
}

/* Both programs write the same queues. */
static int share_queues(struct live_state *live)
{
	if (!live->drops)
		return 0;
	live->skel->rodata->watch_tx = 1;
	return bpf_map__reuse_fd(live->skel->maps.data_tx_watch,
				 bpf_map__fd(live->drops->maps.data_tx_watch));
}

/*
 * Code for all that there is keeps up with low rates: it stays loaded, whatever
 * streams follow.  For high rates there is code for these streams only.
 */
static struct gen_shape shape_of(const struct sender *s)
{
	struct gen_shape shape;

	if (sender_pps(s) <= ANY_SHAPE_MAX_PPS) {
		memset(&shape, 1, sizeof(shape));
		return shape;
	}
	return gen_shape_of(s->cfg->streams, s->index, s->count);
}

static int load(struct sender *s, struct live_state *live)
{
	struct bpf_map_info info = {};
	__u32 info_len = sizeof(info);
	struct live_bpf *skel;
	int err;

	skel = live->skel = live_bpf__open();
	if (!skel)
		return -errno;
	memcpy((void *)skel->rodata->gaps, gen_gaps(),
	       GEN_GAP_CELLS * sizeof(*skel->rodata->gaps));
	live->shape = skel->rodata->shape = shape_of(s);
	watch_cards(s, live);
	err = bpf_map__set_max_entries(skel->maps.lateness, GEN_STREAMS * HDR_COUNTS) ?:
		      bpf_map__set_max_entries(skel->maps.choices, s->cfg->num_columns + 1) ?:
		      share_queues(live) ?:
					   live_bpf__load(skel);
	if (err)
		return err;
	err = bpf_obj_get_info_by_fd(bpf_map__fd(skel->maps.tx_ports), &info,
				     &info_len);
	if (err)
		return err;
	skel->bss->tx_ports_id = info.id;
	/* a kernel without raw tracepoints: errors just stay uncounted */
	skel->links.live_redirect_err =
		bpf_program__attach(skel->progs.live_redirect_err);
	hold_program(bpf_program__fd(skel->progs.live_send));
	return map_lateness(s, live) ?: map_choices(s, live);
}

static void live_close(struct sender *s)
{
	struct live_state *live = s->private;

	if (!live)
		return;
	if (live->lateness)
		munmap(live->lateness, live->lateness_bytes);
	if (live->choices)
		munmap(live->choices, live->choices_bytes);
	tx_drops_bpf__destroy(live->drops);
	if (live->skel)
		hold_release(bpf_program__fd(live->skel->progs.live_send));
	live_bpf__destroy(live->skel);
	free(live);
	s->private = NULL;
	s->cards = NULL;
}

static int live_open(struct sender *s)
{
	struct live_state *live = calloc(1, sizeof(*live));
	int err, i;

	if (!live)
		return -ENOMEM;
	s->private = live;
	err = load(s, live);
	if (err)
		goto out_close;
	s->gen = &live->skel->bss->gen;
	s->streams = live->skel->bss->streams;
	s->redirect_errors =
		(const __u64(*)[GEN_STREAMS])live->skel->bss->redirect_errors;
	s->redirect_errno = &live->skel->bss->redirect_errno;
	s->tx_busy = NULL;
	if (live->drops)
		s->cards = &live->drops->data_tx_watch->tx_watch;
	s->done_fd = bpf_map__fd(live->skel->maps.done);
	for (i = 0; !err && i < s->count; i++)
		err = add_port(s, bpf_map__fd(live->skel->maps.tx_ports), i);
	if (err)
		goto out_close;
	/* may live frames be sent here? */
	s->gen->wake_ns = GEN_NEVER;
	err = run_once(s, 1, 1);
	if (!err)
		return 0;
out_close:
	live_close(s);
	return err;
}

static int take_event(void *context, void *data, size_t size)
{
	(void)context;
	(void)data;
	(void)size;
	return 0;
}

/* The event of the last trial would end the next. */
static int take_events(int fd)
{
	struct ring_buffer *ring = ring_buffer__new(fd, take_event, NULL, NULL);
	int taken;

	if (!ring)
		return -errno;
	taken = ring_buffer__consume(ring);
	ring_buffer__free(ring);
	return min(taken, 0);
}

static int live_again(struct sender *s)
{
	struct live_state *live = s->private;
	size_t choices = (s->cfg->num_columns + 1) * sizeof(*live->choices);
	struct gen_shape shape = shape_of(s);
	struct live_bpf *skel = live->skel;
	int i, err = 0;

	if (choices > live->choices_bytes ||
	    memcmp(&shape, &live->shape, sizeof(shape)))
		return -E2BIG;
	for (i = 0; !err && i < s->count; i++)
		err = add_port(s, bpf_map__fd(skel->maps.tx_ports), i);
	if (err)
		return err;
	memset(live->lateness, 0, s->count * HDR_COUNTS * sizeof(__u64));
	memcpy(live->choices, s->cfg->columns, choices);
	memset(skel->bss->redirect_errors, 0,
	       sizeof(skel->bss->redirect_errors));
	skel->bss->redirect_errno = 0;
	if (live->drops) {
		struct tx_watch *watch = &live->drops->data_tx_watch->tx_watch;

		memset(watch->drops, 0, sizeof(watch->drops));
		memset(watch->refused, 0, sizeof(watch->refused));
		watch->error = 0;
		memset(watch->queue, 0, sizeof(watch->queue));
		set_queues(s, watch);
	}
	return take_events(s->done_fd);
}

static int live_run(struct sender *s)
{
	struct gen_thread *gen = s->gen;
	int err = 0;

	/* as long as the counter allows: the next call starts with a pause */
	while (!s->stop && !err && *(volatile __u32 *)&gen->stage != GEN_DONE) {
		gen->batch = s->batch;
		gen->in_batch = 0;
		gen->pass = 0;
		err = run_once(s, UINT32_MAX, s->batch);
		if (err == -EINTR)
			err = 0;
	}
	if (!err && gen->errors)
		err = -EMSGSIZE;
	return err;
}

const struct sender_ops live_sender = {
	.name = "live",
	.card_batch = 256,
	.open = live_open,
	.again = live_again,
	.run = live_run,
	.close = live_close,
};
