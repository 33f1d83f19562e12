// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The kernel lets only programs with a licence that fits the GPL read its
 * structures. */

/* The XDP program of an AF_XDP port: packets of known flows are sent on or
 * dropped here, all others go to the socket of their queue. */

#include <linux/bpf.h>
#include <linux/errno.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "xdp-flow-table-abi.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WORD16(A, B, C, D) \
    ((__u64) (A) | (__u64) (B) << 16 | (__u64) (C) << 32 | (__u64) (D) << 48)
/* 6 bytes from the beginning of 'W', 2 bytes 'V'. */
#define WORD48(W, V) (((W) & 0xffffffffffffULL) | (__u64) (V) << 48)
#define WORD32(A, B) ((__u64) (A) | (__u64) (B) << 32)
#define BYTES16(A, B) ((__u16) ((A) | (B) << 8))
#define FIRST32(W) ((__u32) (W))
#define THIRD16(W) ((__u16) ((W) >> 32))
#else
#define WORD16(A, B, C, D) \
    ((__u64) (A) << 48 | (__u64) (B) << 32 | (__u64) (C) << 16 | (__u64) (D))
#define WORD48(W, V) (((W) & ~0xffffULL) | (__u64) (V))
#define WORD32(A, B) ((__u64) (A) << 32 | (__u64) (B))
#define BYTES16(A, B) ((__u16) ((A) << 8 | (B)))
#define FIRST32(W) ((__u32) ((W) >> 32))
#define THIRD16(W) ((__u16) ((W) >> 16))
#endif

#define VLAN_CFI_BIT        0x1000

/* As miniflow_extract() treats them. */
#define ND_SOLICIT          135
#define ND_ADVERT           136
#define SCTP_LEN            12
#define L4_LEN              8       /* Of UDP, ICMP and ICMPv6. */

/* Headers that a packet in a tunnel has in front: Ethernet, IPv4 and UDP, then
 * VXLAN or Geneve. */
#define TUNNEL_HEADER_LEN   8
#define TUNNEL_LEN          (sizeof(struct ethhdr) + sizeof(struct iphdr) \
                             + L4_LEN + TUNNEL_HEADER_LEN)
#define VXLAN_FLAGS         0x08000000
/* Of a packet with a checksum that is looked at. */
#define MAX_CSUM_LEN        4096

/* As tcp_conn_update() has it. */
#define MAXACKWINDOW        (0xffff + 1500)
#define TCP_FLAGS_OTHER     0x07    /* FIN, SYN, RST. */
#define TCP_FLAG_ACK        0x10

#define GENEVE_NO_OAM       0xff80ffff  /* Bits of its first word... */
#define GENEVE_ETHERNET     0x00006558  /* ...that are these. */

/* Set before the program is loaded, the verifier makes constants of it. */
const volatile struct xft_config config SEC(".rodata.cfg");

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, XFT_MAX_QUEUES);
    __type(key, __u32);
    __type(value, __u32);
} xsks SEC(".maps");

struct xft_masks masks[XFT_N_FAMILIES] SEC(".data.masks");

struct xft_counters counters[XFT_MAX_QUEUES] SEC(".data.counters");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct xft_bucket);
} buckets SEC(".maps");

/* Of struct xft_entry, with 'stats' of as many queues as there are. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(struct xft_entry));
} entries SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct xft_edit);
} edits SEC(".maps");

/* Shared by all ports. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, XFT_MAX_OUTPUTS);
    __type(key, __u32);
    __type(value, struct xft_output);
} outputs SEC(".maps");

/* The kernel may give an element to another connection while a program looks
 * at it: what is found has to be compared. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 2 * XFT_MAX_CONNS);
    __type(key, struct xft_conn_key);
    __type(value, __u32);           /* 2 * its index in 'conns' + direction. */
} conn_index SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, XFT_MAX_CONNS);
    __type(key, __u32);
    __type(value, struct xft_conn);
} conns SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __uint(max_entries, XFT_MAX_OUTPUTS);
    __type(key, __u32);
    __type(value, __u32);
} output_devs SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, XFT_MAX_OUTPUTS);
    __type(key, __u32);
    __type(value, __u32);
} output_of_ifindex SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct xft_sent_log);
} sent_log SEC(".maps");

/* Of each output. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, XFT_MAX_OUTPUTS);
    __type(key, __u32);
    __type(value, struct xft_progress);
} progress SEC(".maps");

/* Of each port: a struct xft_lost for each of its entries. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, XFT_MAX_OUTPUTS);
    __type(key, __u32);
    __array(values, struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
        __uint(max_entries, 1);
        __uint(key_size, sizeof(__u32));
        __uint(value_size, sizeof(struct xft_lost));
    });
} lost SEC(".maps");

/* Keeps the compiler from calculating with a pointer: with the end of a packet
 * the verifier does not allow it, and the stack has no room for as many
 * results as there are words in a key. */
#define KEEP(POINTER) asm volatile ("" : "+r" (POINTER))

static __always_inline bool
is_vlan(__u16 dl_type)
{
    return dl_type == bpf_htons(ETH_P_8021Q)
           || dl_type == bpf_htons(ETH_P_8021AD);
}

/* A look-up.
 *
 * Functions that take it as an argument are not inlined, so that the verifier
 * looks at each of them just once, whatever their callers know of it. */
struct search {
    union {                         /* Of the packet. */
        __u64 p[XFT_WORDS];
        struct xft_fields f;
    };
    __u64 class;                    /* Its bit. */
    union xft_action action;        /* Of what was found... */
    __u32 entry;                    /* ...and its number. */
    enum xft_family family;
    __u32 list;                     /* Of masks. */
    __u32 len;                      /* Of the packet, if looked up again. */
    __u16 l4_offset;                /* In the packet as it came, and the... */
    __u16 l4_len;                   /* ...length that IP tells. */
    __u32 pad;
};

/* Fills 's' with the words of a key.  Returns false for any packet that is
 * better left to miniflow_extract(), with which this must agree.
 *
 * Those are all packets with fields that a key has no room for, as what is
 * not in the key counts as 0: fragments, ARP, MPLS, NSH, IGMP, neighbor
 * discovery and a second VLAN tag. */
static __always_inline bool
extract(const void *data, const void *data_end, struct search *s)
{
    enum xft_l4 l4_class = XFT_L4_NO_IP;
    __u64 *p = s->p;
    __u16 dl_type, tci = 0, tpid = 0, tp_src = 0, tp_dst = 0, tcp_flags = 0;
    __u8 nw_proto = 0, nw_tos = 0, nw_ttl = 0;
    const struct ethhdr *eth = data;
    const void *l3 = data + sizeof *eth;
    const void *l4;
    __u32 l4_len;

    if (l3 > data_end) {
        return false;
    }
    dl_type = eth->h_proto;
    if (is_vlan(dl_type)) {
        if (l3 + 4 > data_end) {
            return false;
        }
        tpid = dl_type;
        tci = *(const __u16 *) l3 | bpf_htons(VLAN_CFI_BIT);
        dl_type = *(const __u16 *) (l3 + 2);
        l3 += 4;
    }

    p[0] = WORD48(*(const __u64 *) eth->h_dest, dl_type);
    p[1] = WORD48(*(const __u64 *) eth->h_source, tci);

    if (dl_type == bpf_htons(ETH_P_IP)) {
        const struct iphdr *ip = l3;
        __u32 len;

        l4 = ip + 1;
        if (l4 > data_end) {
            return false;
        }
        /* Neither options nor fragments. */
        len = bpf_ntohs(ip->tot_len);
        if (*(const __u8 *) ip != 0x45
            || ip->frag_off & bpf_htons(0x3fff)
            || len < sizeof *ip
            || len > data_end - l3) {
            return false;
        }
        l4_len = len - sizeof *ip;
        nw_proto = ip->protocol;
        nw_tos = ip->tos;
        nw_ttl = ip->ttl;
        p[2] = *(const __u64 *) &ip->saddr;
        s->family = XFT_IPV4;
    } else if (dl_type == bpf_htons(ETH_P_IPV6)) {
        const struct ipv6hdr *ip = l3;
        const __u64 *addresses = (const void *) &ip->saddr;
        __u32 flow;

        l4 = ip + 1;
        if (l4 > data_end) {
            return false;
        }
        flow = *(const __u32 *) ip;
        l4_len = bpf_ntohs(ip->payload_len);
        nw_proto = ip->nexthdr;
        if ((flow & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000)
            || l4_len > data_end - l4
            || nw_proto == IPPROTO_HOPOPTS
            || nw_proto == IPPROTO_ROUTING
            || nw_proto == IPPROTO_FRAGMENT
            || nw_proto == IPPROTO_AH
            || nw_proto == IPPROTO_DSTOPTS) {
            return false;
        }
        nw_tos = bpf_ntohl(flow) >> 20;
        nw_ttl = ip->hop_limit;
        p[2] = WORD32(flow & bpf_htonl(0x000fffff), 0);
        p[5] = addresses[0];
        p[6] = addresses[1];
        p[7] = addresses[2];
        p[8] = addresses[3];
        s->family = XFT_IPV6;
    } else {
        if (bpf_ntohs(dl_type) < ETH_P_802_3_MIN
            || is_vlan(dl_type)
            || dl_type == bpf_htons(ETH_P_ARP)
            || dl_type == bpf_htons(ETH_P_RARP)
            || dl_type == bpf_htons(ETH_P_MPLS_UC)
            || dl_type == bpf_htons(ETH_P_MPLS_MC)
            || dl_type == bpf_htons(ETH_P_NSH)) {
            return false;
        }
        p[2] = 0;
        s->family = XFT_IPV4;
        goto out;
    }

    s->l4_offset = l4 - data;
    s->l4_len = l4_len;
    l4_class = XFT_L4_OTHER;
    switch (nw_proto) {
    case IPPROTO_TCP: {
        const struct tcphdr *tcp = l4;
        __u16 ctl;
        __u32 len;

        if (l4_len < sizeof *tcp || (const void *) (tcp + 1) > data_end) {
            return false;
        }
        ctl = *(const __u16 *) (l4 + 12);
        len = bpf_ntohs(ctl) >> 12 << 2;
        if (len < sizeof *tcp || len > l4_len) {
            return false;
        }
        tcp_flags = ctl & bpf_htons(0x0fff);
        l4_class = XFT_L4_TCP;
        tp_src = tcp->source;
        tp_dst = tcp->dest;
        break;
    }

    case IPPROTO_UDP:
    case IPPROTO_SCTP:
        if (l4_len < (nw_proto == IPPROTO_UDP ? L4_LEN : SCTP_LEN)
            || l4 + L4_LEN > data_end) {
            return false;
        }
        if (nw_proto == IPPROTO_UDP) {
            l4_class = XFT_L4_UDP;
        }
        tp_src = *(const __u16 *) l4;
        tp_dst = *(const __u16 *) (l4 + 2);
        break;

    case IPPROTO_ICMP:
    case IPPROTO_ICMPV6: {
        const __u8 *icmp = l4;

        if (l4_len < L4_LEN || l4 + L4_LEN > data_end) {
            return false;
        }
        if (nw_proto == IPPROTO_ICMPV6 && !icmp[1]
            && (icmp[0] == ND_SOLICIT || icmp[0] == ND_ADVERT)) {
            return false;
        }
        l4_class = XFT_L4_ICMP;
        tp_src = bpf_htons(icmp[0]);
        tp_dst = bpf_htons(icmp[1]);
        break;
    }

    case IPPROTO_IGMP:
        return false;
    }

out:
    p[3] = WORD16(tp_src, tp_dst, BYTES16(nw_proto, nw_tos),
                  BYTES16(nw_ttl, 0));
    p[4] = WORD16(tpid, tcp_flags, 0xffff, 0xffff);
    s->class = 1ULL << (l4_class + (tci ? XFT_N_L4 : 0));
    return true;
}

static __always_inline bool
has_masks(enum xft_family family)
{
    const volatile struct xft_masks *m = &masks[family];

    return m->list[m->current & 1].n;
}

/* Not 0 if one of the four tags in 'tags' is 'tag'. */
static __always_inline __u64
find_tag(__u64 tags, __u64 tag)
{
    __u64 x = tags ^ tag * 0x0001000100010001ULL;

    return (x - 0x0001000100010001ULL) & ~x & 0x8000800080008000ULL;
}

/* Looks at the slots of bucket number 'index' that have the tag.  Returns 1 if
 * one of them is what is looked for with mask 'i', otherwise 0. */
__attribute__((noinline)) int
compare(struct search *s, __u32 i, __u32 index, __u32 tag)
{
    const volatile struct xft_bucket *bucket;
    const volatile __u64 *m;
    enum xft_family family;

    if (!s || i >= XFT_MAX_MASKS) {
        return 0;
    }
    /* In a way that Linux 6.1 can follow, which forgets a comparison. */
    family = s->family & (XFT_N_FAMILIES - 1);
    bucket = bpf_map_lookup_elem(&buckets, &index);
    if (!bucket) {
        return 0;
    }
    m = masks[family].list[s->list & 1].mask[i].key.w;
    KEEP(m);

    for (__u32 slot = 0; slot < XFT_BUCKET_SLOTS; slot++) {
        const struct xft_entry *entry;
        const __u64 *p = s->p;
        __u64 differ;
        __u32 number;

        if (bucket->tag[slot] != tag) {
            continue;
        }
        number = bucket->entry[slot];
        entry = bpf_map_lookup_elem(&entries, &number);
        if (!entry) {
            return 0;
        }
        differ = (entry->w[0] ^ (p[0] & m[0])) | (entry->w[1] ^ (p[1] & m[1]))
                 | (entry->w[2] ^ (p[2] & m[2]))
                 | (entry->w[3] ^ (p[3] & m[3]))
                 | (entry->w[4] ^ (p[4] & m[4]));
        if (xft_family_is_ipv6(family)) {
            differ |= (entry->w_ipv6[0] ^ (p[5] & m[5]))
                      | (entry->w_ipv6[1] ^ (p[6] & m[6]))
                      | (entry->w_ipv6[2] ^ (p[7] & m[7]))
                      | (entry->w_ipv6[3] ^ (p[8] & m[8]));
        }
        if (xft_family_is_again(family)) {
            differ |= (entry->w_again[0] ^ (p[9] & m[9]))
                      | (entry->w_again[1] ^ (p[10] & m[10]))
                      | (entry->w_again[2] ^ (p[11] & m[11]))
                      | (entry->w_again[3] ^ (p[12] & m[12]))
                      | (entry->w_again[4] ^ (p[13] & m[13]));
        }
        if (!differ) {
            s->action.all = *(const volatile __u64 *) &entry->action.all;
            s->entry = number;

            /* If it was deleted meanwhile, what was read may be of another. */
            return bucket->tag[slot] == tag && bucket->entry[slot] == number;
        }
    }
    return 0;
}

static __always_inline int
lookup(struct search *s, enum xft_family family)
{
    const volatile __u32 *secret = config.secret;
    const volatile struct xft_mask_list *list;
    const __u64 class = s->class;
    const __u64 *p = s->p;
    __u32 n;

    s->list = *(const volatile __u64 *) &masks[family].current & 1;
    list = &masks[family].list[s->list & 1];
    n = list->n;

    for (__u32 i = 0; i < XFT_MAX_MASKS && i < n; i++) {
        const volatile __u64 *m = list->mask[i].key.w;
        const volatile struct xft_bucket *bucket;
        __u32 index, tag;
        __u64 hash;

        /* First of all the classes: if they are there, so is the mask. */
        if (!(list->mask[i].classes & class)) {
            continue;
        }
        hash = xft_hash_word(p[0] & m[0], &secret[0])
               + xft_hash_word(p[1] & m[1], &secret[2])
               + xft_hash_word(p[2] & m[2], &secret[4])
               + xft_hash_word(p[3] & m[3], &secret[6])
               + xft_hash_word(p[4] & m[4], &secret[8]);
        if (xft_family_is_ipv6(family)) {
            hash += xft_hash_word(p[5] & m[5], &secret[10])
                    + xft_hash_word(p[6] & m[6], &secret[12])
                    + xft_hash_word(p[7] & m[7], &secret[14])
                    + xft_hash_word(p[8] & m[8], &secret[16]);
        }
        if (xft_family_is_again(family)) {
            hash += xft_hash_word(p[9] & m[9], &secret[18])
                    + xft_hash_word(p[10] & m[10], &secret[20])
                    + xft_hash_word(p[11] & m[11], &secret[22])
                    + xft_hash_word(p[12] & m[12], &secret[24])
                    + xft_hash_word(p[13] & m[13], &secret[26]);
        }
        hash = xft_hash_finish(hash, config.multiplier);
        tag = xft_tag(hash);
        index = xft_bucket(hash, config.bucket_mask);
        bucket = bpf_map_lookup_elem(&buckets, &index);
        if (bucket
            && (find_tag(bucket->tags[0], tag)
                || find_tag(bucket->tags[1], tag))
            && compare(s, i, index, tag)) {
            return 1;
        }
    }
    return 0;
}

/* Looks the packet of 's' up.  Returns 1 and fills 's' in if there is a flow,
 * otherwise 0. */
__attribute__((noinline)) int
lookup_ipv4(struct search *s)
{
    return s ? lookup(s, XFT_IPV4) : 0;
}

__attribute__((noinline)) int
lookup_ipv6(struct search *s)
{
    return s ? lookup(s, XFT_IPV6) : 0;
}

__attribute__((noinline)) int
lookup_ipv4_again(struct search *s)
{
    return s ? lookup(s, XFT_IPV4_AGAIN) : 0;
}

__attribute__((noinline)) int
lookup_ipv6_again(struct search *s)
{
    return s ? lookup(s, XFT_IPV6_AGAIN) : 0;
}

static __always_inline __u16
add_to_csum(__u16 csum, __u16 delta)
{
    __u32 sum = (__u16) ~csum + delta;

    return ~((sum & 0xffff) + (sum >> 16));
}

/* Changes the checksum of a TCP, UDP or, if it is IPv6, ICMPv6 header. */
static __always_inline void
update_l4_csum(void *l4, const void *data_end, __u8 nw_proto, bool ipv6,
               __u16 delta)
{
    __u16 *csum = l4 + (nw_proto == IPPROTO_TCP ? 16
                        : nw_proto == IPPROTO_UDP ? 6 : 2);

    if ((nw_proto != IPPROTO_TCP && nw_proto != IPPROTO_UDP
         && !(ipv6 && nw_proto == IPPROTO_ICMPV6))
        || (void *) (csum + 1) > data_end) {
        return;
    }
    if (nw_proto != IPPROTO_UDP) {
        *csum = add_to_csum(*csum, delta);
    } else if (*csum) {
        __u16 new = add_to_csum(*csum, delta);

        *csum = new ? new : 0xffff;
    }
}

/* Changes a packet that extract() has looked at.  Returns 1 if successful,
 * otherwise 0, and the packet is as it was. */
__attribute__((noinline)) int
edit_packet(struct xdp_md *ctx, __u32 flags, __u32 index)
{
    const struct xft_edit *edit = bpf_map_lookup_elem(&edits, &index);
    bool push = flags & XFT_F_PUSH_VLAN, pop = flags & XFT_F_POP_VLAN;
    void *data, *data_end, *l3;
    struct ethhdr *eth;
    __u64 dst, src;
    __u32 l2_len;

    data_end = (void *) (long) ctx->data_end;
    eth = data = (void *) (long) ctx->data;
    if (!edit || (void *) (eth + 1) > data_end) {
        return 0;
    }
    dst = *(__u64 *) eth->h_dest;
    src = *(__u64 *) eth->h_source;
    l2_len = sizeof *eth + (is_vlan(eth->h_proto) ? 4 : 0);

    if (push != pop) {
        if (bpf_xdp_adjust_head(ctx, push ? -4 : 4)) {
            return 0;
        }
        l2_len += push ? 4 : -4;
        data_end = (void *) (long) ctx->data_end;
        eth = data = (void *) (long) ctx->data;
        if ((void *) (eth + 1) > data_end) {
            return 0;
        }
        /* The last two bytes are where the type or a tag follows: those that
         * belong there are written next, or were there before. */
        *(__u32 *) eth->h_dest = (__u32) FIRST32(dst);
        *(__u16 *) (eth->h_dest + 4) = THIRD16(dst);
        *(__u32 *) eth->h_source = (__u32) FIRST32(src);
        *(__u16 *) (eth->h_source + 4) = THIRD16(src);
    }
    if (push) {
        if (data + 16 > data_end) {
            return 0;
        }
        eth->h_proto = edit->vlan_tpid;
        *(__u16 *) (data + 14) = edit->vlan_tci;
    }

    if (flags & XFT_F_ETH) {
        __u64 *word = (__u64 *) eth->h_dest;

        *word = (*word & ~edit->dl_dst_mask) | edit->dl_dst;
        word = (__u64 *) eth->h_source;
        *word = (*word & ~edit->dl_src_mask) | edit->dl_src;
    }

    l3 = data + (l2_len <= 22 ? l2_len : 22);
    if (flags & XFT_F_IPV4) {
        struct iphdr *ip = l3;
        __u64 *addresses;

        if ((void *) (ip + 1) > data_end) {
            return 1;
        }
        addresses = (void *) &ip->saddr;
        *addresses = (*addresses & ~edit->nw_mask) | edit->nw;
        ip->tos = (ip->tos & ~edit->nw_tos_mask) | edit->nw_tos;
        ip->ttl = (ip->ttl & ~edit->nw_ttl_mask) | edit->nw_ttl;
        if (edit->ip_delta) {
            ip->check = add_to_csum(ip->check, edit->ip_delta);
        }
        if (edit->l4_delta) {
            update_l4_csum(ip + 1, data_end, ip->protocol, false,
                           edit->l4_delta);
        }
    } else if (flags & XFT_F_IPV6) {
        struct ipv6hdr *ip = l3;
        __u64 *addresses;

        if ((void *) (ip + 1) > data_end) {
            return 1;
        }
        *(__u32 *) ip = (*(__u32 *) ip & ~edit->ipv6_flow_mask)
                        | edit->ipv6_flow;
        ip->hop_limit = (ip->hop_limit & ~edit->nw_ttl_mask) | edit->nw_ttl;
        addresses = (void *) &ip->saddr;
        for (int i = 0; i < 4; i++) {
            addresses[i] = (addresses[i] & ~edit->ipv6_mask[i])
                           | edit->ipv6[i];
        }
        if (edit->l4_delta) {
            update_l4_csum(ip + 1, data_end, ip->nexthdr, true,
                           edit->l4_delta);
        }
    }
    return 1;
}

/* Changes the key of a packet as edit_packet() will change the packet.
 * Returns false if it would have two tags. */
static __always_inline bool
edit_key(struct search *s, __u32 flags, const struct xft_edit *edit)
{
    bool push = flags & XFT_F_PUSH_VLAN, pop = flags & XFT_F_POP_VLAN;
    bool tagged = s->f.vlan_tci;

    if (push ? tagged && !pop : pop && !tagged) {
        return false;
    }
    if (push || pop) {
        s->f.vlan_tpid = push ? edit->vlan_tpid : 0;
        s->f.vlan_tci = push ? edit->vlan_tci | bpf_htons(VLAN_CFI_BIT) : 0;
        if (push && !tagged) {
            s->class <<= XFT_N_L4;
            s->len += 4;
        } else if (!push) {
            s->class >>= XFT_N_L4;
            s->len -= 4;
        }
    }
    if (flags & XFT_F_ETH) {
        s->p[0] = (s->p[0] & ~edit->dl_dst_mask) | edit->dl_dst;
        s->p[1] = (s->p[1] & ~edit->dl_src_mask) | edit->dl_src;
    }
    if (flags & XFT_F_IPV4) {
        s->p[2] = (s->p[2] & ~edit->nw_mask) | edit->nw;
        s->f.nw_tos = (s->f.nw_tos & ~edit->nw_tos_mask) | edit->nw_tos;
        s->f.nw_ttl = (s->f.nw_ttl & ~edit->nw_ttl_mask) | edit->nw_ttl;
    } else if (flags & XFT_F_IPV6) {
        const __u32 label = bpf_htonl(0x000fffff);
        __u8 tos_mask = bpf_ntohl(edit->ipv6_flow_mask) >> 20;
        __u8 tos = bpf_ntohl(edit->ipv6_flow) >> 20;

        s->f.nw_src = (s->f.nw_src & ~(edit->ipv6_flow_mask & label))
                      | (edit->ipv6_flow & label);
        s->f.nw_tos = (s->f.nw_tos & ~tos_mask) | tos;
        s->f.nw_ttl = (s->f.nw_ttl & ~edit->nw_ttl_mask) | edit->nw_ttl;
        s->p[5] = (s->p[5] & ~edit->ipv6_mask[0]) | edit->ipv6[0];
        s->p[6] = (s->p[6] & ~edit->ipv6_mask[1]) | edit->ipv6[1];
        s->p[7] = (s->p[7] & ~edit->ipv6_mask[2]) | edit->ipv6[2];
        s->p[8] = (s->p[8] & ~edit->ipv6_mask[3]) | edit->ipv6[3];
    }
    return true;
}

/* Fills 's' with the words of the packet in the tunnel.  Returns false for any
 * packet that is better left to netdev_pop_header(): all that it would drop,
 * and those with a UDP checksum or Geneve options. */
static __always_inline bool
extract_tunnel(const void *data, const void *data_end, struct search *s,
               const struct xft_edit *edit)
{
    const struct iphdr *ip = data + sizeof(struct ethhdr);
    const __u16 *words = (const void *) ip;
    const __u16 *udp = (const void *) (ip + 1);
    const __u32 *tunnel = (const void *) udp + L4_LEN;
    __u32 csum = 0, first, second;

    /* extract() has seen that there are neither options nor fragments. */
    if (s->family != XFT_IPV4 || s->f.vlan_tci
        || s->f.nw_proto != IPPROTO_UDP
        || data + TUNNEL_LEN > data_end
        || bpf_ntohs(ip->tot_len) < TUNNEL_LEN - sizeof(struct ethhdr)
        || udp[3]) {
        return false;
    }
    for (int i = 0; i < sizeof *ip / 2; i++) {
        csum += words[i];
    }
    csum = (csum & 0xffff) + (csum >> 16);
    if (((csum & 0xffff) + (csum >> 16)) != 0xffff) {
        return false;
    }

    first = bpf_ntohl(tunnel[0]);
    second = bpf_ntohl(tunnel[1]);
    if (edit->tunnel == XFT_TUNNEL_VXLAN
        ? first != VXLAN_FLAGS || second & 0xff
        : (first & GENEVE_NO_OAM) != GENEVE_ETHERNET) {
        return false;
    }

    s->f.tun_id = bpf_cpu_to_be64((__u64) second >> 8);
    s->f.tun_src = ip->saddr;
    s->f.tun_dst = ip->daddr;
    s->f.tun_flags = edit->tun_flags;
    if (ip->frag_off & bpf_htons(0x4000)) {
        s->f.tun_flags |= edit->tun_df_flag;
    }
    s->f.tun_tos = ip->tos;
    s->f.tun_ttl = ip->ttl;
    s->f.tun_tp_src = udp[0];
    s->f.tun_tp_dst = udp[1];
    s->len -= TUNNEL_LEN;
    if (!extract(data + TUNNEL_LEN, data_end, s)) {
        return false;
    }
    s->l4_offset += TUNNEL_LEN;
    return true;
}

/* Returns 'sum' and the sum of 'len' bytes from 'p' on, at most 63, or -1 if
 * they are not all in the packet. */
__attribute__((noinline)) long
add_last_bytes(struct xdp_md *ctx, __u32 offset, __u32 len, __u64 sum)
{
    const void *data_end = (const void *) (long) ctx->data_end;
    const void *p = (const void *) (long) ctx->data;

    if (offset > MAX_CSUM_LEN + 256 || len > 63) {
        return -1;
    }
    p += offset;
    for (int i = 0; i < 31 && len >= 2; i++) {
        KEEP(data_end);
        if (p + 2 > data_end) {
            return -1;
        }
        sum += *(const __u16 *) p;
        p += 2;
        len -= 2;
    }
    if (len) {
        if (p + 1 > data_end) {
            return -1;
        }
        sum += BYTES16(*(const __u8 *) p, 0);
    }
    return sum;
}

/* Returns the checksum of 'len' bytes from 'offset' on, as that of IP is
 * calculated, with 'sum' added to it, or -1 if they are not all in the
 * packet. */
__attribute__((noinline)) int
csum(struct xdp_md *ctx, __u32 offset, __u32 len, __u64 sum)
{
    const void *data_end = (const void *) (long) ctx->data_end;
    const void *p = (const void *) (long) ctx->data;
    long total;

    if (offset > 256 || len > MAX_CSUM_LEN) {
        return -1;
    }
    sum &= 0xffffffff;
    p += offset;
    for (int i = 0; i < MAX_CSUM_LEN / 64 && len >= 64; i++) {
        const __u64 *words = p;

        KEEP(data_end);
        if (p + 64 > data_end) {
            return -1;
        }
        for (int j = 0; j < 8; j++) {
            sum += (__u32) words[j];
            sum += words[j] >> 32;
        }
        p += 64;
        offset += 64;
        len -= 64;
    }
    total = add_last_bytes(ctx, offset, len, sum);
    if (total < 0) {
        return -1;
    }
    sum = total;
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

/* Whether the connection tracker would take the checksums and lengths of a TCP
 * or UDP packet for right.  Returns 1 if so, otherwise 0. */
__attribute__((noinline)) int
is_valid(struct xdp_md *ctx, const struct search *s)
{
    const void *data_end = (const void *) (long) ctx->data_end;
    const void *data = (const void *) (long) ctx->data;
    __u32 offset, len, l3_len, ip_sum = 0;
    __u64 sum;
    const void *l3, *l4;
    bool ipv6, udp;

    if (!s) {
        return 0;
    }
    ipv6 = xft_family_is_ipv6(s->family);
    udp = s->f.nw_proto == IPPROTO_UDP;
    offset = s->l4_offset;
    len = s->l4_len;
    l3_len = ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
    if (offset > 200 || offset < 34) {
        return 0;
    }
    l4 = data + offset;
    if (l4 + L4_LEN > data_end) {
        return 0;
    }
    if (udp) {
        __u16 udp_len = bpf_ntohs(*(const __u16 *) (l4 + 4));

        if (udp_len < L4_LEN || udp_len > len) {
            return 0;
        }
    }
    if (!*(const __u16 *) l4 || !*(const __u16 *) (l4 + 2)) {
        return 0;
    }

    /* Of the pseudo header. */
    sum = bpf_htons(s->f.nw_proto) + bpf_htons(len);
    offset = s->l4_offset - l3_len;
    if (offset > 200) {
        return 0;
    }
    l3 = data + offset;
    if (ipv6) {
        const __u32 *words = l3 + 8;

        if (l3 + sizeof(struct ipv6hdr) > data_end) {
            return 0;
        }
        for (int i = 0; i < 8; i++) {
            sum += words[i];
        }
    } else {
        const __u16 *words = l3;

        if (l3 + sizeof(struct iphdr) > data_end) {
            return 0;
        }
        for (int i = 0; i < 10; i++) {
            ip_sum += words[i];
        }
        ip_sum = (ip_sum & 0xffff) + (ip_sum >> 16);
        if (((ip_sum & 0xffff) + (ip_sum >> 16)) != 0xffff) {
            return 0;
        }
        sum += *(const __u32 *) (l3 + 12);
        sum += *(const __u32 *) (l3 + 16);
        l4 = l3 + sizeof(struct iphdr);
        if (udp && l4 + L4_LEN <= data_end && !*(const __u16 *) (l4 + 6)) {
            return 1;
        }
    }
    sum = (sum & 0xffffffff) + (sum >> 32);
    return csum(ctx, s->l4_offset, len, (sum & 0xffffffff) + (sum >> 32)) == 0;
}

/* Whether tcp_conn_update() would take a packet in direction 'dir' for one of
 * an established connection that ends nothing.  If so remembers what it tells,
 * and returns 1, otherwise 0. */
__attribute__((noinline)) int
update_tcp(struct xdp_md *ctx, const struct search *s, __u32 index, __u32 dir)
{
    const void *data_end = (const void *) (long) ctx->data_end;
    const void *data = (const void *) (long) ctx->data;
    struct xft_conn *conn = bpf_map_lookup_elem(&conns, &index);
    volatile struct xft_peer *src, *dst;
    __u32 seq, ack, end, win, offset, sws, dws;
    const struct tcphdr *tcp;
    __s32 ackskew;
    __u8 flags;

    if (!s || !conn) {
        return 0;
    }
    offset = s->l4_offset;
    if (offset > 200) {
        return 0;
    }
    tcp = data + offset;
    if ((const void *) (tcp + 1) > data_end) {
        return 0;
    }
    flags = ((const __u8 *) tcp)[13];
    if (flags & TCP_FLAGS_OTHER || !(flags & TCP_FLAG_ACK)) {
        return 0;
    }
    src = dir & 1 ? &conn->peers[1] : &conn->peers[0];
    dst = dir & 1 ? &conn->peers[0] : &conn->peers[1];
    sws = src->shift & 15;
    dws = dst->shift & 15;
    win = bpf_ntohs(tcp->window);
    seq = bpf_ntohl(tcp->seq);
    ack = bpf_ntohl(tcp->ack_seq);
    end = seq + s->l4_len - (((const __u8 *) tcp)[12] >> 4 << 2);
    if (seq == end) {
        seq = end = src->seqlo;
    }
    ackskew = dst->seqlo - ack;
    if ((__s32) (src->seqhi - end) < 0
        || (__s32) (seq - (src->seqlo - ((__u32) dst->max_win << dws))) < 0
        || ackskew < -MAXACKWINDOW
        || ackskew > MAXACKWINDOW << sws) {
        return 0;
    }
    if (src->max_win < win) {
        src->max_win = win;
    }
    if ((__s32) (end - src->seqlo) > 0) {
        src->seqlo = end;
    }
    win <<= sws;
    if ((__s32) (ack + win - dst->seqhi) >= 0) {
        dst->seqhi = ack + (win ? win : 1);
    }
    return 1;
}

/* Tracks a packet of an established connection, of which 'key' is to be a
 * scratch area.  Returns 1 if successful, otherwise 0, for what is better left
 * to the connection tracker. */
static __always_inline int
track(struct xdp_md *ctx, struct search *s, __u16 zone,
      struct xft_conn_key *key)
{
    const __u64 *words = (const __u64 *) key, *other;
    struct xft_conn *conn;
    __u32 *value, index, dir;
    bool ipv6 = xft_family_is_ipv6(s->family);
    __u64 differ = 0;
    __u8 state;

    if ((s->f.nw_proto != IPPROTO_TCP && s->f.nw_proto != IPPROTO_UDP)
        || (s->f.ct_state && s->f.ct_zone == zone)) {
        return 0;
    }
    if (ipv6) {
        *(__u64 *) &key->src[0] = s->p[5];
        *(__u64 *) &key->src[2] = s->p[6];
        *(__u64 *) &key->dst[0] = s->p[7];
        *(__u64 *) &key->dst[2] = s->p[8];
    } else {
        *(__u64 *) &key->src[0] = WORD32(s->f.nw_src, 0);
        *(__u64 *) &key->src[2] = 0;
        *(__u64 *) &key->dst[0] = WORD32(s->f.nw_dst, 0);
        *(__u64 *) &key->dst[2] = 0;
    }
    key->tp_src = s->f.tp_src;
    key->tp_dst = s->f.tp_dst;
    key->zone = zone;
    key->nw_proto = s->f.nw_proto;
    key->ipv6 = ipv6;

    value = bpf_map_lookup_elem(&conn_index, key);
    if (!value) {
        return 0;
    }
    index = *value >> 1;
    dir = *value & 1;
    conn = bpf_map_lookup_elem(&conns, &index);
    if (!conn) {
        return 0;
    }
    other = (const __u64 *) (dir ? &conn->key[1] : &conn->key[0]);
    for (int i = 0; i < sizeof *key / 8; i++) {
        differ |= words[i] ^ other[i];
    }
    state = *(volatile __u8 *) (dir ? &conn->ct_state[1] : &conn->ct_state[0]);
    if (differ || !state || !is_valid(ctx, s)
        || (s->f.nw_proto == IPPROTO_TCP
            && !update_tcp(ctx, s, index, dir))) {
        return 0;
    }
    *(dir ? &conn->used[1] : &conn->used[0]) = bpf_ktime_get_coarse_ns()
                                               >> XFT_USED_SHIFT;
    ++*(dir ? &conn->packets[1] : &conn->packets[0]);
    s->f.ct_state = state;
    s->f.ct_zone = zone;
    s->f.ct_mark = conn->mark;
    return 1;
}

/* Flows that a packet met, one after the other. */
struct walk {
    struct xft_met met[XFT_MAX_LOOKUPS];
    union xft_action action[XFT_MAX_LOOKUPS];
    __u64 tcp_flags[XFT_MAX_LOOKUPS];   /* As in word 4. */
    __u32 n;
    __u32 flags;                        /* Of all actions. */
    struct xft_conn_key key;            /* Of a connection. */
};

/* The stack has no room for it. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct walk);
} walks SEC(".maps");

/* Makes 's' what is looked up after 'action', and leaves the packet as it is.
 * Returns 1 if successful, otherwise 0. */
__attribute__((noinline)) int
prepare_again(struct xdp_md *ctx, struct search *s)
{
    const struct xft_edit *edit;
    __u32 flags, index, zero = 0;
    struct walk *w;

    w = bpf_map_lookup_elem(&walks, &zero);
    if (!s || !w) {
        return 0;
    }
    flags = s->action.flags;
    index = s->action.edit;
    edit = bpf_map_lookup_elem(&edits, &index);
    if (!edit) {
        return 0;
    }
    if (flags & XFT_F_TUNNEL_POP) {
        if (!extract_tunnel((const void *) (long) ctx->data,
                            (const void *) (long) ctx->data_end, s, edit)) {
            return 0;
        }
    } else if (!edit_key(s, flags, edit)
               || (flags & XFT_F_CT
                   && !track(ctx, s, edit->ct_zone, &w->key))) {
        return 0;
    }
    s->f.recirc_id = edit->recirc_id;
    s->f.in_port = edit->in_port;
    s->family |= XFT_IPV4_AGAIN;
    return 1;
}

/* Does with the packet what the flows say.  Returns 1 if successful, otherwise
 * 0, and the packet is as it was. */
__attribute__((noinline)) int
edit_packet_again(struct xdp_md *ctx, const struct walk *w)
{
    if (!w) {
        return 0;
    }
    /* Nothing may go wrong once the packet has been changed. */
    if ((w->flags & (XFT_F_PUSH_VLAN | XFT_F_TUNNEL_POP)) == XFT_F_PUSH_VLAN) {
        if (bpf_xdp_adjust_head(ctx, -4 * XFT_MAX_LOOKUPS)
            || bpf_xdp_adjust_head(ctx, 4 * XFT_MAX_LOOKUPS)) {
            return 0;
        }
    }
    for (int i = 0; i < XFT_MAX_LOOKUPS; i++) {
        if (i >= w->n) {
            break;
        }
        if (w->action[i].flags & XFT_F_TUNNEL_POP) {
            if (bpf_xdp_adjust_head(ctx, TUNNEL_LEN)) {
                return 0;
            }
        } else if (w->action[i].flags & XFT_F_EDIT
                   && !edit_packet(ctx, w->action[i].flags,
                                   w->action[i].edit)) {
            return 0;
        }
    }
    return 1;
}

/* Returns true if packets of that length may be sent to an output, and that it
 * is the one. */
static __always_inline bool
can_send(__u32 index, __u32 len)
{
    const volatile struct xft_output *output;

    output = bpf_map_lookup_elem(&outputs, &index);
    return output && len <= output->max_len && !output->error
           && bpf_redirect_map(&output_devs, index, XDP_PASS) == XDP_REDIRECT;
}

/* By how much the tags that an action pushes and pops change the length. */
static __always_inline __u32
tags_len(__u32 flags)
{
    return (flags & XFT_F_PUSH_VLAN ? 4 : 0)
           - (flags & XFT_F_POP_VLAN ? 4 : 0);
}

/* Counts a packet for a flow. */
static __always_inline void
count_for_flow(__u32 index, __u32 queue, __u32 len, __u64 tcp_flags)
{
    struct xft_entry *entry = bpf_map_lookup_elem(&entries, &index);

    if (entry) {
        struct xft_stats *stats = &entry->stats[queue];

        stats->packets++;
        stats->bytes += len;
        stats->used = bpf_ktime_get_coarse_ns();
        if (tcp_flags) {
            stats->word4 |= tcp_flags;
        }
    }
}

/* Notes that a packet is about to be put into the queue of an output.  Returns
 * where the flows that it met are to be written, or NULL. */
static __always_inline struct xft_sent *
log_sent(__u32 output, __u32 n_met)
{
    struct xft_progress *p = bpf_map_lookup_elem(&progress, &output);
    struct xft_sent_log *log;
    __u32 zero = 0;

    log = bpf_map_lookup_elem(&sent_log, &zero);
    if (log && p) {
        struct xft_sent *sent = &log->sent[log->head++ % XFT_N_SENT];

        sent->number = p->queued++;
        sent->output = output;
        sent->from = config.port;
        sent->n_met = n_met;
        return sent;
    }
    return NULL;
}

/* Looks a packet up again, of which 's' was found with an action that says so.
 * Only if the last of its flows is there, something is done with the packet,
 * and counted.  Returns what the program returns, or 0 if the packet goes to
 * the socket. */
__attribute__((noinline)) int
look_again(struct xdp_md *ctx, struct search *s, __u32 queue)
{
    struct xft_counters *count;
    struct xft_sent *sent = NULL;
    struct walk *w;
    __u32 zero = 0;

    w = bpf_map_lookup_elem(&walks, &zero);
    if (!s || !w || queue >= XFT_MAX_QUEUES || queue >= config.n_queues) {
        return 0;
    }
    count = &counters[queue];
    s->len = ctx->data_end - ctx->data;

    w->flags = 0;
    for (int i = 0; i < XFT_MAX_LOOKUPS; i++) {
        w->met[i].entry = s->entry;
        w->met[i].len = s->len;
        w->action[i] = s->action;
        w->tcp_flags[i] = s->p[4] & WORD16(0, 0xffff, 0, 0);
        w->n = i + 1;
        w->flags |= s->action.flags;
        if (!(s->action.flags & XFT_F_AGAIN)) {
            break;
        }
        if (i == XFT_MAX_LOOKUPS - 1 || !prepare_again(ctx, s)) {
            count->undecided++;
            return 0;
        }
        if (!(xft_family_is_ipv6(s->family) ? lookup_ipv6_again(s)
              : lookup_ipv4_again(s))) {
            count->misses++;
            return 0;
        }
    }

    if (!(s->action.flags & XFT_F_DROP)
        && (!can_send(s->action.output, s->len + tags_len(s->action.flags))
            || !edit_packet_again(ctx, w))) {
        count->unsendable++;
        return 0;
    }

    count->packets++;
    count->bytes += w->met[0].len;
    count->recirculated++;
    if (!(s->action.flags & XFT_F_DROP)) {
        sent = log_sent(s->action.output, w->n);
    }
    for (int i = 0; i < XFT_MAX_LOOKUPS; i++) {
        if (i >= w->n) {
            break;
        }
        count_for_flow(w->met[i].entry, queue, w->met[i].len,
                       w->tcp_flags[i]);
        if (sent) {
            sent->met[i] = w->met[i];
        }
    }
    return s->action.flags & XFT_F_DROP ? XDP_DROP : XDP_REDIRECT;
}

static __always_inline int
flow_table(struct xdp_md *ctx)
{
    const void *data_end = (const void *) (long) ctx->data_end;
    const void *data = (const void *) (long) ctx->data;
    __u32 queue = ctx->rx_queue_index;
    __u32 len = data_end - data;
    struct xft_counters *count;
    struct xft_sent *sent;
    union xft_action action;
    bool found;

    /* A queue that no socket serves is the kernel's. */
    if (queue >= XFT_MAX_QUEUES || queue >= config.n_queues) {
        return XDP_PASS;
    }
    count = &counters[queue];

    if (!has_masks(XFT_IPV4) && !has_masks(XFT_IPV6)) {
        count->misses++;
    } else {
        struct search search = { .p = { 0 } };

        if (!extract(data, data_end, &search)) {
            count->undecided++;
            goto socket;
        }

        found = (search.family == XFT_IPV4 ? lookup_ipv4(&search)
                 : lookup_ipv6(&search));
        if (!found) {
            count->misses++;
            goto socket;
        }

        action = search.action;
        if (action.flags & XFT_F_AGAIN) {
            int result = look_again(ctx, &search, queue);

            if (result) {
                return result;
            }
            goto socket;
        }
        if (!(action.flags & XFT_F_DROP)
            && (!can_send(action.output, len + tags_len(action.flags))
                || (action.flags & XFT_F_EDIT
                    && !edit_packet(ctx, action.flags, action.edit)))) {
            count->unsendable++;
            goto socket;
        }

        count->packets++;
        count->bytes += len;
        count_for_flow(search.entry, queue, len,
                       search.p[4] & WORD16(0, 0xffff, 0, 0));
        if (action.flags & XFT_F_DROP) {
            return XDP_DROP;
        }
        sent = log_sent(action.output, 1);
        if (sent) {
            sent->met[0].entry = search.entry;
            sent->met[0].len = len;
        }
        return XDP_REDIRECT;
    }

socket:
    return bpf_redirect_map(&xsks, queue, XDP_PASS);
}

SEC("xdp")
int
ovs_flow_table(struct xdp_md *ctx)
{
    return flow_table(ctx);
}

/* Linux 6.8.  Tells the VLAN tag that is beside a packet, if there is one. */
extern int
bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *vlan_proto,
                             __u16 *vlan_tci) __ksym __weak;

/* Puts a VLAN tag into a packet.  Returns false if there is no room. */
static __always_inline bool
put_tag(struct xdp_md *ctx, __be16 tpid, __u16 tci)
{
    const void *data_end;
    __u32 *words;
    __u16 *tag;

    if (bpf_xdp_adjust_head(ctx, -4)) {
        return false;
    }
    words = (void *) (long) ctx->data;
    data_end = (const void *) (long) ctx->data_end;
    tag = (void *) &words[3];
    if ((const void *) &tag[3] > data_end) {
        return false;
    }
    words[0] = words[1];
    words[1] = words[2];
    words[2] = words[3];
    tag[0] = tpid;
    tag[1] = bpf_htons(tci);
    return true;
}

/* The same, where VLAN tags may be beside packets: of the device that it is
 * loaded for only. */
SEC("xdp")
int
ovs_flow_tags(struct xdp_md *ctx)
{
    __u32 queue = ctx->rx_queue_index;
    __be16 tpid = 0;
    __u16 tci = 0;

    /* The network stack, which gets what has no socket, looks for a tag where
     * it is.  Without it this would be a packet of another VLAN. */
    if (!bpf_xdp_metadata_rx_vlan_tag(ctx, &tpid, &tci)
        && bpf_map_lookup_elem(&xsks, &queue)
        && !put_tag(ctx, tpid, tci)) {
        return XDP_DROP;
    }
    return flow_table(ctx);
}

/* The programs below watch what becomes of packets, on the CPU that has put
 * them into the queue of a device, and before it leaves NAPI. */

volatile struct xft_watch_config watch_config SEC(".data.watch");

struct net {
    struct {
        unsigned int inum;
    } ns;
} __attribute__((preserve_access_index));

struct net_device {
    int ifindex;
    struct {
        struct net *net;
    } nd_net;
} __attribute__((preserve_access_index));

/* A packet was not sent after all. */
static __always_inline void
lose(const struct xft_sent *sent)
{
    __u32 from = sent->from;
    struct xft_output *port;
    void *flows;

    port = bpf_map_lookup_elem(&outputs, &from);
    if (port) {
        __sync_fetch_and_add(&port->lost_packets, 1);
        __sync_fetch_and_add(&port->lost_bytes, sent->met[0].len);
    }
    flows = bpf_map_lookup_elem(&lost, &from);
    if (!flows) {
        return;
    }
    for (int i = 0; i < XFT_MAX_LOOKUPS && i < sent->n_met; i++) {
        __u32 entry = sent->met[i].entry;
        struct xft_lost *flow = bpf_map_lookup_elem(flows, &entry);

        if (flow) {
            __sync_fetch_and_add(&flow->packets, 1);
            __sync_fetch_and_add(&flow->bytes, sent->met[i].len);
        }
    }
}

/* No packets are sent to a device that refuses them, until ovs-vswitchd has
 * looked at it. */
static __always_inline void
refuse(__u32 index, __u32 n, int err)
{
    struct xft_output *output = bpf_map_lookup_elem(&outputs, &index);

    if (output) {
        __sync_fetch_and_add(&output->n_refused, n);
        if (err < 0) {
            output->error = -err;
        }
    }
}

/* Loses the packet before the last 'i' - 1 ones of 'log' if it is one of 'n'
 * for output 'index', of which 'first' is the first.  Returns true when it is
 * that one.
 *
 * A function of its own, as Linux up to 6.2 takes no loop that ends in another
 * instruction than a branch, which compilers make when they see it all. */
static __attribute__((noinline)) bool
lose_one(const struct xft_sent_log *log, __u32 i, __u32 index, __u32 first,
         __u32 n)
{
    const struct xft_sent *s = &log->sent[(log->head - i) % XFT_N_SENT];

    if (s->output != index || s->number - first >= n) {
        return false;
    }
    lose(s);
    return s->number == first;
}

SEC("tp_btf/xdp_devmap_xmit")
int
BPF_PROG(ovs_flow_xmit, const struct net_device *from,
         const struct net_device *to, int sent, int drops, int err)
{
    __u32 ifindex = BPF_CORE_READ(to, ifindex);
    struct xft_sent_log *log;
    struct xft_progress *p;
    __u32 *output, index, first, end, zero = 0;

    output = bpf_map_lookup_elem(&output_of_ifindex, &ifindex);
    if (!output || BPF_CORE_READ(to, nd_net.net, ns.inum)
                   != watch_config.netns) {
        return 0;
    }
    index = *output;
    p = bpf_map_lookup_elem(&progress, &index);
    log = bpf_map_lookup_elem(&sent_log, &zero);
    if (!p || !log) {
        return 0;
    }

    /* Others may send to the device, too. */
    first = p->flushed + sent;
    end = first + drops;
    if ((__s32) (end - p->queued) > 0) {
        end = p->queued;
    }
    p->flushed = end;
    if (drops <= 0) {
        return 0;
    }

    refuse(index, drops, err);
    for (__u32 i = 1; i <= XFT_N_SENT; i++) {
        if (lose_one(log, i, index, first, end - first)) {
            break;
        }
    }
    return 0;
}

SEC("tp_btf/xdp_redirect_err")
int
BPF_PROG(ovs_flow_redirect_err, const struct net_device *dev,
         const void *xdp, const void *tgt, int err, int map_type,
         __u32 map_id, __u32 index)
{
    struct xft_sent_log *log;
    struct xft_progress *p;
    struct xft_sent *s;
    __u32 zero = 0;

    if (map_id != watch_config.output_devs_id) {
        return 0;
    }
    p = bpf_map_lookup_elem(&progress, &index);
    log = bpf_map_lookup_elem(&sent_log, &zero);
    if (!p || !log) {
        return 0;
    }
    s = &log->sent[(log->head - 1) % XFT_N_SENT];
    if (s->output == index && s->number == p->queued - 1) {
        lose(s);
        p->queued--;
        log->head--;
    }

    /* These two are about the packet. */
    refuse(index, 1, err == -EMSGSIZE || err == -EOVERFLOW ? 0 : err);
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
