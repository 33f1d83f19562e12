/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One-line errors, network namespaces, quiet libbpf. */
#ifndef XDPLAB_UTIL_H
#define XDPLAB_UTIL_H

#include <stddef.h>
#include <time.h>
#include <linux/types.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define NSEC_PER_SEC  1000000000ULL

#define min(a, b)                       \
	({                              \
		__typeof__(a) _a = (a); \
		__typeof__(b) _b = (b); \
		_a < _b ? _a : _b;      \
	})
#define max(a, b)                       \
	({                              \
		__typeof__(a) _a = (a); \
		__typeof__(b) _b = (b); \
		_a > _b ? _a : _b;      \
	})

extern const char *program_name;

/* Print "<program>: <message>" on stderr as one line; returns @err. */
int fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Text for -errno; adds what to do for the errors users meet. */
const char *explain(int err);

/* Send libbpf's and libxdp's messages nowhere; keep our one line. */
void quiet_libraries(void);

static inline __u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts); /* = bpf_ktime_get_ns() */
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/*
 * Move the calling thread into the namespace at @path (NULL: stay).  Returns
 * a descriptor for netns_leave() or -errno.
 */
int netns_enter(const char *path);
void netns_leave(int fd);

/* MTU of an interface of the current namespace, or -errno. */
int interface_mtu(const char *ifname);

#endif
