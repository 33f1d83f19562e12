# SPDX-License-Identifier: Apache-2.0
"""The OpenFlow pipelines that `pipeline_storm.py` changes, and what they name for each flow."""

from __future__ import annotations

import random
from collections.abc import Sequence

from lab import Switch
from storm_rules import BEFORE, MATCHES
from storm_traffic import FIRST_PORT, STAMP, TAG, Named, Shape, headers

FLOWS = 16  # by each port
PORTS = 4
GROUPS = (1, 2, 3, 4)
KINDS = ("output", "resubmit", "controller", "ct", "tracked", "nat", "group", "meter", "drop")
NAT = b"\x0a\x4d\x09\x09"
#: Table 1: by register 0, one bit for each port.
SECOND = [
    f"table=1,reg0={ports},actions=" + (",".join(f"output:{n + 1}" for n in range(PORTS) if ports >> n & 1) or "drop")
    for ports in range(1 << PORTS)
]


def outputs(ports: Sequence[int]) -> str:
    """Actions that send to ports with these indices."""
    return ",".join(f"output:{port + 1}" for port in ports)


class Pipelines:
    """Two tables, four groups and a meter; frames leave by none to three ports, changed or not.

    Attributes:
        named: What the rules name for each flow: its port of entry, and its number.
        kinds: The kind of the pipeline of each flow that has one.
    """

    def __init__(self, seed: int, switch: Switch, plant: str | None) -> None:
        self.random = random.Random(seed)  # noqa: S311 (a test)
        self.switch = switch
        self.plant = plant
        self.groups: dict[int, tuple[str, list[int]]] = {}
        self.named: dict[tuple[int, int], Named] = {}
        self.kinds: dict[tuple[int, int], str] = {}
        self.texts: dict[tuple[int, int], str] = {}
        self._grouped: dict[tuple[int, int], tuple[int, Shape]] = {}
        self._forget([(port, flow) for port in range(PORTS) for flow in range(FLOWS)])

    def start(self) -> None:
        """Makes the groups and the meter, which later only change."""
        self.switch.ofctl("add-meter", "meter=1 pktps burst band=type=drop rate=1000000 burst_size=1000000")
        for group in GROUPS:
            self._choose_group(group)
            self.switch.ofctl("add-group", self._group_text(group))

    def connect(self) -> str:
        """A frame of each flow in both directions makes the connections that `tracked` looks for."""
        for flow in range(FLOWS):
            there = headers(flow) + bytes(STAMP.size)
            # addresses and ports of IPv4 and UDP, whose checksums stay what they are
            back = there[:26] + there[30:34] + there[26:30] + there[36:38] + there[34:36] + there[38:]
            for frame in (there, back):
                self.switch.ofctl("packet-out", f"in_port=1,packet={frame.hex()},actions=ct(commit,zone=3)")
        return "connections made"

    def _forget(self, entries: Sequence[tuple[int, int]]) -> None:
        for entry in entries:
            self.named[entry] = Named()
            for known in (self.kinds, self.texts, self._grouped):
                known.pop(entry, None)

    def _match(self, entry: tuple[int, int]) -> str:
        port, flow = entry
        how = MATCHES[(port + flow) % len(MATCHES)].format(tp=FIRST_PORT + flow)
        return f"priority=10,in_port={port + 1},{how}" + (f",dl_vlan={TAG}" if flow % 2 else "")

    def _choose_group(self, group: int) -> None:
        kind = self.random.choice(("all", "select", "indirect"))
        ports = self.random.sample(range(PORTS), 1 if kind == "indirect" else self.random.choice((1, 2, 3)))
        self.groups[group] = (kind, ports)

    def _group_text(self, group: int) -> str:
        kind, ports = self.groups[group]
        return f"group_id={group},type={kind}" + "".join(f",bucket=actions=output:{port + 1}" for port in ports)

    def _name_group(self, entry: tuple[int, int]) -> None:
        group, shape = self._grouped[entry]
        kind, buckets = self.groups[group]
        ports = frozenset(buckets) - {entry[0]}  # OpenFlow gives no frame back by the port that it came from
        self.named[entry] = Named(ports, len(ports) if kind == "all" else 1, shape)

    def _name(self, entry: tuple[int, int], kind: str, ports: Sequence[int]) -> None:
        self._forget([entry])
        tagged = entry[1] % 2 == 1
        before, changed = self.random.choice(BEFORE if tagged else BEFORE[:-2])
        shape = changed(Shape(tags=(TAG,)) if tagged else Shape())
        second = f"load:{sum(1 << port for port in ports)}->NXM_NX_REG0[],"
        if kind == "nat":
            shape = shape._replace(src=NAT)
        does = {
            "output": outputs(ports),
            "drop": "drop",
            "resubmit": f"{second}resubmit(,1)",
            "controller": f"controller(pause),{outputs(ports)}",
            "ct": f"{second}ct(commit,zone=1,table=1)",
            "tracked": f"{second}ct(zone=3,table=1)",
            "nat": f"{second}ct(commit,zone=2,nat(src=10.77.9.9),table=1)",
        }
        self.kinds[entry] = kind
        self.named[entry] = Named(frozenset() if kind == "drop" else frozenset(ports), len(ports), shape)
        if kind == "group":
            group = self.random.choice(GROUPS)
            self._grouped[entry] = (group, shape)
            self._name_group(entry)
            text = f"{before}group:{group}"
        elif kind == "meter":  # is always the first
            text = f"meter:1,{before}{outputs(ports)}"
        else:
            text = (before if kind != "drop" else "") + does[kind]
        if kind == "output":
            planted = {
                "twice": f"{text},{outputs(ports)}",
                "shape": f"mod_nw_ttl:9,{text}",
                "damage": f"mod_tp_dst:8,{text}",
            }
            text = planted.get(self.plant or "", text)
        self.texts[entry] = f"{self._match(entry)},actions={text}"

    def _others(self, entry: tuple[int, int]) -> list[int]:
        others = [port for port in range(PORTS) if port != entry[0]]
        return self.random.sample(others, self.random.choice((1, 1, 2, 3)))

    def change_one(self) -> str:
        """Adds, deletes or modifies a flow."""
        entry = self.random.choice(list(self.named))
        if entry in self.texts and self.random.random() < 0.2:
            self._forget([entry])
            self.switch.ofctl("del-flows", "--strict", self._match(entry))
            return f"flow {entry} deleted"
        self._name(entry, self.random.choice(KINDS), self._others(entry))
        if self.plant != "stale":
            self.switch.ofctl("add-flow", self.texts[entry])
        return f"flow {self.texts[entry]}"

    def replace_all(self, kinds: Sequence[str] = KINDS, one_port: bool = False) -> str:
        """New flows everywhere, in one transaction; each to one port, the next, or to some."""
        for entry in self.named:
            ports = [(entry[0] + 1 + entry[1] % (PORTS - 1)) % PORTS] if one_port else self._others(entry)
            self._name(entry, self.random.choice(kinds), ports)
        self.switch.ofctl("replace-flows", "-", stdin="\n".join([*self.texts.values(), *SECOND]) + "\n")
        return f"all flows replaced by {', '.join(kinds)}"

    def change_group(self) -> str:
        """Other buckets or another type; or deletes a group, and all flows with it, and adds it again."""
        group = self.random.choice(GROUPS)
        self._choose_group(group)
        users = [entry for entry, (used, _) in self._grouped.items() if used == group]
        if self.random.random() < 0.3:
            self._forget(users)
            self.switch.ofctl("del-groups", f"group_id={group}")
            self.switch.ofctl("add-group", self._group_text(group))
            return f"deleted and added: {self._group_text(group)}"
        for entry in users:
            self._name_group(entry)
        self.switch.ofctl("mod-group", self._group_text(group))
        return self._group_text(group)

    def change_meter(self) -> str:
        """Another rate, which drops some or nothing."""
        rate = self.random.choice((50, 1000, 1000000))
        self.switch.ofctl("mod-meter", f"meter=1 pktps burst band=type=drop rate={rate} burst_size={rate}")
        return f"meter of {rate} packets a second"
