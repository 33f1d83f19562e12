# SPDX-License-Identifier: Apache-2.0
"""Pipelines in OpenFlow 1.5, in the words of ovs-ofctl (ovs-actions(7), ovs-fields(7)).

A megaflow holds what was looked at to find its actions. A rule that moves a field into a register has looked at it, and
the datapath does nothing for that: so one rule makes as many megaflows as there are values, in a mask of our choice
(options `rules`, `rule_masks`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdplab.forwarders import node
from xdplab.forwarders.base import Dut
from xdplab.forwarders.ovs.daemon import BRIDGE, Ovs
from xdplab.forwarders.ovs.openflow import ask_rules, rule_counts
from xdplab.forwarders.ovs.options import OvsOptions
from xdplab.forwarders.pods import hops
from xdplab.forwarders.work import (
    BUCKET_MACS,
    METER_PPS,
    NAT_ADDRESS,
    TRAP,
    VLAN,
    VNI,
    VXLAN_PORT,
    Side,
    acl_rules,
    prefixes,
    sides,
)
from xdplab.model import Pipeline, Unsupported, XdplabError
from xdplab.model.pipeline import TOPOLOGIES

#: Cookie of the rules that the traffic of the tester's side meets, and of those that the answers meet.
FORTH, BACK = 1, 2
#: Name of the tunnel's port.
TUNNEL = "xdplab-vxlan"
#: UDP ports of tunnels (RFC 8926 section 3.3 for Geneve), and the addresses of both ends (RFC 5737).
_TUNNEL_PORTS = {"vxlan-link": VXLAN_PORT, "geneve-link": 6081}
TUNNEL_ENDS = ("203.0.113.5", "203.0.113.6")
#: Of the network that both ends are in: Open vSwitch takes a route's source address from there.
_BITS = 30
#: Of a UDP source port: which group of flows a frame is of. Testers count flows up from port 10000
#: (`headers_of`), whose frames are of the first group.
_GROUP_BITS, _FIRST = 0x3FF, 10_000 & 0x3FF
FLOWS = 64
#: What the rule of a group reads, for each bit of its number; no two groups read the same.
READS = (
    "NXM_OF_ETH_SRC[0..31]->NXM_NX_REG1[]",
    "NXM_OF_ETH_DST[0..31]->NXM_NX_REG1[]",
    "NXM_OF_ETH_SRC[32..47]->NXM_NX_REG1[0..15]",
    "NXM_OF_ETH_DST[32..47]->NXM_NX_REG1[0..15]",
    "NXM_OF_UDP_DST[]->NXM_NX_REG1[0..15]",
    "NXM_NX_IP_TTL[]->NXM_NX_REG1[0..7]",
)
#: What tells a tester's flows apart, so that each is a megaflow of its own.
_FLOW = (
    "move:NXM_OF_IP_SRC[]->NXM_NX_REG0[]",
    "move:NXM_OF_IP_DST[]->NXM_NX_REG0[]",
    "move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15]",
)
_WHOLE_FRAME = 65535
#: Of `ovs-ofctl dump-flows`; timeouts and importance stand between the counts and the match.
_RULE = re.compile(
    r" *cookie=\w+, duration=[^,]*, table=(?P<table>\d+), n_packets=(?P<packets>\d+), n_bytes=\d+,"
    r"(?: (?:idle|hard)_(?:timeout|age)=\d+,| importance=\d+,| reset_counts,?)* *(?P<rule>.*)"
)
#: Of the frames of the rule that most have met.
_FEW = 0.05
#: Characters of a rule that are kept.
_LONGEST = 240


@dataclass(frozen=True)
class Tables:
    """What a bridge is given, each line as `ovs-ofctl add-flows`, `add-groups` and `add-meter` take it."""

    flows: list[str]
    groups: list[str] = field(default_factory=list)
    meters: list[str] = field(default_factory=list)
    #: Options of Geneve, as `add-tlv-map` takes them.
    tlv_map: tuple[str, ...] = ()
    #: Whether the traffic's rules have the cookies FORTH and BACK.
    counted: bool = True


def tables(dut: Dut, ports: tuple[str, str], options: OvsOptions, further: Sequence[str] = ()) -> Tables:
    """Of any pipeline; `ports` are the names of the tester's ports in OVS, `further` those of its topology.

    Raises:
        Unsupported: an option asks for other rules than the pipeline's.
    """
    pipeline = dut.pipeline
    if pipeline.kind == "cross":
        both = dict.fromkeys((ports, ports[::-1]))
        return Tables([rule for here, there in both for rule in rules(here, there, options)])
    if options.rules != "ports":
        raise Unsupported(f"rules={options.rules}: these are rules of pipeline cross, not of {pipeline}")
    if pipeline.kind == "openflow":
        return Tables(
            node.flow_lines(pipeline),
            node.group_lines(pipeline),
            tlv_map=node.node_of(pipeline).tlv_map,
            counted=False,
        )
    if pipeline.pods:
        return Tables(_passed_on((ports[0], *further, ports[1])))
    if pipeline.kind in TOPOLOGIES:
        return Tables(list(_tunnel_between(pipeline, ports, *further)))
    return _tables(pipeline, *sides(dut), ports)


def _tables(pipeline: Pipeline, here: Side, there: Side, ports: tuple[str, str]) -> Tables:
    ways = ((here, there, FORTH), (there, here, BACK))
    name = {side.index: port for side, port in zip((here, there), ports, strict=True)}
    match pipeline.kind:
        case "bridge":
            return Tables([f"cookie={cookie},in_port={name[s.index]},actions=NORMAL" for s, _, cookie in ways])
        case "vlan":
            push = f"push_vlan:0x8100,set_field:{0x1000 | VLAN}->vlan_vid,output:{ports[1]}"
            return Tables(
                [
                    f"cookie={FORTH},in_port={ports[0]},vlan_tci=0/0x1000,actions={push}",
                    f"cookie={BACK},in_port={ports[1]},dl_vlan={VLAN},actions=pop_vlan,output:{ports[0]}",
                ]
            )
        case "vxlan":
            return Tables(list(_tunnel(there, ports)))
        case "meter":
            meter = f"meter=1,pktps,band=type=drop,rate={METER_PPS}"
            flows = [
                f"cookie={cookie},in_port={name[s.index]},actions=meter:1,output:{name[t.index]}"
                for s, t, cookie in ways
            ]
            return Tables(flows, meters=[meter])
        case "mirror":
            return Tables(
                [
                    f"cookie={cookie},in_port={name[s.index]},actions=output:{name[t.index]},in_port"
                    for s, t, cookie in ways
                ]
            )
        case "group":
            flows = [f"cookie={c},in_port={name[s.index]},actions=group:{t.index + 1}" for s, t, c in ways]
            return Tables(flows, groups=[_group(t.index + 1, name[t.index]) for _, t, _ in ways])
        case "route":
            return Tables(list(_routes(pipeline, ways, name, table=0)))
        case "acl":
            allowed = [rule for s, t, cookie in ways for rule in _acl(pipeline, s, t, cookie, name)]
            return Tables([*allowed, *_routes(pipeline, ways, name, table=1)])
        case "conntrack" | "nat":
            return Tables(list(_stateful(pipeline, ways, name)))
    raise AssertionError(pipeline)


def set_up(ovs: Ovs, made: Tables) -> None:
    """Give them to a bridge.

    Raises:
        XdplabError: it refuses something.
    """
    if ovs.dut.pipeline.kind == "vxlan":
        _open_tunnel(ovs)
    for meter in made.meters:
        ovs.ofctl("add-meter", meter)
    for option in made.tlv_map:
        ovs.ofctl("add-tlv-map", option)
    for group in made.groups:
        ovs.ofctl("add-group", group)
    ovs.add_flows(made.flows)


def rule_hits(ovs: Ovs, made: Tables) -> dict[str, int]:
    """By cookie and meter, once the datapath's counts have been taken over (`revalidator/wait`); {}: by neither."""
    if not made.counted:
        return {}
    ovs.control("revalidator/wait")
    counts = rule_counts(ovs.exchange(ask_rules(FORTH, BACK)))
    (_, forth), (_, back) = counts.rules
    return {"forth": forth, "back": back, **({"meter": counts.metered} if made.meters else {})}


def rules_met(ovs: Ovs) -> list[str]:
    """Rules that frames of the traffic have met, as `table=0 priority=10,ip actions=drop`.

    Not those that few have met: a host behind a port sends some of its own.
    """
    ovs.control("revalidator/wait")
    lines = ovs.ofctl("dump-flows", options=["--no-names"]).splitlines()
    counted = [(int(each["packets"]), each) for each in map(_RULE.match, lines) if each]
    least = max(2.0, max((count for count, _ in counted), default=0) * _FEW)
    return sorted(f"table={each['table']} {each['rule'][:_LONGEST]}" for count, each in counted if count >= least)


def _group(number: int, port: str) -> str:
    buckets = [f"bucket=actions=set_field:{mac}->eth_src,output:{port}" for mac in BUCKET_MACS]
    spread = "selection_method=hash,fields(ip_src,ip_dst,udp_src,udp_dst)"
    return f"group_id={number},type=select,{spread},{','.join(buckets)}"


Ways = tuple[tuple[Side, Side, int], ...]


def _routes(pipeline: Pipeline, ways: Ways, name: dict[int, str], table: int) -> Iterator[str]:
    """Of each direction; a TTL of one or less ends here (`dec_ttl`)."""
    yield f"table={table},priority=115,ip,nw_dst={TRAP},actions=drop"
    for source, target, cookie in ways:
        rewrite = f"dec_ttl,set_field:{target.mac}->eth_src,set_field:{target.peer_mac}->eth_dst"
        for prefix in prefixes(pipeline, target):
            number = cookie if table == 0 and prefix == target.network else 0
            yield (
                f"table={table},cookie={number},priority={100 + prefix.prefixlen},ip,dl_dst={source.mac},"
                f"nw_dst={prefix},actions={rewrite},output:{name[target.index]}"
            )


def _tunnel(there: Side, ports: tuple[str, str]) -> Iterator[str]:
    """What the tunnel's port makes leaves from the bridge's own (LOCAL), and what it takes is addressed to that one."""
    outer = f"udp,tp_dst={VXLAN_PORT},actions=output"
    yield f"cookie={FORTH},in_port={ports[0]},actions=output:{TUNNEL}"
    yield f"cookie={BACK},in_port={TUNNEL},actions=output:{ports[0]}"
    yield f"in_port=LOCAL,nw_src={there.address},{outer}:{ports[1]}"
    yield f"in_port={ports[1]},dl_dst={there.mac},nw_dst={there.address},{outer}:LOCAL"


def _passed_on(ends: Sequence[str]) -> list[str]:
    """Through containers, whose ports stand between the tester's; the first rule of each direction counts."""
    rules = [f"in_port={a},actions=output:{b}" for here, there in hops(ends) for a, b in ((here, there), (there, here))]
    return [f"cookie={FORTH},{rules[0]}", *rules[1:-1], f"cookie={BACK},{rules[-1]}"]


def _tunnel_between(
    pipeline: Pipeline, ports: tuple[str, str], link: str, peer: str, tunnel: str, other: str
) -> Iterator[str]:
    """What an end makes leaves from LOCAL by its link, and what comes in by a link is addressed to LOCAL."""
    yield f"cookie={FORTH},in_port={ports[0]},actions=output:{tunnel}"
    yield f"in_port={other},actions=output:{ports[1]}"
    yield f"cookie={BACK},in_port={ports[1]},actions=output:{other}"
    yield f"in_port={tunnel},actions=output:{ports[0]}"
    for here, there, by in ((*TUNNEL_ENDS, link), (*reversed(TUNNEL_ENDS), peer)):
        outer = f"udp,nw_src={here},nw_dst={there},tp_dst={_TUNNEL_PORTS[pipeline.kind]}"
        yield f"in_port=LOCAL,{outer},actions=output:{by}"
        yield f"in_port={peer if by == link else link},{outer},actions=output:LOCAL"


def _acl(pipeline: Pipeline, source: Side, target: Side, cookie: int, name: dict[int, str]) -> Iterator[str]:
    allowed = acl_rules(pipeline, source, target)
    for number, rule in enumerate(allowed, start=1):
        tag = cookie if number == len(allowed) else 0
        yield (
            f"table=0,cookie={tag},in_port={name[source.index]},udp,nw_src={rule.source},nw_dst={rule.target},"
            f"tp_dst={rule.udp_dst},actions=goto_table:1"
        )


def _stateful(pipeline: Pipeline, ways: Ways, name: dict[int, str]) -> Iterator[str]:
    """New connections from the tester's side only; with `nat` their source is translated, and back."""
    nat = pipeline.kind == "nat"
    commit = f"ct(commit,nat(src={NAT_ADDRESS}),table=2)" if nat else "ct(commit,table=2)"
    yield f"table=0,ip,ct_state=-trk,actions=ct(table=1{',nat' if nat else ''})"
    for source, _, cookie in ways:
        port = name[source.index]
        if cookie == FORTH:
            yield f"table=1,cookie={cookie},in_port={port},ip,ct_state=+trk+new-inv,actions={commit}"
        yield f"table=1,cookie={cookie},in_port={port},ip,ct_state=+trk+est-inv,actions=goto_table:2"
    yield from _routes(pipeline, ways, name, table=2)


def rules(here: str, there: str, options: OvsOptions) -> list[str]:
    """What comes in by one port leaves by the other (or by the same), in the words of ovs-ofctl."""
    back = here == there
    output = "in_port" if back else f"output:{there}"
    if options.rules == "ports":
        return [f"in_port={here},actions={output}"]
    found = []
    for number in range(FLOWS if options.rules == "flows" else options.rule_masks):
        mask = number % options.rule_masks
        reads = [f"move:{field}" for bit, field in enumerate(READS) if mask >> bit & 1]
        bits = FLOWS - 1 if options.rules == "flows" else _GROUP_BITS
        match = f"priority=10,in_port={here},udp,tp_src={(_FIRST + number) & bits:#x}/{bits:#x}"
        found.append(f"{match},actions={','.join([*reads, *_FLOW, output])}")
    if options.rules == "flows":
        return [*found, f"priority=0,in_port={here},actions={output}"]
    # to cut nothing off is an action that no offload knows, and costs no copy
    port = "in_port" if back else there
    return [*found, f"priority=0,in_port={here},actions=output(port={port},max_len={_WHOLE_FRAME})"]


def _open_tunnel(ovs: Ovs) -> None:
    """From the bridge's own address to the tester's port there, with its route and neighbour.

    Source: Documentation/howto/userspace-tunneling.rst of Open vSwitch.
    """
    _, there = sides(ovs.dut)
    ovs.vsctl(
        *("set", "bridge", BRIDGE, f'other_config:hwaddr="{there.mac}"', "--", "add-port", BRIDGE, TUNNEL, "--"),
        *("set", "Interface", TUNNEL, "type=vxlan", f"options:key={VNI}"),
        *(f"options:remote_ip={there.next_hop}", f"options:local_ip={there.address}"),
    )
    ovs.host.run(["ip", "address", "add", f"{there.address}/{_BITS}", "dev", BRIDGE])
    ovs.host.run(["ip", "link", "set", BRIDGE, "up"])
    ovs.until(lambda: route_added(ovs, there.next_hop), 5.0, f"a route to {there.next_hop}")
    ovs.control("tnl/neigh/set", BRIDGE, there.next_hop, there.peer_mac)


def route_added(ovs: Ovs, address: str) -> bool:
    """False while the daemon has not heard from the kernel that its bridge has an address."""
    try:
        ovs.control("ovs/route/add", f"{address}/32", BRIDGE)
    except XdplabError as exc:
        if "inserting route" in str(exc):
            return False
        raise
    return True
