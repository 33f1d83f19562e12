# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch, changed while frames run through it: over OpenFlow 1.5 and its database."""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from xdplab.forwarders.base import Dut
from xdplab.forwarders.changes import (
    FIRST_FRAME,
    Bounced,
    Change,
    Step,
    add_spare_link,
    count_differs,
    port_change,
    spare_addresses,
)
from xdplab.forwarders.ovs import openflow
from xdplab.forwarders.ovs.daemon import BRIDGE, Ovs
from xdplab.forwarders.ovs.readback import queues
from xdplab.hosts.kernel import rx_queues
from xdplab.model import PointFailed

#: Of the rules that come and go: they stand above all others, and no frame of the traffic is theirs.
_COOKIE, _PRIORITY = 0x5A, 40_000
#: Number of a port that is added.
_SPARE_PORT = 1000
#: How long the daemon may take to show a port or a queue.
_SEEN_S = 10.0


class OvsChanges:
    """The changes of a bridge."""

    def __init__(self, ovs: Ovs, flows: list[str], interface: Callable[[int, Dut], tuple[str, list[str]]]) -> None:
        """Args: the bridge, its rules, and how a port of it is made (`OvsForwarder.interface`)."""
        self._ovs = ovs
        self._flows = flows
        self._interface = interface
        self._replaced_at = 0.0

    def change(self, kind: str, count: int) -> Change:
        """Rules of table 0 in one bundle or as a stream, the rules in use, a port, a queue of the first port."""
        if kind == "hit-rule":
            return Change([Step("replaced", len(self._flows), self._replace, self._not_replaced)], often=True)
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
            asked = openflow.rule_changes(
                command, spare_addresses(count), cookie=_COOKIE, priority=_PRIORITY, bundle=kind == "rules"
            )
            steps.append(Step(name, count, self.sender(asked), count_differs("rules", left, self._spare_rules)))
        return Change(steps, undo=self._remove_rules, often=True)

    def sender(self, asked: bytes) -> Callable[[], None]:
        return lambda: openflow.refuse_errors(self._ovs.exchange(asked))

    def _spare_rules(self) -> int:
        return openflow.rules_there(self._ovs.exchange, _COOKIE)

    def _remove_rules(self) -> None:
        self._ovs.ofctl("del-flows", f"cookie={_COOKIE:#x}/-1")

    def _replace(self) -> None:
        self._replaced_at = time.monotonic()
        self._ovs.add_flows(self._flows)

    def _not_replaced(self) -> str:
        """A rule that has replaced another is as old as that is ago."""
        ages = [float(age) for age in re.findall(r"duration=([\d.]+)s", self._ovs.ofctl("dump-flows"))]
        since = time.monotonic() - self._replaced_at
        older = [age for age in ages if age > since]
        return f"{len(older)} of {len(ages)} rules are the old ones" if older or not ages else ""

    def _port(self) -> Change:
        ovs, dut = self._ovs, self._ovs.dut
        spare = replace(dut, ports=(*dut.ports, add_spare_link(dut.host, dut.ports[0])))
        name, columns = self._interface(len(dut.ports), spare)
        bounced, began_s = Bounced(dut), [0.0]
        back = f"cookie={_COOKIE:#x},priority={_PRIORITY},in_port={_SPARE_PORT},actions=in_port"
        ovs.add_flows([back])

        def there() -> int:
            if error := ovs.port_errors().get(name):
                raise PointFailed(f"{ovs.name}: port {name}: {error}")
            return int(isinstance(ovs.interfaces("ofport").get(name), int))

        def add() -> None:
            began_s[0] = time.monotonic()
            number = f"ofport_request={_SPARE_PORT}"
            ovs.vsctl("add-port", BRIDGE, name, "--", "set", "Interface", name, number, *columns)

        def remove() -> None:
            ovs.vsctl("--if-exists", "del-port", BRIDGE, name)

        first = Step(FIRST_FRAME, 1, lambda: bounced.first_s(began_s[0]), lambda: "")
        change = port_change(dut.host, add, remove, there, [first])

        def undo() -> None:
            bounced.end()
            self._remove_rules()
            change.undo()

        return replace(change, undo=undo)

    def _queue(self) -> Change:
        name = self._ovs.names[0]

        def there() -> int:
            return sum(place.port == name for place in queues(self._ovs))

        def to(number: int) -> Callable[[], None]:
            def act() -> None:
                self._ovs.vsctl("set", "Interface", name, f"options:n_rxq={number}")
                self._ovs.until(lambda: there() == number, _SEEN_S, f"{number} queues of {name}")

            return act

        def seen(number: int) -> Callable[[], str]:
            return count_differs(f"queues of {name}", number, there)

        now = there()
        steps = [Step("added", 1, to(now + 1), seen(now + 1)), Step("removed", 1, to(now), seen(now))]
        return Change(steps, undo=to(now))


def no_further_queue(dut: Dut, queues: int) -> str | None:
    """None, or why the first port has no queue to add."""
    port = dut.ports[0]
    there = rx_queues(dut.host, port.ifname)
    if there > queues:
        return None
    number = f"{there} receive queue{'s' * (there != 1)}"
    return f"change queue-added: port {port.ifname} has {number}; `queues` of the testbed file adds some"
