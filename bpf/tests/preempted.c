// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * One frame's way through the receiver, preempted before each of its
 * instructions in turn by the whole way of another frame of the same CPU, as a
 * kernel with PREEMPT_RT may have it.  Built without optimisation: an addition
 * is several instructions, as those of BPF are.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

static void *lookup(void *map, const void *key);
static __u64 clock_ns;

static __u64 read_clock(void)
{
	return clock_ns;
}

#define bpf_map_lookup_elem lookup
#define bpf_ktime_get_ns    read_clock
#define const /* what is constant while the program runs is set first */
#include "receiver.bpf.c"
#undef const

#define TRAP_FLAG 0x100UL
#define SENT_NS	  1000000ULL

static struct rx_counters of_cpu;
static struct rx_port_counters of_port;
static __u64 words[WINDOW_WORDS], counts[HDR_COUNTS];
static __u64 expected;
static long steps, step;
static __u64 frames;

static void *lookup(void *map, const void *key)
{
	const __u32 index = *(const __u32 *)key;

	if (map == &counters)
		return &of_cpu;
	if (map == &port_counters)
		return &of_port;
	if (map == &window)
		return &words[index];
	if (map == &latency)
		return &counts[index];
	return map == &next_expected ? &expected : NULL;
}

/* A new frame, its copy, one of the warm-up, and a stranger. */
static void receive(void)
{
	__u8 trailer[TRAILER_BYTES] __attribute__((aligned(8))) = {};
	const __u32 seq = __sync_fetch_and_add(&frames, 1);

	trailer[TRAILER_OFF_EP] = 1;
	trailer_at(__u32, trailer, TRAILER_OFF_SEQ) = to_be(32, seq);
	trailer_at(__u64, trailer, TRAILER_OFF_NS) =
		to_be(64, SENT_NS - 1 - seq);
	clock_ns = SENT_NS;
	account(trailer, &trial.streams[0], clock_ns, 1);
	account(trailer, &trial.streams[0], clock_ns, 1);
	trailer[TRAILER_OFF_EP] = 0;
	account(trailer, &trial.streams[0], clock_ns, 1);
	count_port(0);
}

static void on_step(int signal, siginfo_t *info, void *context)
{
	ucontext_t *at = context;

	(void)signal;
	(void)info;
	if (++steps != step)
		return;
	at->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	receive();
}

static void single_step(unsigned long on)
{
	asm volatile("pushfq; andq $~0x100, (%%rsp); orq %0, (%%rsp); popfq"
		     :
		     : "r"(on ? TRAP_FLAG : 0UL)
		     : "memory", "cc");
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_step,
				    .sa_flags = SA_SIGINFO };

	rx_preempted = argc > 1 && atoi(argv[1]);
	trial.streams[0].choice.flows = 1;
	trial.streams[0].intact.any_flow = 1;
	sigaction(SIGTRAP, &action, NULL);
	do {
		step++;
		steps = 0;
		single_step(1);
		receive();
		single_step(0);
	} while (steps >= step);
	printf("{\"frames\": %llu, \"steps\": %ld, \"received\": %llu, \"duplicated\": %llu, \"warmup\": %llu, \"other\": %llu, \"sum_ns\": %llu, \"min_ns\": %llu, \"max_ns\": %llu}\n",
	       frames, step, of_cpu.arrived.received,
	       of_cpu.arrived.duplicated, of_cpu.arrived.warmup,
	       of_port.other, of_cpu.sum_ns, ~of_cpu.min_inv, of_cpu.max_ns);
	return 0;
}
