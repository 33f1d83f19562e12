// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Counts where frames of some ports end: what became of the actions of their
 * XDP programs, and which frames the kernel dropped for which reason.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "ends.h"
#include "net_device.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct sk_buff {
	struct net_device *dev;
} KERNEL;

const volatile __u32 netns;		/* inode of the ports' namespace */
const volatile __u32 ports[ENDS_PORTS]; /* ifindexes, 0: none */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ENDS_KINDS);
	__type(key, struct end);
	__type(value, __u64);
} counts SEC(".maps");

static __always_inline __u32 here(const struct net_device *dev)
{
	/* where BTF has tags (__rcu), the verifier wants to see it compared */
	const struct net *net;

	if (!dev)
		return 0;
	net = dev->nd_net.net;
	if (!net || net->ns.inum != netns)
		return 0;
	return dev->ifindex;
}

static __always_inline bool is_port(__u32 ifindex)
{
	int i;

	for (i = 0; i < ENDS_PORTS; i++)
		if (ifindex && ports[i] == ifindex)
			return true;
	return false;
}

static __always_inline void count(const struct end *end, __u64 frames)
{
	__u64 none = 0, *found;

	bpf_map_update_elem(&counts, end, &none, BPF_NOEXIST);
	found = bpf_map_lookup_elem(&counts, end);
	if (found)
		__sync_fetch_and_add(found, frames);
}

SEC("tp_btf/xdp_exception")
int ends_exception(__u64 *args)
{
	struct end end = { .kind = END_EXCEPTION, .a = args[2] };

	end.ifindex = here((void *)args[0]);
	if (is_port(end.ifindex))
		count(&end, 1);
	return 0;
}

/* dev, program, target, error, type of the map, its id, key */
static __always_inline int redirect(const __u64 *args)
{
	struct end end = { .kind = END_REDIRECT,
			   .a = args[5],
			   .b = args[6],
			   .error = (__s32)args[3] };

	end.ifindex = here((void *)args[0]);
	if (is_port(end.ifindex))
		count(&end, 1);
	return 0;
}

SEC("tp_btf/xdp_redirect")
int ends_redirect(__u64 *args)
{
	return redirect(args);
}

SEC("tp_btf/xdp_redirect_err")
int ends_refused(__u64 *args)
{
	return redirect(args);
}

/* from, to, sent, dropped, error */
SEC("tp_btf/xdp_devmap_xmit")
int ends_xmit(__u64 *args)
{
	__s32 sent = args[2], dropped = args[3];
	struct end end = { .kind = END_SENT };

	end.ifindex = here((void *)args[0]);
	end.a = here((void *)args[1]);
	if (!is_port(end.ifindex))
		return 0;
	if (sent > 0)
		count(&end, sent);
	end.kind = END_NOT_TAKEN;
	end.error = (__s32)args[4];
	if (dropped > 0)
		count(&end, dropped);
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int ends_stack(__u64 *args)
{
	const struct sk_buff *skb = (void *)args[0];
	struct end end = { .kind = END_STACK };

	end.ifindex = here(skb->dev);
	if (is_port(end.ifindex))
		count(&end, 1);
	return 0;
}

/* skb, where, reason: of all interfaces, such as a bridge's */
SEC("tp_btf/kfree_skb")
int ends_drop(__u64 *args)
{
	const struct sk_buff *skb = (void *)args[0];
	struct end end = { .kind = END_DROP, .a = args[2], .at = args[1] };

	end.ifindex = here(skb->dev);
	if (end.ifindex)
		count(&end, 1);
	return 0;
}
