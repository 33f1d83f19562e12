// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "receiver.h"
#include "hdr_index.h"
#include "hold.h"
#include "receiver.skel.h"
#include "util.h"

/* Give each stream that ends here its slot in the maps. */
static void fill_table(struct receiver *r, const struct config *cfg, int index)
{
	int i;

	r->wanted = (struct rx_room){ .choices = cfg->num_columns + 1 };
	for (i = 0; i < GEN_STREAMS; i++)
		r->table[i] = (struct rx_stream){ .slot = RX_NO_SLOT };
	for (i = 0; i < cfg->num_streams; i++) {
		const struct stream *s = &cfg->streams[i];
		struct rx_stream *entry = &r->table[s->id];

		if (s->rx_port != index)
			continue;
		entry->len = stream_kernel_bytes(s);
		entry->tag_bytes = s->vlan ? 4 : 0;
		entry->added_bytes = s->added_bytes;
		entry->slot = r->wanted.slots++;
		entry->unordered = s->flow_choice == CHOICE_NEW;
		entry->choice = entry->unordered ?
					(struct choice){ .flows = 1 } :
					stream_choice(cfg->streams, i);
		entry->intact = stream_intact(s);
		entry->first_flow = r->wanted.flows;
		r->wanted.flows += stream_known_flows(s);
		r->wanted.flows =
			(r->wanted.flows + RX_APART - 1) / RX_APART * RX_APART;
		entry->histogram = RX_NO_LATENCY;
		if (s->kind == STREAM_LATENCY)
			entry->histogram = r->wanted.histograms++;
	}
}

/*
 * On PREEMPT_RT a thread in softirq context may be preempted by another in it:
 * since Linux 6.18 no lock of the CPU is in between (it is a choice of the
 * kernel's configuration, PREEMPT_RT_NEEDS_BH_LOCK, which is not told).
 */
static bool is_realtime(void)
{
	struct utsname kernel;

	return !uname(&kernel) && strstr(kernel.version, "PREEMPT_RT");
}

/*
 * veth refuses a program for one buffer with a larger MTU than this
 * (veth_xdp_set() in drivers/net/veth.c), most cards with a smaller one.
 */
#define ONE_BUFFER_MTU 3498

/* The one that is attached to the port. */
static struct bpf_program *program_of(const struct receiver *r)
{
	if (r->port->rx == RX_TC)
		return r->skel->progs.receive_tc;
	return r->port->mtu > ONE_BUFFER_MTU ?
		       r->skel->progs.receive_xdp_frags :
		       r->skel->progs.receive_xdp;
}

static int load(struct receiver *r)
{
	struct receiver_bpf *skel = r->skel;
	bool xdp = r->port->rx == RX_XDP;
	struct bpf_program *prog;
	int err;

	r->prog = program_of(r);
	bpf_object__for_each_program(prog, skel->obj)
		bpf_program__set_autoload(prog, prog == r->prog);
	if (r->port->reflect)
		skel->rodata->rx_reflect =
			r->port->veth ? REFLECT_REDIRECT : REFLECT_TX;
	/* tc and generic XDP also run where there is no NAPI: on any CPU */
	skel->rodata->rx_serial = xdp && r->port->xdp_mode == XDP_NATIVE &&
				  r->port->rx_queues == 1;
	/* one NAPI is not run by two threads, preempted or not */
	skel->rodata->rx_preempted = !skel->rodata->rx_serial && is_realtime();
	skel->rodata->rx_by_flow = r->by_flow;
	skel->rodata->rx_draws = r->draws;
	skel->rodata->rx_trailer_at = r->trailer_at;
	err = bpf_map__set_max_entries(skel->maps.window, r->room.slots * WINDOW_WORDS) ?:
		      bpf_map__set_max_entries(skel->maps.next_expected, r->room.flows) ?:
		      bpf_map__set_max_entries(skel->maps.by_flow, r->by_flow ? r->room.flows : 1) ?:
		      bpf_map__set_max_entries(skel->maps.choices, r->room.choices) ?:
		      bpf_map__set_max_entries(skel->maps.latency,
					       r->room.histograms * HDR_COUNTS);
	return err ?: receiver_bpf__load(skel);
}

/* Where REFLECT_REDIRECT goes: entries are of the caller's namespace. */
static int set_self(const struct receiver *r)
{
	__u32 key = 0, ifindex = r->port->ifindex;
	int ns, err;

	if (!r->port->reflect)
		return 0;
	ns = netns_enter(port_netns(r->port));
	if (ns < 0)
		return ns;
	err = bpf_map_update_elem(bpf_map__fd(r->skel->maps.self), &key,
				  &ifindex, BPF_ANY);
	netns_leave(ns);
	return err;
}

/* The values of an array, as programs write them: each takes 8 bytes or more. */
static int map_values(const struct bpf_map *map, struct rx_values *values)
{
	size_t each = (bpf_map__value_size(map) + 7) & ~7UL;
	size_t bytes = bpf_map__max_entries(map) * each;
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			bpf_map__fd(map), 0);

	if (at == MAP_FAILED)
		return -errno;
	*values = (struct rx_values){ .at = at, .bytes = bytes };
	return 0;
}

static int map_all(struct receiver *r)
{
	return map_values(r->skel->maps.window, &r->values[RX_WINDOW]) ?:
		       map_values(r->skel->maps.next_expected, &r->values[RX_NEXT_EXPECTED]) ?:
		       map_values(r->skel->maps.by_flow, &r->values[RX_BY_FLOW]) ?:
		       map_values(r->skel->maps.latency, &r->values[RX_LATENCY]) ?:
		       map_values(r->skel->maps.choices,
				  &r->values[RX_CHOICES]);
}

static int load_anew(struct receiver *r)
{
	int err;

	r->room = (struct rx_room){
		.slots = max(r->wanted.slots, 1),
		.flows = max(r->wanted.flows, 1),
		.histograms = max(r->wanted.histograms, 1),
		.choices = r->wanted.choices,
	};
	r->skel = receiver_bpf__open();
	if (!r->skel)
		return fail(-errno, "cannot open receiver program: %s",
			    explain(-errno));
	err = load(r) ?: set_self(r) ?: map_all(r);
	if (!err && r->port->rx == RX_XDP && r->port->xdp_mode == XDP_NATIVE)
		hold_program(bpf_program__fd(r->prog));
	if (err)
		return fail(err, "cannot load receiver program: %s: %s",
			    r->port->ifname, explain(err));
	return 0;
}

static int zero_entries(const struct bpf_map *map, const void *zeroes)
{
	__u32 key;
	int err = 0;

	for (key = 0; !err && key < bpf_map__max_entries(map); key++)
		err = bpf_map_update_elem(bpf_map__fd(map), &key, zeroes,
					  BPF_ANY);
	return err;
}

/* Nothing stays of the trial before. */
static int forget(struct receiver *r)
{
	struct rx_counters zeroes[r->cpus];
	int err, i;

	memset(zeroes, 0, sizeof(zeroes));
	err = zero_entries(r->skel->maps.counters, zeroes) ?:
		      zero_entries(r->skel->maps.port_counters, zeroes);
	if (err)
		return fail(err, "cannot empty maps: %s: %s", r->port->ifname,
			    explain(err));
	for (i = 0; i < RX_ARRAYS; i++)
		memset(r->values[i].at, 0, r->values[i].bytes);
	memset(r->skel->bss->near, 0, sizeof(r->skel->bss->near));
	return 0;
}

static bool any_draws(const struct config *cfg)
{
	int i, kind;

	for (i = 0; i < cfg->num_streams; i++) {
		kind = stream_choice(cfg->streams, i).kind;
		if (kind == CHOICE_UNIFORM || kind == CHOICE_ZIPF)
			return true;
	}
	return false;
}

static bool fits(const struct receiver *r, const struct config *cfg)
{
	return r->prog == program_of(r) && r->wanted.slots <= r->room.slots &&
	       r->wanted.flows <= r->room.flows &&
	       r->wanted.histograms <= r->room.histograms &&
	       r->wanted.choices <= r->room.choices &&
	       r->by_flow == cfg->flow_figures && r->draws == any_draws(cfg) &&
	       r->trailer_at == stream_answer_offset(&cfg->streams[0]);
}

void receiver_detach(struct receiver *r)
{
	if (r->port)
		detach_port(&r->at, r->port);
}

/* The card's link stays, for the next program. */
static void unload(struct receiver *r)
{
	int i;

	receiver_detach(r);
	for (i = 0; i < RX_ARRAYS; i++)
		if (r->values[i].at)
			munmap(r->values[i].at, r->values[i].bytes);
	memset(r->values, 0, sizeof(r->values));
	if (r->skel)
		hold_release(bpf_program__fd(r->prog));
	receiver_bpf__destroy(r->skel);
	r->skel = NULL;
}

static int prepare(struct receiver *r, const struct config *cfg, __u8 epoch)
{
	struct rx_trial *trial;
	int err;

	if (r->skel && !fits(r, cfg))
		unload(r);
	r->by_flow = cfg->flow_figures;
	r->draws = any_draws(cfg);
	r->trailer_at = stream_answer_offset(&cfg->streams[0]);
	err = r->skel ? forget(r) : load_anew(r);
	if (err)
		return err;
	memcpy(r->values[RX_CHOICES].at, cfg->columns,
	       r->wanted.choices * sizeof(*cfg->columns));
	trial = &r->skel->bss->trial;
	memcpy(trial->streams, r->table, sizeof(r->table));
	trial->epoch = epoch;
	trial->since_ns = now_ns();
	return 0;
}

int receiver_open(struct receiver *r, const struct config *cfg, int index,
		  __u8 epoch)
{
	const struct port *port = &cfg->ports[index];
	int fd = -1, err = 0;

	if (!r->port)
		r->at.link_fd = -1;
	r->port = port;
	r->cpus = libbpf_num_possible_cpus();
	fill_table(r, cfg, index);
	if (port->rx != RX_NONE)
		err = prepare(r, cfg, epoch);
	if (!err && r->skel)
		fd = bpf_program__fd(r->prog);
	if (!err)
		err = attach_port(&r->at, port, fd, port_sends(cfg, index));
	if (err)
		receiver_close(r);
	return err;
}

void receiver_close(struct receiver *r)
{
	unload(r);
	if (r->port)
		leave_port(&r->at, r->port);
}

static bool add_counters(struct rx_counters *sum, const struct rx_counters *c)
{
	sum->sum_ns += c->sum_ns;
	sum->max_ns = max(sum->max_ns, c->max_ns);
	sum->min_inv = max(sum->min_inv, c->min_inv);
	sum->races += c->races;
	return arrivals_merge(&sum->arrived, &c->arrived);
}

int receiver_read(const struct receiver *r, int id, struct rx_counters *sum,
		  bool *in_turns)
{
	struct rx_counters cpu[r->cpus];
	__u32 slot = r->table[id].slot;
	bool turns = true;
	int err, i;

	memset(sum, 0, sizeof(*sum));
	if (!r->skel || slot == RX_NO_SLOT)
		return 0;
	err = bpf_map_lookup_elem(bpf_map__fd(r->skel->maps.counters), &slot,
				  cpu);
	for (i = 0; !err && i < r->cpus; i++)
		turns &= add_counters(sum, &cpu[i]);
	if (in_turns)
		*in_turns = turns;
	return err;
}

const __u64 *receiver_window(const struct receiver *r, int id)
{
	const __u64 *words = r->values[RX_WINDOW].at;
	__u32 slot = r->table[id].slot;

	return words && slot != RX_NO_SLOT ? words + slot * WINDOW_WORDS : NULL;
}

static int read_by_cpu(const struct receiver *r, __u64 *by_cpu)
{
	struct rx_counters cpu[r->cpus];
	__u32 slot;
	int err, i;

	for (slot = 0; slot < (__u32)r->wanted.slots; slot++) {
		err = bpf_map_lookup_elem(bpf_map__fd(r->skel->maps.counters),
					  &slot, cpu);
		if (err)
			return err;
		for (i = 0; i < r->cpus; i++)
			by_cpu[i] += cpu[i].arrived.received +
				     cpu[i].arrived.duplicated +
				     cpu[i].arrived.damaged +
				     cpu[i].arrived.beyond_window;
	}
	return 0;
}

int receiver_read_port(const struct receiver *r, struct rx_port_counters *sum,
		       __u64 *by_cpu)
{
	struct rx_port_counters cpu[r->cpus];
	__u32 key = 0;
	int err, i;

	memset(sum, 0, sizeof(*sum));
	memset(by_cpu, 0, r->cpus * sizeof(*by_cpu));
	if (!r->skel)
		return 0;
	err = bpf_map_lookup_elem(bpf_map__fd(r->skel->maps.port_counters),
				  &key, cpu);
	if (err)
		return err;
	for (i = 0; i < r->cpus; i++) {
		sum->other += cpu[i].other;
		sum->reflected += cpu[i].reflected;
		sum->earlier += cpu[i].earlier;
		sum->earlier_ns = max(sum->earlier_ns, cpu[i].earlier_ns);
		by_cpu[i] = cpu[i].reflected;
	}
	return read_by_cpu(r, by_cpu);
}

const __u64 *receiver_latency(const struct receiver *r, int id)
{
	const __u64 *counts = r->values[RX_LATENCY].at;
	__u32 histogram = r->table[id].histogram;

	if (!counts || histogram == RX_NO_LATENCY)
		return NULL;
	return counts + histogram * HDR_COUNTS;
}

const struct rx_flow *receiver_flows(const struct receiver *r, int id)
{
	const struct rx_flow *flows = r->values[RX_BY_FLOW].at;

	if (!flows || !r->by_flow || r->table[id].slot == RX_NO_SLOT)
		return NULL;
	return flows + r->table[id].first_flow;
}
