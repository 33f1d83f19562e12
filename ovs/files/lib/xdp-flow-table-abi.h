/*
 * Licensed under the Apache License, Version 2.0 (the "License");
 * you may not use this file except in compliance with the License.
 * You may obtain a copy of the License at:
 *
 *     http://www.apache.org/licenses/LICENSE-2.0
 *
 * Unless required by applicable law or agreed to in writing, software
 * distributed under the License is distributed on an "AS IS" BASIS,
 * WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
 * See the License for the specific language governing permissions and
 * limitations under the License.
 */

#ifndef XDP_FLOW_TABLE_ABI_H
#define XDP_FLOW_TABLE_ABI_H 1

/* What lib/xdp-flow-table.c and the XDP program share: the maps of the
 * program, which ovs-vswitchd writes while the program reads them.
 *
 * A packet is extracted to a key of XFT_WORDS words.  With each mask of its
 * family in turn it is looked up in a hash table of buckets.  A slot of a
 * bucket has a tag, which is a part of the hash, and the number of the entry
 * that holds the whole key.
 *
 * The maps are arrays, mapped to the memory of ovs-vswitchd, and not a hash
 * table of the kernel: that gives the memory of a deleted element to the next
 * one at once, while a program on another CPU may still be reading it.  Here,
 * a slot changes with one store, an entry is filled before a slot refers to
 * it, and nothing is used again before a grace period of the kernel's RCU is
 * over, which waits for all programs that run. */

#include <linux/types.h>

#define XFT_MAX_MASKS       64
#define XFT_MAX_ENTRIES     (1 << 20)
#define XFT_MAX_OUTPUTS     1024
#define XFT_MAX_QUEUES      16
#define XFT_MAX_CONNS       (1 << 16)
#define XFT_BUCKET_SLOTS    8

/* Words of a key: first those that all packets have, then those of IPv6, then
 * what is known of a packet that is looked up again: after recirculation, or
 * out of a tunnel.  Those of other families are 0. */
#define XFT_WORDS           14
#define XFT_WORDS_IPV4      5
#define XFT_WORDS_IPV6      4
#define XFT_WORDS_AGAIN     5
#define XFT_FIRST_AGAIN     (XFT_WORDS_IPV4 + XFT_WORDS_IPV6)

/* A packet is looked up this many times at the most. */
#define XFT_MAX_LOOKUPS     3

enum xft_family {
    XFT_IPV4,                   /* And whatever is neither IPv4 nor IPv6. */
    XFT_IPV6,
    XFT_IPV4_AGAIN,             /* The same ones, looked up again. */
    XFT_IPV6_AGAIN,
    XFT_N_FAMILIES
};

static inline int
xft_family_is_ipv6(enum xft_family family)
{
    return family & 1;
}

static inline int
xft_family_is_again(enum xft_family family)
{
    return family >> 1;
}

/* Fields of a packet, in network byte order.  0 where the packet has none, as
 * in miniflow_extract(). */
struct xft_fields {
    __u8 dl_dst[6];
    __u16 dl_type;

    __u8 dl_src[6];
    __u16 vlan_tci;             /* With VLAN_CFI if there is a tag. */

    __u32 nw_src;               /* IPv6: the flow label. */
    __u32 nw_dst;               /* IPv6: 0. */

    __u16 tp_src;
    __u16 tp_dst;
    __u8 nw_proto;
    __u8 nw_tos;
    __u8 nw_ttl;
    __u8 zero;

    __u16 vlan_tpid;
    __u16 tcp_flags;
    __u32 mask_id;              /* A packet has all bits set, a mask its id. */

    __u8 ipv6_src[16];
    __u8 ipv6_dst[16];

    __u32 recirc_id;            /* As the datapath has it. */
    __u32 in_port;

    __u64 tun_id;

    __u32 tun_src;              /* IPv4. */
    __u32 tun_dst;

    __u16 tun_flags;            /* FLOW_TNL_F_*, as the datapath has it. */
    __u8 tun_tos;
    __u8 tun_ttl;
    __u16 tun_tp_src;
    __u16 tun_tp_dst;

    __u8 ct_state;              /* CS_*, as the datapath has it. */
    __u8 ct_zero;
    __u16 ct_zone;              /* In host byte order. */
    __u32 ct_mark;
};

union xft_key {
    struct xft_fields f;
    __u64 w[XFT_WORDS];
};

#define XFT_WORD_MASK_ID    4   /* The word that 'mask_id' is in. */

/* A packet is of one class: whether it has a VLAN tag, and the protocol above
 * IP.  The bit of class (L4, TAG) is 1 << (L4 + (TAG ? XFT_N_L4 : 0)). */
enum xft_l4 {
    XFT_L4_NO_IP,
    XFT_L4_TCP,
    XFT_L4_UDP,
    XFT_L4_ICMP,                /* ICMP of IPv4, ICMPv6 of IPv6. */
    XFT_L4_OTHER,
    XFT_N_L4
};

#define XFT_N_CLASSES       (2 * XFT_N_L4)

struct xft_mask {
    union xft_key key;
    __u64 classes;              /* Those of its flows, 0 if not in use. */
};

struct xft_mask_list {
    __u64 n;                    /* Masks in use are below. */
    struct xft_mask mask[XFT_MAX_MASKS];
};

/* Of a family.  There are two lists, so that a program that looks at one finds
 * all masks while they are put into another order in the other one. */
struct xft_masks {
    __u64 current;              /* 0 or 1. */
    struct xft_mask_list list[2];
};

/* The tag of a slot, 0 if it is not in use, and the number of its entry. */
struct xft_bucket {
    union {
        __u16 tag[XFT_BUCKET_SLOTS];
        __u64 tags[XFT_BUCKET_SLOTS / 4];
    };
    __u32 entry[XFT_BUCKET_SLOTS];
    __u32 pad[4];
};

/* What to do with the packets of a flow.  Always written as a whole. */
union xft_action {
    struct {
        __u16 output;           /* Index in 'outputs'. */
        __u16 flags;            /* XFT_F_*. */
        __u32 edit;             /* Index in 'edits', with XFT_F_EDIT. */
    };
    __u64 all;
};

#define XFT_F_DROP          (1 << 0)
#define XFT_F_EDIT          (1 << 1)
#define XFT_F_PUSH_VLAN     (1 << 2)    /* All others with XFT_F_EDIT only. */
#define XFT_F_POP_VLAN      (1 << 3)    /* Before a tag is pushed. */
#define XFT_F_ETH           (1 << 4)
#define XFT_F_IPV4          (1 << 5)
#define XFT_F_IPV6          (1 << 6)
#define XFT_F_AGAIN         (1 << 7)    /* No output: look the packet up again,
                                         * after all changes. */
#define XFT_F_TUNNEL_POP    (1 << 8)    /* Before that, of a packet without a
                                         * tag, and with no other change. */
#define XFT_F_CT            (1 << 9)    /* With XFT_F_AGAIN: track it first. */

/* Changes of a packet.  A field becomes its value where the mask is 1.  What
 * that does to checksums is known before, as a flow with changes matches on
 * what is changed. */
struct xft_edit {
    __u64 dl_dst, dl_dst_mask;  /* As the words of a key, without dl_type... */
    __u64 dl_src, dl_src_mask;  /* ...and vlan_tci. */
    __u64 nw, nw_mask;          /* nw_src and nw_dst. */
    __u64 ipv6[4], ipv6_mask[4];    /* ipv6_src and ipv6_dst. */
    __u32 ipv6_flow, ipv6_flow_mask; /* The first word of the header. */
    __u8 nw_tos, nw_tos_mask;
    __u8 nw_ttl, nw_ttl_mask;
    __u16 ip_delta;             /* To be added to ~ip_csum, and 0 if it */
    __u16 l4_delta;             /* doesn't change; of the next header. */
    __u16 vlan_tpid;            /* Of the tag to push. */
    __u16 vlan_tci;
    __u32 tunnel;               /* XFT_TUNNEL_* to pop. */
    __u32 recirc_id;            /* To look the packet up again with. */
    __u32 in_port;
    __u16 tun_flags;            /* FLOW_TNL_F_* of a packet out of it... */
    __u16 tun_df_flag;          /* ...and, if it had IP_DF. */
    __u16 ct_zone;
    __u16 pad;
};

enum {
    XFT_TUNNEL_VXLAN = 1,
    XFT_TUNNEL_GENEVE           /* Without options. */
};

/* Of a flow on a queue. */
struct xft_stats {
    __u64 packets;
    __u64 bytes;
    __u64 used;                 /* CLOCK_MONOTONIC, in nanoseconds. */
    union {
        __u64 word4;            /* As in a key, with nothing but... */
        struct {
            __u16 zero[1];
            __u16 tcp_flags;
            __u16 zeros[2];
        };
    };
};

/* An IPv4 packet from the first queue takes two cache lines, unless it is
 * looked up again. */
struct xft_entry {
    __u64 w[XFT_WORDS_IPV4];    /* The masked key. */
    union xft_action action;
    __u64 pad[2];
    __u64 w_ipv6[XFT_WORDS_IPV6];
    __u64 w_again[XFT_WORDS_AGAIN];
    struct xft_stats stats[];   /* Of each queue, as a queue is served by one
                                 * CPU at a time. */
};

#define XFT_CACHE_LINE      64

/* Size of an entry for that many queues. */
static inline __u32
xft_entry_size(__u32 n_queues)
{
    __u32 size = sizeof(struct xft_entry)
                 + n_queues * sizeof(struct xft_stats);

    return (size + XFT_CACHE_LINE - 1) / XFT_CACHE_LINE * XFT_CACHE_LINE;
}

/* Of a queue of a port. */
struct xft_counters {
    __u64 packets;              /* Handled by the program. */
    __u64 bytes;
    __u64 misses;               /* To the socket: no flow. */
    __u64 undecided;            /* To the socket: not parsed. */
    __u64 unsendable;           /* To the socket: larger than the output may
                                 * send, or it may not be sent to at all. */
    __u64 recirculated;         /* Of 'packets' those with several flows. */
    __u64 pad[2];
};

/* What packets of a connection in one direction have in common. */
struct xft_conn_key {
    __u32 src[4];               /* IPv4: the first one. */
    __u32 dst[4];
    __u16 tp_src;
    __u16 tp_dst;
    __u16 zone;
    __u8 nw_proto;
    __u8 ipv6;
};

/* As struct ct_offload_peer. */
struct xft_peer {
    __u32 seqlo;
    __u32 seqhi;
    __u16 max_win;
    __u8 shift;
    __u8 zero;
};

/* 1 millisecond and 5 percent.  In 32 bits there is room for 52 days. */
#define XFT_USED_SHIFT      20
#define XFT_USED_NS         (1ULL << XFT_USED_SHIFT)

/* An established connection.  Index 0 is for packets in its original
 * direction, and who sends them, 1 for the other ones. */
struct xft_conn {
    struct xft_conn_key key[2];
    __u32 used[2];              /* CLOCK_MONOTONIC, in units of XFT_USED_NS. */
    __u32 packets[2];
    struct xft_peer peers[2];
    __u32 mark;
    __u8 ct_state[2];           /* 0 if it is none any more. */
    __u16 zero;
};

/* A port, as an output and as where packets come from. */
struct xft_output {
    __u32 max_len;              /* Largest frame, 0 if none must be sent. */
    __u32 error;                /* Not 0 if none must be sent, as the device
                                 * refused packets with this errno value. */
    __u64 n_refused;            /* Packets that the port did not send. */
    __u64 lost_packets;         /* Packets from the port, counted as handled, */
    __u64 lost_bytes;           /* that their output did not send. */
};

/* What a flow has counted and its output did not send. */
struct xft_lost {
    __u64 packets;
    __u64 bytes;
};

/* A flow that a packet met, and how long the packet was then. */
struct xft_met {
    __u32 entry;
    __u32 len;
};

/* Packets that a CPU put into the queues of devices, the last ones. */
struct xft_sent {
    __u32 number;               /* Of the packet among those to its output. */
    __u16 output;
    __u16 from;                 /* The port that it came from, and... */
    __u32 n_met;                /* ...its flows there. */
    struct xft_met met[XFT_MAX_LOOKUPS];
};

#define XFT_N_SENT          256

struct xft_sent_log {
    __u32 head;
    __u32 pad[3];
    struct xft_sent sent[XFT_N_SENT];
};

/* How many packets a CPU put into the queue of an output, and how many of them
 * the device got. */
struct xft_progress {
    __u32 queued;
    __u32 flushed;
};

struct xft_watch_config {
    __u32 netns;                /* Inode. */
    __u32 output_devs_id;       /* Of the map. */
};

struct xft_config {
    __u64 multiplier;                   /* Random and odd. */
    __u32 secret[2 * XFT_WORDS];        /* Random. */
    __u32 bucket_mask;
    __u32 n_queues;
    __u32 port;                         /* Index in 'outputs'. */
    __u32 pad;
};

/* The sum is NH of UMAC (RFC 4418, section 5.2): for two keys, whatever they
 * are, it is the same for one in 2^32 secrets at the most.  A sum of words
 * times odd numbers would be the same for keys that differ in the first bit of
 * two words, and take 256 values for keys that differ in the first byte of a
 * word.  What follows spreads it over all bits, and loses nothing. */
static inline __u64
xft_hash_word(__u64 word, const volatile __u32 *secret)
{
    return (__u64) ((__u32) word + secret[0])
           * ((__u32) (word >> 32) + secret[1]);
}

static inline __u64
xft_hash_finish(__u64 sum, __u64 multiplier)
{
    sum ^= sum >> 32;
    sum *= multiplier;
    return sum ^ sum >> 32;
}

static inline __u32
xft_bucket(__u64 hash, __u32 bucket_mask)
{
    return (__u32) (hash >> 16) & bucket_mask;
}

static inline __u16
xft_tag(__u64 hash)
{
    __u16 tag = hash;

    return tag ? tag : 1;
}

#endif /* xdp-flow-table-abi.h */
