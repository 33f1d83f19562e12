# SPDX-License-Identifier: Apache-2.0
"""Where a point is measured: ports of the forwarder and of the tester, and what the forwarder gets to know of them."""

import dataclasses

from xdplab.forwarders import Dut, make_forwarder
from xdplab.forwarders.node import in_its_place
from xdplab.forwarders.registry import is_direct
from xdplab.forwarders.work import other_rules
from xdplab.model import CpuLayout, Path, Point
from xdplab.testbed import Port, Testbed, TesterPorts


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
