# SPDX-License-Identifier: Apache-2.0
"""Pipelines in VPP, through its API; what is set is read back where VPP tells it."""

from typing import Any

from xdplab.forwarders.base import Dut
from xdplab.forwarders.vpp_control import VppControl
from xdplab.forwarders.work import TRAP, VLAN, Side, prefixes, sides
from xdplab.model import PointFailed

#: Of VPP, in this module's order.
PIPELINES = ("cross", "bridge", "vlan", "route")
_DOMAIN = 1
#: vl_api_sub_if_flags_t, l2_vtr_op_t (vnet/l2/l2_vtr.h), vl_api_fib_path_type_t, vl_api_ip_neighbor_flags_t.
_ONE_TAG, _EXACT_MATCH, _POP_1, _DROP, _STATIC = 2, 16, 3, 2, 1
_ADMIN_UP = 1


def set_up(control: VppControl, dut: Dut, indexes: list[int]) -> None:
    """`indexes`: sw_if_index of the interface of each port.

    Raises:
        PointFailed: VPP refused something, or does not show what it took.
        Unsupported: this VPP has not got a message.
    """
    kind = dut.pipeline.kind
    if kind == "bridge":
        _bridge(control, indexes)
    elif kind == "vlan":
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
    elif kind == "route":
        _route(control, dut, indexes)
    else:
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


def _route(control: VppControl, dut: Dut, indexes: list[int]) -> None:
    for side, index in zip(sides(dut), indexes, strict=True):
        control.call("sw_interface_set_mac_address", sw_if_index=index, mac_address=side.mac)
        control.call(
            "sw_interface_add_del_address", sw_if_index=index, is_add=True, del_all=False, prefix=f"{side.address}/32"
        )
        neighbor = {
            "sw_if_index": index, "flags": _STATIC, "mac_address": side.peer_mac, "ip_address": side.next_hop,
        }  # fmt: skip
        control.call("ip_neighbor_add_del", is_add=True, neighbor=neighbor)
        for prefix in prefixes(dut.pipeline, side):
            _tell_route(control, str(prefix), _by(side, index))
    drop(control, str(TRAP))


def route(control: VppControl, side: Side, index: int, preference: int) -> None:
    """The traffic's route to a side again."""
    _tell_route(control, str(side.network), {**_by(side, index), "preference": preference})


def drop(control: VppControl, prefix: str, *, add: bool = True) -> None:
    """A route that leads nowhere."""
    _tell_route(control, prefix, {**_path(0xFFFFFFFF), "type": _DROP}, add=add)


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


def commands(dut: Dut, names: list[str]) -> list[str]:
    """CLI commands that do the same; `names` are VPP's of the interfaces."""
    both: list[tuple[Side, str]] = [] if dut.pipeline.kind != "route" else list(zip(sides(dut), names, strict=True))
    match dut.pipeline.kind:
        case "bridge":
            return [f"set interface l2 bridge {name} {_DOMAIN}" for name in names]
        case "vlan":
            trunk = f"{names[1]}.{VLAN}"
            return [
                f"create sub-interfaces {names[1]} {VLAN} dot1q {VLAN} exact-match",
                f"set interface state {trunk} up",
                f"set interface l2 xconnect {names[0]} {trunk}",
                f"set interface l2 xconnect {trunk} {names[0]}",
                f"set interface l2 tag-rewrite {trunk} pop 1",
            ]
        case "route":
            lines = []
            for side, name in both:
                lines += [
                    f"set interface mac address {name} {side.mac}",
                    f"set interface ip address {name} {side.address}/32",
                    f"set ip neighbor static {name} {side.next_hop} {side.peer_mac}",
                    *(f"ip route add {each} via {side.next_hop} {name}" for each in prefixes(dut.pipeline, side)),
                ]
            return [*lines, f"ip route add {TRAP} via drop"]
    return [f"set interface l2 xconnect {here} {there}" for here, there in zip(names, reversed(names), strict=True)]
