# SPDX-License-Identifier: Apache-2.0
"""From a study to the order of its repetitions: every point once in each round, and each round shuffled."""

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from xdplab.forwarders import Forwarder
from xdplab.measure import Method, make_method, method_class
from xdplab.model import (
    ForwarderSpec,
    InputError,
    Path,
    Point,
    StudySpec,
    TestbedSpec,
    TrafficSpec,
    TrialRecord,
    validated,
)
from xdplab.model.design import TESTER
from xdplab.model.study import Names
from xdplab.model.traffic import ONE_BUFFER_BYTES, PORTS
from xdplab.runner.design import MAX_POINTS, Combination, design
from xdplab.testers import Tester

_LARGER = ", which one buffer holds; xdpgen takes larger ones"
#: What a repetition is expected to take next to its traffic, in s.
_OVERHEAD_S = 1.2
#: Streams that a tester can tell apart in one trial.
MAX_STREAMS = 16
#: More take two weeks at the least.
MAX_REPETITIONS = 1_000_000


@dataclass(frozen=True)
class Repetition:
    """One repetition of one point."""

    point: Point
    number: int


@dataclass(frozen=True)
class Plan:
    """What a study comes to."""

    points: tuple[Point, ...]
    order: tuple[Repetition, ...]
    method: Method[Any]
    #: Combinations that the study's constraints leave out.
    left_out: int = 0
    #: Of the order.
    seed: int = 1
    #: How often each forwarder is started in a repetition.
    instances: int = 1

    @property
    def forwarders(self) -> list[ForwarderSpec]:
        return list({point.forwarder.title: point.forwarder for point in self.points}.values())

    def traffic_seconds(self, repetitions: Iterable[Repetition] | None = None) -> float:
        """Seconds of traffic of these repetitions (all that are planned)."""
        chosen = self.order if repetitions is None else repetitions
        once = sum(sum(self.method.trial_seconds(repetition.point.traffic)) for repetition in chosen)
        return once * self.instances

    def seconds(self, repetitions: Iterable[Repetition] | None = None) -> float:
        """Traffic and starts of these repetitions (all that are planned), in s."""
        chosen = self.order if repetitions is None else tuple(repetitions)
        return self.traffic_seconds(chosen) + _OVERHEAD_S * len(chosen) * self.instances

    def round(self, number: int) -> tuple[Repetition, ...]:
        """Every point once, in the order that the seed gives to this round, also to one behind the planned."""
        return _round(self.points, self.seed, number)

    def called(self, point: Point) -> str:
        """The point's title, and each of its settings that is not the same in all points."""
        return self._names.of(point)

    @cached_property
    def _names(self) -> Names:
        return Names(self.points)


def make_plan(study: StudySpec, testbed: TestbedSpec, *testers: Tester) -> Plan:
    """Expand the matrix and check everything that can be checked before anything is changed.

    `testers` are those of the study, in its order.

    Raises:
        InputError: unknown forwarder, knob or option, a value out of range, a frame that does not fit, points twice.
    """
    method = make_method(study.method)
    method.check(study)
    study = study.on(testbed)
    found, left_out = _points(study, method)
    if not found:
        raise InputError(f"study {study.name}: its method can measure none of its forwarders")
    points = tuple(found)
    if len({point.id for point in points}) < len(points):
        raise InputError(
            f"study {study.name}: a point occurs twice; give each variant of a forwarder a label of its own"
        )
    shares = [point.traffic.probe_pps for point in points if isinstance(point.traffic.probe_pps, str)]
    if shares and len(study.all_testers) > 1:
        raise InputError(
            f"study {study.name}: traffic.probe_pps: {shares[0]} would be another rate for each of its testers; give "
            "frames per second"
        )
    beyond = next((point.path for point in points if testbed.one_cable and point.path is not Path.HAIRPIN), None)
    if beyond:
        raise InputError(
            f"study {study.name}: path: {beyond} needs b1 and c0, and {testbed.name} has one cable; give path: hairpin"
        )
    fake = testbed.kind == "fake"
    by_name = dict(zip(study.all_testers, testers, strict=True))
    for tester in testers:
        _check_reality(testbed, f"tester {tester.name}", tester.simulated, fake)
    for point in points:
        forwarder = method.forwarder(point)
        _check_device(testbed, forwarder)
        _check_ways(point, forwarder)
        _check_reality(testbed, f"forwarder {forwarder.name}", forwarder.simulated, fake)
        tester = by_name[point.tester or study.all_testers[0]]
        _check_frame(point, method, testbed, tester)
        _check_loop(point, study, tester)
        _check_departures(point, method, tester.senders(testbed))
        _check_pipeline(point, tester)
        _check_new_flows(point, method, tester)
        _check_request(point, method, tester)
    if len(points) * study.repetitions > MAX_REPETITIONS:
        raise InputError(
            f"study {study.name}: {len(points)} points with {study.repetitions} repetitions each are more than the "
            f"{MAX_REPETITIONS:,} repetitions that a run may have"
        )
    order = [repetition for number in range(study.repetitions) for repetition in _round(points, study.seed, number)]
    instances = 1 if why_alone(study, testbed.kind) else method.instances
    return Plan(points, tuple(order), method, left_out, study.seed, instances)


def why_alone(study: StudySpec, kind: str) -> str:
    """Why points cannot stand side by side on a testbed of that kind; empty where they can."""
    if kind != "embedded":
        return "its ports are there once"
    if len(study.all_testers) > 1:
        return "one tester at a time has the ports"
    return ""


def _round(points: Sequence[Point], seed: int, number: int) -> tuple[Repetition, ...]:
    order = list(points)
    random.Random(f"{seed}:{number}").shuffle(order)  # noqa: S311 - an order, not a secret
    return tuple(Repetition(point, number) for point in order)


def _points(study: StudySpec, method: Method[Any]) -> tuple[list[Point], int]:
    """Each chosen combination on each path, at each frame size and load; and how many constraints left out."""
    designed = design(study)
    sizes = study.frame_bytes or (None,)
    points, forwarders = [], study.all_forwarders
    chosen, testers = designed.chosen, study.testers or ("",)
    several = itertools.product(study.path, sizes, _loads(study), study.pipeline, chosen, testers)
    for path, size, load, pipeline, (number, combination), tester in several:
        if size is not None and load.request is not None:
            raise InputError(f"study {study.name}: frame_bytes: frames have the size of traffic.request; leave it out")
        traffic = load if size is None else load.model_copy(update={"frame_bytes": size})
        forwarder = _with_options(forwarders[number], combination)
        points += [
            Point(
                forwarder=forwarder,
                path=method.path(levels) or path,
                knobs={name: combination[name] for name in study.knobs},
                traffic=traffic,
                pipeline=pipeline,
                levels=levels,
                **_by(study, tester, combination),
            )
            for levels in method.levels(forwarder)
        ]
        if len(points) > MAX_POINTS:
            raise InputError(
                f"study {study.name}: more than {MAX_POINTS:,} points; choose design: random or fractional, or fewer "
                "paths, frame sizes and loads"
            )
    return points, designed.left_out


def _by(study: StudySpec, tester: str, combination: Combination) -> dict[str, Any]:
    """The point's tester, where the study has more than one or sweeps its options."""
    options = {key: combination[f"{TESTER}.{key}"] for key in study.tester_options}
    return {"tester": study.tester_with(options), "tester_options": options} if options else {"tester": tester}


def _with_options(forwarder: ForwarderSpec, combination: Combination) -> ForwarderSpec:
    swept = {
        name.partition(".")[2]: level for name, level in combination.items() if name.startswith(f"{forwarder.name}.")
    }
    twice = sorted(set(swept) & set(forwarder.options))
    if twice:
        raise InputError(f"option {twice[0]} of forwarder {forwarder.title}: both fixed and swept")
    return forwarder.model_copy(update={"options": {**forwarder.options, **swept}})


def _loads(study: StudySpec) -> list[TrafficSpec]:
    """The traffic profile at each load."""
    base = study.traffic.model_dump(exclude_unset=True)
    where = f"study {study.name}: loads"
    found = []
    for load in study.loads:
        given = {**base, **load}
        if given.get("request") is not None and "frame_bytes" not in load:
            given.pop("frame_bytes", None)  # a study that was read back has every key
        found.append(validated(TrafficSpec, given, where))
    return found or [study.traffic]


def _check_reality(testbed: TestbedSpec, part: str, simulated: bool, fake: bool) -> None:
    if simulated != fake:
        kind = "simulated" if simulated else "real"
        raise InputError(f"{part} is {kind} and testbed {testbed.name} is {testbed.kind}; they cannot be used together")


def _check_ways(point: Point, forwarder: Forwarder[Any]) -> None:
    both = point.path is not Path.THROUGH or point.traffic.bidirectional
    if forwarder.one_way and both:
        how = "traffic.bidirectional" if point.path is Path.THROUGH else f"path {point.path}"
        raise InputError(
            f"forwarder {point.forwarder.title}: one_way=true: it forwards one way only, and {how} needs replies"
        )


def _check_device(testbed: TestbedSpec, forwarder: Forwarder[Any]) -> None:
    if testbed.external and not forwarder.external:
        raise InputError(
            f"forwarder {forwarder.name}: testbed {testbed.name} has no b0, where it would run; what stands between "
            "its a0 and c0 is forwarder external"
        )
    if forwarder.external and not testbed.external:
        raise InputError(
            f"forwarder {forwarder.name}: testbed {testbed.name} has a place for forwarders that are started; give a "
            "file of kind hosts with a0 and c0, and without b0 and b1"
        )


def _check_loop(point: Point, study: StudySpec, tester: Tester) -> None:
    traffic = point.traffic
    loaded = (traffic.load_pps, traffic.load_share, traffic.load_of_line) != (None, None, None)
    if tester.closed_loop and (
        not method_class(study.method.name).closed_loop or loaded or traffic.frame_bytes == "imix"
    ):
        raise InputError(
            f"tester {tester.name}: it sends one batch at a time and waits for it, so there is no load next to it: "
            "method latency, one frame size"
        )


def _check_departures(point: Point, method: Method[Any], senders: int) -> None:
    """A load is sent whose departures these are, in equal parts by so many CPUs."""
    traffic = point.traffic
    burst = traffic.departures.partition(":")[2]
    if burst and int(burst) % senders:
        raise InputError(f"traffic.departures: {traffic.departures}: {senders} senders take a multiple of {senders}")
    if traffic.departures != "paced" and not method.sends_load(traffic):
        raise InputError(
            f"traffic.departures: {traffic.departures}: it is of the load, and none is sent here; give load_pps, "
            "load_share or load_of_line with method latency, or take method rfc2544"
        )


def _check_pipeline(point: Point, tester: Tester) -> None:
    """Frames of this profile can be what the pipeline works on."""
    traffic, pipeline = point.traffic, point.pipeline
    if traffic.rule_match == "all" and traffic.flows < pipeline.rules:
        raise InputError(
            f"traffic.flows: {traffic.flows:,} flows do not exercise all rules of pipeline {pipeline}: give "
            f"{pipeline.rules:,} or more, or rule_match: last"
        )
    if traffic.rule_match == "all" and traffic.flows > pipeline.rules * PORTS:
        raise InputError(
            f"traffic.flows: {traffic.flows:,} are more than the {pipeline.rules:,} of pipeline {pipeline} have with "
            f"rule_match: all, {PORTS:,} source ports each; give fewer flows or more rules"
        )
    if pipeline.kind == "cross":
        return
    wrong = {
        f"path {point.path}: its frames come back by themselves; path through": point.path is not Path.THROUGH,
        "traffic.ip: 6: it is described for IPv4; give 4": traffic.ip != 4,
        "traffic.vlan: its frames have no tag; leave it out": traffic.vlan is not None,
        "traffic.bidirectional: the other side cannot begin, or has other frames": traffic.bidirectional
        and pipeline.one_way,
        f"tester {tester.name} does not know its frames in a tunnel; xdpgen does": pipeline.kind == "vxlan"
        and not tester.knows_tunnelled,
        "traffic.src_addresses, dst_addresses, address_pairs: a port of a node has one address": pipeline.kind
        == "openflow"
        and max(traffic.src_addresses, traffic.dst_addresses, traffic.address_pairs) > 1,
    }
    for why, is_so in wrong.items():
        if is_so:
            raise InputError(f"pipeline {pipeline}: {why}")


def _check_request(point: Point, method: Method[Any], tester: Tester) -> None:
    """It is sent, and what comes back has it where the tester looks."""
    if point.traffic.request is None:
        return
    wrong = {
        f"tester {tester.name} sends none; xdpgen does": not tester.sends_requests,
        f"method {method.name} sends none; latency, rfc2544, changes and micro do": not method.sends_requests,
        f"pipeline {point.pipeline}: frames with a request can be sent through cross": point.pipeline.kind != "cross",
        f"path {point.path}: nobody answers at its end; path hairpin": point.path is not Path.HAIRPIN,
    }
    for why, is_so in wrong.items():
        if is_so:
            raise InputError(f"traffic.request: {why}")


def _check_new_flows(point: Point, method: Method[Any], tester: Tester) -> None:
    """They are sent, and there are enough for the longest trial."""
    traffic = point.traffic
    if traffic.new_flows_pps and not method.sends_new_flows:
        raise InputError(f"traffic.new_flows_pps: method {method.name} sends none; latency, rfc2544 and changes do")
    if traffic.new_flows_pps and tester.closed_loop:
        raise InputError(f"traffic.new_flows_pps: tester {tester.name} waits for each batch, and sends no others")
    asked = method.new_flows(point)
    pairs = traffic.src_addresses * traffic.dst_addresses if traffic.rule_match == "last" else point.pipeline.rules
    left = traffic.flows_left(pairs)
    if asked > left:
        raise InputError(
            f"new flows: {asked:,.0f} in a trial are more than the {left:,} of {pairs:,} pairs of addresses next to "
            f"traffic.flows: {traffic.flows:,}; raise traffic.src_addresses or dst_addresses, or lower their rate"
        )


def _check_frame(point: Point, method: Method[Any], testbed: TestbedSpec, tester: Tester) -> None:
    traffic = point.traffic
    outer = point.pipeline.added_bytes if point.pipeline.kind == "vxlan" else 0  # an MTU does not count a tag
    largest = testbed.mtu + 14 + 4 + (4 if traffic.vlan else 0) - outer  # nor a second one, which Linux does
    smallest = tester.smallest_frame(traffic.ip, traffic.tag_bytes)
    for size in traffic.sizes:
        if tester.largest_frame < size <= largest:
            raise InputError(
                f"frame_bytes: {size} does not fit: tester {tester.name} sends and receives frames of up to "
                f"{tester.largest_frame:,} bytes{_LARGER if tester.largest_frame == ONE_BUFFER_BYTES else ''}"
            )
        if not smallest <= size <= largest:
            raise InputError(
                f"frame_bytes: {size} does not fit: with these headers {tester.name} sends {smallest} to "
                f"{largest} bytes (FCS counted) at an MTU of {testbed.mtu}"
                f"{f', of which VXLAN takes {outer}' if outer else ''}"
            )
    load = len(traffic.sizes) * traffic.address_pairs * tester.senders(testbed)
    new = int(traffic.new_flows_pps is not None)
    streams = max(load + 1 + new, method.loads_at_once() * (load + new)) * len(traffic.directions)
    if streams > MAX_STREAMS:
        raise InputError(
            f"traffic: {streams} streams (sizes x address pairs x senders, probes, new flows; x directions; twice the "
            "load where a recovery is measured), "
            f"{MAX_STREAMS} are possible"
        )
    if traffic.bidirectional and point.path != "through":
        raise InputError(f"traffic.bidirectional: not on path {point.path}: its frames come back by themselves")


class Listener:
    """Hears everything and says nothing; a front end overrides what it shows.

    Called between trials only: a screen must not be drawn on a measured core.
    """

    def begin(self, plan: Plan, left: int, seconds: float) -> None:
        """The run starts; `left` repetitions, `seconds` expected."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def progress(self, text: str) -> None:
        """Something that changes often within a repetition, worth showing and not worth keeping."""

    def starting(self, point: Point, repetition: int, number: int, of: int, left_s: float) -> None:
        """Repetition `number` of `of` starts."""

    def trial(self, point: Point, record: TrialRecord) -> None:
        """A trial has been journaled."""
