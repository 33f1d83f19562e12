// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Does not let go of a CPU, not even for its timer: as a hypervisor that runs something else there. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TIMES 64

struct {
	__u64 begun_ns[TIMES];
	__u64 until_ns;
	__u32 times;
} away;

static int wait(__u32 turn, void *context)
{
	(void)turn;
	(void)context;
	return bpf_ktime_get_ns() >= away.until_ns;
}

SEC("perf_event")
int take(void *context)
{
	__u64 now = bpf_ktime_get_ns();

	(void)context;
	away.begun_ns[away.times++ & (TIMES - 1)] = now;
	away.until_ns = now + 6000000;
	bpf_loop(1 << 22, wait, NULL, 0);
	return 0;
}
