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
#include "receiver.skel.h"
#include "util.h"

/* Give each stream that ends here its slot in the maps. */
static void fill_table(struct receiver *r, const struct config *cfg, int index)
{
	int i;

	for (i = 0; i < GEN_STREAMS; i++)
		r->table[i] = (struct rx_stream){ .slot = RX_NO_SLOT };
	for (i = 0; i < cfg->num_streams; i++) {
		const struct stream *s = &cfg->streams[i];
		struct rx_stream *entry = &r->table[s->id];

		if (s->rx_port != index)
			continue;
		entry->len = stream_kernel_bytes(s);
		entry->tag_bytes = s->vlan ? 4 : 0;
		entry->slot = r->slots++;
		entry->flows = s->flows;
		entry->first_flow = r->flows;
		r->flows += s->flows;
		entry->histogram = RX_NO_LATENCY;
		if (s->kind == STREAM_LATENCY)
			entry->histogram = r->histograms++;
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

static int load(struct receiver *r, const struct config *cfg, __u8 epoch)
{
	struct receiver_bpf *skel = r->skel;
	bool xdp = r->port->rx == RX_XDP;
	int err;

	bpf_program__set_autoload(skel->progs.receive_xdp, xdp);
	bpf_program__set_autoload(skel->progs.receive_tc, !xdp);
	memcpy((void *)skel->rodata->rx_streams, r->table, sizeof(r->table));
	skel->rodata->rx_epoch = epoch;
	skel->rodata->rx_since_ns = now_ns();
	if (r->port->reflect)
		skel->rodata->rx_reflect =
			r->port->veth ? REFLECT_REDIRECT : REFLECT_TX;
	/* tc and generic XDP also run where there is no NAPI: on any CPU */
	skel->rodata->rx_serial = xdp && r->port->xdp_mode == XDP_NATIVE &&
				  r->port->rx_queues == 1;
	/* one NAPI is not run by two threads, preempted or not */
	skel->rodata->rx_preempted = !skel->rodata->rx_serial && is_realtime();
	err = bpf_map__set_max_entries(skel->maps.window,
				       max(r->slots, 1) * RX_WINDOW_WORDS);
	if (err)
		return err;
	err = bpf_map__set_max_entries(skel->maps.next_expected,
				       max(r->flows, 1));
	if (err)
		return err;
	skel->rodata->rx_by_flow = cfg->flow_figures && r->flows;
	if (skel->rodata->rx_by_flow)
		err = bpf_map__set_max_entries(skel->maps.by_flow, r->flows);
	if (err)
		return err;
	err = bpf_map__set_max_entries(skel->maps.latency,
				       max(r->histograms, 1) * HDR_COUNTS);
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

/* The values of an array, as programs write them. */
static void *map_values(const struct bpf_map *map, size_t bytes)
{
	void *values =
		mmap(NULL, bytes, PROT_READ, MAP_SHARED, bpf_map__fd(map), 0);

	return values == MAP_FAILED ? NULL : values;
}

static int map_results(struct receiver *r)
{
	r->latency_bytes = max(r->histograms, 1) * HDR_COUNTS * sizeof(__u64);
	r->latency = map_values(r->skel->maps.latency, r->latency_bytes);
	if (!r->latency)
		return -errno;
	if (!r->skel->rodata->rx_by_flow)
		return 0;
	r->by_flow_bytes = r->flows * sizeof(*r->by_flow);
	r->by_flow = map_values(r->skel->maps.by_flow, r->by_flow_bytes);
	return r->by_flow ? 0 : -errno;
}

int receiver_open(struct receiver *r, const struct config *cfg, int index,
		  __u8 epoch)
{
	const struct port *port = &cfg->ports[index];
	struct bpf_program *prog;
	int err;

	*r = (struct receiver){
		.port = port,
		.at = { .link_fd = -1, .xdp = "none", .tc = "none" },
		.cpus = libbpf_num_possible_cpus(),
	};
	fill_table(r, cfg, index);
	if (port->rx == RX_NONE)
		return 0;
	r->skel = receiver_bpf__open();
	if (!r->skel)
		return fail(-errno, "cannot open receiver program: %s",
			    explain(-errno));
	err = load(r, cfg, epoch) ?: set_self(r) ?: map_results(r);
	if (err) {
		fail(err, "cannot load receiver program: %s: %s", port->ifname,
		     explain(err));
		goto out_close;
	}
	prog = port->rx == RX_XDP ? r->skel->progs.receive_xdp :
				    r->skel->progs.receive_tc;
	err = attach_port(&r->at, port, bpf_program__fd(prog));
	if (!err)
		return 0;
out_close:
	receiver_close(r);
	return err;
}

void receiver_detach(struct receiver *r)
{
	if (r->port)
		detach_port(&r->at, r->port);
}

void receiver_close(struct receiver *r)
{
	receiver_detach(r);
	if (r->latency)
		munmap(r->latency, r->latency_bytes);
	if (r->by_flow)
		munmap(r->by_flow, r->by_flow_bytes);
	receiver_bpf__destroy(r->skel);
	r->latency = NULL;
	r->by_flow = NULL;
	r->skel = NULL;
}

static void add_counters(struct rx_counters *sum, const struct rx_counters *c)
{
	sum->received += c->received;
	sum->duplicated += c->duplicated;
	sum->out_of_order += c->out_of_order;
	sum->beyond_window += c->beyond_window;
	sum->warmup += c->warmup;
	sum->sum_ns += c->sum_ns;
	sum->max_ns = max(sum->max_ns, c->max_ns);
	sum->min_inv = max(sum->min_inv, c->min_inv);
	sum->races += c->races;
}

int receiver_read(const struct receiver *r, int id, struct rx_counters *sum)
{
	struct rx_counters cpu[r->cpus];
	__u32 slot = r->table[id].slot;
	int err, i;

	memset(sum, 0, sizeof(*sum));
	if (!r->skel || slot == RX_NO_SLOT)
		return 0;
	err = bpf_map_lookup_elem(bpf_map__fd(r->skel->maps.counters), &slot,
				  cpu);
	for (i = 0; !err && i < r->cpus; i++)
		add_counters(sum, &cpu[i]);
	return err;
}

struct rx_gaps receiver_gaps(const struct receiver *r, int id)
{
	__u32 slot = r->table[id].slot;

	if (!r->skel || slot == RX_NO_SLOT)
		return (struct rx_gaps){};
	return r->skel->bss->gaps[slot];
}

static int read_by_cpu(const struct receiver *r, __u64 *by_cpu)
{
	struct rx_counters cpu[r->cpus];
	__u32 slot;
	int err, i;

	for (slot = 0; slot < (__u32)r->slots; slot++) {
		err = bpf_map_lookup_elem(bpf_map__fd(r->skel->maps.counters),
					  &slot, cpu);
		if (err)
			return err;
		for (i = 0; i < r->cpus; i++)
			by_cpu[i] += cpu[i].received + cpu[i].duplicated +
				     cpu[i].beyond_window;
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
		by_cpu[i] = cpu[i].reflected;
	}
	return read_by_cpu(r, by_cpu);
}

const __u64 *receiver_latency(const struct receiver *r, int id)
{
	__u32 histogram = r->table[id].histogram;

	if (!r->latency || histogram == RX_NO_LATENCY)
		return NULL;
	return r->latency + histogram * HDR_COUNTS;
}

const struct rx_flow *receiver_flows(const struct receiver *r, int id)
{
	if (!r->by_flow || r->table[id].slot == RX_NO_SLOT)
		return NULL;
	return r->by_flow + r->table[id].first_flow;
}
