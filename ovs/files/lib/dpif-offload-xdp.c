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

#include <config.h>

#include <errno.h>

#include "dpif.h"
#include "dpif-offload.h"
#include "dpif-offload-provider.h"
#include "flow.h"
#include "netdev-afxdp.h"
#include "netdev-provider.h"
#include "netdev-vport.h"
#include "netlink.h"
#include "odp-util.h"
#include "ovs-rcu.h"
#include "packets.h"
#include "util.h"
#include "uuid.h"
#include "xdp-flow-table.h"

#include "openvswitch/hmap.h"
#include "openvswitch/json.h"
#include "openvswitch/match.h"
#include "openvswitch/vlog.h"

VLOG_DEFINE_THIS_MODULE(dpif_offload_xdp);

/* Flows of AF_XDP ports that their XDP programs execute. */

struct xdp_offload {
    struct dpif_offload offload;
    dpif_offload_flow_unreference_cb *unreference_cb;

    struct ovs_mutex mutex;     /* Protects the flows of all ports. */

    /* Ports of tunnels that packets may get out of. */
    struct hmap tunnels;        /* Of struct xdp_tunnel.  With 'mutex'. */
};

struct xdp_tunnel {
    struct hmap_node node;
    odp_port_t port_no;
    const char *type;           /* Of the class of its netdev. */
};

/* Why a flow was not offloaded. */
struct refusal {
    const char *reason;
    uint64_t n;
};

#define MAX_REFUSALS 32

struct xdp_port {
    struct dpif_offload_port pm_port;
    struct xdp_flow_table *table;   /* Of the netdev. */

    /* Protected by the mutex of the offload. */
    struct hmap flows;              /* Of struct offloaded_flow. */
    struct refusal refusals[MAX_REFUSALS];
    size_t n_refusals;
};

/* The datapath has a copy of a flow for each PMD thread, the XDP program has
 * one, with the actions of the copy that was put last.  Its packets are
 * counted for the first of the copies, so that they are counted once. */
struct flow_reference {
    struct ovs_list list_node;      /* In 'references' of the flow. */
    unsigned int pmd_id;
    void *flow_reference;
    struct xdp_flow_action action;
    bool refused;                   /* 'action' is not for the program. */
    uint64_t n_processed;           /* Packets that the datapath processed. */
};

struct offloaded_flow {
    struct hmap_node node;          /* In 'flows' of the port. */
    ovs_u128 ufid;
    struct ovs_list references;     /* Of struct flow_reference. */
    struct xdp_flow *xdp_flow;      /* NULL if it could not be kept. */
    struct xdp_flow_match match;    /* Of 'xdp_flow'. */
    struct xdp_flow_action action;
    struct xdp_flow_stats old;      /* Before 'xdp_flow'. */
    uint64_t n_processed;           /* Packets of all references that the
                                     * datapath processed. */
    uint64_t n_packets;             /* Counted for references that are not */
    uint64_t n_bytes;               /* the first any more. */
};

static struct xdp_offload *
xdp_offload_cast(const struct dpif_offload *offload)
{
    return CONTAINER_OF(offload, struct xdp_offload, offload);
}

static struct xdp_port *
xdp_port_cast(struct dpif_offload_port *port)
{
    return CONTAINER_OF(port, struct xdp_port, pm_port);
}

static struct xdp_tunnel *
tunnel_find(const struct xdp_offload *offload, odp_port_t port_no)
    OVS_REQUIRES(offload->mutex)
{
    struct xdp_tunnel *tunnel;

    HMAP_FOR_EACH_WITH_HASH (tunnel, node, hash_odp_port(port_no),
                             &offload->tunnels) {
        if (tunnel->port_no == port_no) {
            return tunnel;
        }
    }
    return NULL;
}

static struct xdp_port *
xdp_port_by_netdev(const struct xdp_offload *offload, struct netdev *netdev)
{
    struct dpif_offload_port *port;

    port = dpif_offload_port_mgr_find_by_netdev(&offload->offload, netdev);
    return port ? xdp_port_cast(port) : NULL;
}

static struct offloaded_flow *
flow_find(const struct xdp_port *port, const ovs_u128 *ufid)
{
    struct offloaded_flow *flow;

    HMAP_FOR_EACH_WITH_HASH (flow, node, ufid->u32[0], &port->flows) {
        if (ovs_u128_equals(flow->ufid, *ufid)) {
            return flow;
        }
    }
    return NULL;
}

static void
stats_add(struct xdp_flow_stats *total, const struct xdp_flow_stats *stats)
{
    total->n_packets += stats->n_packets;
    total->n_bytes += stats->n_bytes;
    total->used = MAX(total->used, stats->used);
    total->tcp_flags |= stats->tcp_flags;
}

/* Returns what the flow has counted for all references.  Returns true if it is
 * in the program. */
static bool
flow_total(const struct offloaded_flow *flow, struct xdp_flow_stats *total)
{
    struct xdp_flow_stats stats;
    bool active;

    *total = flow->old;
    if (!flow->xdp_flow) {
        return false;
    }
    active = xdp_flow_get_stats(flow->xdp_flow, flow->n_processed, &stats);
    stats_add(total, &stats);
    return active;
}

/* Takes 'flow' out of the program; its packets go to the socket. */
static void
flow_stop(struct offloaded_flow *flow)
{
    if (flow->xdp_flow) {
        struct xdp_flow_stats stats;

        xdp_flow_delete(flow->xdp_flow, &stats);
        flow->xdp_flow = NULL;
        stats_add(&flow->old, &stats);
    }
}

static struct flow_reference *
reference_find(const struct offloaded_flow *flow, unsigned int pmd_id)
{
    struct flow_reference *ref;

    LIST_FOR_EACH (ref, list_node, &flow->references) {
        if (ref->pmd_id == pmd_id) {
            return ref;
        }
    }
    return NULL;
}

static void
reference_get_stats(const struct offloaded_flow *flow,
                    const struct flow_reference *ref,
                    const struct xdp_flow_stats *total,
                    struct dpif_flow_stats *stats)
{
    memset(stats, 0, sizeof *stats);
    if (ovs_list_front(&flow->references) == &ref->list_node) {
        stats->n_packets = total->n_packets - flow->n_packets;
        stats->n_bytes = total->n_bytes - flow->n_bytes;
        stats->used = total->used;
        stats->tcp_flags = total->tcp_flags;
    }
}

/* Gives 'flow' in the program the actions of a copy that is left. */
static void
flow_take_action(struct offloaded_flow *flow)
{
    const struct flow_reference *ref;

    if (!flow->xdp_flow || ovs_list_is_empty(&flow->references)) {
        return;
    }
    ref = CONTAINER_OF(ovs_list_front(&flow->references),
                       struct flow_reference, list_node);
    if (ref->refused) {
        flow_stop(flow);
    } else if (memcmp(&ref->action, &flow->action, sizeof ref->action)) {
        int error = xdp_flow_modify(flow->xdp_flow, &ref->action);

        if (error && error != ENOSPC) {
            flow_stop(flow);
        }
        flow->action = ref->action;
    }
}

/* Stores what is counted for 'ref' in '*stats'. */
static void
reference_remove(struct offloaded_flow *flow, struct flow_reference *ref,
                 struct dpif_flow_stats *stats)
{
    struct xdp_flow_stats total;

    /* Counters are read after the last packet was counted. */
    if (ovs_list_is_singleton(&flow->references)) {
        flow_stop(flow);
    }
    flow_total(flow, &total);
    reference_get_stats(flow, ref, &total, stats);
    if (ovs_list_front(&flow->references) == &ref->list_node) {
        flow->n_packets = total.n_packets;
        flow->n_bytes = total.n_bytes;
    }
    ovs_list_remove(&ref->list_node);
    free(ref);
    flow_take_action(flow);
}

/* Nothing of 'flow' is sent to the port of 'table' any more. */
static void
flow_end_output(struct offloaded_flow *flow,
                const struct xdp_flow_table *table)
{
    struct flow_reference *ref;

    LIST_FOR_EACH (ref, list_node, &flow->references) {
        if (ref->action.output == table) {
            ref->action.output = NULL;
            ref->refused = true;
        }
    }
    if (flow->action.output == table) {
        flow_stop(flow);
        flow->action.output = NULL;
    }
}

static void
flow_free(struct xdp_port *port, struct offloaded_flow *flow)
{
    ovs_assert(ovs_list_is_empty(&flow->references));
    flow_stop(flow);
    hmap_remove(&port->flows, &flow->node);
    free(flow);
}

static void
port_count_refusal(struct xdp_port *port, const char *reason)
{
    for (size_t i = 0; i < port->n_refusals; i++) {
        if (!strcmp(port->refusals[i].reason, reason)) {
            port->refusals[i].n++;
            return;
        }
    }
    if (port->n_refusals < MAX_REFUSALS) {
        port->refusals[port->n_refusals].reason = reason;
        port->refusals[port->n_refusals++].n = 1;
    }
}

/* Translates 'match' for the program, of packets that it looks up again if
 * 'again'.  Returns NULL if successful, or why it cannot be. */
static const char *
translate_match(const struct match *match, bool again,
                struct xdp_flow_match *dst)
{
    const struct flow *flow = &match->flow;
    const struct flow *mask = &match->wc.masks;
    const uint64_t *flow_u64, *left_u64;
    struct flow left = *mask;

    memset(dst, 0, sizeof *dst);
    if (mask->dl_type != OVS_BE16_MAX) {
        return "match on any Ethernet type";
    }
    switch (ntohs(flow->dl_type)) {
    case ETH_TYPE_IP:
        break;

    case ETH_TYPE_IPV6:
        dst->family = XFT_IPV6;
        break;

    case ETH_TYPE_ARP:
    case ETH_TYPE_RARP:
        return "ARP";

    case ETH_TYPE_MPLS:
    case ETH_TYPE_MPLS_MCAST:
    case ETH_TYPE_NSH:
    case ETH_TYPE_VLAN_8021Q:
    case ETH_TYPE_VLAN_8021AD:
    case FLOW_DL_TYPE_NONE:
        return "Ethernet type";
    }

#define XLATE(DST, SRC) XLATE__(DST, &flow->SRC, &mask->SRC, &left.SRC)
#define XLATE__(DST, FLOW, MASK, LEFT)                                  \
    BUILD_ASSERT(sizeof dst->key.f.DST == sizeof *(FLOW));              \
    memcpy(&dst->key.f.DST, FLOW, sizeof *(FLOW));                      \
    memcpy(&dst->mask.f.DST, MASK, sizeof *(MASK));                     \
    memset(LEFT, 0, sizeof *(LEFT))

    XLATE(dl_dst, dl_dst);
    XLATE(dl_src, dl_src);
    XLATE(dl_type, dl_type);
    XLATE(vlan_tpid, vlans[0].tpid);
    XLATE(vlan_tci, vlans[0].tci);
    if (dst->family == XFT_IPV6) {
        XLATE(nw_src, ipv6_label);
        XLATE(ipv6_src, ipv6_src);
        XLATE(ipv6_dst, ipv6_dst);
    } else {
        XLATE(nw_src, nw_src);
        XLATE(nw_dst, nw_dst);
    }
    XLATE(nw_proto, nw_proto);
    XLATE(nw_tos, nw_tos);
    XLATE(nw_ttl, nw_ttl);
    XLATE(tp_src, tp_src);
    XLATE(tp_dst, tp_dst);
    XLATE(tcp_flags, tcp_flags);
    if (again) {
        dst->family |= XFT_IPV4_AGAIN;
        dst->key.f.in_port = odp_to_u32(flow->in_port.odp_port);
        dst->mask.f.in_port = UINT32_MAX;
        XLATE(recirc_id, recirc_id);
        XLATE(tun_id, tunnel.tun_id);
        XLATE(tun_src, tunnel.ip_src);
        XLATE(tun_dst, tunnel.ip_dst);
        XLATE(tun_flags, tunnel.flags);
        XLATE(tun_tos, tunnel.ip_tos);
        XLATE(tun_ttl, tunnel.ip_ttl);
        XLATE(tun_tp_src, tunnel.tp_src);
        XLATE(tun_tp_dst, tunnel.tp_dst);
        XLATE(ct_state, ct_state);
        XLATE(ct_zone, ct_zone);
        XLATE(ct_mark, ct_mark);
        /* A tracked packet has them, and the program does not know them. */
        if (mask->ct_nw_src || mask->ct_nw_dst || mask->ct_nw_proto
            || mask->ct_tp_src || mask->ct_tp_dst
            || ipv6_addr_is_set(&mask->ct_ipv6_src)
            || ipv6_addr_is_set(&mask->ct_ipv6_dst)) {
            return "match on the original direction of a connection";
        }
        if (dst->mask.f.recirc_id != UINT32_MAX) {
            return "match on any recirculation";
        }
    }
#undef XLATE__
#undef XLATE

    for (int i = 0; i < XFT_WORDS; i++) {
        dst->key.w[i] &= dst->mask.w[i];
    }

    /* The program is that of the port. */
    left.in_port.odp_port = 0;

    /* Packets in the program have 0 in all other fields: it leaves those that
     * have not to the socket.  To match on that is to match on nothing. */
    flow_u64 = (const uint64_t *) flow;
    left_u64 = (const uint64_t *) &left;
    if (flow->nw_frag & left.nw_frag) {
        return "fragments";
    }
    for (size_t i = 0; i < FLOW_U64S; i++) {
        if (flow_u64[i] & left_u64[i]) {
            return "match on a field that is not supported";
        }
    }
    return NULL;
}

static const char *
action_name(const struct nlattr *a)
{
    enum ovs_action_attr type = nl_attr_type(a);

    switch (type) {
    case OVS_ACTION_ATTR_USERSPACE: return "action userspace";
    case OVS_ACTION_ATTR_SET: return "action set";
    case OVS_ACTION_ATTR_SET_MASKED: return "action set_masked";
    case OVS_ACTION_ATTR_PUSH_VLAN: return "action push_vlan";
    case OVS_ACTION_ATTR_POP_VLAN: return "action pop_vlan";
    case OVS_ACTION_ATTR_SAMPLE: return "action sample";
    case OVS_ACTION_ATTR_HASH: return "action hash";
    case OVS_ACTION_ATTR_CT_CLEAR: return "action ct_clear";
    case OVS_ACTION_ATTR_TRUNC: return "action trunc";
    case OVS_ACTION_ATTR_METER: return "action meter";
    case OVS_ACTION_ATTR_CLONE: return "action clone";
    case OVS_ACTION_ATTR_CHECK_PKT_LEN: return "action check_pkt_len";
    case OVS_ACTION_ATTR_TUNNEL_PUSH: return "action tunnel_push";
    case OVS_ACTION_ATTR_LB_OUTPUT: return "action lb_output";
    case OVS_ACTION_ATTR_OUTPUT:
    case OVS_ACTION_ATTR_DROP:
    case OVS_ACTION_ATTR_RECIRC:
    case OVS_ACTION_ATTR_CT:
    case OVS_ACTION_ATTR_TUNNEL_POP:
    case OVS_ACTION_ATTR_UNSPEC:
    case OVS_ACTION_ATTR_PUSH_MPLS:
    case OVS_ACTION_ATTR_POP_MPLS:
    case OVS_ACTION_ATTR_PUSH_ETH:
    case OVS_ACTION_ATTR_POP_ETH:
    case OVS_ACTION_ATTR_PUSH_NSH:
    case OVS_ACTION_ATTR_POP_NSH:
    case OVS_ACTION_ATTR_ADD_MPLS:
    case OVS_ACTION_ATTR_DEC_TTL:
    case OVS_ACTION_ATTR_PSAMPLE:
    case __OVS_ACTION_ATTR_MAX:
    default: return "another action";
    }
}

/* Returns what is to be added to the complement of a checksum when 'old'
 * becomes 'new', 'n' bytes in network byte order, see RFC 1624. */
static uint32_t
csum_delta(uint32_t delta, const void *old_, const void *new_, size_t n)
{
    const ovs_be16 *old = old_;
    const ovs_be16 *new = new_;

    if (memcmp(old, new, n)) {
        for (size_t i = 0; i < n / 2; i++) {
            delta += (uint16_t) ~(OVS_FORCE uint16_t) old[i];
            delta += (OVS_FORCE uint16_t) new[i];
        }
    }
    return delta;
}

static uint16_t
csum_fold(uint32_t delta)
{
    while (delta >> 16) {
        delta = (delta & 0xffff) + (delta >> 16);
    }
    return delta;
}

/* Adds to 'value' and 'mask' that the bits of 'key_mask' become those of
 * 'key'. */
static void
set_bits(void *value_, void *mask_, const void *key_, const void *key_mask_,
         size_t n)
{
    const uint8_t *key = key_, *key_mask = key_mask_;
    uint8_t *value = value_, *mask = mask_;

    for (size_t i = 0; i < n; i++) {
        value[i] = (value[i] & ~key_mask[i]) | (key[i] & key_mask[i]);
        mask[i] |= key_mask[i];
    }
}

/* Returns true if all bits of 'mask' are 1 in 'match', too. */
static bool
is_matched(const void *mask_, const void *match_, size_t n)
{
    const uint8_t *mask = mask_, *match = match_;

    for (size_t i = 0; i < n; i++) {
        if (mask[i] & ~match[i]) {
            return false;
        }
    }
    return true;
}

/* Translates an action "set_masked", or, if 'exact', "set": a key without a
 * mask, of which all bits are set. */
static const char *
translate_set(const struct nlattr *a, bool exact,
              const struct xdp_flow_match *match, struct xdp_flow_action *dst)
{
    ovs_be16 dl_type = (OVS_FORCE ovs_be16) match->key.f.dl_type;
    const struct xft_fields *matched = &match->mask.f;
    struct xft_edit *edit = &dst->edit;
    const void *data = nl_attr_get(a);
    struct ovs_key_ipv6 ones;
    const void *masks = (const char *) data + nl_attr_get_size(a) / 2;

#define KEY(TYPE, FIELD) &((const TYPE *) data)->FIELD, \
                         &((const TYPE *) masks)->FIELD
    if (exact) {
        masks = memset(&ones, 0xff, sizeof ones);
    }
    switch (nl_attr_type(a)) {
    case OVS_KEY_ATTR_ETHERNET:
        set_bits(&edit->dl_dst, &edit->dl_dst_mask,
                 KEY(struct ovs_key_ethernet, eth_dst), ETH_ADDR_LEN);
        set_bits(&edit->dl_src, &edit->dl_src_mask,
                 KEY(struct ovs_key_ethernet, eth_src), ETH_ADDR_LEN);
        dst->edit_flags |= XFT_F_ETH;
        return NULL;

    case OVS_KEY_ATTR_IPV4: {
        uint8_t *nw = (uint8_t *) &edit->nw;
        uint8_t *nw_mask = (uint8_t *) &edit->nw_mask;

        if (dl_type != htons(ETH_TYPE_IP)) {
            break;
        }
        set_bits(nw, nw_mask, KEY(struct ovs_key_ipv4, ipv4_src), 4);
        set_bits(nw + 4, nw_mask + 4, KEY(struct ovs_key_ipv4, ipv4_dst), 4);
        set_bits(&edit->nw_tos, &edit->nw_tos_mask,
                 KEY(struct ovs_key_ipv4, ipv4_tos), 1);
        set_bits(&edit->nw_ttl, &edit->nw_ttl_mask,
                 KEY(struct ovs_key_ipv4, ipv4_ttl), 1);
        dst->edit_flags |= XFT_F_IPV4;
        if (!is_matched(nw_mask, &matched->nw_src, 8)
            || !is_matched(&edit->nw_tos_mask, &matched->nw_tos, 1)
            || !is_matched(&edit->nw_ttl_mask, &matched->nw_ttl, 1)) {
            return "action set of a field without match on it";
        }
        return NULL;
    }

    case OVS_KEY_ATTR_IPV6: {
        const struct ovs_key_ipv6 *key = data;
        const struct ovs_key_ipv6 *mask = masks;
        ovs_be32 flow, flow_mask;

        if (dl_type != htons(ETH_TYPE_IPV6)) {
            break;
        }
        set_bits(&edit->ipv6[0], &edit->ipv6_mask[0],
                 KEY(struct ovs_key_ipv6, ipv6_src), 16);
        set_bits(&edit->ipv6[2], &edit->ipv6_mask[2],
                 KEY(struct ovs_key_ipv6, ipv6_dst), 16);
        flow = htonl(key->ipv6_tclass << 20) | key->ipv6_label;
        flow_mask = htonl(mask->ipv6_tclass << 20)
                    | (mask->ipv6_label & htonl(IPV6_LABEL_MASK));
        set_bits(&edit->ipv6_flow, &edit->ipv6_flow_mask, &flow, &flow_mask,
                 sizeof flow);
        set_bits(&edit->nw_ttl, &edit->nw_ttl_mask,
                 KEY(struct ovs_key_ipv6, ipv6_hlimit), 1);
        dst->edit_flags |= XFT_F_IPV6;
        if (!is_matched(edit->ipv6_mask, matched->ipv6_src, 32)) {
            return "action set of a field without match on it";
        }
        return NULL;
    }
    }
#undef KEY
    return "action set of a field that is not supported";
}

/* Finds out what changes of a packet change its checksums by. */
static void
translate_checksums(const struct xdp_flow_match *match,
                    struct xdp_flow_action *dst)
{
    const struct xft_fields *f = &match->key.f;
    struct xft_edit *edit = &dst->edit;
    uint64_t old[4];
    uint32_t delta;
    ovs_be16 o, n;

    if (dst->edit_flags & XFT_F_IPV4) {
        memcpy(old, &f->nw_src, 8);
        old[0] &= edit->nw_mask;
        delta = csum_delta(0, &old[0], &edit->nw, 4);
        delta = csum_delta(delta, (char *) &old[0] + 4,
                           (char *) &edit->nw + 4, 4);
        edit->l4_delta = csum_fold(delta);

        o = htons(f->nw_tos & edit->nw_tos_mask);
        n = htons(edit->nw_tos);
        delta = csum_delta(delta, &o, &n, sizeof o);
        o = htons((f->nw_ttl & edit->nw_ttl_mask) << 8);
        n = htons(edit->nw_ttl << 8);
        delta = csum_delta(delta, &o, &n, sizeof o);
        edit->ip_delta = csum_fold(delta);
    } else if (dst->edit_flags & XFT_F_IPV6) {
        memcpy(old, f->ipv6_src, sizeof old);
        for (int i = 0; i < 4; i++) {
            old[i] &= edit->ipv6_mask[i];
        }
        delta = csum_delta(0, &old[0], &edit->ipv6[0], 16);
        delta = csum_delta(delta, &old[2], &edit->ipv6[2], 16);
        edit->l4_delta = csum_fold(delta);
    }
}

/* Translates an action "ct".  Returns NULL if successful, or why it cannot
 * be. */
static const char *
translate_ct(const struct nlattr *ct, struct xdp_flow_action *dst)
{
    const struct nlattr *a;
    size_t left;

    if (dst->edit_flags & XFT_F_CT) {
        return "several actions ct";
    }
    dst->edit.ct_zone = 0;
    NL_NESTED_FOR_EACH (a, left, ct) {
        switch (nl_attr_type(a)) {
        case OVS_CT_ATTR_ZONE:
            dst->edit.ct_zone = nl_attr_get_u16(a);
            break;

        case OVS_CT_ATTR_NAT:
            /* Connections with translated addresses are not in the program,
             * for all others it does nothing. */
            if (nl_attr_get_size(a)) {
                return "action ct with addresses to translate";
            }
            break;

        case OVS_CT_ATTR_EVENTMASK:
            break;

        case OVS_CT_ATTR_COMMIT:
        case OVS_CT_ATTR_FORCE_COMMIT:
            return "action ct with commit";

        default:
            return "action ct with other attributes";
        }
    }
    dst->edit_flags |= XFT_F_CT;
    return NULL;
}

/* Translates an action "recirc".  Returns NULL if successful, or why it cannot
 * be. */
static const char *
translate_recirc(uint32_t recirc_id, const struct xdp_flow_match *match,
                 odp_port_t in_port, struct xdp_flow_action *dst)
{
    if (dst->edit_flags & XFT_F_PUSH_VLAN
        && !(dst->edit_flags & XFT_F_POP_VLAN)
        && (match->key.f.vlan_tci & htons(VLAN_CFI)
            || !(match->mask.f.vlan_tci & htons(VLAN_CFI)))) {
        return "action recirc with two tags";
    }
    dst->edit_flags |= XFT_F_AGAIN;
    dst->edit.recirc_id = recirc_id;
    dst->edit.in_port = odp_to_u32(in_port);
    return NULL;
}

/* Translates an action "tunnel_pop" to a port of 'type'.  Returns NULL if
 * successful, or why it cannot be. */
static const char *
translate_tunnel_pop(odp_port_t tunnel, const char *type,
                     const struct xdp_flow_match *match,
                     struct xdp_flow_action *dst)
{
    if (dst->edit_flags || match->family != XFT_IPV4
        || match->key.f.dl_type != htons(ETH_TYPE_IP)
        || match->key.f.vlan_tci & htons(VLAN_CFI)
        || !(match->mask.f.vlan_tci & htons(VLAN_CFI))) {
        return "action tunnel_pop of other packets than plain IPv4";
    }
    dst->edit.tun_flags = FLOW_TNL_F_KEY;
    if (!strcmp(type, "vxlan")) {
        dst->edit.tunnel = XFT_TUNNEL_VXLAN;
    } else if (!strcmp(type, "geneve")) {
        dst->edit.tunnel = XFT_TUNNEL_GENEVE;
        dst->edit.tun_flags |= FLOW_TNL_F_UDPIF;
    } else {
        return "action tunnel_pop of another tunnel";
    }
    dst->edit.tun_df_flag = FLOW_TNL_F_DONT_FRAGMENT;
    dst->edit_flags |= XFT_F_TUNNEL_POP | XFT_F_AGAIN;
    dst->edit.in_port = odp_to_u32(tunnel);
    return NULL;
}

/* Translates actions on packets that 'match' for the program.  'in_port' is
 * the port that the datapath takes the packets to be from.  Returns NULL if
 * successful, or why they cannot be. */
static const char *
translate_actions(const struct xdp_offload *offload, odp_port_t in_port,
                  const struct xdp_flow_match *match,
                  const struct nlattr *actions, size_t actions_len,
                  struct xdp_flow_action *dst)
    OVS_REQUIRES(offload->mutex)
{
    const struct nlattr *a;
    size_t left;

    memset(dst, 0, sizeof *dst);
    NL_ATTR_FOR_EACH (a, left, actions, actions_len) {
        bool last = left <= NLA_ALIGN(a->nla_len);
        struct dpif_offload_port *port;
        const char *reason;

        switch (nl_attr_type(a)) {
        case OVS_ACTION_ATTR_OUTPUT:
            if (!last) {
                return "several outputs";
            }
            port = dpif_offload_port_mgr_find_by_odp_port(
                &offload->offload, nl_attr_get_odp_port(a));
            if (!port) {
                return "output to a port of another type";
            }
            dst->output = xdp_port_cast(port)->table;
            break;

        case OVS_ACTION_ATTR_DROP:
            if (!last) {
                return "drop with other actions";
            }
            break;

        case OVS_ACTION_ATTR_SET:
        case OVS_ACTION_ATTR_SET_MASKED:
            reason = translate_set(nl_attr_get(a),
                                   nl_attr_type(a) == OVS_ACTION_ATTR_SET,
                                   match, dst);
            if (reason) {
                return reason;
            }
            break;

        case OVS_ACTION_ATTR_PUSH_VLAN: {
            const struct ovs_action_push_vlan *vlan = nl_attr_get(a);

            if (dst->edit_flags & XFT_F_PUSH_VLAN) {
                return "several actions push_vlan";
            }
            dst->edit_flags |= XFT_F_PUSH_VLAN;
            dst->edit.vlan_tpid = (OVS_FORCE uint16_t) vlan->vlan_tpid;
            dst->edit.vlan_tci = (OVS_FORCE uint16_t) (vlan->vlan_tci
                                                       & htons(~VLAN_CFI));
            break;
        }

        case OVS_ACTION_ATTR_POP_VLAN:
            if (dst->edit_flags & (XFT_F_PUSH_VLAN | XFT_F_POP_VLAN)
                || !(match->key.f.vlan_tci & htons(VLAN_CFI))) {
                return "action pop_vlan without a tag";
            }
            dst->edit_flags |= XFT_F_POP_VLAN;
            break;

        case OVS_ACTION_ATTR_CT:
            reason = translate_ct(a, dst);
            if (reason) {
                return reason;
            }
            break;

        case OVS_ACTION_ATTR_RECIRC:
            reason = !last ? "action recirc of a copy"
                     : translate_recirc(nl_attr_get_u32(a), match, in_port,
                                        dst);
            if (reason) {
                return reason;
            }
            break;

        case OVS_ACTION_ATTR_TUNNEL_POP: {
            odp_port_t port_no = nl_attr_get_odp_port(a);
            struct xdp_tunnel *tunnel = tunnel_find(offload, port_no);

            reason = !last ? "action tunnel_pop of a copy"
                     : !tunnel ? "action tunnel_pop of another tunnel"
                     : translate_tunnel_pop(port_no, tunnel->type, match,
                                            dst);
            if (reason) {
                return reason;
            }
            break;
        }

        default:
            return action_name(a);
        }
    }

    if (dst->edit_flags & XFT_F_CT
        && (!(dst->edit_flags & XFT_F_AGAIN)
            || dst->edit_flags & (XFT_F_IPV4 | XFT_F_IPV6))) {
        return "action ct with an output or other changes";
    }
    if (!dst->output && !(dst->edit_flags & XFT_F_AGAIN)) {
        dst->edit_flags = 0;
    }
    translate_checksums(match, dst);
    return NULL;
}

static int
xdp_flow_put(const struct dpif_offload *offload_, struct netdev *netdev,
             struct dpif_offload_flow_put *put, void **previous)
{
    struct xdp_offload *offload = xdp_offload_cast(offload_);
    bool out_of_tunnel = put->orig_in_port != ODPP_NONE
                         && put->orig_in_port != put->in_port;
    struct xdp_flow_action action;
    struct xdp_flow_match match;
    struct flow_reference *ref;
    struct offloaded_flow *flow;
    const char *reason;
    struct xdp_port *port;
    int error = 0;

    *previous = NULL;

    ovs_mutex_lock(&offload->mutex);
    port = xdp_port_by_netdev(offload, netdev);
    if (!port) {
        error = ENODEV;
        goto out;
    }

    flow = flow_find(port, put->ufid);
    reason = translate_match(put->match,
                             out_of_tunnel || put->match->flow.recirc_id,
                             &match);
    if (!reason) {
        if (flow && flow->xdp_flow) {
            /* It may be wider than what is asked for: by how much checksums
             * change is known only of what the flow itself matches on. */
            match = flow->match;
        }
        reason = translate_actions(offload, put->in_port, &match,
                                   put->actions, put->actions_len, &action);
    }
    if (!reason) {
        if (flow && flow->xdp_flow) {
            error = xdp_flow_modify(flow->xdp_flow, &action);
        } else {
            struct xdp_flow *xdp_flow;

            error = xdp_flow_add(port->table, &match, &action, &xdp_flow);
            if (xdp_flow) {
                if (!flow) {
                    flow = xzalloc(sizeof *flow);
                    flow->ufid = *put->ufid;
                    ovs_list_init(&flow->references);
                    hmap_insert(&port->flows, &flow->node,
                                flow->ufid.u32[0]);
                }
                flow->xdp_flow = xdp_flow;
                flow->match = match;
            }
        }
        reason = !error ? NULL
                 : error == ENOSPC ? "no room for flow or mask"
                 : "too many ports";
    }

    if (reason) {
        port_count_refusal(port, reason);
        VLOG_DBG("%s: not offloaded flow "UUID_FMT": %s",
                 netdev_get_name(netdev),
                 UUID_ARGS((const struct uuid *) put->ufid), reason);
        if (!flow) {
            error = EOPNOTSUPP;
        } else if (error != ENOSPC || !flow->xdp_flow) {
            /* Its counters must not go before the flow does. */
            flow_stop(flow);
            memset(&action, 0, sizeof action);
        }
    }

    if (flow) {
        error = 0;
        flow->action = action;
        ref = reference_find(flow, put->pmd_id);
        if (ref) {
            *previous = ref->flow_reference;
        } else {
            ref = xzalloc(sizeof *ref);
            ref->pmd_id = put->pmd_id;
            ovs_list_push_back(&flow->references, &ref->list_node);
        }
        ref->flow_reference = put->flow_reference;
        ref->action = action;
        ref->refused = !flow->xdp_flow;
        if (put->stats) {
            struct xdp_flow_stats total;

            flow_total(flow, &total);
            reference_get_stats(flow, ref, &total, put->stats);
        }
    }

out:
    ovs_mutex_unlock(&offload->mutex);
    return error;
}

static int
xdp_flow_del(const struct dpif_offload *offload_, struct netdev *netdev,
             struct dpif_offload_flow_del *del)
{
    struct xdp_offload *offload = xdp_offload_cast(offload_);
    struct offloaded_flow *flow;
    struct flow_reference *ref;
    struct xdp_port *port;
    int error = ENOENT;

    ovs_mutex_lock(&offload->mutex);
    port = xdp_port_by_netdev(offload, netdev);
    flow = port ? flow_find(port, del->ufid) : NULL;
    ref = flow ? reference_find(flow, del->pmd_id) : NULL;
    if (ref && ref->flow_reference == del->flow_reference) {
        struct dpif_flow_stats stats;

        reference_remove(flow, ref, &stats);
        if (del->stats) {
            *del->stats = stats;
        }
        if (ovs_list_is_empty(&flow->references)) {
            flow_free(port, flow);
        }
        error = 0;
    }
    ovs_mutex_unlock(&offload->mutex);
    return error;
}

static bool
xdp_flow_stats(const struct dpif_offload *offload_, struct netdev *netdev,
               unsigned pmd_id, const ovs_u128 *ufid,
               struct dpif_flow_stats *stats, struct dpif_flow_attrs *attrs)
{
    struct xdp_offload *offload = xdp_offload_cast(offload_);
    struct offloaded_flow *flow;
    struct flow_reference *ref;
    struct xdp_port *port;

    ovs_mutex_lock(&offload->mutex);
    port = xdp_port_by_netdev(offload, netdev);
    flow = port ? flow_find(port, ufid) : NULL;
    ref = flow ? reference_find(flow, pmd_id) : NULL;
    if (ref) {
        struct xdp_flow_stats total;

        flow->n_processed += stats->n_packets - ref->n_processed;
        ref->n_processed = stats->n_packets;
        attrs->offloaded = flow_total(flow, &total);
        attrs->dp_layer = attrs->offloaded ? "xdp" : "ovs";
        attrs->dp_extra_info = NULL;
        reference_get_stats(flow, ref, &total, stats);
    }
    ovs_mutex_unlock(&offload->mutex);
    return ref != NULL;
}

static uint64_t
xdp_flow_count(const struct dpif_offload *offload_)
{
    struct xdp_offload *offload = xdp_offload_cast(offload_);
    struct dpif_offload_port *port;
    uint64_t n = 0;

    ovs_mutex_lock(&offload->mutex);
    DPIF_OFFLOAD_PORT_FOR_EACH (port, offload_) {
        struct xdp_flow_counters counters;

        xdp_flow_table_get_counters(xdp_port_cast(port)->table, &counters);
        n += counters.n_flows;
    }
    ovs_mutex_unlock(&offload->mutex);
    return n;
}

static bool
is_tunnel(const struct netdev *netdev)
{
    return netdev_vport_is_vport_class(netdev_get_class(netdev));
}

static bool
xdp_can_offload(struct dpif_offload *offload OVS_UNUSED,
                struct netdev *netdev)
{
    return netdev_class_is_afxdp(netdev_get_class(netdev))
           || is_tunnel(netdev);
}

static int
xdp_port_add(struct dpif_offload *offload, struct netdev *netdev,
             odp_port_t port_no)
{
    struct xdp_port *port;

    if (is_tunnel(netdev)) {
        struct xdp_tunnel *tunnel = xmalloc(sizeof *tunnel);

        tunnel->port_no = port_no;
        tunnel->type = netdev_get_type(netdev);
        ovs_mutex_lock(&xdp_offload_cast(offload)->mutex);
        hmap_insert(&xdp_offload_cast(offload)->tunnels, &tunnel->node,
                    hash_odp_port(port_no));
        ovs_mutex_unlock(&xdp_offload_cast(offload)->mutex);
        return 0;
    }

    port = xzalloc(sizeof *port);
    if (!dpif_offload_port_mgr_add(offload, &port->pm_port, netdev, port_no,
                                   false)) {
        free(port);
        return EEXIST;
    }
    /* No flow can come before this function returns. */
    port->table = netdev_afxdp_get_flow_table(netdev);
    hmap_init(&port->flows);
    netdev_afxdp_update_flow_output(netdev, true);
    return 0;
}

static void
xdp_port_free(struct xdp_port *port)
{
    netdev_close(port->pm_port.netdev);
    free(port);
}

static int
xdp_port_del(struct dpif_offload *offload_, odp_port_t port_no)
{
    struct xdp_offload *offload = xdp_offload_cast(offload_);
    struct dpif_offload_port *other, *pm_port;
    struct offloaded_flow *flow;
    struct xdp_tunnel *tunnel;
    struct xdp_port *port;

    ovs_mutex_lock(&offload->mutex);
    tunnel = tunnel_find(offload, port_no);
    if (tunnel) {
        hmap_remove(&offload->tunnels, &tunnel->node);
        free(tunnel);
    }
    pm_port = dpif_offload_port_mgr_find_by_odp_port(offload_, port_no);
    if (!pm_port) {
        ovs_mutex_unlock(&offload->mutex);
        return 0;
    }
    port = xdp_port_cast(pm_port);

    /* Nothing is sent to the port any more. */
    xdp_flow_table_update_output(port->table, 0, 0, false, false, NULL);
    DPIF_OFFLOAD_PORT_FOR_EACH (other, offload_) {
        HMAP_FOR_EACH (flow, node, &xdp_port_cast(other)->flows) {
            flow_end_output(flow, port->table);
        }
    }

    HMAP_FOR_EACH_SAFE (flow, node, &port->flows) {
        struct flow_reference *ref;

        flow_stop(flow);
        while (!ovs_list_is_empty(&flow->references)) {
            struct dpif_flow_stats stats;
            void *flow_reference;
            unsigned int pmd_id;

            ref = CONTAINER_OF(ovs_list_front(&flow->references),
                               struct flow_reference, list_node);
            flow_reference = ref->flow_reference;
            pmd_id = ref->pmd_id;
            reference_remove(flow, ref, &stats);
            if (offload->unreference_cb) {
                offload->unreference_cb(pmd_id, flow_reference, &stats);
            }
        }
        flow_free(port, flow);
    }
    hmap_destroy(&port->flows);

    /* Not before the datapath has the statistics: who asks for those of a flow
     * that is not here any more gets the ones that the datapath has. */
    dpif_offload_port_mgr_remove(offload_, port_no);
    ovs_mutex_unlock(&offload->mutex);

    if (dpif_offload_enabled()) {
        ovsrcu_postpone(xdp_port_free, port);
    } else {
        /* Nobody has asked for the netdev.  Like that of any other port it is
         * closed, and its XDP program detached, before this returns. */
        xdp_port_free(port);
    }
    return 0;
}

static struct netdev *
xdp_get_netdev(const struct dpif_offload *offload, odp_port_t port_no)
{
    struct dpif_offload_port *port;

    port = dpif_offload_port_mgr_find_by_odp_port(offload, port_no);
    return port ? port->netdev : NULL;
}

static int
xdp_open(const struct dpif_offload_class *class, struct dpif *dpif,
         struct dpif_offload **offload_)
{
    struct xdp_offload *offload = xzalloc(sizeof *offload);

    dpif_offload_init(&offload->offload, class, dpif);
    ovs_mutex_init(&offload->mutex);
    hmap_init(&offload->tunnels);
    *offload_ = &offload->offload;
    return 0;
}

static void
xdp_close(struct dpif_offload *offload_)
{
    struct xdp_offload *offload = xdp_offload_cast(offload_);
    struct dpif_offload_port *port;
    struct xdp_tunnel *tunnel;

    DPIF_OFFLOAD_PORT_FOR_EACH (port, offload_) {
        xdp_port_del(offload_, port->port_no);
    }
    HMAP_FOR_EACH_POP (tunnel, node, &offload->tunnels) {
        free(tunnel);
    }
    hmap_destroy(&offload->tunnels);
    dpif_offload_destroy(offload_);
    ovs_mutex_destroy(&offload->mutex);
    free(offload);
}

static struct json *
xdp_port_to_json(struct xdp_port *port)
{
    struct json *json = json_object_create();
    struct json *refused = json_object_create();
    struct xdp_flow_counters counters;
    const char *output_status;
    char *status;

    status = xdp_flow_table_status(port->table);
    json_object_put_string(json, "status", status ? status : "on");
    free(status);
    output_status = xdp_flow_table_output_status(port->table);
    json_object_put_string(json, "output",
                           output_status ? output_status : "on");
    xdp_flow_table_get_counters(port->table, &counters);
#define COUNTER(NAME)                                   \
    json_object_put(json, #NAME, json_integer_create(counters.NAME))
    COUNTER(n_flows);
    COUNTER(n_waiting);
    COUNTER(n_masks);
    COUNTER(packets);
    COUNTER(bytes);
    COUNTER(misses);
    COUNTER(undecided);
    COUNTER(unsendable);
    COUNTER(recirculated);
    COUNTER(lost);
    COUNTER(refused);
    COUNTER(max_len);
#undef COUNTER
    for (size_t i = 0; i < port->n_refusals; i++) {
        json_object_put(refused, port->refusals[i].reason,
                        json_integer_create(port->refusals[i].n));
    }
    json_object_put(json, "refused", refused);
    return json;
}

static void
xdp_get_debug(const struct dpif_offload *offload_, struct ds *ds,
              struct json *json)
{
    struct xdp_offload *offload = xdp_offload_cast(offload_);
    struct json *ports = json_object_create();
    struct dpif_offload_port *port;

    ovs_mutex_lock(&offload->mutex);
    DPIF_OFFLOAD_PORT_FOR_EACH (port, offload_) {
        json_object_put(ports, netdev_get_name(port->netdev),
                        xdp_port_to_json(xdp_port_cast(port)));
    }
    ovs_mutex_unlock(&offload->mutex);

    if (json) {
        json_object_put(json, "ports", ports);
    } else {
        if (ds) {
            json_to_ds(ports, JSSF_PRETTY | JSSF_SORT, ds);
            ds_put_char(ds, '\n');
        }
        json_destroy(ports);
    }
}

static int
xdp_get_global_stats(const struct dpif_offload *offload,
                     struct netdev_custom_stats *stats)
{
    stats->label = xstrdup(dpif_offload_name(offload));
    stats->size = 1;
    stats->counters = xmalloc(sizeof *stats->counters);
    stats->counters[0].value = xdp_flow_count(offload);
    ovs_strzcpy(stats->counters[0].name, "Offloaded flows",
                sizeof stats->counters[0].name);
    return 0;
}

static void
xdp_register_flow_unreference_cb(const struct dpif_offload *offload,
                                 dpif_offload_flow_unreference_cb *cb)
{
    xdp_offload_cast(offload)->unreference_cb = cb;
}

struct dpif_offload_class dpif_offload_xdp_class = {
    .type = "xdp",
    .impl_type = DPIF_OFFLOAD_IMPL_FLOWS_DPIF_SYNCED,
    .supported_dpif_types = (const char *const[]) { "netdev", NULL },
    .takes_tunnel_flows = true,
    .open = xdp_open,
    .close = xdp_close,
    .get_debug = xdp_get_debug,
    .get_global_stats = xdp_get_global_stats,
    .can_offload = xdp_can_offload,
    .port_add = xdp_port_add,
    .port_del = xdp_port_del,
    .get_netdev = xdp_get_netdev,
    .flow_count = xdp_flow_count,
    .netdev_flow_put = xdp_flow_put,
    .netdev_flow_del = xdp_flow_del,
    .netdev_flow_stats = xdp_flow_stats,
    .register_flow_unreference_cb = xdp_register_flow_unreference_cb,
};
