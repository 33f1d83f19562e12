/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One-line errors, network namespaces, warnings of libbpf. */
#ifndef XDPLAB_UTIL_H
#define XDPLAB_UTIL_H

#include <signal.h>
#include <stdbool.h>
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

/* First in main(): what fail() begins with; what libbpf and libxdp warn of is kept. */
void program_begin(const char *name);

/* Print "<program>: <message>" on stderr as one line; returns @err. */
int fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Text for -errno: with the first warnings of libbpf and libxdp since the last
 * call, where there are any; else with what to do for the errors users meet.
 */
const char *explain(int err);

/* After what may fail: its warnings explain nothing that comes later. */
void forget_warnings(void);

/*
 * The same of an XDP program that could not be attached by a link.  The
 * kernel's own message comes by netlink only: so it is tried once more by that.
 */
const char *explain_attach(int err, int ifindex, int prog, __u32 flags);

/* Signals that end a program; not SIGHUP if nohup has it ignored. */
void stop_signals(sigset_t *set);

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

/* Number of the calling thread's namespace, as the kernel has it; 0: unknown. */
__u32 netns_inode(void);

/* Why frames that were redirected to a port do not leave it. */
#define PEER_TAKES_NONE \
	"the peer needs an XDP program or NAPI (ethtool -K PEER gro on), both ports up"

/*
 * Frames that an interface of the current namespace has sent, and those that it
 * was given and did not send, modulo 2^32.  Before Linux 6.3 a veth refuses
 * redirected frames when they are flushed, and nothing but this counter tells.
 */
struct link_counts {
	__u32 tx_packets;
	__u32 tx_dropped;
};

/* All 0 where they cannot be read. */
struct link_counts link_counts(const char *ifname);

/*
 * Is it a veth of the current namespace?  XDP_TX on veth (seen up to 6.18)
 * wakes a peer only if that carries an XDP program, though its NAPI is on
 * and takes the frames: they stay in its ring, 256 of them, the rest is lost.
 * A redirect to the same port wakes it.
 */
bool is_veth(const char *ifname);

/*
 * Number of receive queues, 0 if the driver does not say.  One NAPI runs on
 * one CPU at a time: with one queue nothing arrives at once.
 */
int receive_queues(const char *ifname);

/* 0, or -EBUSY after one line if the interface carries an XDP program. */
int check_no_xdp(const char *ifname, int ifindex);

/* MAC address of an interface of the current namespace: 0 or -errno. */
int interface_mac(const char *ifname, unsigned char mac[6]);

/* MTU of an interface of the current namespace, or -errno. */
int interface_mtu(const char *ifname);

#endif
