# SPDX-License-Identifier: Apache-2.0
"""Pipelines in VPP, with access lists and translation, through its API; what is set is read back where VPP tells it."""

from typing import Any

from xdplab.forwarders.base import Dut
from xdplab.forwarders.vpp.control import VppControl
from xdplab.forwarders.work import (
    METER_PPS,
    NAT_ADDRESS,
    TRAP,
    VLAN,
    VNI,
    VXLAN_PORT,
    AclRule,
    Side,
    acl_rules,
    prefixes,
    sides,
)
from xdplab.model import PointFailed, Unsupported

#: Of VPP, in this module's order; a select group that writes an address is none of its functions.
PIPELINES = ("cross", "bridge", "vlan", "vxlan", "meter", "mirror", "route", "acl", "conntrack", "nat")
#: Kind -> the plugin that does it (in older versions VPP itself), and a message that comes with it.
_PLUGINS = {
    "vxlan": ("vxlan", "vxlan_add_del_tunnel_v3"),
    "meter": ("policer", "policer_add"),
    "acl": ("acl", "acl_add_replace"),
    "conntrack": ("acl", "acl_add_replace"),
    "nat": ("nat", "nat44_ed_plugin_enable_disable"),
}
_DOMAIN = 1
#: vl_api_sub_if_flags_t, l2_vtr_op_t (vnet/l2/l2_vtr.h), vl_api_fib_path_type_t, vl_api_ip_neighbor_flags_t.
_ONE_TAG, _EXACT_MATCH, _POP_1, _DROP, _STATIC = 2, 16, 3, 2, 1
#: vl_api_span_state_t; vl_api_sse2_qos_rate_type_t, vl_api_sse2_qos_action_type_t.
_SPAN_TX, _PPS, _TRANSMIT = 2, 1, 1
_ADMIN_UP = 1
_NONE = 0xFFFFFFFF
_POLICER, _BURST_MS = "xdplab", 100
#: Where its nodes count what a policer let pass; a frame passes one of them, which one differs between releases.
_PASSED = "policer-input/Packets Transmitted"


def plugins(kind: str) -> tuple[str, ...]:
    """Of VPP, which a pipeline needs."""
    return _PLUGINS[kind][:1] if kind in _PLUGINS else ()


def require(control: VppControl, kind: str, version: str, package: str) -> None:
    """VPP reports no error when a plugin that is missing is loaded.

    Raises:
        Unsupported: this VPP has it not.
    """
    plugin, message = _PLUGINS.get(kind, ("", ""))
    if plugin and not control.has(message):
        raise Unsupported(f"pipeline {kind}: VPP {version} has no {plugin} plugin (FD.io's package {package})")


def set_up(control: VppControl, dut: Dut, indexes: list[int]) -> None:
    """`indexes`: sw_if_index of the interface of each port.

    Raises:
        PointFailed: VPP refused something, or does not show what it took.
        Unsupported: this VPP has not got a message.
    """
    match dut.pipeline.kind:
        case "bridge":
            _bridge(control, indexes)
        case "vlan":
            _trunk(control, indexes)
        case "vxlan":
            cross_connect(control, [indexes[0], _tunnel(control, dut, indexes[1])])
        case "meter":
            cross_connect(control, indexes)
            _meter(control, indexes)
        case "mirror":
            cross_connect(control, indexes)
            _mirror(control, indexes)
        case "route" | "acl" | "conntrack" | "nat":
            _route(control, dut, indexes)
            _filter(control, dut, indexes)
        case _:
            cross_connect(control, indexes)


def cross_connect(control: VppControl, indexes: list[int]) -> None:
    """What comes in at one interface leaves at the other, or at the same where there is one."""
    wanted = set(zip(indexes, reversed(indexes), strict=True))
    for here, there in sorted(wanted):
        control.call("sw_interface_set_l2_xconnect", rx_sw_if_index=here, tx_sw_if_index=there, enable=True)
    made = {(each["rx_sw_if_index"], each["tx_sw_if_index"]) for each in control.dump("l2_xconnect_dump")}
    if made != wanted:
        raise PointFailed(f"vpp: cross-connects {sorted(wanted)} were set, VPP has {sorted(made)}")


def _bridge(control: VppControl, indexes: list[int]) -> None:
    does = dict.fromkeys(("flood", "uu_flood", "forward", "learn"), True)
    control.call(
        "bridge_domain_add_del_v2",
        bd_id=_DOMAIN,
        arp_term=False,
        arp_ufwd=False,
        mac_age=0,
        bd_tag="",
        is_add=True,
        **does,
    )
    for index in indexes:
        control.call("sw_interface_set_l2_bridge", rx_sw_if_index=index, bd_id=_DOMAIN, port_type=0, shg=0, enable=True)
    (made,) = control.dump("bridge_domain_dump", bd_id=_DOMAIN, sw_if_index=0xFFFFFFFF)
    if made["n_sw_ifs"] != len(indexes) or not all(made[name] for name in does):
        raise PointFailed(f"vpp: a learning bridge of {len(indexes)} interfaces was set, VPP has {made}")


def _trunk(control: VppControl, indexes: list[int]) -> None:
    """The tag is of the sub-interface that is connected; VPP rewrites it once it is."""
    trunk = control.call(
        "create_subif",
        sw_if_index=indexes[1],
        sub_id=VLAN,
        sub_if_flags=_ONE_TAG | _EXACT_MATCH,
        outer_vlan_id=VLAN,
        inner_vlan_id=0,
    )["sw_if_index"]
    control.call("sw_interface_set_flags", sw_if_index=trunk, flags=_ADMIN_UP)
    cross_connect(control, [indexes[0], trunk])
    control.call("l2_interface_vlan_tag_rewrite", sw_if_index=trunk, vtr_op=_POP_1, push_dot1q=1, tag1=VLAN, tag2=0)


def _tunnel(control: VppControl, dut: Dut, index: int) -> int:
    _, there = sides(dut)
    _reach(control, there, index)
    _tell_route(control, f"{there.next_hop}/32", _by(there, index))
    tunnel = control.call(
        "vxlan_add_del_tunnel_v3",
        is_add=True,
        instance=_NONE,
        src_address=there.address,
        dst_address=there.next_hop,
        src_port=VXLAN_PORT,
        dst_port=VXLAN_PORT,
        mcast_sw_if_index=_NONE,
        encap_vrf_id=0,
        decap_next_index=_NONE,
        vni=VNI,
        is_l3=False,
    )["sw_if_index"]
    control.call("sw_interface_set_flags", sw_if_index=tunnel, flags=_ADMIN_UP)
    return int(tunnel)


def _meter(control: VppControl, indexes: list[int]) -> None:
    """One rate, two colours; what conforms passes."""
    drop, transmit = {"type": 0, "dscp": 0}, {"type": _TRANSMIT, "dscp": 0}
    asked = {
        "cir": METER_PPS, "eir": 0, "cb": _BURST_MS, "eb": 0, "rate_type": _PPS, "round_type": 0, "type": 0,
        "color_aware": False, "conform_action": transmit, "exceed_action": drop, "violate_action": drop,
    }  # fmt: skip
    control.call("policer_add", name=_POLICER, infos=asked)
    for index in dict.fromkeys(indexes):
        control.call("policer_input", name=_POLICER, sw_if_index=index, apply=True)


def metered(control: VppControl) -> dict[str, int]:
    """`Forwarder.rule_hits` of `meter`: VPP does not tell which interfaces have a policer."""
    return {"meter": sum(count for name, count in control.errors().items() if name.endswith(_PASSED))}


def _mirror(control: VppControl, indexes: list[int]) -> None:
    """VPP copies to another port only: what leaves one, for it came by the other, is copied back to that one."""
    wanted = set(zip(indexes, reversed(indexes), strict=True))
    for here, there in sorted(wanted):
        control.call(
            "sw_interface_span_enable_disable", sw_if_index_from=here, sw_if_index_to=there, state=_SPAN_TX, is_l2=False
        )
    rows = control.dump("sw_interface_span_dump", is_l2=False)
    made = {(each["sw_if_index_from"], each["sw_if_index_to"]) for each in rows if each["state"] == _SPAN_TX}
    if made != wanted:
        raise PointFailed(f"vpp: copies {sorted(wanted)} were asked for, VPP makes {sorted(made)}")


def _route(control: VppControl, dut: Dut, indexes: list[int]) -> None:
    for side, index in zip(sides(dut), indexes, strict=True):
        _reach(control, side, index)
        for prefix in prefixes(dut.pipeline, side):
            _tell_route(control, str(prefix), _by(side, index))
    drop(control, str(TRAP))


def _reach(control: VppControl, side: Side, index: int) -> None:
    """An address of VPP's on a side, and the tester's port there."""
    control.call("sw_interface_set_mac_address", sw_if_index=index, mac_address=side.mac)
    control.call(
        "sw_interface_add_del_address", sw_if_index=index, is_add=True, del_all=False, prefix=f"{side.address}/32"
    )
    neighbor = {
        "sw_if_index": index, "flags": _STATIC, "mac_address": side.peer_mac, "ip_address": side.next_hop,
    }  # fmt: skip
    control.call("ip_neighbor_add_del", is_add=True, neighbor=neighbor)


def route(control: VppControl, side: Side, index: int, preference: int) -> None:
    """The traffic's route to a side again."""
    _tell_route(control, str(side.network), {**_by(side, index), "preference": preference})


def drop(control: VppControl, prefix: str, *, add: bool = True) -> None:
    _tell_route(control, prefix, {**_path(_NONE), "type": _DROP}, add=add)


def _by(side: Side, index: int) -> dict[str, Any]:
    return {**_path(index), "nh": {"address": {"ip4": side.next_hop}}}


def _path(index: int) -> dict[str, Any]:
    return {
        "sw_if_index": index, "table_id": 0, "rpf_id": 0, "weight": 1, "preference": 0, "type": 0, "flags": 0,
        "proto": 0, "nh": {}, "n_labels": 0, "label_stack": [_LABEL] * 16,
    }  # fmt: skip


_LABEL = {"is_uniform": 0, "label": 0, "ttl": 0, "exp": 0}


def _tell_route(control: VppControl, prefix: str, path: dict[str, Any], *, add: bool = True) -> None:
    route = {"table_id": 0, "stats_index": 0, "prefix": prefix, "n_paths": 1, "paths": [path]}
    control.call("ip_route_add_del", is_add=add, is_multipath=False, route=route)


# Before the routes: access lists and connections of VPP's acl plugin, translation of nat44-ed.

#: vl_api_acl_action_t, vl_api_ip_proto_t, vl_api_nat_config_flags_t.
_DENY, _PERMIT, _REFLECT, _UDP, _OUTSIDE, _INSIDE = 0, 1, 2, 17, 0x10, 0x20
#: Translations that nat44-ed keeps; its own default is 64,512.
_TRANSLATIONS = 262_144


def _filter(control: VppControl, dut: Dut, indexes: list[int]) -> None:
    """What stands before the routes, which are there; of a pipeline that has any.

    Raises:
        PointFailed: VPP does not show what it took.
    """
    match dut.pipeline.kind:
        case "acl":
            here, there = sides(dut)
            for index, (source, target) in zip(indexes, ((here, there), (there, here)), strict=True):
                rules = [_rule(each) for each in acl_rules(dut.pipeline, source, target)]
                _apply(control, index, [_list(control, rules)], n_input=1)
            control.call("acl_stats_intf_counters_enable", enable=True)
        case "conntrack":
            # what is let in by an interface is let out there again (permit+reflect), and nothing else is
            lists = [_list(control, [_any(action)]) for action in (_REFLECT, _DENY)]
            _apply(control, indexes[0], lists, n_input=1)
        case "nat":
            _translate(control, indexes)


def rule_hits(control: VppControl, dut: Dut) -> dict[str, int]:
    """Packets that met the last rule of the list of each direction, which are the first two of this VPP."""
    if dut.pipeline.kind != "acl":
        return {}
    last = dut.pipeline.rules - 1
    return {way: control.list_matches(number, last) for number, way in enumerate(("forth", "back"))}


def _rule(rule: AclRule) -> dict[str, Any]:
    return {
        **_any(_PERMIT), "src_prefix": str(rule.source), "dst_prefix": str(rule.target), "proto": _UDP,
        "dstport_or_icmpcode_first": rule.udp_dst, "dstport_or_icmpcode_last": rule.udp_dst,
    }  # fmt: skip


def _any(action: int) -> dict[str, Any]:
    """A rule that every IPv4 packet meets."""
    return {
        "is_permit": action, "src_prefix": "0.0.0.0/0", "dst_prefix": "0.0.0.0/0", "proto": 0,
        "srcport_or_icmptype_first": 0, "srcport_or_icmptype_last": 65535, "dstport_or_icmpcode_first": 0,
        "dstport_or_icmpcode_last": 65535, "tcp_flags_mask": 0, "tcp_flags_value": 0,
    }  # fmt: skip


def _list(control: VppControl, rules: list[dict[str, Any]]) -> int:
    """An access list; what none of its rules knows is dropped."""
    made = control.call("acl_add_replace", acl_index=_NONE, tag="xdplab", count=len(rules), r=rules)["acl_index"]
    (shown,) = control.dump("acl_dump", acl_index=made)
    if shown["count"] != len(rules):
        raise PointFailed(f"vpp: an access list of {len(rules)} rules was given, VPP has {shown['count']}")
    for number, (asked, there) in enumerate(zip(rules, shown["r"], strict=True), start=1):
        if there != asked:
            raise PointFailed(f"vpp: rule {number} of an access list was given as {asked}, VPP has {there}")
    return int(made)


def _apply(control: VppControl, index: int, lists: list[int], n_input: int) -> None:
    wanted = {"sw_if_index": index, "count": len(lists), "n_input": n_input, "acls": lists}
    control.call("acl_interface_set_acl_list", **wanted)
    made = control.dump("acl_interface_list_dump", sw_if_index=index)
    if made != [wanted]:
        raise PointFailed(f"vpp: access lists {wanted} were set, VPP has {made}")


def _translate(control: VppControl, indexes: list[int]) -> None:
    """What goes through without a translation is dropped (`forwarding` is off by default)."""
    asked = {"inside_vrf": 0, "outside_vrf": 0, "sessions": _TRANSLATIONS, "session_memory": 0}
    control.call("nat44_ed_plugin_enable_disable", **asked, enable=True, flags=0)
    control.call(
        "nat44_add_del_address_range",
        first_ip_address=NAT_ADDRESS,
        last_ip_address=NAT_ADDRESS,
        vrf_id=_NONE,
        is_add=True,
        flags=0,
    )
    wanted = dict(zip(indexes, (_INSIDE, _OUTSIDE), strict=True))
    for index, flags in wanted.items():
        control.call("nat44_interface_add_del_feature", sw_if_index=index, is_add=True, flags=flags)
    made = {each["sw_if_index"]: each["flags"] for each in control.dump("nat44_interface_dump")}
    if made != wanted:
        raise PointFailed(f"vpp: translation between {wanted} was set, VPP has {made}")
