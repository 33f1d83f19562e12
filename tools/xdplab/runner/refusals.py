# SPDX-License-Identifier: Apache-2.0
"""What cannot be measured here, and why: this place asks every part of a point.

A survey (`xdplab run --dry-run`) and a run ask before any traffic, so that reasons come first and cost nothing; a
repetition asks again when it begins.
"""

from collections.abc import Iterable
from typing import Any

from xdplab.forwarders import Dut, Forwarder
from xdplab.knobs import KnobContext, make_knob
from xdplab.measure import Method
from xdplab.model import Path, Point
from xdplab.model.design import UNSET
from xdplab.model.traffic import ONE_BUFFER_BYTES
from xdplab.runner.plan import Plan
from xdplab.runner.ports import dut_of, ports_of
from xdplab.runner.settings import Settings
from xdplab.runner.tester_pool import TesterPool
from xdplab.testbed import Port, Testbed
from xdplab.testbed.needs import who_has


def refusals(plan: Plan, testbed: Testbed, testers: TesterPool) -> dict[str, str]:
    """Point -> why it cannot be measured here. A sweep asks the same of many points: each question is asked once."""
    asked: dict[tuple[Any, ...], str | None] = {}
    found: dict[str, str] = {}
    for point in plan.points:
        own_ends = plan.method.own_ends
        reason = None if own_ends else _no_tester(point, testers, asked) or _no_one_way(point, testbed, plan)
        reason = reason or _no_clause(point, plan, testers) or _reason(point, testbed, plan, asked)
        if reason:
            found[point.id] = reason
    return found


def refusal(
    point: Point, method: Method[Any], forwarder: Forwarder[Any], settings: Settings, dut: Dut, client: Port
) -> str | None:
    """None, or what of a repetition is impossible: a knob, the forwarder, or what the method needs besides."""
    return (
        _of_no_port(point, method, forwarder)
        or _too_large(point, forwarder, dut.ports)
        or settings.unsupported()
        or _of_work(point, method, forwarder, dut, client)
    )


def _of_no_port(point: Point, method: Method[Any], forwarder: Forwarder[Any]) -> str | None:
    """None, or what is set or watched at ports of the forwarder that are not there, or its own driver's."""
    name, at_ports = forwarder.name, _knob_at_ports(point)
    if forwarder.takes_ports:
        driver = f"{name} with a driver of its own for its ports"
        if method.at_interfaces:
            return f"method {method.name} needs interfaces of the kernel, and {driver} leaves none"
        return at_ports and f"knob {at_ports}: it applies to the kernel's driver only; {driver} has settings of its own"
    if forwarder.external:
        known = next((knob for knob, value in point.knobs.items() if value != UNSET), None)
        return known and f"knob {known}: nothing is set on a device that xdplab did not start"
    if forwarder.pipelines:
        return None
    if not method.own_ends:
        return f"{name}: A and C are connected directly, and method {method.name} sends to a forwarder"
    if point.pipeline.kind != "cross":
        return f"{name}: A and C are connected directly, and nothing there does pipeline {point.pipeline}"
    return at_ports and f"knob {at_ports}: it belongs to the forwarder's ports, and {name} has none"


def _knob_at_ports(point: Point) -> str | None:
    """None, or the first that is set at the forwarder's ports."""
    return next(
        (name for name, value in point.knobs.items() if value != UNSET and make_knob(name).scope == "port"), None
    )


def _of_work(point: Point, method: Method[Any], forwarder: Forwarder[Any], dut: Dut, client: Port) -> str | None:
    """The forwarder does not do the pipeline, or cannot run here; or the method lacks something."""
    if client.trex is not None and method.at_interfaces:
        return f"method {method.name} needs interfaces of the kernel at A and C, whose cards are TRex's"
    if client.trex is not None and dut.pipeline.kind != "cross":
        return f"pipeline {dut.pipeline.kind} is proven with frames at interfaces of A and C, whose cards are TRex's"
    if forwarder.pipelines and dut.pipeline.kind not in forwarder.pipelines:
        supported = ", ".join(forwarder.pipelines)
        return f"{forwarder.name} does not support pipeline {dut.pipeline.kind}; supported: {supported}"
    if dut.pipeline.pods > len(dut.pods) and not forwarder.simulated:
        return f"pipeline {dut.pipeline}: containers are namespaces of this machine, which the embedded testbed builds"
    lasting = any(port.lasting for port in dut.ports)
    theirs = who_has(dut.host, forwarder.name, forwarder.own_links) if lasting else None
    return theirs or forwarder.unsupported(dut) or method.unsupported(point, dut, client)


def _too_large(point: Point, forwarder: Forwarder[Any], ports: Iterable[Port]) -> str | None:
    """Its frames, or all that its ports' MTU allows, for which the kernel refuses programs of one buffer."""
    why, largest = forwarder.one_buffer(), max(point.traffic.sizes)
    mtu = max((port.mtu for port in ports), default=0)
    if not why or max(largest, mtu + 18) <= ONE_BUFFER_BYTES:
        return None
    what = f"frames of {largest:,} bytes" if largest > ONE_BUFFER_BYTES else f"an MTU of {mtu:,}"
    return (
        f"{what}: the limit of {forwarder.name} is {ONE_BUFFER_BYTES:,} bytes at an MTU of {ONE_BUFFER_BYTES - 18:,}: "
        f"{why}"
    )


def _no_tester(point: Point, testers: TesterPool, asked: dict[tuple[Any, ...], str | None]) -> str | None:
    """Its tester is not here, or cannot measure the path."""
    question: tuple[Any, ...] = ("tester", point.tester, point.path)
    if question not in asked:
        asked[question] = testers.missing(point)
    return asked[question]


def _no_clause(point: Point, plan: Plan, testers: TesterPool) -> str | None:
    """All that the method measures is a clause for which tester or forwarder has no figures."""
    cannot = {**testers.of(point).cannot, **plan.method.forwarder(point).cannot} if plan.method.clause else {}
    reason = cannot.get(plan.method.clause)
    return reason and f"{plan.method.clause} (RFC 2544 section 26): {reason}"


def _no_one_way(point: Point, testbed: Testbed, plan: Plan) -> str | None:
    """A one-way latency is the difference of two readings of one clock; and testers count where they send."""
    one_clock, why = testbed.clock
    if one_clock or point.path is not Path.THROUGH:
        return None
    if plan.method.one_way:
        return f"path through is one-way and needs one clock: {why}; paths reflect and hairpin are round trips"
    ports = testbed.tester_ports(point.path)
    first, last = ports.first, ports.last
    if last.lasting and last.host is not first.host and last.netns is None:
        return f"path through: the tester counts on the machine that it sends from, and {why}; path reflect comes back"
    return None


def _reason(point: Point, testbed: Testbed, plan: Plan, asked: dict[tuple[Any, ...], str | None]) -> str | None:
    """One of its knobs or its forwarder cannot be."""
    forwarder = plan.method.forwarder(point)
    reason = _of_no_port(point, plan.method, forwarder) or _too_large(point, forwarder, ports_of(testbed, point))
    if reason:
        return reason
    context = KnobContext(testbed.dut, ports_of(testbed, point), testbed.layout, testbed.cpus)
    wanted = {**forwarder.required_knobs(), **point.knobs}
    settings = Settings(testbed.lock, context, wanted)
    for name, value in settings.foreseeable().items():
        question: tuple[Any, ...] = (point.path, name, value)
        if question not in asked:
            asked[question] = Settings(testbed.lock, context, {name: value}).unsupported()
        if asked[question]:
            return asked[question]
    layout = settings.context.layout
    question = (point.path, str(point.pipeline), point.forwarder.model_dump_json(), tuple(point.levels.items()), layout)
    if question not in asked:
        dut = dut_of(testbed, point, layout)
        client = testbed.tester_ports(point.path).first
        asked[question] = _of_work(point, plan.method, forwarder, dut, client)
    return asked[question]
