# SPDX-License-Identifier: Apache-2.0
"""Where a point is measured: ports of the forwarder and of the tester, and what the forwarder gets to know of them."""

import dataclasses
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from xdplab.forwarders import Dut, make_forwarder
from xdplab.forwarders.base import is_direct
from xdplab.forwarders.node import in_its_place
from xdplab.forwarders.work import other_rules
from xdplab.hosts import Host
from xdplab.hosts.kernel import has_carrier
from xdplab.hosts.waiting import comes_true, run_parallel
from xdplab.model import CpuLayout, LinkLost, Path, Point, Steps, XdplabError, plain
from xdplab.testbed import Port, Testbed, TesterPorts, port_settings


def ports_of(testbed: Testbed, point: Point) -> tuple[Port, ...]:
    """The forwarder's: one on `hairpin`, none where A and C are connected directly, or by somebody's device."""
    if testbed.spec.external or is_direct(point.forwarder):
        return ()
    return tuple(testbed.ports[role] for role in (("b0",) if point.path is Path.HAIRPIN else ("b0", "b1")))


def dut_of(testbed: Testbed, point: Point, layout: CpuLayout) -> Dut:
    ports = ports_of(testbed, point)
    peers = tuple(testbed.ports[role] for role in ("a0", "c0")[: len(ports)])
    return Dut(
        host=testbed.dut,
        ports=ports,
        path=point.path,
        layout=layout,
        rundir=testbed.folder_on(testbed.dut) / "dut",
        tester_here=testbed.one_machine,
        peers=in_its_place(point.pipeline, peers) or _direct_ports(testbed),
        pipeline=point.pipeline,
        pods=testbed.pods,
        queues=testbed.spec.queues,
    )


def _direct_ports(testbed: Testbed) -> tuple[Port, ...]:
    """Of A and C; none where they are not connected directly."""
    direct = testbed.direct_ports()
    return (direct.first, direct.last) if direct else ()


def tester_ports_of(testbed: Testbed, point: Point) -> TesterPorts:
    """The tester's; with a pipeline that routes, and of requests, frames are addressed to the forwarder."""
    ports = dataclasses.replace(testbed.tester_ports(point.path), added_bytes=point.pipeline.added_bytes)
    first, last = in_its_place(point.pipeline, (ports.first, ports.last))
    ports = dataclasses.replace(ports, first=first, last=last)
    if testbed.spec.external:
        return dataclasses.replace(ports, routers=make_forwarder(point.forwarder).routers)
    if not point.pipeline.routed and point.traffic.request is None:
        return ports
    b0 = testbed.ports["b0"]
    routers = (b0.mac, testbed.ports.get("b1", b0).mac)
    return dataclasses.replace(ports, routers=routers, rules=other_rules(point.pipeline))


# Ports are given back as they were found: read before somebody's programs start, and compared after these have ended.
#
# What differs is put back and named. `testbed/port_settings.py` says what a port is.

_CARRIER_S = 15.0


class KeptPorts:
    """Those of one forwarder, or of the testers."""

    def __init__(self) -> None:
        self._was: dict[tuple[Host, str], tuple[Port, dict[str, Any]]] = {}
        #: What was seen to have changed, also where the connection was lost before it was put back.
        self._seen: dict[tuple[Host, str], dict[str, str]] = {}
        #: Sentences on what was changed, and put back.
        self.changed: list[str] = []

    def look(self, ports: Iterable[Port]) -> None:
        """Read those that are not known yet, a few milliseconds for each."""
        new = [port for port in ports if port.in_kernel and (port.host, port.ifname) not in self._was]
        if new:
            found = run_parallel(*(partial(port.host.read_port, port.ifname) for port in new))
            self._was |= {(port.host, port.ifname): (port, was) for port, was in zip(new, found, strict=True)}

    def put_back(self, who: str) -> None:
        """What `who` has changed, whose programs have ended; called again after an error it goes on.

        Raises:
            XdplabError: what could not be; what can be is.
        """
        steps = Steps()
        for key, (port, was) in list(self._was.items()):
            with steps.step(port.role):
                self._put_back_one(who, port, was)
                del self._was[key]
        steps.raise_failed()

    def _put_back_one(self, who: str, port: Port, was: dict[str, Any]) -> None:
        key = (port.host, port.ifname)
        seen = self._seen.setdefault(key, {})
        try:
            seen.update(port_settings.changed(port.host, port.ifname, was))
            if seen:
                port_settings.put_back(port.host, port.ifname, was)
                if was.get("up"):  # a card's link may take seconds; without it the next proof says so
                    comes_true(partial(has_carrier, port.host, port.ifname), _CARRIER_S, 0.1)
        except LinkLost:
            raise
        except XdplabError as exc:
            raise XdplabError(plain("; ".join([*_sentences(who, port, seen), f"{port.role}: {exc}"]))) from exc
        self.changed += [plain(f"{sentence}; put back") for sentence in _sentences(who, port, seen)]
        del self._seen[key]


def _sentences(who: str, port: Port, seen: Mapping[str, str]) -> list[str]:
    return [f"{who} changed {setting} of {port.role}: {change}" for setting, change in seen.items()]
