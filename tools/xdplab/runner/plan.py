# SPDX-License-Identifier: Apache-2.0
"""From a study to an order of visits: every point once per repetition, each repetition in a random order of its own."""

import itertools
import random
from dataclasses import dataclass

from xdplab.forwarders import make_forwarder
from xdplab.forwarders.registry import forwarder_class
from xdplab.knobs import make_knob
from xdplab.methods import Method, make_method
from xdplab.model import InputError, Point, StudySpec, TestbedSpec
from xdplab.model.study import Scalar
from xdplab.testers import Tester

#: Streams that a tester can tell apart in one trial.
MAX_STREAMS = 16


@dataclass(frozen=True)
class Visit:
    """One repetition of one point."""

    point: Point
    repetition: int


@dataclass(frozen=True)
class Plan:
    """What a study comes to."""

    points: tuple[Point, ...]
    visits: tuple[Visit, ...]
    method: Method

    def traffic_seconds(self) -> float:
        """Seconds of traffic, without repeats of disturbed trials."""
        return sum(sum(self.method.trials(visit.point.traffic)) for visit in self.visits)

    def redirects(self) -> bool:
        """True when a forwarder of the plan transmits by XDP redirect."""
        return any(forwarder_class(point.forwarder.name).redirects for point in self.points)


def make_plan(study: StudySpec, testbed: TestbedSpec, tester: Tester) -> Plan:
    """Expand the matrix and check everything that can be checked before anything is changed.

    Raises:
        InputError: unknown forwarder, knob or option, a value out of range, a frame that does not fit, points twice.
    """
    points = tuple(_points(study))
    if len({point.id for point in points}) < len(points):
        raise InputError(f"study {study.name}: a point is there twice; give forwarders that differ a label each")
    for point in points:
        make_forwarder(point.forwarder)
        _check_frame(point, testbed, tester)
    visits: list[Visit] = []
    for repetition in range(study.repetitions):
        order = list(points)
        random.Random(f"{study.seed}:{repetition}").shuffle(order)  # noqa: S311 - an order, not a secret
        visits.extend(Visit(point, repetition) for point in order)
    return Plan(points, tuple(visits), make_method(study.method))


def _points(study: StudySpec) -> list[Point]:
    names = list(study.knobs)
    values: list[list[Scalar]] = []
    for name in names:
        knob = make_knob(name)
        values.append([knob.check(value) for value in study.knobs[name]])
    sizes = study.frame_bytes or (study.traffic.frame_bytes,)
    return [
        Point(
            forwarder=forwarder,
            path=path,
            knobs=dict(zip(names, setting, strict=True)),
            traffic=study.traffic.model_copy(update={"frame_bytes": size}),
        )
        for path, size, setting, forwarder in itertools.product(
            study.path, sizes, itertools.product(*values), study.forwarders
        )
    ]


def _check_frame(point: Point, testbed: TestbedSpec, tester: Tester) -> None:
    traffic = point.traffic
    largest = testbed.mtu + 14 + 4 + (4 if traffic.vlan else 0)
    smallest = tester.smallest_frame(traffic.ip, traffic.vlan)
    for size in traffic.sizes:
        if not smallest <= size <= largest:
            raise InputError(
                f"frame_bytes: {size} does not fit: with these headers {tester.name} sends {smallest} to "
                f"{largest} bytes (FCS counted) at an MTU of {testbed.mtu}"
            )
    streams = len(traffic.sizes) * traffic.address_pairs * len(traffic.directions) + len(traffic.directions)
    if streams > MAX_STREAMS:
        raise InputError(
            f"traffic: {streams} streams (sizes x address pairs x directions, and probes), {MAX_STREAMS} are possible"
        )
    if traffic.bidirectional and point.path != "through":
        raise InputError(f"traffic.bidirectional: not on path {point.path}: its frames come back by themselves")
