# SPDX-License-Identifier: Apache-2.0
"""Whether a program of the user's transmits by XDP: looked at once, before a run chooses how its testers receive."""

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from xdplab.forwarders import Forwarder
from xdplab.hosts import Host
from xdplab.hosts.frames import driver_counters
from xdplab.hosts.kernel import detach_xdp, is_veth, wait_for_queues
from xdplab.model import CpuLayout, Point, StreamSpec, TrialResult, TrialSpec, XdplabError, do_each
from xdplab.runner.ports import KeptPorts, dut_of
from xdplab.testbed import Port, Testbed

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
