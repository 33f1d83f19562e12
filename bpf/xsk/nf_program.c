// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "nf_program.h"
#include "nf.skel.h" /* holds a struct of nf.h */
#include "util.h"

static bool in_xdp(const struct nf_options *o, enum nf_function function)
{
	return nf_options_has(o, 0, o->setup.xdp_functions, function);
}

/* A map that this form does not use has one entry. */
static int size_maps(struct nf_bpf *skel, const struct nf_options *o,
		     const struct nf_entries *e)
{
	int err = 0;

	if (in_xdp(o, NF_FIREWALL) && e->num_acl)
		err = bpf_map__set_max_entries(skel->maps.acl, e->num_acl);
	if (!err && in_xdp(o, NF_LOAD_BALANCER))
		err = bpf_map__set_max_entries(skel->maps.sessions,
					       e->num_sessions + 2 * NF_NEW);
	if (!err && in_xdp(o, NF_ROUTER) && e->num_routes)
		err = bpf_map__set_max_entries(skel->maps.routes,
					       e->num_routes);
	if (!err && o->setup.lookups && o->setup.xdp_functions)
		err = bpf_map__set_max_entries(skel->maps.lines,
					       o->setup.lines);
	return err;
}

/* @entered: what the kernel says it has taken. */
static int fill_map(const struct bpf_map *map, const void *keys,
		    const void *values, size_t n, __u32 *entered)
{
	*entered = n;
	return n ? bpf_map_update_batch(bpf_map__fd(map), keys, values, entered,
					NULL) :
		   0;
}

static int fill_acl(struct nf_program *p)
{
	const struct nf_entries *e = &p->entries;
	__u32 *denied = calloc(e->num_acl + 1, sizeof(*denied));
	int err;

	if (!denied)
		return -ENOMEM;
	err = fill_map(p->skel->maps.acl, e->acl, denied, e->num_acl,
		       &p->in_acl);
	free(denied);
	return err;
}

/* A prefix that was given twice is there once. */
static __u32 count_routes(const struct bpf_map *map)
{
	struct nf_route_key key, *at = NULL;
	__u32 n = 0;

	while (!bpf_map_get_next_key(bpf_map__fd(map), at, &key)) {
		at = &key;
		n++;
	}
	return n;
}

static int fill_routes(struct nf_program *p)
{
	const struct nf_entries *e = &p->entries;
	struct nf_route_key *keys = calloc(e->num_routes + 1, sizeof(*keys));
	__u32 *hops = calloc(e->num_routes + 1, sizeof(*hops));
	int err = -ENOMEM;
	size_t i;

	for (i = 0; keys && hops && i < e->num_routes; i++) {
		keys[i] = (struct nf_route_key){ .bits = e->routes[i].bits,
						 .ip = to_be(32,
							     e->routes[i].ip) };
		hops[i] = e->routes[i].hop;
	}
	if (keys && hops)
		err = fill_map(p->skel->maps.routes, keys, hops, e->num_routes,
			       &p->in_routes);
	p->in_routes = count_routes(p->skel->maps.routes);
	free(keys);
	free(hops);
	return err;
}

static int fill_tables(struct nf_program *p, const struct nf_options *o)
{
	const struct nf_entries *e = &p->entries;
	int err = 0;

	if (in_xdp(o, NF_FIREWALL))
		err = fill_acl(p);
	if (!err && in_xdp(o, NF_LOAD_BALANCER))
		err = fill_map(p->skel->maps.sessions, e->session_keys,
			       e->sessions, e->num_sessions, &p->in_sessions);
	if (!err && in_xdp(o, NF_ROUTER))
		err = fill_routes(p);
	return err;
}

/* XDP_TX does what a redirect to the own port does, except on veth. */
static int fill_targets(const struct nf_bpf *skel, const struct options *o)
{
	int map = bpf_map__fd(skel->maps.targets), err = 0;
	__u32 i, ports = o->nf.setup.ports;

	for (i = 0; !err && i < ports; i++)
		if (ports > 1 || is_veth(o->ports[i].ifname))
			err = bpf_map_update_elem(
				map, &i, (void *)&o->ports[i].ifindex, BPF_ANY);
	return err;
}

static int load(struct nf_program *p, const struct options *o)
{
	struct nf_bpf *skel = p->skel;
	int i, err;

	memcpy((void *)&skel->rodata->setup, &o->nf.setup, sizeof(o->nf.setup));
	for (i = 0; i < o->num_ports; i++)
		memcpy((void *)&skel->rodata->ifindexes[i],
		       &o->ports[i].ifindex, sizeof(__u32));
	bpf_program__set_autoload(skel->progs.nf,
				  o->nf.setup.xdp_functions > 0);
	bpf_program__set_autoload(skel->progs.nf_sockets,
				  !o->nf.setup.xdp_functions);
	err = size_maps(skel, &o->nf, &p->entries) ?: nf_bpf__load(skel);
	if (err)
		return fail(err, "cannot load XDP program: %s: %s",
			    o->ports[0].ifname, explain(err));
	err = fill_tables(p, &o->nf) ?: fill_targets(skel, o);
	if (err)
		return fail(err, "cannot fill the tables: %s: %s",
			    o->ports[0].ifname, explain(err));
	return 0;
}

static int attach(struct nf_program *p, const struct options *o, int port,
		  struct program *program)
{
	program->prog = o->nf.setup.xdp_functions ? p->skel->progs.nf :
						    p->skel->progs.nf_sockets;
	program->stamps = "none";
	program->sockets_fd = bpf_map__fd(p->skel->maps.sockets);
	program->first_key = port * NF_QUEUES;
	return program_attach(program, o, &o->ports[port]);
}

int nf_program_open(struct nf_program *p, const struct options *o,
		    struct program *programs)
{
	int i, ns, err;

	err = nf_entries_make(&p->entries, &o->nf);
	if (err)
		return err;
	ns = netns_enter(port_netns(&o->ports[0]));
	if (ns < 0)
		return fail(ns, "cannot enter network namespace: %s: %s",
			    o->ports[0].netns, explain(ns));
	for (i = 0; !err && i < o->num_ports; i++)
		err = check_no_xdp(o->ports[i].ifname, o->ports[i].ifindex);
	if (!err) {
		p->skel = nf_bpf__open();
		err = p->skel ? load(p, o) :
				fail(-errno, "cannot open XDP program: %s",
				     explain(-errno));
	}
	for (i = 0; !err && i < o->num_ports; i++)
		err = attach(p, o, i, &programs[i]);
	netns_leave(ns);
	return err;
}

int nf_program_counters(const struct nf_program *p, struct nf_counters *sum)
{
	int cpus = libbpf_num_possible_cpus(), i, err;
	struct nf_state states[cpus];
	__u32 zero = 0;
	size_t j;

	*sum = (struct nf_counters){};
	if (!p->skel)
		return 0;
	err = bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.states), &zero,
				  states);
	if (err)
		return fail(err, "cannot read the counters: %s", explain(err));
	for (i = 0; i < cpus; i++)
		for (j = 0; j < sizeof(*sum) / sizeof(__u64); j++)
			((__u64 *)sum)[j] += ((__u64 *)&states[i].n)[j];
	return 0;
}

json_t *nf_program_tables(const struct nf_program *p)
{
	struct nf_setup s;

	if (!p->skel)
		return json_null();
	memcpy(&s, (const void *)&p->skel->rodata->setup, sizeof(s));
	if (!s.xdp_functions)
		return json_null();
	return json_pack("{s:I, s:I, s:I}", "acl", (json_int_t)p->in_acl,
			 "sessions", (json_int_t)p->in_sessions, "routes",
			 (json_int_t)p->in_routes);
}

void nf_program_close(struct nf_program *p)
{
	nf_bpf__destroy(p->skel);
	nf_entries_free(&p->entries);
	p->skel = NULL;
}
