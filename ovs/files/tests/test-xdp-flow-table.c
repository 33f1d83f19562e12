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

/* Runs the XDP program of netdev-afxdp on packets, with flows that drop them.
 * Needs root. */

#include <config.h>
#undef NDEBUG

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>

#include "csum.h"
#include "ovstest.h"
#include "packets.h"
#include "util.h"
#include "xdp-flow-table.h"

#define N_ENTRIES 16384
#define MISS XDP_PASS           /* As no queue has a socket. */
#define HIT XDP_DROP

static struct xdp_flow_table *
new_table(void)
{
    struct xdp_flow_table *t = xdp_flow_table_create("test");
    int error;

    error = xdp_flow_table_load(t, 1, N_ENTRIES, XFT_MAX_MASKS, 0);
    if (error) {
        ovs_fatal(error, "cannot load the XDP program");
    }
    return t;
}

struct flows {
    struct xdp_flow_table *t;
    struct xdp_flow *flows[N_ENTRIES];
    int n;
};

static void
flows_destroy(struct flows *f)
{
    struct xdp_flow_stats stats;

    while (f->n) {
        xdp_flow_delete(f->flows[--f->n], &stats);
    }
    xdp_flow_table_destroy(f->t);
}

/* Adds a flow that drops packets. */
static void
flow_add(struct flows *f, const struct xdp_flow_match *match)
{
    struct xdp_flow_action action;
    int error;

    memset(&action, 0, sizeof action);
    error = xdp_flow_add(f->t, match, &action, &f->flows[f->n]);
    if (error) {
        ovs_fatal(error, "flow %d", f->n);
    }
    f->n++;
}

/* Runs the program on a packet 'n' times.  Returns what it did, and stores how
 * long it took in '*ns' if that is not NULL. */
static uint32_t
run(const struct flows *f, const void *packet, size_t size, int n,
    uint32_t *ns)
{
    LIBBPF_OPTS(bpf_test_run_opts, opts,
                .data_in = packet, .data_size_in = size, .repeat = n);
    int error = bpf_prog_test_run_opts(xdp_flow_table_program_fd(f->t), &opts);

    if (error) {
        ovs_fatal(errno, "BPF_PROG_TEST_RUN");
    }
    if (ns) {
        *ns = opts.duration;
    }
    return opts.retval;
}

/* A UDP packet over IPv4, 60 bytes long, and a match on all its fields. */
struct packet {
    struct eth_header eth;
    struct ip_header ip;
    struct udp_header udp;
    uint8_t data[18];
};

static void
packet_init(struct packet *p)
{
    memset(p, 0, sizeof *p);
    memset(&p->eth.eth_dst, 0x02, sizeof p->eth.eth_dst);
    memset(&p->eth.eth_src, 0x06, sizeof p->eth.eth_src);
    p->eth.eth_type = htons(ETH_TYPE_IP);
    p->ip.ip_ihl_ver = IP_IHL_VER(5, 4);
    p->ip.ip_tot_len = htons(sizeof *p - sizeof p->eth);
    p->ip.ip_ttl = 64;
    p->ip.ip_proto = IPPROTO_UDP;
    put_16aligned_be32(&p->ip.ip_src, htonl(0x0a000001));
    put_16aligned_be32(&p->ip.ip_dst, htonl(0x0a000002));
    p->udp.udp_src = htons(1);
    p->udp.udp_dst = htons(2);
    p->udp.udp_len = htons(sizeof p->udp + sizeof p->data);
}

static void
match_init(struct xdp_flow_match *m, const struct packet *p)
{
    struct xft_fields *f = &m->key.f;

    memset(m, 0, sizeof *m);
    m->family = XFT_IPV4;
    memcpy(f->dl_dst, &p->eth.eth_dst, sizeof f->dl_dst);
    memcpy(f->dl_src, &p->eth.eth_src, sizeof f->dl_src);
    f->dl_type = (OVS_FORCE uint16_t) p->eth.eth_type;
    memcpy(&f->nw_src, &p->ip.ip_src, sizeof f->nw_src);
    memcpy(&f->nw_dst, &p->ip.ip_dst, sizeof f->nw_dst);
    f->tp_src = (OVS_FORCE uint16_t) p->udp.udp_src;
    f->tp_dst = (OVS_FORCE uint16_t) p->udp.udp_dst;
    f->nw_proto = p->ip.ip_proto;
    f->nw_ttl = p->ip.ip_ttl;
    memset(&m->mask, 0xff, sizeof m->mask);
    m->mask.f.zero = 0;
    m->mask.f.mask_id = 0;
    memset(m->mask.f.ipv6_src, 0, sizeof m->mask.f.ipv6_src);
    memset(m->mask.f.ipv6_dst, 0, sizeof m->mask.f.ipv6_dst);
    m->mask.f.recirc_id = m->mask.f.in_port = 0;
    m->mask.f.ct_zero = 0;
}

static void
test_parser(void)
{
    struct flows f = { .t = new_table() };
    struct xdp_flow_match match;
    struct packet p, q;

    packet_init(&p);
    ovs_assert(run(&f, &p, sizeof p, 1, NULL) == MISS);
    match_init(&match, &p);
    flow_add(&f, &match);
    ovs_assert(run(&f, &p, sizeof p, 1, NULL) == HIT);

#define EXPECT_MISS(CHANGE)                                 \
    q = p;                                                  \
    CHANGE;                                                 \
    ovs_assert(run(&f, &q, sizeof q, 1, NULL) == MISS)
    EXPECT_MISS(q.eth.eth_dst.ea[5]++);
    EXPECT_MISS(q.eth.eth_src.ea[0]++);
    EXPECT_MISS(q.eth.eth_type = htons(ETH_TYPE_ARP));
    EXPECT_MISS(q.eth.eth_type = htons(ETH_TYPE_VLAN));
    EXPECT_MISS(q.eth.eth_type = htons(100));
    EXPECT_MISS(q.ip.ip_ihl_ver = IP_IHL_VER(6, 4));
    EXPECT_MISS(q.ip.ip_frag_off = htons(IP_MORE_FRAGMENTS));
    EXPECT_MISS(q.ip.ip_frag_off = htons(1));
    EXPECT_MISS(q.ip.ip_tot_len = htons(sizeof q));
    EXPECT_MISS(q.ip.ip_tot_len = htons(27));
    EXPECT_MISS(q.ip.ip_ttl--);
    EXPECT_MISS(q.ip.ip_tos++);
    EXPECT_MISS(q.ip.ip_proto = IPPROTO_TCP);
    EXPECT_MISS(q.ip.ip_proto = IPPROTO_IGMP);
    EXPECT_MISS(q.udp.udp_src = htons(3));
    EXPECT_MISS(q.udp.udp_dst = htons(3));
#undef EXPECT_MISS

    /* Neither of them is in the key. */
    q = p;
    q.ip.ip_id = htons(7);
    q.ip.ip_frag_off = htons(IP_DONT_FRAGMENT);
    ovs_assert(run(&f, &q, sizeof q, 1, NULL) == HIT);
    flows_destroy(&f);
}

/* All flows of 64 times 64 values of two bytes of the key find room. */
static void
test_addresses(enum xft_family family, size_t a, size_t b)
{
    struct flows f = { .t = new_table() };
    struct xdp_flow_match match;

    memset(&match, 0, sizeof match);
    match.family = family;
    memset(&match.mask, 0xff, sizeof match.mask);
    match.mask.f.mask_id = 0;
    match.key.f.dl_type = (OVS_FORCE uint16_t) htons(
        family == XFT_IPV6 ? ETH_TYPE_IPV6 : ETH_TYPE_IP);
    for (int i = 0; i < 64; i++) {
        for (int j = 0; j < 64; j++) {
            ((uint8_t *) &match.key)[a] = i;
            ((uint8_t *) &match.key)[b] = j;
            flow_add(&f, &match);
        }
    }
    flows_destroy(&f);
}

#define BYTE(FIELD, N) (offsetof(struct xft_fields, FIELD) + (N))

/* Whoever does not know the secret cannot fill the bucket of another flow: not
 * by the first bits of words, nor by any other two in the same place. */
static void
test_bit_flips(void)
{
    static const size_t words[] = { 1, 5, 6, 7, 8 };

    for (int bit = 0; bit < 64; bit += 7) {
        struct flows f = { .t = new_table() };
        struct xdp_flow_match match;

        memset(&match, 0, sizeof match);
        match.family = XFT_IPV6;
        memset(&match.mask, 0xff, sizeof match.mask);
        match.mask.f.mask_id = 0;
        for (int flips = 0; flips < 1 << ARRAY_SIZE(words); flips++) {
            for (int i = 0; i < ARRAY_SIZE(words); i++) {
                match.key.w[words[i]] = flips & 1 << i ? 1ULL << bit : 0;
            }
            flow_add(&f, &match);
        }
        flows_destroy(&f);
    }
}

/* A packet that has flows of other classes only is looked up in no mask, and
 * one of a class that there is no flow of any more neither. */
static void
test_masks(void)
{
    struct flows f = { .t = new_table() };
    struct xdp_flow_match match;
    struct xdp_flow_stats stats;
    struct packet p;

    packet_init(&p);
    match_init(&match, &p);
    for (int i = 0; i < XFT_MAX_MASKS; i++) {
        match.mask.f.nw_ttl = i;
        match.key.f.nw_ttl = i & 64;
        match.mask.f.tp_src = (OVS_FORCE uint16_t) htons(i == 63 ? 0 : 0xffff);
        match.key.f.tp_src = (OVS_FORCE uint16_t) htons(i == 63 ? 0 : 5);
        flow_add(&f, &match);
    }
    ovs_assert(run(&f, &p, sizeof p, 1, NULL) == HIT);
    xdp_flow_delete(f.flows[--f.n], &stats);
    ovs_assert(stats.n_packets == 1);
    ovs_assert(stats.n_bytes == sizeof p);
    ovs_assert(run(&f, &p, sizeof p, 1, NULL) == MISS);
    match.mask.f.nw_proto = match.key.f.nw_proto = 0;
    flow_add(&f, &match);
    ovs_assert(run(&f, &p, sizeof p, 1, NULL) == HIT);
    flows_destroy(&f);
}

/* Adds a flow that looks packets up again. */
static void
flow_add_again(struct flows *f, const struct xdp_flow_match *match,
               uint16_t flags, const struct xft_edit *edit)
{
    struct xdp_flow_action action;

    memset(&action, 0, sizeof action);
    action.edit_flags = XFT_F_AGAIN | flags;
    action.edit = *edit;
    ovs_assert(!xdp_flow_add(f->t, match, &action, &f->flows[f->n++]));
}

/* Makes a match one of packets that are looked up again. */
static void
match_again(struct xdp_flow_match *match, uint32_t recirc_id)
{
    match->family = XFT_IPV4_AGAIN;
    match->key.f.recirc_id = recirc_id;
    match->mask.f.recirc_id = UINT32_MAX;
}

/* A packet meets flows one after the other, each as those before have changed
 * it, and is counted by all of them if the last one is there, else by none. */
static void
test_again(void)
{
    struct flows f = { .t = new_table() };
    struct xdp_flow_counters counters;
    struct xdp_flow_match match;
    struct xdp_flow_stats stats;
    struct xft_edit edit;
    struct packet p;

    packet_init(&p);
    match_init(&match, &p);
    memset(&edit, 0, sizeof edit);
    edit.recirc_id = 1;
    edit.vlan_tpid = (OVS_FORCE uint16_t) htons(ETH_TYPE_VLAN_8021Q);
    edit.vlan_tci = (OVS_FORCE uint16_t) htons(5);
    flow_add_again(&f, &match, XFT_F_PUSH_VLAN, &edit);
    ovs_assert(run(&f, &p, sizeof p, 1, NULL) == MISS);

    match_again(&match, 1);
    match.key.f.vlan_tpid = edit.vlan_tpid;
    match.key.f.vlan_tci = edit.vlan_tci | htons(VLAN_CFI);
    edit.recirc_id = 2;
    edit.nw_ttl = 7;
    edit.nw_ttl_mask = UINT8_MAX;
    flow_add_again(&f, &match, XFT_F_IPV4 | XFT_F_POP_VLAN, &edit);
    ovs_assert(run(&f, &p, sizeof p, 1, NULL) == MISS);

    match_init(&match, &p);
    match_again(&match, 2);
    match.key.f.nw_ttl = 7;
    flow_add(&f, &match);
    ovs_assert(run(&f, &p, sizeof p, 1, NULL) == HIT);
    p.udp.udp_src = htons(3);
    ovs_assert(run(&f, &p, sizeof p, 1, NULL) == MISS);

    for (int i = 0; i < 3; i++) {
        xdp_flow_get_stats(f.flows[i], 0, &stats);
        ovs_assert(stats.n_packets == 1);
        ovs_assert(stats.n_bytes == sizeof p + (i == 1 ? 4 : 0));
    }
    xdp_flow_table_get_counters(f.t, &counters);
    ovs_assert(counters.packets == 1);
    ovs_assert(counters.recirculated == 1);
    ovs_assert(counters.misses == 3);

    /* No more than three flows. */
    edit.recirc_id = 3;
    match_again(&match, 2);
    xdp_flow_delete(f.flows[--f.n], &stats);
    flow_add_again(&f, &match, 0, &edit);
    match_again(&match, 3);
    flow_add(&f, &match);
    p.udp.udp_src = htons(1);
    ovs_assert(run(&f, &p, sizeof p, 1, NULL) == MISS);
    flows_destroy(&f);
}

/* A packet out of a tunnel meets the flows of what is inside; what
 * netdev_pop_header() would drop, or check, goes to the socket. */
static void
test_tunnel(bool geneve)
{
    struct {
        struct eth_header eth;
        struct ip_header ip;
        struct udp_header udp;
        ovs_16aligned_be32 tunnel[2];
        struct packet inner;
    } t, q;
    struct flows f = { .t = new_table() };
    struct xdp_flow_match match;
    struct xdp_flow_stats stats;
    struct packet outer;
    struct xft_edit edit;

    BUILD_ASSERT_DECL(sizeof t == 50 + sizeof t.inner);
    packet_init(&outer);
    outer.udp.udp_dst = htons(geneve ? 6081 : 4789);
    outer.ip.ip_tot_len = htons(sizeof t - sizeof t.eth);
    outer.ip.ip_frag_off = htons(IP_DONT_FRAGMENT);
    outer.ip.ip_csum = 0;
    memcpy(&t, &outer, offsetof(struct packet, data));
    t.ip.ip_csum = csum(&t.ip, sizeof t.ip);
    put_16aligned_be32(&t.tunnel[0], htonl(geneve ? 0x6558 : 0x08000000));
    put_16aligned_be32(&t.tunnel[1], htonl(9 << 8));
    packet_init(&t.inner);
    t.inner.ip.ip_ttl = 3;

    match_init(&match, &outer);
    memset(&edit, 0, sizeof edit);
    edit.tunnel = geneve ? XFT_TUNNEL_GENEVE : XFT_TUNNEL_VXLAN;
    edit.in_port = 77;
    edit.tun_flags = 1;
    edit.tun_df_flag = 2;
    flow_add_again(&f, &match, XFT_F_TUNNEL_POP, &edit);
    match_init(&match, &t.inner);
    match_again(&match, 0);
    match.key.f.in_port = 77;
    match.mask.f.in_port = UINT32_MAX;
    match.key.f.tun_id = (OVS_FORCE uint64_t) htonll(9);
    match.key.f.tun_src = (OVS_FORCE uint32_t) htonl(0x0a000001);
    match.key.f.tun_dst = (OVS_FORCE uint32_t) htonl(0x0a000002);
    match.key.f.tun_flags = 3;
    match.key.f.tun_ttl = 64;
    match.key.f.tun_tp_src = (OVS_FORCE uint16_t) htons(1);
    match.key.f.tun_tp_dst = (OVS_FORCE uint16_t) outer.udp.udp_dst;
    flow_add(&f, &match);
    ovs_assert(run(&f, &t, sizeof t, 1, NULL) == HIT);
    xdp_flow_get_stats(f.flows[0], 0, &stats);
    ovs_assert(stats.n_packets == 1 && stats.n_bytes == sizeof t);
    xdp_flow_get_stats(f.flows[1], 0, &stats);
    ovs_assert(stats.n_packets == 1 && stats.n_bytes == sizeof t.inner);

#define EXPECT_MISS(CHANGE)                                 \
    q = t;                                                  \
    CHANGE;                                                 \
    ovs_assert(run(&f, &q, sizeof q, 1, NULL) == MISS)
#define EXPECT_MISS_WORD(I, VALUE)                          \
    EXPECT_MISS(put_16aligned_be32(&q.tunnel[I], htonl(VALUE)))
    EXPECT_MISS(q.ip.ip_csum++);
    EXPECT_MISS(q.udp.udp_csum = htons(1));
    EXPECT_MISS(q.ip.ip_frag_off |= htons(IP_MORE_FRAGMENTS));
    EXPECT_MISS(q.ip.ip_frag_off = 0; q.ip.ip_csum = 0;
                q.ip.ip_csum = csum(&q.ip, sizeof q.ip));
    EXPECT_MISS(q.inner.ip.ip_ttl--);
    EXPECT_MISS(q.inner.eth.eth_type = htons(ETH_TYPE_ARP));
    EXPECT_MISS_WORD(1, 8 << 8);
    if (geneve) {
        EXPECT_MISS_WORD(0, 0x01006558);        /* Options. */
        EXPECT_MISS_WORD(0, 0x40006558);        /* Version. */
        EXPECT_MISS_WORD(0, 0x00806558);        /* OAM. */
        EXPECT_MISS_WORD(0, 0x00000800);        /* No Ethernet inside. */
    } else {
        EXPECT_MISS_WORD(0, 0);
        EXPECT_MISS_WORD(0, 0x0c000000);
        EXPECT_MISS_WORD(0, 0x08000001);
        EXPECT_MISS_WORD(1, 9 << 8 | 1);
    }
#undef EXPECT_MISS_WORD
#undef EXPECT_MISS
    ovs_assert(run(&f, &t, 49, 1, NULL) == MISS);
    ovs_assert(run(&f, &t, sizeof t, 1, NULL) == HIT);
    flows_destroy(&f);
}

/* As many flows with changes of their own find room as others do. */
static void
test_edits(void)
{
    struct xdp_flow_table *output = xdp_flow_table_create("output");
    struct flows f = { .t = new_table() };
    struct xdp_flow_action action;
    struct xdp_flow_match match;
    struct packet p;

    packet_init(&p);
    match_init(&match, &p);
    memset(&action, 0, sizeof action);
    action.output = output;
    action.edit_flags = XFT_F_ETH;
    action.edit.dl_dst_mask = UINT64_MAX >> 16;
    for (int i = 0; i < 5000; i++) {
        match.key.f.nw_dst = (OVS_FORCE uint32_t) htonl(i);
        action.edit.dl_dst = i;
        ovs_assert(!xdp_flow_add(f.t, &match, &action, &f.flows[f.n++]));
    }
    flows_destroy(&f);
    xdp_flow_table_destroy(output);
}

/* A flow takes the place of a slower one once the table is full, and of a
 * slower mask, and neither the fastest flow's nor the fastest mask's. */
static void
test_rates(void)
{
    struct flows f = { .t = xdp_flow_table_create("test") };
    struct xdp_flow_counters counters;
    struct xdp_flow_action action;
    struct xdp_flow_match match;
    struct xdp_flow_stats stats;
    struct packet p;
    int n_lost = 0;

    ovs_assert(!xdp_flow_table_load(f.t, 1, 64, 2, 0));
    packet_init(&p);
    match_init(&match, &p);
    memset(&action, 0, sizeof action);
    for (int i = 0; i < 66; i++) {
        int error;

        /* The last one has another mask. */
        match.key.f.nw_dst = (OVS_FORCE uint32_t) htonl(i);
        if (i == 65) {
            match.mask.f.nw_ttl = match.key.f.nw_ttl = 0;
        }
        error = xdp_flow_add(f.t, &match, &action, &f.flows[f.n++]);
        ovs_assert(error == (i < 64 ? 0 : ENOSPC));
    }

    /* Packets per second: 0 to 63 times 1,000 for those that have a place,
     * 20,000 for the others. */
    xnanosleep(300 * 1000 * 1000);
    for (int i = 0; i < 66; i++) {
        xdp_flow_get_stats(f.flows[i], (i < 64 ? i : 20) * 1000 / 2, &stats);
    }
    xdp_flow_table_get_counters(f.t, &counters);
    ovs_assert(counters.n_flows == 64);
    ovs_assert(counters.n_waiting == 2);
    ovs_assert(counters.n_masks == 2);
    xdp_flow_get_stats(f.flows[64], 10000, &stats);
    xdp_flow_get_stats(f.flows[65], 10000, &stats);
    for (int i = 0; i < 66; i++) {
        bool lost = xdp_flow_is_waiting(f.flows[i]);

        n_lost += lost;
        ovs_assert(!lost || i < 2);
    }
    ovs_assert(n_lost == 2);

    /* A third mask takes the place of the slower one. */
    xnanosleep(1200 * 1000 * 1000);
    match.mask.f.nw_tos = 0;
    ovs_assert(xdp_flow_add(f.t, &match, &action, &f.flows[f.n++]) == ENOSPC);
    xnanosleep(300 * 1000 * 1000);
    xdp_flow_get_stats(f.flows[66], 40000, &stats);
    ovs_assert(!xdp_flow_is_waiting(f.flows[66]));
    ovs_assert(xdp_flow_is_waiting(f.flows[65]));
    ovs_assert(!xdp_flow_is_waiting(f.flows[63]));
    flows_destroy(&f);
}

static void
print_cost(const char *what, const struct flows *f, const struct packet *p)
{
    uint32_t best = UINT32_MAX, ns;

    for (int i = 0; i < 10; i++) {
        run(f, p, sizeof *p, 1000 * 1000, &ns);
        best = MIN(best, ns);
    }
    printf("%s: %"PRIu32" ns\n", what, best);
}

/* How long the program takes at the least for a packet that misses all masks,
 * or that one flow is for. */
static void
print_costs(void)
{
    static const int n_masks[] = { 1, 8, 64 };
    struct flows f = { .t = new_table() };
    struct xdp_flow_match match;
    struct packet p;
    int n = 0;

    packet_init(&p);
    print_cost("no flows", &f, &p);
    match_init(&match, &p);
    match.key.f.tp_dst = (OVS_FORCE uint16_t) htons(5);
    match.key.f.nw_tos = match.key.f.nw_ttl = 0;
    for (int i = 0; i < ARRAY_SIZE(n_masks); i++) {
        char *what = xasprintf("miss of %d masks", n_masks[i]);

        for (; n < n_masks[i]; n++) {
            match.mask.f.nw_tos = n << 2;
            flow_add(&f, &match);
        }
        print_cost(what, &f, &p);
        free(what);
    }
    flows_destroy(&f);

    f.t = new_table();
    match_init(&match, &p);
    match.key.f.nw_proto = IPPROTO_TCP;
    flow_add(&f, &match);
    print_cost("miss of a mask with flows of another protocol", &f, &p);
    match.key.f.nw_proto = IPPROTO_UDP;
    flow_add(&f, &match);
    print_cost("drop", &f, &p);
    flows_destroy(&f);
}

static void
test_xdp_flow_table_main(int argc, char *argv[])
{
    if (argc > 1 && !strcmp(argv[1], "cost")) {
        print_costs();
        return;
    }
    test_parser();
    test_masks();
    test_addresses(XFT_IPV4, BYTE(dl_src, 5), BYTE(dl_dst, 5));
    test_addresses(XFT_IPV4, BYTE(nw_src, 3), BYTE(nw_dst, 3));
    test_addresses(XFT_IPV4, BYTE(nw_src, 0), BYTE(nw_dst, 0));
    test_addresses(XFT_IPV4, BYTE(vlan_tci, 1), BYTE(nw_dst, 3));
    test_addresses(XFT_IPV4, BYTE(tp_dst, 1), BYTE(nw_dst, 3));
    test_addresses(XFT_IPV6, BYTE(ipv6_src, 7), BYTE(ipv6_dst, 7));
    test_addresses(XFT_IPV6, BYTE(ipv6_src, 15), BYTE(ipv6_dst, 15));
    test_addresses(XFT_IPV6, BYTE(ipv6_src, 7), BYTE(ipv6_src, 15));
    test_bit_flips();
    test_again();
    test_tunnel(false);
    test_tunnel(true);
    test_edits();
    test_rates();
}

OVSTEST_REGISTER("test-xdp-flow-table", test_xdp_flow_table_main);
