// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* away OBJECT CPU: takes a CPU for 6 ms, each 100 ms until a line comes; then tells when. */
#include <stdio.h>
#include <stdlib.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

struct values {
	unsigned long long begun_ns[64];
	unsigned long long until_ns;
	unsigned int times;
};

int main(int argc, char **argv)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = 100000000 };
	struct bpf_object *object = bpf_object__open(argc > 2 ? argv[1] : "");
	struct values values = {};
	struct bpf_link *link;
	unsigned int i, key = 0;
	int fd;

	if (!object || bpf_object__load(object))
		return 1;
	fd = syscall(SYS_perf_event_open, &attr, -1, atoi(argv[2]), -1, 0);
	link = bpf_program__attach_perf_event(
		bpf_object__find_program_by_name(object, "take"), fd);
	if (!link)
		return 1;
	printf("ready\n");
	fflush(stdout);
	getchar();
	bpf_link__destroy(link);
	if (bpf_map_lookup_elem(bpf_object__find_map_fd_by_name(object, ".bss"),
				&key, &values))
		return 1;
	for (i = 0; i < values.times && i < 64; i++)
		printf("%llu\n", values.begun_ns[i]);
	return 0;
}
