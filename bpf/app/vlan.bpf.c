// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A VLAN interface without one: what leaves a port is tagged, as an interface
 * of 802.1Q tags it (in metadata; the port puts it into the frame unless
 * it has tx-vlan-offload), and what arrives with the tag loses it.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

const volatile __u16 vlan_id;

SEC("tc")
int vlan_out(struct __sk_buff *skb)
{
	if (bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), vlan_id))
		return TC_ACT_SHOT;
	return TC_ACT_OK;
}

SEC("tc")
int vlan_in(struct __sk_buff *skb)
{
	if (!skb->vlan_present || (skb->vlan_tci & 0xfff) != vlan_id)
		return TC_ACT_SHOT;
	return bpf_skb_vlan_pop(skb) ? TC_ACT_SHOT : TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
