// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "maps.h"
#include "util.h"

#define MAX_MAPS 64
/* Keys that are looked at: one that is found among them is enough. */
#define MAX_KEYS 65536

const char *map_type_name(__u32 type)
{
	return libbpf_bpf_map_type_str(type) ?: "unknown";
}

static bool is_zero(const char *value, size_t size)
{
	while (size--)
		if (*value++)
			return false;
	return true;
}

static bool is_array(__u32 type)
{
	return type == BPF_MAP_TYPE_ARRAY || type == BPF_MAP_TYPE_PERCPU_ARRAY;
}

/* -errno: the kernel does not tell. */
static long entries(int fd, const struct bpf_map_info *info)
{
	bool per_cpu = info->type == BPF_MAP_TYPE_PERCPU_ARRAY ||
		       info->type == BPF_MAP_TYPE_PERCPU_HASH ||
		       info->type == BPF_MAP_TYPE_LRU_PERCPU_HASH;
	size_t size = (info->value_size + 7) / 8 * 8;
	char *key, *value, *last = NULL;
	long found = 0, left = MAX_KEYS;

	if (per_cpu)
		size *= libbpf_num_possible_cpus();
	key = calloc(1, max(info->key_size, 1U));
	value = calloc(1, max(size, (size_t)8));
	while (key && value && left-- && !bpf_map_get_next_key(fd, last, key)) {
		last = key;
		if (bpf_map_lookup_elem(fd, key, value)) {
			if (errno == ENOENT)
				continue;
			found = -errno;
			break;
		}
		found += !is_array(info->type) || !is_zero(value, size);
	}
	free(key);
	free(value);
	return found;
}

static bool print_map_of(__u32 id, bool first)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info);
	int fd = bpf_map_get_fd_by_id(id);
	long found;

	if (fd < 0)
		return first;
	if (bpf_obj_get_info_by_fd(fd, &info, &length) ||
	    strchr(info.name, '.') || !info.key_size)
		goto out;
	found = entries(fd, &info);
	printf("%s{\"name\":\"%s\",\"type\":\"%s\",\"entries\":",
	       first ? "" : ",", info.name, map_type_name(info.type));
	if (found < 0)
		printf("null}");
	else
		printf("%ld}", found);
	first = false;
out:
	close(fd);
	return first;
}

/* Ids of the maps of a program, and its BTF's; also its type and whose it replaces. */
static int about(__u32 id, struct bpf_prog_info *info, __u32 *maps)
{
	__u32 length = sizeof(*info);
	int fd = bpf_prog_get_fd_by_id(id), err;

	if (fd < 0)
		return fd;
	*info = (struct bpf_prog_info){
		.nr_map_ids = MAX_MAPS,
		.map_ids = (__u64)(unsigned long)maps,
	};
	err = bpf_obj_get_info_by_fd(fd, info, &length);
	close(fd);
	return err;
}

void print_maps(__u32 prog_id)
{
	struct bpf_prog_info own, info;
	__u32 maps[MAX_MAPS], i, id = 0;
	bool first = true;

	if (about(prog_id, &own, maps))
		return;
	for (i = 0; i < min(own.nr_map_ids, (__u32)MAX_MAPS); i++)
		first = print_map_of(maps[i], first);
	while (own.btf_id && !bpf_prog_get_next_id(id, &id)) {
		if (about(id, &info, maps) || info.type != BPF_PROG_TYPE_EXT ||
		    info.attach_btf_obj_id != own.btf_id)
			continue;
		for (i = 0; i < min(info.nr_map_ids, (__u32)MAX_MAPS); i++)
			first = print_map_of(maps[i], first);
	}
}
