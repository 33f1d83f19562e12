# SPDX-License-Identifier: Apache-2.0
"""VPP, changed while frames run through it, by its API. It has no transaction of several routes."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address
from typing import Any

from xdplab.forwarders.base import Dut
from xdplab.forwarders.changes import Change, Step, add_spare_link, count_differs, port_change, spare_addresses
from xdplab.forwarders.vpp import pipelines
from xdplab.forwarders.vpp.control import VppControl, VppRefused
from xdplab.forwarders.vpp.process import Interface, Vpp
from xdplab.forwarders.work import sides

#: Routes of a round: to remove one of 1,000 took VPP 26.10 6 ms, one of 25 1 ms; rounds follow one another in a trial.
_OF_A_ROUND = 25


class VppChanges:
    """The changes of a VPP."""

    def __init__(
        self,
        vpp: Vpp,
        attach: Callable[[VppControl, Dut], list[int]],
        detach: Callable[[VppControl, Interface], None],
    ) -> None:
        """Args: the VPP, and how an interface of it is made and removed (`VppForwarder`)."""
        self._vpp = vpp
        self._control = vpp.control
        self._attach = attach
        self._detach = detach

    def change(self, kind: str, count: int) -> Change:
        """Routes in a message each, the routes in use, or an interface."""
        if kind == "port-added":
            return self._port()
        if kind == "hit-rule":
            return self._same_routes()
        control = self._control
        routes = [f"{IPv4Address(each)}/32" for each in spare_addresses(min(count, _OF_A_ROUND))]

        def to(add: bool) -> None:
            for route in routes:
                pipelines.drop(control, route, add=add)

        def there() -> int:
            return sum(_there(control, route) for route in {routes[0], routes[-1]})

        asked = len({routes[0], routes[-1]})
        steps = [
            Step(name, len(routes), partial(to, add), count_differs("of the first and the last route", left, there))
            for name, add, left in (("installed", True, asked), ("removed", False, 0))
        ]

        def undo() -> None:
            if there():
                to(False)

        return Change(steps, undo, often=True)

    def _same_routes(self) -> Change:
        """Each replaced by one over the same neighbour that differs in its preference alone."""
        control, indexes = self._control, [each.index for each in self._vpp.interfaces]
        both = list(zip(sides(self._vpp.dut), indexes, strict=True))

        def to(preference: int) -> None:
            for side, index in both:
                pipelines.route(control, side, index, preference)

        def seen(preference: int) -> Callable[[], int]:
            return lambda: sum(_preference(control, str(side.network)) == preference for side, _ in both)

        steps = [
            Step(name, len(both), partial(to, preference), count_differs("new routes", len(both), seen(preference)))
            for name, preference in (("replaced", 1), ("replaced-back", 0))
        ]
        return Change(steps, lambda: to(0), often=True)

    def _port(self) -> Change:
        control, dut = self._control, self._vpp.dut
        spare = add_spare_link(dut.host, dut.ports[0])
        made: list[Interface] = []

        def add() -> None:
            (index,) = self._attach(control, replace(dut, ports=(spare,)))
            made.append(Interface(spare.ifname, index, self._vpp.row(index)["interface_name"]))

        def remove() -> None:
            while made:
                self._detach(control, made.pop())

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
