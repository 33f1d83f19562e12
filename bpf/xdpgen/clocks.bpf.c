// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * When was a CPU of the path away, or a thread of it kept from running?  An
 * object of its own: it needs the kernel's BTF.
 */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "clocks_shared.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define PF_KTHREAD  0x00200000
#define STACK_BYTES 16384 /* THREAD_SIZE */

#define KERNEL __attribute__((preserve_access_index))

struct rq {
	__u64 prev_steal_time_rq;
} KERNEL;

struct cfs_rq {
	struct rq *rq;
} KERNEL;

struct sched_entity {
	struct cfs_rq *cfs_rq;
} KERNEL;

struct task_struct {
	int pid;
	int tgid;
	unsigned int flags;
	char comm[16];
	void *stack;
	struct sched_entity se;
} KERNEL;

struct clock_trial trial;
struct cpu_clock cpus[GEN_CPUS];

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CLOCK_EVENTS);
	__type(key, __u32);
	__type(value, struct clock_event);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CLOCK_EVENTS);
	__type(key, __u32);
	__type(value, struct clock_softirq);
} softirqs SEC(".maps");

/* By thread id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CLOCK_THREADS);
	__type(key, __u32);
	__type(value, struct clock_thread);
} threads SEC(".maps");

/* Process ids of forwarders: what their other threads take is their own affair. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CLOCK_PROCESSES);
	__type(key, __u32);
	__type(value, __u32);
} processes SEC(".maps");

static __always_inline void note(__u32 kind, __u32 of, __u64 from, __u64 to,
				 __u64 away)
{
	struct clock_event *event;
	__u32 key;

	if (to < trial.from_ns || from > trial.until_ns)
		return;
	key = __sync_fetch_and_add(&trial.events, 1);
	event = bpf_map_lookup_elem(&events, &key);
	if (!event)
		return;
	event->from_ns = from;
	event->to_ns = to;
	event->away_ns = away;
	event->kind = kind;
	event->of = of;
}

static __always_inline void note_softirq(__u32 cpu, __u64 now)
{
	struct clock_softirq *softirq;
	__u32 key;

	if (now < trial.from_ns || now > trial.until_ns)
		return;
	key = __sync_fetch_and_add(&trial.softirqs, 1);
	softirq = bpf_map_lookup_elem(&softirqs, &key);
	if (!softirq)
		return;
	softirq->at_ns = now;
	softirq->cpu = cpu;
}

/*
 * What the hypervisor took from this CPU, as the scheduler leaves it out of the
 * time of its threads; a variable of each CPU is no symbol of every kernel.
 */
static __always_inline __u64 stolen(const struct task_struct *current)
{
	if (!bpf_core_field_exists(struct cfs_rq, rq) ||
	    !bpf_core_field_exists(struct rq, prev_steal_time_rq))
		return 0;
	return current->se.cfs_rq->rq->prev_steal_time_rq;
}

/*
 * Interrupts and softirqs have a stack of their own, that of the thread below
 * them stays as it is (x86, arm64; not with PREEMPT_RT).
 */
static __always_inline int in_softirq(const struct task_struct *current,
				      __u64 sp)
{
	const __u64 stack = (__u64)current->stack;

	return (__s64)sp < 0 && sp - stack > STACK_BYTES;
}

/*
 * Ticks come on a grid, also after one that was late.  Now and then perf
 * leaves one out (Linux 6.18, about one a second): the next is on the grid.
 */
static __always_inline void account_tick(struct cpu_clock *c, __u32 cpu,
					 __u64 now)
{
	const __u64 before = c->tick_ns, gap = now - before;

	c->tick_ns = now;
	if (before && gap > CLOCK_PERIOD_NS + CLOCK_AWAY_NS) {
		if ((now - c->grid_ns) % CLOCK_PERIOD_NS > CLOCK_AWAY_NS)
			note(CLOCK_TICK, cpu, before, now,
			     gap - CLOCK_PERIOD_NS);
	} else if (gap > CLOCK_PERIOD_NS - CLOCK_AWAY_NS) {
		c->grid_ns = now;
	}
}

/*
 * The hypervisor's time is told with the scheduler's tick, which may be one
 * period ago.
 */
SEC("perf_event")
int on_tick(struct bpf_perf_event_data *ctx)
{
	const __u32 cpu = bpf_get_smp_processor_id() & (GEN_CPUS - 1);
	const struct task_struct *current = bpf_get_current_task_btf();
	const __u64 now = bpf_ktime_get_ns(), steal = stolen(current);
	struct cpu_clock *c = &cpus[cpu];
	const __u64 before = c->tick_ns, took = steal - c->steal_ns;

	account_tick(c, cpu, now);
	c->steal_ns = steal;
	if (before && took > CLOCK_AWAY_NS)
		note(CLOCK_STEAL, cpu, before - CLOCK_LAG_NS, now, took);
	if (in_softirq(current, PT_REGS_SP(&ctx->regs)))
		note_softirq(cpu, now);
	return 0;
}

/* "ksof"tirqd, "napi"/..., "irq/"...: they carry frames. */
static __always_inline int carries_frames(const struct task_struct *task)
{
	const char *name = task->comm;

	if (!(task->flags & PF_KTHREAD))
		return 0;
	if (name[0] == 'k')
		return name[1] == 's' && name[2] == 'o' && name[3] == 'f';
	if (name[0] == 'n')
		return name[1] == 'a' && name[2] == 'p' && name[3] == 'i';
	return name[0] == 'i' && name[1] == 'r' && name[2] == 'q' &&
	       name[3] == '/';
}

static __always_inline int is_foreign(const struct task_struct *task)
{
	__u32 pid = task->pid, tgid = task->tgid;

	return pid && !bpf_map_lookup_elem(&threads, &pid) &&
	       !bpf_map_lookup_elem(&processes, &tgid) && !carries_frames(task);
}

static __always_inline void runs_again(struct clock_thread *thread,
				       const struct cpu_clock *c, __u32 cpu,
				       __u64 now)
{
	__u64 foreign = now - thread->out_ns;

	if (thread->out_cpu == cpu)
		foreign = c->foreign_ns - thread->foreign_ns;
	if (now - thread->out_ns > CLOCK_AWAY_NS)
		note(CLOCK_WAIT, thread->number, thread->out_ns, now, foreign);
	thread->out_ns = 0;
}

/*
 * A thread that is put out of its CPU though it could run: the state is its
 * own when it gives way to wait for something.  How long it then takes to wake
 * up is part of the forwarder.
 */
SEC("tp_btf/sched_switch")
int on_switch(__u64 *args)
{
	const struct task_struct *prev = (void *)args[1],
				 *next = (void *)args[2];
	const __u32 cpu = bpf_get_smp_processor_id() & (GEN_CPUS - 1);
	const __u32 preempted = args[0], state = args[3];
	const __u64 now = bpf_ktime_get_ns();
	struct cpu_clock *c = &cpus[cpu];
	struct clock_thread *thread;
	__u32 tid = prev->pid;

	if (is_foreign(prev))
		c->foreign_ns += now - c->switched_ns;
	c->switched_ns = now;
	thread = bpf_map_lookup_elem(&threads, &tid);
	if (thread && (preempted || !state)) {
		thread->out_cpu = cpu;
		thread->foreign_ns = c->foreign_ns;
		thread->out_ns = now;
	}
	tid = next->pid;
	thread = bpf_map_lookup_elem(&threads, &tid);
	if (thread && thread->out_ns)
		runs_again(thread, c, cpu, now);
	return 0;
}
