// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Reads what a driver took of each bulk (its ndo_xdp_xmit): the tracepoint is
 * the only place where it is told.  An object of its own: it needs the
 * kernel's BTF, without which the sender still loads.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "net_device.bpf.h"
#include "tx_drops.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define LOOPBACK_IFINDEX 1

struct tx_watch tx_watch SEC(".data.tx_watch");

static __always_inline struct tx_queue *find(const struct net_device *to)
{
	/* where BTF has tags (__rcu), the verifier wants to see it compared */
	const struct net *net = to->nd_net.net;
	const __u32 ifindex = to->ifindex;
	__u32 netns, i;

	if (!net)
		return NULL;
	netns = net->ns.inum;
	for (i = 0; i < GEN_STREAMS && i < tx_watch.queues; i++)
		if (tx_watch.queue[i].ifindex == ifindex &&
		    tx_watch.queue[i].netns == netns)
			return &tx_watch.queue[i];
	return NULL;
}

/* Live frames come from the loopback device, those of forwarders from ports. */
SEC("tp_btf/xdp_devmap_xmit")
int count_tx_drops(__u64 *args)
{
	const struct net_device *from = (void *)args[0], *to = (void *)args[1];
	const __u32 sent = args[2], drops = args[3];
	const __s32 error = args[4];
	__u32 first, i, trial, index;
	struct tx_queue *queue;
	__u8 frame;

	if (from->ifindex != LOOPBACK_IFINDEX)
		return 0;
	if (tx_watch.cpu >= 0 &&
	    (__u32)tx_watch.cpu != bpf_get_smp_processor_id())
		return 0;
	queue = find(to);
	if (!queue)
		return 0;
	first = queue->flushed + sent;
	queue->flushed = first + drops;
	for (i = 0; i < TX_QUEUE_FRAMES && i < drops; i++) {
		frame = queue->frames[(first + i) & (TX_QUEUE_FRAMES - 1)];
		trial = frame / GEN_STREAMS & 1;
		index = frame & (GEN_STREAMS - 1);
		tx_watch.drops[trial][index]++;
		if (error && trial) {
			tx_watch.refused[index]++;
			tx_watch.error = error;
		}
	}
	return 0;
}
