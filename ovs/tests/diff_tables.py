# SPDX-License-Identifier: Apache-2.0
"""Random OpenFlow tables for `offload_diff.py`: each has a catch-all, so that every frame is counted by some flow."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from diff_packets import GENEVE, GREETING, IPV4, IPV6, L4_PORTS, TUNNEL_IP, TUNNEL_PEERS, VLANS, VNIS, VXLAN, macs

#: What a table's flows may do. `plain` is what an offload takes first; each of the others has it as well.
KINDS = ("plain", "plain", "vlan", "fields", "recirc", "tunnel", "tunnel", "conntrack", "conntrack", "normal", "mixed")
#: Ports by which frames come out of tunnels, by their OpenFlow number.
TUNNELS = {101: "vxlan", 102: "geneve"}
#: Priorities from here on are of flows that a frame meets after another one: out of a tunnel, or tracked; the highest.
SECOND, HIGHEST = 20_000, 22_000
#: Fields that may be set, by what the flow matches; Open vSwitch wants to be sure that they are there.
IPV4_FIELDS = ("set_field:{ip}->ip_src", "set_field:{ip}->ip_dst")
IP_FIELDS = ("mod_nw_tos:40", "mod_nw_ecn:1", "mod_nw_ttl:9", "dec_ttl")
IPV6_FIELDS = ("set_field:{ip6}->ipv6_src", "set_field:{ip6}->ipv6_dst", "set_field:77->ipv6_label")
PORT_FIELDS = ("mod_tp_src:{tp}", "mod_tp_dst:{tp}")
TRANSPORT = {"tcp": 4, "udp": 4, "sctp": 4, "tcp6": 6, "udp6": 6, "sctp6": 6}
OTHER_ETHERTYPES = ("0x88cc", "0x8809", "0x8902", "0x05ff", "0x8848")


@dataclass(frozen=True)
class Table:
    """Flows of a table, in the words of ovs-ofctl; the last one is the catch-all.

    Attributes:
        kind: One of KINDS.
        flows: Each with a priority of its own.
    """

    kind: str
    flows: tuple[str, ...]


class Tables:
    """Tables drawn from a seed."""

    def __init__(self, seed: str, ports: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 (a test)
        self.ports = ports

    def table(self) -> Table:
        """The next one."""
        kind = self.random.choice(KINDS)
        if kind == "conntrack":
            last = f"priority=0,actions={self._output()}"
            return Table(kind, (*self._tracked(), last))
        # what `normal` does must depend on no order: the frames by which addresses are learned meet no other flow
        flows = [f"priority=2000,dl_type=0x{GREETING:x},actions=normal"] if kind in ("normal", "mixed") else []
        count = self.random.randint(4, 14)
        for place in range(count):
            match, what = self._match()
            if not match:
                continue
            text = f"priority={1000 - place},{','.join(match)}"
            flows.append(f"{text},actions={self._actions(kind, what, match)}")
        if kind == "tunnel":
            flows = [*self._tunnels(), *flows]
        last = self.random.choice(("drop", *[self._output()] * 4))
        return Table(kind, (*flows, f"priority=0,actions={last}"))

    def _tracked(self) -> list[str]:
        """A firewall that the first port may open connections through, in one zone or two."""
        choose, some = self.random.choice, self._some
        zones = self.random.sample((0, 5, 65535), choose((1, 1, 2)))
        nat, mark = choose(("", "", ",nat")), choose((0, 0, 7))
        commit = ",".join(
            f"ct(commit,zone={zone}" + (f",exec(set_field:{mark}->ct_mark)" if mark else "") + ")" for zone in zones
        )
        flows = [
            f"priority={1000 - place},{ip},ct_state=-trk,actions="
            + ("mod_dl_src:02:00:00:00:aa:01," if some(0.2) else "") + f"ct(table=1,zone={zones[0]}{nat})"
            for place, ip in enumerate(("ip", "ipv6"))
        ]  # fmt: skip
        states: list[tuple[str, str]] = []
        for ip in ("ip", "ipv6"):
            states.append((f"{ip},ct_state=+trk+new,in_port=1", f"{commit},output:2"))
            for port in (1, 2):
                matched = (
                    f"{ip},ct_state=+trk+est{choose(('', '-rpl', '-inv')) if port == 1 else '+rpl'},in_port={port}"
                )
                if mark and some(0.7):
                    matched += f",ct_mark={mark}{choose(('', '/0x1'))}"
                edit = choose(("", "", "mod_dl_dst:02:00:00:00:aa:02,", "dec_ttl,", "push_vlan:0x8100,"))
                last = f"{edit}output:{3 - port}"
                states.append((matched, last if len(zones) == 1 else f"ct(table=2,zone={zones[1]}{nat})"))
        states.append(("ct_state=+inv+trk", choose(("drop", "output:3"))))
        states.append(("", "output:3"))
        flows += [
            ",".join(filter(None, [f"table=1,priority={SECOND + 900 - place}", matched, f"actions={actions}"]))
            for place, (matched, actions) in enumerate(states)
        ]
        for place, state in enumerate(("+trk+est", "+trk-est")):
            flows.append(f"table=2,priority={SECOND + 100 - place},ct_state={state},actions=output:{choose((1, 2, 3))}")
        return flows

    def _tunnels(self) -> list[str]:
        """What sends frames into the ends of tunnels, and what frames out of them meet."""
        flows = [
            f"priority={3000 + place},udp,nw_dst={TUNNEL_IP},tp_dst={port},actions=LOCAL"
            for place, port in enumerate((VXLAN, GENEVE))
        ]
        for place in range(self.random.randint(3, 10)):
            match, what = self._match()
            match = [f"in_port={self.random.choice(list(TUNNELS))}", *(each for each in match if "in_port" not in each)]
            if self._some(0.3):
                match.append(f"tun_id={self.random.choice(VNIS):#x}{self.random.choice(('', '/0x1'))}")
            if self._some(0.15):
                match.append(
                    f"tun_src={self.random.choice(TUNNEL_PEERS)}{self.random.choice(('', '/255.255.255.254'))}"
                )
            if self._some(0.1):
                match.append(self.random.choice(("tun_flags=-oam", f"tun_dst={TUNNEL_IP}")))
            kind = self.random.choice(("plain", "plain", "vlan", "fields", "recirc"))
            actions = self._actions(kind, what, match, alone=True)
            flows.append(f"priority={SECOND + 1000 - place},{','.join(match)},actions={actions}")
        return flows + [f"priority={SECOND + port},in_port={port},actions={self._output()}" for port in TUNNELS]

    def _some(self, share: float) -> bool:
        return self.random.random() < share

    def _match(self) -> tuple[list[str], str]:
        """Fields, and the protocol they are of ("": any)."""
        choose = self.random.choice
        match = [f"in_port={self.random.randint(1, self.ports)}"] if self._some(0.35) else []
        if self._some(0.08):
            match.append(f"dl_src={mac(choose(macs(self.random.randrange(self.ports))))}")
        if self._some(0.1):
            some = mac(choose(macs(self.random.randrange(self.ports))))
            match.append(choose((f"dl_dst={some}", "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00")))
        if self._some(0.2):
            vlan = choose(VLANS)
            match.append(
                choose((f"dl_vlan={vlan}", f"dl_vlan={vlan},dl_vlan_pcp={choose((0, 3, 7))}", "vlan_tci=0",
                        "vlan_tci=0x1000/0x1000", "vlan_tci=0x1000/0x1003"))
            )  # fmt: skip
        what = choose(("", "ip", "ipv6", "arp", "mpls", "icmp", "icmp6", "other", *TRANSPORT))
        if what == "other":
            match.append(f"dl_type={choose(OTHER_ETHERTYPES)}")
        elif what:
            match.append(what)
            match += self._fields(what)
        return match, what

    def _fields(self, what: str) -> list[str]:
        choose, fields = self.random.choice, []
        if what == "arp":
            return [f"arp_op={choose((1, 2))}"] if self._some(0.5) else []
        if what == "mpls":
            return [f"mpls_label={choose((0, 16, 1000))}"] if self._some(0.5) else []
        fields += self._ip_fields(version(what))
        if any(field in ("nw_frag=later", "nw_frag=yes") for field in fields):
            return fields  # later fragments have no ports, and Open vSwitch refuses them in such a flow
        if what in TRANSPORT:
            fields += [f"{name}={choose(L4_PORTS)}{choose(('', '', '/0xff00', '/0x0001'))}"
                       for name in ("tp_src", "tp_dst") if self._some(0.2)]  # fmt: skip
        if what.startswith("tcp") and self._some(0.25):
            fields.append(f"tcp_flags={choose(('+syn', '+syn-ack', '-rst', '+ack+psh', '0x10/0xfff'))}")
        if what in ("icmp", "icmp6") and self._some(0.4):
            fields.append(f"icmp_type={choose((8, 0, 3) if what == 'icmp' else (128, 135, 136))}")
        return fields

    def _ip_fields(self, version: int) -> list[str]:
        choose, fields = self.random.choice, []
        names, pool, lengths = {
            4: (("nw_src", "nw_dst"), IPV4, (30, 24, 9)),
            6: (("ipv6_src", "ipv6_dst"), IPV6, (126, 64, 33)),
        }.get(version, ((), IPV4, (0,)))
        for name in names:
            if self._some(0.15):
                fields.append(f"{name}={choose(pool)}" + choose(("", f"/{choose(lengths)}")))
        others = {
            0.1: (*(f"nw_ttl={ttl}" for ttl in (1, 2, 64, 255)), "nw_tos=40", "nw_tos=184", "nw_ecn=1", "nw_tos=0"),
            0.15: tuple(f"nw_frag={which}" for which in ("no", "yes", "first", "later", "not_later")),
        }
        return fields + [choose(values) for share, values in others.items() if version and self._some(share)]

    def _output(self) -> str:
        return f"output:{self.random.randint(1, self.ports)}"

    def _actions(self, kind: str, what: str, match: Sequence[str], alone: bool = False) -> str:
        """Of a flow; `alone`: to one port at most."""
        chosen = self.random.choice(("vlan", "fields", "recirc", "normal")) if kind == "mixed" else kind
        if chosen == "normal" and self._some(0.75):
            return "normal"
        if self._some(0.15):
            return "drop"
        if not alone and self._some(0.05):
            return self.random.choice(("in_port", "all", "output:1,output:2", "output(port=2,max_len=60)", "flood"))
        if chosen == "vlan":
            return ",".join([*self._vlan(match), self._output()])
        if chosen == "fields":
            return ",".join([*self._sets(what, match), self._output()])
        if chosen == "recirc":
            return ",".join([*self._recirc(what, match), self._output()])
        return self._output()

    def _recirc(self, what: str, match: Sequence[str]) -> list[str]:
        """Recirculation, once or twice, with changes before and after."""
        words: list[str] = []
        for _ in range(self.random.choice((1, 1, 1, 2))):
            words += self.random.choice(([], self._sets(what, match), self._vlan(match) if not words else []))
            words.append("debug_recirc")
        tagged = any("push_vlan" in word or word.endswith(("vlan_vid", "vlan_pcp")) for word in words)
        after = self.random.choice(([], self._sets(what, match), ["pop_vlan"] if tagged else []))
        return [*words, *after]

    def _vlan(self, match: Sequence[str]) -> list[str]:
        """Tags; only what the match says to be there is taken off or changed."""
        vlan = 0x1000 | self.random.choice(VLANS[:-1])
        push = [f"push_vlan:{self.random.choice(('0x8100', '0x8100', '0x88a8'))}", f"set_field:{vlan}->vlan_vid"]
        tagged = any(field.startswith(("dl_vlan=", "vlan_tci=0x1000/")) for field in match)
        change = [["pop_vlan"], [f"set_field:{vlan}->vlan_vid"], ["set_field:5->vlan_pcp"], ["pop_vlan", *push]]
        return self.random.choice([push, *change] if tagged else [push])

    def _sets(self, what: str, match: Sequence[str]) -> list[str]:
        choose = self.random.choice
        some = ["mod_dl_src:02:00:00:00:aa:01", "mod_dl_dst:02:00:00:00:aa:02"]
        if what in ("ip", "icmp", "ipv6", "icmp6") or what in TRANSPORT:
            some += IP_FIELDS + (IPV4_FIELDS if version(what) == 4 else IPV6_FIELDS)
        if what in TRANSPORT and "nw_frag=later" not in match:
            some += PORT_FIELDS
        words = self.random.sample(some, min(len(some), self.random.randint(1, 3)))
        return [word.format(ip=choose(IPV4), ip6=choose(IPV6), tp=choose(L4_PORTS)) for word in words]


def version(what: str) -> int:
    """Of IP; 0 for others."""
    return TRANSPORT.get(what, {"ip": 4, "icmp": 4, "ipv6": 6, "icmp6": 6}.get(what, 0))


def mac(address: bytes) -> str:
    """In colons."""
    return address.hex(":")


#: Actions of the datapath; each must be offloaded at times.
EDITS = ("set(", "push_vlan", "pop_vlan", "tnl_pop(", "recirc(", "ct(")
MANY = 30_000  # of so many frames
SEVERAL = ("recirc", "tunnel", "conntrack")  # kinds of tables in which some frames must have met several


def edits(flows: str) -> Counter[str]:
    """How many of these flows, in the words of `dpctl/dump-flows`, have an action of each of EDITS."""
    actions = [line.partition("actions:")[2] for line in flows.splitlines()]
    return Counter(edit for each in actions for edit in EDITS if edit in each)


def not_offloaded(sent: int, offloaded: int, edited: Counter[str], several: Counter[str]) -> list[str]:
    """What never was, and so is not compared.

    `edited`: offloaded flows, by edit, which few frames need not meet; `several`: frames that met several offloaded
    flows, by kind of table.
    """
    if not offloaded:
        return ["nothing was offloaded"]
    if sent < MANY:
        return []
    missing = [f"no flow with {edit.rstrip('(')} was offloaded" for edit in EDITS if not edited[edit]]
    return missing + [
        f"no frame of a table of {kind} met several flows in XDP" for kind in SEVERAL if not several[kind]
    ]


PLANTS = ("port", "bytes", "count")


def planted(table: Table, fault: str) -> tuple[Table, Table]:
    """Two tables that differ in what the catch-all does: to which port, with which bytes, counted by which flow."""
    *flows, last = table.flows
    head = last.partition("actions=")[0]
    if fault == "port":
        ends = ["actions=output:1"], ["actions=output:2"]
    elif fault == "bytes":
        ends = ["actions=mod_dl_src:02:00:00:00:bb:01,output:1"], ["actions=mod_dl_src:02:00:00:00:bb:02,output:1"]
    else:
        ends = ["actions=output:1"], ["actions=output:1"]
    left, right = ([*flows, *(head + end for end in each)] for each in ends)
    if fault == "count":  # the same frames to the same port, half of them by a flow that the other side has not got
        right.append("priority=1,in_port=2,actions=output:1")
    return replace(table, flows=tuple(left)), replace(table, flows=tuple(right))
