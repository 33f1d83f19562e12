# SPDX-License-Identifier: Apache-2.0
"""Where a point is measured: ports of the forwarder and of the tester, what they show, and that they are given back."""

import dataclasses
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from xdplab.forwarders import Dut, Forwarder, make_forwarder
from xdplab.forwarders.base import is_direct
from xdplab.forwarders.node import in_its_place
from xdplab.forwarders.work import other_rules
from xdplab.hosts import Host
from xdplab.hosts.frames import driver_counters
from xdplab.hosts.kernel import detach_xdp, has_carrier, is_veth, wait_for_queues
from xdplab.hosts.waiting import comes_true, run_parallel
from xdplab.model import (
    CpuLayout,
    LinkLost,
    Path,
    Point,
    Steps,
    StreamSpec,
    TrialResult,
    TrialSpec,
    XdplabError,
    do_each,
    plain,
)
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


# Whether a program of the user's transmits by XDP: looked at once, before a run chooses how its testers receive.

#: What veth counts of frames that it is given by XDP redirect, or that its program sends back (veth.c).
_BY_XDP = re.compile(r"tx_queue_\d+_xdp_xmit(_errors)?|rx_queue_\d+_xdp_tx(_errors)?")


def redirects_by_xdp(
    point: Point,
    forwarder: Forwarder[Any],
    testbed: Testbed,
    layout: CpuLayout,
    send: Callable[[TrialSpec], TrialResult],
    note: Callable[[str], None],
) -> bool:
    """Whether it does, as the counters of its ports say once frames have come through; False on other ports than veth.

    `send`: with receivers that take redirected frames. A program that does not start, or lets nothing through, is
    assumed not to. `note` is called with what was found, or why nothing was.

    Raises:
        XdplabError: it leaves an XDP program that cannot be detached, or a port that cannot be put back.
    """
    dut = dut_of(testbed, point, layout)
    if not all(port.in_kernel and is_veth(port.host, port.ifname) for port in dut.ports):
        note(f"{point.forwarder.title}: assumed not to redirect by XDP: only veth ports count redirected frames")
        return False
    kept = KeptPorts()
    kept.look(dut.ports)
    before = [_by_xdp(port.host, port.ifname) for port in dut.ports]
    dut.host.remove_folder(dut.rundir)
    dut.host.make_folder(dut.rundir)
    try:
        try:
            forwarder.start(dut)
            _until_through(point, forwarder, send)
            why = forwarder.crashed()
        except XdplabError as exc:
            why = str(exc)
        found = [_by_xdp(port.host, port.ifname) for port in dut.ports] != before
        result = f"{'redirects' if found else 'does not redirect'} by XDP, as its ports count"
        if why:
            result = f"it could not be inspected: {why}; assumed {'' if found else 'not '}to redirect by XDP"
        note(f"{point.forwarder.title}: {result}")
        return found
    finally:
        do_each(
            "the look at a program",
            forwarder.stop,
            *(partial(_detach, point.forwarder.title, port) for port in dut.ports),
            partial(wait_for_queues, dut.host, [port.ifname for port in dut.ports]),
            partial(kept.put_back, point.forwarder.title),  # it is named where the program is measured
            lambda: dut.host.remove_folder(dut.rundir),
        )


def _detach(title: str, port: Port) -> None:
    try:
        detach_xdp(port.host, port.ifname)
    except XdplabError as exc:
        raise XdplabError(f"{title} has left behind at {port.role}: {exc}") from None


def _until_through(point: Point, forwarder: Forwarder[Any], send: Callable[[TrialSpec], TrialResult]) -> None:
    """Until frames arrive, or it may be silent no longer, or has ended."""
    headers = {**point.traffic.headers, "flows": 1}
    some = StreamSpec(kind="load", pps=1000, frame_bytes=point.traffic.smallest, **headers)
    trial = TrialSpec(streams=(some,), duration_s=0.05, drain_s=0.05)
    deadline = time.monotonic() + forwarder.silent_s
    while not send(trial).received and forwarder.crashed() is None and time.monotonic() < deadline:
        continue


def _by_xdp(host: Host, ifname: str) -> int:
    return sum(count for name, count in driver_counters(host, ifname).items() if _BY_XDP.fullmatch(name))
