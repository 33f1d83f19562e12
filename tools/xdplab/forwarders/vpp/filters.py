# SPDX-License-Identifier: Apache-2.0
"""What stands before VPP's routes: access lists and connections of its acl plugin, translation of nat44-ed."""

from typing import Any

from xdplab.forwarders.base import Dut
from xdplab.forwarders.vpp.control import VppControl
from xdplab.forwarders.work import NAT_ADDRESS, AclRule, acl_rules, sides
from xdplab.model import PointFailed

#: vl_api_acl_action_t, vl_api_ip_proto_t, vl_api_nat_config_flags_t.
_DENY, _PERMIT, _REFLECT, _UDP, _OUTSIDE, _INSIDE = 0, 1, 2, 17, 0x10, 0x20
_NONE = 0xFFFFFFFF
#: Translations that nat44-ed keeps; its own default is 64,512.
_TRANSLATIONS = 262_144


def set_up(control: VppControl, dut: Dut, indexes: list[int]) -> None:
    """Of a pipeline that has any; the routes are there.

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
