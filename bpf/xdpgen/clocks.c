// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "clocks.h"
#include "clocks.skel.h"
#include "util.h"

/* Of the first namespace of process ids (PROC_PID_INIT_INO of the kernel). */
#define FIRST_PID_NAMESPACE 0xeffffffcU

#define EVENTS_BYTES   (CLOCK_EVENTS * sizeof(struct clock_event))
#define SOFTIRQS_BYTES (CLOCK_EVENTS * sizeof(struct clock_softirq))

static const void *map_array(const struct bpf_map *map, size_t bytes)
{
	void *at =
		mmap(NULL, bytes, PROT_READ, MAP_SHARED, bpf_map__fd(map), 0);

	return at == MAP_FAILED ? NULL : at;
}

static int load(struct clocks *c)
{
	int err;

	c->skel = clocks_bpf__open_and_load();
	if (!c->skel)
		return -errno;
	c->events = map_array(c->skel->maps.events, EVENTS_BYTES);
	c->softirqs = map_array(c->skel->maps.softirqs, SOFTIRQS_BYTES);
	err = c->events && c->softirqs ? 0 : -errno;
	if (err)
		return err;
	c->skel->links.on_switch =
		bpf_program__attach(c->skel->progs.on_switch);
	c->switch_error = c->skel->links.on_switch ? 0 : -errno;
	return 0;
}

static int start_ticks(struct clocks *c, int index)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = CLOCK_PERIOD_NS };
	int fd = syscall(SYS_perf_event_open, &attr, -1, c->cpu[index], -1,
			 PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -errno;
	c->ticks[index] =
		bpf_program__attach_perf_event(c->skel->progs.on_tick, fd);
	if (c->ticks[index])
		return 0;
	close(fd);
	return -errno;
}

static void stop_ticks(struct clocks *c)
{
	int i;

	for (i = 0; i < c->num_cpus; i++) {
		bpf_link__destroy(c->ticks[i]);
		c->ticks[i] = NULL;
	}
	c->num_cpus = 0;
}

static int add_cpu(int *cpus, int count, int cpu)
{
	int i;

	for (i = 0; i < count; i++)
		if (cpus[i] == cpu)
			return count;
	cpus[count] = cpu;
	return count + 1;
}

static void watch_cpus(struct clocks *c, const struct config *cfg,
		       const struct sender *senders)
{
	int cpus[MAX_WATCHED + GEN_STREAMS], count = 0, i;

	for (i = 0; i < c->num_senders; i++)
		if (senders[i].cpu != NO_CPU)
			count = add_cpu(cpus, count, senders[i].cpu);
	for (i = 0; i < cfg->cpus.count; i++)
		count = add_cpu(cpus, count, cfg->cpus.number[i]);
	if (count == c->num_cpus &&
	    !memcmp(cpus, c->cpu, count * sizeof(*cpus)))
		return;
	stop_ticks(c);
	memcpy(c->cpu, cpus, count * sizeof(*cpus));
	c->num_cpus = count;
	for (i = 0; c->skel && i < count; i++)
		c->tick_errors[i] = start_ticks(c, i);
}

static void empty(const struct bpf_map *map)
{
	int fd = bpf_map__fd(map);
	__u32 key;

	while (!bpf_map_get_next_key(fd, NULL, &key))
		bpf_map_delete_elem(fd, &key);
}

static int watch_threads(struct clocks *c, const struct config *cfg,
			 const struct sender *senders)
{
	int threads = bpf_map__fd(c->skel->maps.threads), err = 0, i;
	int processes = bpf_map__fd(c->skel->maps.processes);
	__u32 one = 1;

	empty(c->skel->maps.threads);
	empty(c->skel->maps.processes);
	for (i = 0; i < cfg->processes.count && !err; i++)
		err = bpf_map_update_elem(processes, &cfg->processes.number[i],
					  &one, BPF_ANY);
	c->num_threads = 0;
	for (i = 0; i < c->num_senders; i++)
		c->tid[c->num_threads++] = senders[i].tid;
	for (i = 0; i < cfg->threads.count; i++)
		c->tid[c->num_threads++] = cfg->threads.number[i];
	for (i = 0; i < c->num_threads && !err; i++) {
		struct clock_thread thread = { .number = i };

		err = bpf_map_update_elem(threads, &c->tid[i], &thread,
					  BPF_ANY);
	}
	return err;
}

static bool ids_are_foreign(void)
{
	struct stat ns;

	return stat("/proc/self/ns/pid", &ns) ||
	       ns.st_ino != FIRST_PID_NAMESPACE;
}

void clocks_open(struct clocks *c, const struct config *cfg,
		 const struct sender *senders, int num_senders)
{
	int err;

	c->num_senders = num_senders;
	if (!c->skel && !c->load_error) {
		c->load_error = load(c);
		c->foreign_ids = ids_are_foreign();
		if (c->load_error) {
			clocks_bpf__destroy(c->skel);
			c->skel = NULL;
		}
	}
	watch_cpus(c, cfg, senders);
	if (!c->skel)
		return;
	err = watch_threads(c, cfg, senders);
	c->switch_error = c->switch_error ?: err;
}

void clocks_begin(struct clocks *c, __u64 from_ns, __u64 until_ns)
{
	struct clock_trial *trial;

	if (!c->skel)
		return;
	trial = &c->skel->bss->trial;
	trial->until_ns = 0; /* nobody writes meanwhile */
	trial->events = trial->softirqs = 0;
	trial->from_ns = from_ns;
	__atomic_store_n(&trial->until_ns, until_ns, __ATOMIC_RELEASE);
}

/* Who waits still has told nothing of it. */
static void end_waits(struct clocks *c, __u64 now)
{
	struct clock_trial *trial = &c->skel->bss->trial;
	int threads = bpf_map__fd(c->skel->maps.threads);
	int events = bpf_map__fd(c->skel->maps.events), i;
	struct clock_thread thread;
	__u32 key;

	for (i = 0; i < c->num_threads; i++) {
		struct clock_event waits = { .kind = CLOCK_WAIT,
					     .of = i,
					     .to_ns = now };

		if (bpf_map_lookup_elem(threads, &c->tid[i], &thread) ||
		    !thread.out_ns || now - thread.out_ns < CLOCK_AWAY_NS)
			continue;
		waits.from_ns = thread.out_ns;
		waits.away_ns = now - thread.out_ns;
		key = trial->events++;
		/* of one too many there is no room, and that is known */
		bpf_map_update_elem(events, &key, &waits, BPF_ANY);
	}
}

void clocks_end(struct clocks *c, __u64 until_ns)
{
	__u64 told_ns =
		until_ns + CLOCK_PERIOD_NS + CLOCK_LAG_NS + CLOCK_AWAY_NS;
	__u64 now = now_ns();

	if (!c->skel)
		return;
	if (now < told_ns)
		usleep((told_ns - now) / 1000 + 1);
	c->skel->bss->trial.until_ns = 0;
	end_waits(c, now_ns());
}

void clocks_close(struct clocks *c)
{
	stop_ticks(c);
	if (c->events)
		munmap((void *)c->events, EVENTS_BYTES);
	if (c->softirqs)
		munmap((void *)c->softirqs, SOFTIRQS_BYTES);
	clocks_bpf__destroy(c->skel);
	memset(c, 0, sizeof(*c));
}

int clocks_events(const struct clocks *c, bool *more)
{
	__u64 events = c->skel ? c->skel->bss->trial.events : 0;

	*more = events > CLOCK_EVENTS;
	return min(events, (__u64)CLOCK_EVENTS);
}

int clocks_softirqs(const struct clocks *c)
{
	return c->skel ?
		       min(c->skel->bss->trial.softirqs, (__u64)CLOCK_EVENTS) :
		       0;
}

static const char *why(int err)
{
	return err ? strerror(-err) : NULL;
}

static const char *why_not_loaded(const struct clocks *c)
{
	return c->load_error ?
		       "BPF that needs the kernel's BTF was not loaded" :
		       NULL;
}

const char *clocks_why_not_ticks(const struct clocks *c, int index)
{
	return why_not_loaded(c) ?: why(c->tick_errors[index]);
}

static bool is_virtual(void)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[8192];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = !strncmp(line, "flags", 5) &&
			strstr(line, " hypervisor");
	if (file)
		fclose(file);
	return found;
}

const char *clocks_why_not_steal(const struct clocks *c, int index)
{
	const char *no_ticks = clocks_why_not_ticks(c, index);

	if (no_ticks)
		return no_ticks;
	if (!c->skel->bss->cpus[c->cpu[index]].steal_ns && is_virtual())
		return "the hypervisor or the kernel does not tell it";
	return NULL;
}

const char *clocks_why_not_waits(const struct clocks *c, bool of_senders)
{
	if (c->load_error || c->switch_error)
		return why_not_loaded(c) ?: why(c->switch_error);
	if (c->foreign_ids && (of_senders || c->num_threads > c->num_senders))
		return "thread ids are of another namespace than the kernel's";
	return NULL;
}
