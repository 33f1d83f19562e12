# SPDX-License-Identifier: Apache-2.0
"""The OpenFlow table that `offload_storm.py` changes, and what it names for each flow."""

from __future__ import annotations

import random
from collections.abc import Sequence

from lab import PORTS, Switch
from storm_traffic import FIRST_PORT, Named

FLOWS = 16  # by each port
#: How a flow is matched, so that there are several masks.
MATCHES = (
    "udp,tp_src={tp}",
    "udp,tp_src={tp},nw_ttl=64",
    "udp,tp_src={tp},nw_src=10.77.0.0/16",
    "udp,tp_src={tp},tp_dst=9",
)
#: What is done before a frame leaves.
BEFORE = ("", "", "", "push_vlan:0x8100,set_field:4103->vlan_vid,", "mod_nw_ttl:5,", "mod_dl_dst:02:00:00:00:88:03,")


class Rules:
    """The OpenFlow table, and what it names for each flow."""

    def __init__(self, seed: int, switch: Switch, plant: str | None) -> None:
        self.plant = plant
        self.random = random.Random(seed)  # noqa: S311 (a test)
        self.switch = switch
        self.named: dict[tuple[int, int], Named] = {}
        self.texts: dict[tuple[int, int], str] = {}
        self.forget()

    def forget(self) -> None:
        """The table is empty, as after a start."""
        self.named = {(port, flow): Named() for port in range(len(PORTS)) for flow in range(FLOWS)}
        self.texts = {}

    def _match(self, entry: tuple[int, int]) -> str:
        how = MATCHES[(entry[0] + entry[1]) % len(MATCHES)]
        return f"priority=10,in_port={entry[0] + 1},{how.format(tp=FIRST_PORT + entry[1])}"

    def _name(self, entry: tuple[int, int], out: int | None) -> None:
        self.named[entry] = Named() if out is None else Named(frozenset({out}))
        # in_port: OpenFlow gives no frame back by `output` of the port that it came from
        port = "in_port" if out == entry[0] else f"output:{out + 1}" if out is not None else ""
        does = f"{self.random.choice(BEFORE)}{port}" if port else "drop"
        does += f",{port}" if port and self.plant == "twice" else ""
        self.texts[entry] = f"{self._match(entry)},actions={does}"

    def change_one(self) -> str:
        """Adds, deletes or modifies a flow."""
        entry = self.random.choice(list(self.named))
        if entry in self.texts and self.random.random() < 0.25:
            del self.texts[entry]
            self.named[entry] = Named()
            self.switch.ofctl("del-flows", "--strict", self._match(entry))
            return f"flow {entry} deleted"
        self._name(entry, self.random.choice((0, 1, 0, 1, None)))
        if self.plant != "stale":
            self.switch.ofctl("add-flow", self.texts[entry])
        return f"flow {self.texts[entry]}"

    def replace_all(self, outs: Sequence[int | None] = ()) -> str:
        """A new table, in one transaction; each flow to the other port, or at random to one of these."""
        for entry in self.named:
            self._name(entry, self.random.choice(list(outs)) if outs else 1 - entry[0])
        self.switch.ofctl("replace-flows", "-", stdin="\n".join(self.texts.values()) + "\n")
        return "all flows replaced"
