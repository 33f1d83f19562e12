# SPDX-License-Identifier: Apache-2.0
"""The OpenFlow table that `offload_storm.py` changes, and what it names for each flow."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from lab import PORTS, Switch
from storm_traffic import FIRST_PORT, Named, Shape

FLOWS = 80  # by each port, more than the smallest table in XDP has room for
#: How a flow is matched, so that there are several masks.
MATCHES = (
    "udp,tp_src={tp}",
    "udp,tp_src={tp},nw_ttl=64",
    "udp,tp_src={tp},nw_src=10.77.0.0/16",
    "udp,tp_src={tp},tp_dst=9",
)
#: What is done before a frame leaves, and how it looks then; the last two want a tag.
BEFORE: Sequence[tuple[str, Callable[[Shape], Shape]]] = (
    ("", lambda shape: shape),
    ("push_vlan:0x8100,set_field:4103->vlan_vid,", lambda shape: shape._replace(tags=(7, *shape.tags))),
    ("mod_nw_ttl:5,", lambda shape: shape._replace(ttl=5)),
    ("mod_dl_dst:02:00:00:00:88:03,", lambda shape: shape._replace(dst=bytes.fromhex("020000008803"))),
    ("pop_vlan,", lambda shape: shape._replace(tags=shape.tags[1:])),
    ("set_field:4107->vlan_vid,", lambda shape: shape._replace(tags=(11, *shape.tags[1:]))),
)


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
        ((before, changed),) = self.random.choices(BEFORE[:4], (3, 1, 1, 1))
        self.named[entry] = Named() if out is None else Named(frozenset({out}), 1, changed(Shape()))
        does = "drop"
        if out is not None:
            # in_port: OpenFlow gives no frame back by `output` of the port that it came from
            port = "in_port" if out == entry[0] else f"output:{out + 1}"
            planted = {"twice": f"{before}{port},{port}", "shape": f"{before}mod_nw_ttl:9,{port}"}
            does = planted.get(self.plant or "", f"{before}{port}")
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
