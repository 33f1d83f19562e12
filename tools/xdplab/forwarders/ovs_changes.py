# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch, changed while frames run through it: over OpenFlow 1.5 and its database."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal

from xdplab.forwarders import ovs_openflow
from xdplab.forwarders.base import Dut
from xdplab.forwarders.changes import (
    SPARE_LINKS,
    Change,
    Step,
    add_spare_link,
    counted,
    port_change,
    spare_addresses,
)
from xdplab.forwarders.ovs import _BRIDGE, OvsForwarder, OvsOptionsT
from xdplab.forwarders.ovs_readback import rxq_places
from xdplab.forwarders.process import wait_until
from xdplab.model import PointFailed

#: Of the rules that come and go: they stand above all others, and no frame of the traffic is theirs.
_COOKIE, _PRIORITY = 0x5A, 40_000
#: How long the daemon may take to show a port or a queue.
_SEEN_S = 10.0


class OvsChanging(OvsForwarder[OvsOptionsT]):
    """The changes of all OVS forwarders."""

    changes: ClassVar[tuple[str, ...]] = ("rules", "rule-stream", "hit-rule", "port-added")
    own_links: ClassVar[tuple[str, ...]] = (*OvsForwarder.own_links, *SPARE_LINKS)
    _replaced_at = 0.0

    def change(self, kind: str, count: int) -> Change:
        """Rules of table 0 in one bundle or as a stream, the rules in use, a port, a queue of the first port."""
        if kind == "hit-rule":
            return Change([Step("replaced", len(self._made.flows), self._replace, self._not_replaced)], often=True)
        if kind == "port-added":
            return self._port()
        if kind == "queue-added":
            return self._queue()
        ways: tuple[tuple[str, Literal["add", "delete"], int], ...] = (
            ("installed", "add", count),
            ("removed", "delete", 0),
        )
        steps = []
        for name, command, left in ways:
            asked = ovs_openflow.rule_changes(
                command, spare_addresses(count), cookie=_COOKIE, priority=_PRIORITY, bundle=kind == "rules"
            )
            steps.append(Step(name, count, self._told_to(asked), counted("rules", left, self._spare_rules)))
        return Change(steps, undo=self._remove_rules, often=True)

    def cannot_change(self, kind: str, dut: Dut) -> str | None:
        """Rules that make a megaflow of each flow look at it in pipeline cross."""
        own_flows = kind == "new-flows" and self.options.rules != "ports"
        return None if own_flows else super().cannot_change(kind, dut)

    def flows_met(self) -> int | None:
        """Lookups that missed every megaflow, or connections that are known."""
        if self.options.rules != "ports":
            return int(re.findall(r"missed:(\d+)", self._control("dpctl/show"))[0])
        told = self._control("dpctl/ct-get-nconns").strip()
        return int(told) if told.isdigit() else None

    def _told_to(self, asked: bytes) -> Callable[[], None]:
        return lambda: ovs_openflow.refuse_errors(self._spoken(asked))

    def _spare_rules(self) -> int:
        return ovs_openflow.rules_there(self._spoken, _COOKIE)

    def _remove_rules(self) -> None:
        self._ofctl("del-flows", f"cookie={_COOKIE:#x}/-1")

    def _replace(self) -> None:
        self._replaced_at = time.monotonic()
        self._ofctl("add-flows", "--bundle", "-", stdin="\n".join(self._made.flows) + "\n")

    def _not_replaced(self) -> str:
        """A rule that has been put in another's place is as old as that is ago."""
        ages = [float(age) for age in re.findall(r"duration=([\d.]+)s", self._ofctl("dump-flows"))]
        since = time.monotonic() - self._replaced_at
        older = [age for age in ages if age > since]
        return f"{len(older)} of {len(ages)} rules are the old ones" if older or not ages else ""

    def _port(self) -> Change:
        assert self._dut is not None
        dut = self._dut
        spare = replace(dut, ports=(*dut.ports, add_spare_link(dut.host, dut.ports[0])))
        name, columns = self.interface(len(dut.ports), spare)

        def there() -> int:
            errors = self._interfaces("error")
            if errors.get(name, ["set", []]) != ["set", []]:
                raise PointFailed(f"{self.name}: port {name}: {errors[name]}")
            return int(isinstance(self._interfaces("ofport").get(name), int))

        def add() -> None:
            self._vsctl("add-port", _BRIDGE, name, "--", "set", "Interface", name, *columns)

        def remove() -> None:
            self._vsctl("--if-exists", "del-port", _BRIDGE, name)

        return port_change(dut.host, add, remove, there)

    def _queue(self) -> Change:
        assert self._dut is not None
        (name, _), now = self.interface(0, self._dut), len(self._queues())

        def to(queues: int) -> Callable[[], None]:
            def act() -> None:
                self._vsctl("set", "Interface", name, f"options:n_rxq={queues}")
                wait_until(lambda: len(self._queues()) == queues, _SEEN_S, f"{self.name}: {queues} queues of {name}")

            return act

        def seen(queues: int) -> Callable[[], str]:
            return counted(f"queues of {name}", queues, lambda: len(self._queues()))

        steps = [Step("added", 1, to(now + 1), seen(now + 1)), Step("removed", 1, to(now), seen(now))]
        return Change(steps, undo=to(now))

    def _queues(self) -> list[int]:
        assert self._dut is not None
        name, _ = self.interface(0, self._dut)
        return [each.queue for each in rxq_places(self._control("dpif-netdev/pmd-rxq-show")) if each.port == name]


def no_further_queue(dut: Dut, queues: int) -> str | None:
    """None, or why the first port has no queue to add."""
    port = dut.ports[0]
    (link,) = json.loads(dut.host.run(["ip", "-json", "-d", "link", "show", "dev", port.ifname]).stdout)
    there = int(link["num_rx_queues"])
    if there > queues:
        return None
    number = f"{there} receive queue{'s' * (there != 1)}"
    return f"change queue-added: port {port.ifname} has {number}; `queues` of the testbed file adds some"
