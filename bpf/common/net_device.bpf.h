/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which interface of which namespace: what of the kernel's structures tracepoints are asked for. */
#ifndef NET_DEVICE_BPF_H
#define NET_DEVICE_BPF_H

#define KERNEL __attribute__((preserve_access_index))

struct ns_common {
	unsigned int inum;
} KERNEL;

struct net {
	struct ns_common ns;
} KERNEL;

typedef struct {
	struct net *net;
} KERNEL possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} KERNEL;

#endif
