/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A user's own XDP program instead of ours: docs/own-programs.md is its contract. */
#ifndef XDPLAB_XDPFWD_OBJECT_H
#define XDPLAB_XDPFWD_OBJECT_H

#include <stdbool.h>
#include <linux/types.h>

struct object {
	struct bpf_object *obj;
	struct bpf_program *prog;
	bool devmap;	/* a map of it names the ports */
	bool constants; /* ifindex_a is one of its constants */
};

/*
 * Open a file and choose its program: by name or section, or the only one
 * (@section NULL).  0, or an error after one line.
 */
int object_open(struct object *o, const char *path, const char *section);

/*
 * Load it and tell it its ports; with one they are the same.  0, or an error
 * after one line.
 */
int object_load(struct object *o, const char *path, const __u32 *ifindexes,
		int ports);

void object_close(struct object *o);

#endif
