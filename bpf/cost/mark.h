/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What count.c looks for in the guest's code: nothing to a processor; and the guest's own clock. */
#ifndef COST_MARK_H
#define COST_MARK_H

#include <stdint.h>

#define MARK_BYTES  7
#define MARK_PREFIX "\x0f\x1f\x80"
#define MARK_SUFFIX "\xe0\x0d\x1c"
#define MARK_ON()   asm volatile("nopl 0x1c0de001(%%rax)" ::: "memory")
#define MARK_OFF()  asm volatile("nopl 0x1c0de000(%%rax)" ::: "memory")

static inline uint64_t ticks(void)
{
	uint32_t low, high;

	asm volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
	return (uint64_t)high << 32 | low;
}

#endif
