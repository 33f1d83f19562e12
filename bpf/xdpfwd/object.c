// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include "object.h"
#include "util.h"
#include "xdpfwd.h"

#define LOG_BYTES (1 << 20)

static bool is_named(const struct bpf_program *prog, const char *name)
{
	return !strcmp(bpf_program__name(prog), name) ||
	       !strcmp(bpf_program__section_name(prog), name);
}

/* Programs by name or section, or all of XDP; the last one is in @found. */
static int choose(struct bpf_object *obj, const char *section,
		  struct bpf_program **found, char *names, size_t size)
{
	struct bpf_program *prog;
	int count = 0;

	names[0] = '\0';
	bpf_object__for_each_program(prog, obj)
	{
		bool xdp = bpf_program__type(prog) == BPF_PROG_TYPE_XDP;
		size_t used = strlen(names);

		snprintf(names + used, size - used, "%s%s", used ? ", " : "",
			 bpf_program__name(prog));
		if (section ? !is_named(prog, section) : !xdp)
			continue;
		*found = prog;
		count++;
	}
	return count;
}

int object_open(struct object *o, const char *path, const char *section)
{
	struct bpf_program *prog;
	char names[256];
	int count;

	forget_warnings();
	o->obj = bpf_object__open_file(path, NULL);
	if (!o->obj)
		return fail(-errno, "cannot open program: %s: %s", path,
			    explain(-errno));
	count = choose(o->obj, section, &o->prog, names, sizeof(names));
	if (!count && section)
		return fail(-ENOENT, "no program %s: %s has %s", section, path,
			    names[0] ? names : "none");
	if (!count)
		return fail(-ENOENT,
			    "no XDP program: %s: give one SEC(\"xdp\")", path);
	if (count > 1)
		return fail(
			-EINVAL,
			"several programs: %s has %s: name one (object=FILE:NAME)",
			path, names);
	bpf_object__for_each_program(prog, o->obj)
		bpf_program__set_autoload(prog, prog == o->prog);
	/* of a section that libbpf does not know it is what it is asked to be */
	return bpf_program__set_type(o->prog, BPF_PROG_TYPE_XDP);
}

/* Set a constant of four bytes in a copy of .rodata. */
static bool set_constant(const struct bpf_object *obj, char *values,
			 size_t size, const char *name, __u32 value)
{
	const struct btf *btf = bpf_object__btf(obj);
	const struct btf_var_secinfo *var;
	const struct btf_type *section;
	int id, i;

	id = btf ? btf__find_by_name_kind(btf, ".rodata", BTF_KIND_DATASEC) :
		   -ENOENT;
	if (id < 0)
		return false;
	section = btf__type_by_id(btf, id);
	var = btf_var_secinfos(section);
	for (i = 0; i < btf_vlen(section); i++, var++) {
		const struct btf_type *type = btf__type_by_id(btf, var->type);

		if (strcmp(btf__name_by_offset(btf, type->name_off), name) ||
		    var->size != sizeof(value) ||
		    var->offset + var->size > size)
			continue;
		memcpy(values + var->offset, &value, sizeof(value));
		return true;
	}
	return false;
}

static int set_constants(struct object *o, const __u32 *ifindexes, int ports)
{
	static const char *const names[FWD_PORTS] = { "ifindex_a",
						      "ifindex_b" };
	struct bpf_map *map;
	int err = 0, i;

	bpf_object__for_each_map(map, o->obj)
	{
		const void *initial;
		char *values;
		size_t size;

		if (!bpf_map__is_internal(map) ||
		    !strstr(bpf_map__name(map), ".rodata"))
			continue;
		initial = bpf_map__initial_value(map, &size);
		values = initial ? malloc(size) : NULL;
		if (!values)
			return -ENOMEM;
		memcpy(values, initial, size);
		for (i = 0; i < FWD_PORTS; i++)
			o->constants |=
				set_constant(o->obj, values, size, names[i],
					     ifindexes[i % ports]);
		err = bpf_map__set_initial_value(map, values, size);
		free(values);
	}
	return err;
}

/*
 * DEVMAP_HASH: where what comes in at a port goes, by the port's ifindex.
 * DEVMAP: the ports, at 0 and 1.
 */
static int fill_devmaps(struct object *o, const __u32 *ifindexes, int ports)
{
	struct bpf_map *map;
	int err = 0, i;

	bpf_object__for_each_map(map, o->obj)
	{
		enum bpf_map_type type = bpf_map__type(map);
		bool hash = type == BPF_MAP_TYPE_DEVMAP_HASH;

		if (!hash && type != BPF_MAP_TYPE_DEVMAP)
			continue;
		for (i = 0; !err && i < FWD_PORTS; i++) {
			__u32 key = hash ? ifindexes[i % ports] : (__u32)i;
			/* the second word, where there is one: no program */
			__u32 value[2] = { ifindexes[(hash ? !i : i) % ports] };

			if (hash || key < bpf_map__max_entries(map))
				err = bpf_map__update_elem(
					map, &key, sizeof(key), value,
					bpf_map__value_size(map), BPF_ANY);
		}
		o->devmap = true;
	}
	return err;
}

/* The verifier's last words before its statistics. */
static const char *last_words(char *log)
{
	char *end = strstr(log, "\nprocessed "), *line;

	if (end)
		*end = '\0';
	line = strrchr(log, '\n');
	return line && line[1] ? line + 1 : log;
}

int object_load(struct object *o, const char *path, const __u32 *ifindexes,
		int ports)
{
	char *log = calloc(1, LOG_BYTES);
	int err;

	if (!log)
		return fail(-ENOMEM, "cannot load program: %s: out of memory",
			    path);
	err = set_constants(o, ifindexes, ports);
	if (err) {
		free(log);
		return fail(err, "cannot set its constants: %s: %s", path,
			    explain(err));
	}
	bpf_program__set_log_buf(o->prog, log, LOG_BYTES);
	err = bpf_object__load(o->obj);
	if (err)
		fail(err, "cannot load program: %s: %s: %s%s", path,
		     bpf_program__name(o->prog),
		     log[0] ? "the verifier says: " : "",
		     log[0] ? last_words(log) : explain(err));
	free(log);
	if (err)
		return err;
	err = fill_devmaps(o, ifindexes, ports);
	return err ? fail(err, "cannot fill its devmap: %s: %s", path,
			  explain(err)) :
		     0;
}

void object_close(struct object *o)
{
	bpf_object__close(o->obj);
}
