// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * advance PID SEQUENCE: the streams of a running xdpgen, whose first frames of
 * the trial are still to come, begin with this sequence; and what receives
 * them takes it for one that is near.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <bpf/bpf.h>
#include "frames.h"
#include "../xdpgen/receiver_shared.h"
#include "../xdpgen/tx_drops.h"
#include "live.skel.h"
#include "receiver.skel.h"

#define TRIES	  5000
#define PAUSE_US  1000
#define MOST_MAPS 32

/* The number of the map that a descriptor of a process is of, or 0. */
static __u32 map_of(const char *pid, const char *fd)
{
	char path[64], line[256];
	__u32 id = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/fdinfo/%.20s", pid, fd);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "map_id: %u", &id);
	if (file)
		fclose(file);
	return id;
}

/* The variables of a program, if they are of @bytes; or NULL. */
static void *variables_of(__u32 map, size_t bytes)
{
	struct bpf_map_info info = {};
	__u32 size = sizeof(info);
	void *found = MAP_FAILED;
	int fd;

	fd = bpf_map_get_fd_by_id(map);
	if (fd < 0)
		return NULL;
	if (!bpf_obj_get_info_by_fd(fd, &info, &size) &&
	    strstr(info.name, ".bss") && info.value_size <= bytes &&
	    info.value_size + 8 > bytes)
		found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			     fd, 0);
	close(fd);
	return found == MAP_FAILED ? NULL : found;
}

/* Those of all programs of a process that have as many. */
static int find(const char *pid, size_t bytes, void **found)
{
	struct dirent *entry;
	char path[64];
	int count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/fdinfo", pid);
	dir = opendir(path);
	while (dir && count < MOST_MAPS && (entry = readdir(dir))) {
		__u32 map = map_of(pid, entry->d_name);

		found[count] = map ? variables_of(map, bytes) : NULL;
		count += !!found[count];
	}
	if (dir)
		closedir(dir);
	return count;
}

static int advance(struct live_bpf__bss *live, void **receivers, int count,
		   __u64 seq)
{
	int i, j;

	for (i = 0; i < (int)live->gen.streams; i++) {
		struct gen_stream *s = &live->streams[i];

		if (s->sent[GEN_TRIAL])
			return 3;
		for (j = 0; j < count; j++)
			((struct receiver_bpf__bss *)receivers[j])
				->near[i]
				.seq = seq;
		s->seq = seq;
		s->flow = seq % s->choice.flows;
	}
	return 0;
}

int main(int argc, char **argv)
{
	void *senders[MOST_MAPS], *receivers[MOST_MAPS];
	struct live_bpf__bss *live;
	int tries, count;

	if (argc != 3)
		return 2;
	for (tries = TRIES; tries; tries--) {
		usleep(PAUSE_US);
		if (find(argv[1], sizeof(*live), senders) != 1)
			continue;
		live = senders[0];
		if (*(volatile __u32 *)&live->gen.stage != GEN_TRIAL)
			continue;
		count = find(argv[1], sizeof(struct receiver_bpf__bss),
			     receivers);
		return advance(live, receivers, count,
			       strtoull(argv[2], NULL, 0));
	}
	return 2;
}
