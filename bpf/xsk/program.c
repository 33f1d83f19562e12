// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <linux/if_link.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "card_clock.h"
#include "program.h"
#include "redirect.h"
#include "redirect.skel.h"
#include "redirect_hw.skel.h"
#include "util.h"

/* Newer than the headers of Debian 12 (Linux 6.3). */
#ifndef BPF_F_XDP_DEV_BOUND_ONLY
#define BPF_F_XDP_DEV_BOUND_ONLY (1U << 6)
#endif

static struct bpf_object *open_object(bool hardware)
{
	size_t bytes;
	const void *elf = hardware ? redirect_hw_bpf__elf_bytes(&bytes) :
				     redirect_bpf__elf_bytes(&bytes);

	return bpf_object__open_mem(elf, bytes, NULL);
}

static int set_config(struct bpf_object *object, const struct options *o)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata");
	struct redirect_config config = { .sockets = o->sockets,
					  .stamp = o->io.stages };

	return map ? bpf_map__set_initial_value(map, &config, sizeof(config)) :
		     -ENOENT;
}

/*
 * Open and load one of the two programs.  The one for time stamps of the NIC
 * is bound to the device: only a kernel and a driver that have them take it.
 */
static int load(struct program *p, const struct options *o,
		const struct port *port, bool hardware)
{
	struct bpf_object *object = open_object(hardware);
	struct bpf_map *targets;
	int err;

	if (!object)
		return -errno;
	p->prog = bpf_object__next_program(object, NULL);
	if (hardware) {
		bpf_program__set_ifindex(p->prog, port->ifindex);
		bpf_program__set_flags(p->prog, BPF_F_XDP_DEV_BOUND_ONLY);
	}
	if (o->io.multi_buffer)
		bpf_program__set_flags(p->prog, bpf_program__flags(p->prog) |
							BPF_F_XDP_HAS_FRAGS);
	targets = bpf_object__find_map_by_name(object, "targets");
	err = set_config(object, o) ?:
		      bpf_map__set_max_entries(targets, (o->queue + o->queues) *
								o->sockets);
	if (!err)
		err = bpf_object__load(object);
	if (err) {
		bpf_object__close(object);
		return err;
	}
	p->object = object;
	p->sockets_fd = bpf_map__fd(targets);
	return 0;
}

/*
 * Time stamps of the card are compared with CLOCK_TAI: does it follow that?
 * If not p->stamps begins with @instead.
 */
static bool follows_tai(struct program *p, const struct port *port,
			const char *instead)
{
	__s64 ahead = 0;
	int err = card_clock_ahead(port->ifname, &ahead);

	if (!err && llabs(ahead) <= CARD_CLOCK_OFF_NS)
		return true;
	if (err)
		snprintf(p->reason, sizeof(p->reason),
			 "%s: the card's clock cannot be read: %s", instead,
			 explain(err));
	else
		snprintf(
			p->reason, sizeof(p->reason),
			"%s: the card's clock is %lld ns ahead of CLOCK_TAI: synchronise both (ptp4l, phc2sys)",
			instead, ahead);
	p->stamps = p->reason;
	return false;
}

static void check_clock(struct program *p, const struct port *port)
{
	int ns;

	if (!p->hardware || p->stamps == p->reason)
		return;
	ns = netns_enter(port_netns(port));
	if (ns < 0)
		return; /* the namespace is gone, which is an error by itself */
	follows_tai(p, port, "not to be trusted");
	netns_leave(ns);
}

void programs_check_clocks(struct program *programs, const struct options *o)
{
	int i;

	for (i = 0; i < o->num_ports; i++)
		check_clock(&programs[i], &o->ports[i]);
}

static int load_best(struct program *p, const struct options *o,
		     const struct port *port)
{
	if (!o->io.stages || o->xdp_mode != ATTACH_NATIVE ||
	    load(p, o, port, true))
		return load(p, o, port, false);
	if (follows_tai(p, port, "software")) {
		p->hardware = true;
		p->stamps = "hardware where the frame has one, else software";
		return 0;
	}
	program_close(p);
	return load(p, o, port, false);
}

static int read_id(struct program *p)
{
	struct bpf_prog_info info = {};
	__u32 bytes = sizeof(info);
	int err;

	err = bpf_obj_get_info_by_fd(bpf_program__fd(p->prog), &info, &bytes);
	p->id = info.id;
	return err;
}

/* What the kernel did, not what it was asked. */
static int read_mode(struct program *p, const struct port *port)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	int err = bpf_xdp_query(port->ifindex, 0, &query);

	if (err)
		return err;
	switch (query.attach_mode) {
	case XDP_ATTACHED_DRV:
		p->mode = "native";
		break;
	case XDP_ATTACHED_SKB:
		p->mode = "generic";
		break;
	default:
		p->mode = "none";
	}
	return 0;
}

int program_attach(struct program *p, const struct options *o,
		   const struct port *port)
{
	bool generic = o->xdp_mode == ATTACH_GENERIC;
	LIBBPF_OPTS(bpf_link_create_opts, opts,
		    .flags = generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE);
	int err;

	err = read_id(p);
	if (err)
		return fail(err, "cannot read program id: %s: %s", port->ifname,
			    explain(err));
	p->link_fd = bpf_link_create(bpf_program__fd(p->prog), port->ifindex,
				     BPF_XDP, &opts);
	if (p->link_fd < 0)
		return fail(p->link_fd, "cannot attach %s XDP: %s: %s",
			    generic ? "generic" : "native", port->ifname,
			    explain_attach(p->link_fd, port->ifindex,
					   bpf_program__fd(p->prog),
					   opts.flags));
	err = read_mode(p, port);
	if (err)
		return fail(err, "cannot read the XDP mode: %s: %s",
			    port->ifname, explain(err));
	return 0;
}

int program_open(struct program *p, const struct options *o,
		 const struct port *port)
{
	int err;

	err = load_best(p, o, port);
	if (err)
		return fail(err, "cannot load XDP program: %s: %s",
			    port->ifname, explain(err));
	return program_attach(p, o, port);
}

int program_add(struct program *p, const struct options *o, const struct io *io)
{
	__u32 key = p->first_key + io->queue * o->sockets + io->number;
	int err;

	err = bpf_map_update_elem(p->sockets_fd, &key, &io->fd, BPF_ANY);
	if (err)
		return fail(err, "cannot enter socket: %s queue %d: %s",
			    io->port->ifname, io->queue, explain(err));
	return 0;
}

void program_close(struct program *p)
{
	if (p->link_fd >= 0)
		close(p->link_fd);
	p->link_fd = -1;
	bpf_object__close(p->object);
	p->object = NULL;
}
