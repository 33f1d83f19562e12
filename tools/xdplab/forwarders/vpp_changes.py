# SPDX-License-Identifier: Apache-2.0
"""VPP, changed while frames run through it, by its API. It has no transaction of several routes."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address
from typing import Any, ClassVar

from xdplab.forwarders import vpp_pipelines
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
from xdplab.forwarders.vpp import Interface, VppForwarder, VppOptionsT
from xdplab.forwarders.vpp_control import VppControl, VppRefused
from xdplab.forwarders.work import sides

#: Routes of a round: to remove one of 1,000 took VPP 26.10 6 ms, one of 25 1 ms; rounds follow one another in a trial.
_OF_A_ROUND = 25


class VppChanging(VppForwarder[VppOptionsT]):
    """The changes of all VPP forwarders; `dpdk` makes its interfaces when VPP starts."""

    changes: ClassVar[tuple[str, ...]] = ("rule-stream", "hit-rule")
    own_links: ClassVar[tuple[str, ...]] = SPARE_LINKS

    def cannot_change(self, kind: str, dut: Dut) -> str | None:
        """There is a rule that the traffic meets where it is routed."""
        if kind == "hit-rule" and dut.pipeline.kind != "route":
            return f"change hit-rule: pipeline {dut.pipeline} has no route in {self.name}"
        return super().cannot_change(kind, dut)

    def change(self, kind: str, count: int) -> Change:
        """Routes in a message each, the routes in use, or an interface."""
        control, dut = self._control, self._dut
        assert control is not None
        assert dut is not None
        if kind == "port-added":
            return self._port(control, dut)
        if kind == "hit-rule":
            return self._same_routes(control, dut)
        routes = [f"{IPv4Address(each)}/32" for each in spare_addresses(min(count, _OF_A_ROUND))]

        def told(add: bool) -> None:
            for route in routes:
                vpp_pipelines.drop(control, route, add=add)

        def there() -> int:
            return sum(_there(control, route) for route in {routes[0], routes[-1]})

        asked = len({routes[0], routes[-1]})
        steps = [
            Step(name, len(routes), partial(told, add), counted("of the first and the last route", left, there))
            for name, add, left in (("installed", True, asked), ("removed", False, 0))
        ]

        def undo() -> None:
            if there():
                told(False)

        return Change(steps, undo, often=True)

    def _same_routes(self, control: VppControl, dut: Dut) -> Change:
        """Each replaced by one over the same neighbour that differs in its preference alone."""
        both = list(zip(sides(dut), [each.index for each in self._interfaces], strict=True))

        def to(preference: int) -> None:
            for side, index in both:
                vpp_pipelines.route(control, side, index, preference)

        def seen(preference: int) -> Callable[[], int]:
            return lambda: sum(_preference(control, str(side.network)) == preference for side, _ in both)

        steps = [
            Step(name, len(both), partial(to, preference), counted("new routes", len(both), seen(preference)))
            for name, preference in (("replaced", 1), ("replaced-back", 0))
        ]
        return Change(steps, lambda: to(0), often=True)

    def _port(self, control: VppControl, dut: Dut) -> Change:
        spare = add_spare_link(dut.host, dut.ports[0])
        made: list[Interface] = []

        def add() -> None:
            (index,) = self.attach(control, replace(dut, ports=(spare,)))
            made.append(Interface(spare.ifname, index, self._read(index)["interface_name"]))

        def remove() -> None:
            while made:
                self.detach(control, made.pop())

        def there() -> int:
            return len(control.dump("sw_interface_dump")) - before

        before = len(control.dump("sw_interface_dump"))
        return port_change(dut.host, add, remove, there)


def _found(control: VppControl, route: str) -> dict[str, Any] | None:
    try:
        return dict(control.call("ip_route_lookup", table_id=0, exact=1, prefix=route)["route"])
    except VppRefused:
        return None


def _there(control: VppControl, route: str) -> bool:
    return _found(control, route) is not None


def _preference(control: VppControl, route: str) -> int | None:
    found = _found(control, route)
    return int(found["paths"][0]["preference"]) if found and found["paths"] else None
