# SPDX-License-Identifier: Apache-2.0
"""Figures of a point: a model for each clause it follows, medians over repetitions, all values kept."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from xdplab.measure.datapath import cpu_figures
from xdplab.measure.distribution import if_enough_samples, sample_of
from xdplab.measure.figure import CPU, Figure, PointFigures
from xdplab.measure.measured import Extended, Measured, RepetitionFigures, Spread, in_half
from xdplab.methods.rfc2544.records import (
    Bound,
    BurstsRecord,
    ClauseRecord,
    LatencyRecord,
    LossCurveRecord,
    OverloadRecord,
    RecordT,
    RecoveryRecord,
    ResetRecord,
    SearchRecord,
    UnsupportedClause,
    records_of,
)
from xdplab.methods.rfc2544.search import PRESETS
from xdplab.model import Model, TrialRecord
from xdplab.model.digits import percent, significant
from xdplab.model.trial import LOAD_TOLERANCE, REPORTED_LOSS
from xdplab.stats import geometric_interval


def _said(figure: Spread | None, unit: str, per: float = 1.0) -> str:
    """The median, in `unit` of `per` of what it is in; "" where there is none."""
    return f"{significant(figure.median / per)} {unit}" if figure else ""


def _time(figure: Spread | None, resolution: Spread | None, limited_by: Sequence[str]) -> str:
    """In ms, as the resolution where it is shorter than that; at the most so much where the tester limits it."""
    if figure and resolution and figure.median < resolution.median:
        return f"less than {_said(resolution, 'ms', 1e3)}"
    if "tester" in limited_by:
        return f"at most {_said(figure, 'ms', 1e3)} (limited by tester)"
    return _said(figure, "ms", 1e3)


def _us(value: float | None) -> str:
    return "-" if value is None else f"{significant(value)} µs"


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))


class Contradiction(Model):
    """The trial of the loss curve that lost most."""

    #: Over all directions.
    load_pps: float
    #: Frames lost of those sent.
    loss_ratio: float

    def text(self) -> str:
        where = f"{significant(self.load_pps / 1e3, 4)} kpps"
        return f"the loss curve of the same repetition lost {percent(self.loss_ratio)} at {where}"


class BoundFound(Model):
    """What the searches found for one tolerated loss ratio, over all directions."""

    #: Loss that was tolerated.
    loss_ratio: float
    #: Who set it, of all repetitions.
    limited_by: tuple[str, ...]
    #: Of how many repetitions it is only known from below: somebody else was the limit.
    from_below: int
    #: Of how many there are.
    repetitions: int
    #: In each of them nothing was lost: the forwarder's own work filled the sender's CPU.
    sender_full: bool
    #: Where the forwarding rate lies at 99 %: Student's t over the repetitions' logarithms, no narrower than the search
    #: resolves; None of fewer than three, where one found no load good, and of a lower bound.
    interval_pps: tuple[float, float] | None
    #: The worst trial of a loss curve that says otherwise; None: there is none.
    contradicted_by: Contradiction | None
    #: The same in words.
    contradiction: str
    #: Forwarding rate at the lower bound, 0 of a repetition that found no load good; None: none of them did.
    throughput_pps: Spread | None
    #: Highest load that was offered and found good, likewise.
    lower_pps: Spread | None
    #: Lowest load at which the forwarder lost more than tolerated; None: it is not known.
    upper_pps: Spread | None

    @property
    def found(self) -> bool:
        """Whether most repetitions found a load good."""
        return self.throughput_pps is not None and self.throughput_pps.median > 0

    @property
    def at_least(self) -> bool:
        """Whether the forwarder may carry more: another one was the limit in half of the repetitions or more."""
        return 2 * self.from_below >= self.repetitions

    @property
    def below_pps(self) -> float | None:
        """The load at which it lost too much already, of a forwarder that was good at none."""
        return None if self.found or self.at_least or not self.upper_pps else self.upper_pps.median

    def text(self) -> str:
        """`NDR at least 1,050 kpps (limited by tester)`."""
        name = f"PDR at {percent(self.loss_ratio)} loss" if self.loss_ratio else "NDR"
        by = f"limited by {', '.join(self.limited_by)}{self.how}"
        if self.found:
            least = "at least " if self.at_least else ""
            return f"{name} {least}{_said(self.throughput_pps, 'kpps', 1e3)}{self.within} ({by})"
        return (
            f"{name} below {_said(self.upper_pps, 'kpps', 1e3)} ({by})" if self.below_pps else f"{name}: none was found"
        )

    @property
    def within(self) -> str:
        """` (99 %: 470 to 491)`, or nothing."""
        if self.interval_pps is None:
            return ""
        low, high = (significant(each / 1e3) for each in self.interval_pps)
        return f" (99 %: {low} to {high})"

    @property
    def how(self) -> str:
        """What is to be said of the limit besides its name."""
        return ": its own work filled the sender's CPU, nothing was lost" if self.sender_full else ""


class ThroughputFound(Model):
    """Throughput (RFC 2544 §26.1) of a point over its repetitions."""

    #: One for each tolerated loss, the lowest first.
    bounds: tuple[BoundFound, ...]
    #: Of the search.
    preset: str
    #: Of the search, in each repetition.
    trials: tuple[int, ...]
    #: Seconds of traffic of the search, in each repetition.
    traffic_s: tuple[float, ...]
    #: Highest load of the search, over all directions.
    top_load_pps: float
    #: Speed of the medium; None: the tester's top rate was the top load.
    line_rate_bps: float | None

    def text(self) -> str:
        return _joined(*(bound.text() for bound in self.bounds))


class LatencyFound(Model):
    """§26.2, at one share of the throughput."""

    #: Of the throughput; 0: probes alone.
    share: float
    #: That was asked for, per direction.
    load_pps: float
    #: That was sent, all directions.
    achieved_pps: float | None
    #: Trials that it is of.
    trials: int
    #: Time-stamped frames.
    samples: int
    #: Frames lost of those sent.
    loss_ratio: float | None
    #: Median of all samples, by rank of what was sent; infinite (`null`) where that frame was lost, as those below.
    p50_us: Extended | None
    #: 99th percentile; None where too few independent samples lie above it.
    p99_us: Extended | None
    #: 99.9th percentile, likewise.
    p999_us: Extended | None

    def text(self) -> str:
        """`p50 2.8 µs, p99 5.3 µs at 10 % of the throughput`."""
        load = f"at {percent(self.share)} of the throughput" if self.share else "unloaded"
        lost = f", {percent(self.loss_ratio)} lost" if self.loss_ratio and self.loss_ratio > REPORTED_LOSS else ""
        return f"p50 {_us(self.p50_us)}, p99 {_us(self.p99_us)} {load}{lost}"


class LossFound(Model):
    """Frame loss rate (RFC 2544 §26.3) at one load."""

    #: That was asked for, per direction.
    load_pps: float
    #: Frames lost of those sent.
    loss_ratio: float
    #: Frames that the tester did not send.
    unsent: float
    #: That was sent, all directions.
    achieved_pps: float
    #: That came to this step.
    repetitions: int

    def text(self) -> str:
        """`39 % of 1,680 kpps`."""
        return f"{percent(self.loss_ratio)} of {significant(self.load_pps / 1e3)} kpps"


class BackToBackFound(Model):
    """Back-to-back frames (RFC 2544 §26.4) of a point."""

    #: Longest burst without loss, mean over the searches of a repetition.
    average_frames: Spread | None
    #: Frames of a burst over the time in which they left, per direction.
    burst_rate_pps: Spread | None
    #: Length of the burst in time.
    implied_buffer_us: Spread | None
    #: Less what was forwarded meanwhile (RFC 9004 section 5.4).
    corrected_buffer_us: Spread | None
    #: The same in frames.
    corrected_buffer_frames: Spread | None
    #: What the searches for length and throughput leave open.
    buffer_resolution_frames: Spread | None
    #: Longest burst without loss of each search.
    frames: tuple[int, ...]
    #: Who set the length, of all repetitions.
    limited_by: tuple[str, ...]
    #: Why there is no figure, of the repetitions that have none.
    reasons: tuple[str, ...]

    def text(self) -> str:
        """`3,330 frames at 1,640 kpps, a buffer of 1,990 frames`."""
        least = "at least " if "tester" in self.limited_by else ""
        burst = f"{least}{_said(self.average_frames, 'frames')} at {_said(self.burst_rate_pps, 'kpps', 1e3)}"
        buffer = f"{least}{_said(self.corrected_buffer_frames, 'frames of buffer')}"
        return _joined(
            burst if self.burst_rate_pps else "", buffer if self.corrected_buffer_frames else "", *self.reasons
        )


class RecoveryFound(Model):
    """System recovery (RFC 2544 §26.5) of a point."""

    #: From the change to half of the load until the departure of the last frame lost.
    recovery_us: Spread | None
    #: That was sent before the change, per direction.
    overload_pps: Spread | None
    #: That was asked for after it.
    relief_pps: Spread | None
    #: Frames lost before the change.
    lost_in_overload: Spread | None
    #: Time between two frames after it.
    resolution_us: Spread | None
    #: Who set the time, of all repetitions; with `tester` among them it is that at the most.
    limited_by: tuple[str, ...]
    #: Whether frames were lost before the change, in all repetitions.
    overloaded: bool
    #: Why there is no time, of the repetitions that have none.
    reasons: tuple[str, ...]

    def text(self) -> str:
        """`after 910 ms of 576 kpps, which followed 1,130 kpps`."""
        loads = f"of {_said(self.relief_pps, 'kpps', 1e3)}, which followed {_said(self.overload_pps, 'kpps', 1e3)}"
        after = f"after {_time(self.recovery_us, self.resolution_us, self.limited_by)} {loads}"
        return _joined(after if self.recovery_us else "", *self.reasons)


class ResetFound(Model):
    """Reset (RFC 2544 §26.6) of a point."""

    #: Longest time between the departures of two frames that arrived.
    gap_us: Spread | None
    #: What the suite itself put between stop and start.
    own_us: Spread | None
    #: `gap_us` less `own_us`.
    reset_us: Spread | None
    #: Frames lost.
    lost: Spread | None
    #: That was sent, per direction.
    load_pps: Spread | None
    #: Time between two frames, or the sender's own longest gap.
    resolution_us: Spread | None
    #: Who set the time, of all repetitions; with `tester` among them it is that at the most.
    limited_by: tuple[str, ...]
    #: Whether frames came through again, in all repetitions.
    came_back: bool
    #: Why there is no time, of the repetitions that have none.
    reasons: tuple[str, ...]

    def text(self) -> str:
        """`819 ms at 188 kpps`."""
        took = f"{_time(self.reset_us, self.resolution_us, self.limited_by)} at {_said(self.load_pps, 'kpps', 1e3)}"
        return _joined(took if self.reset_us else "", *self.reasons)


class ForwardingRateFound(Model):
    """Forwarding rate at overload (RFC 2285 §3.6.1) of a point."""

    #: Frames per second that arrive, over all directions.
    forwarding_rate_pps: Spread | None
    #: That were sent.
    offered_pps: Spread | None
    #: That were asked for.
    intended_pps: Spread | None
    #: Whether frames were lost in every trial of all repetitions.
    overloaded: bool


class Rfc2544Figures(PointFigures):
    """Each clause that was carried out."""

    #: Clause 26.1.
    throughput: ThroughputFound | None = None
    #: Clause 26.2, one entry for each share of the throughput.
    latency: tuple[LatencyFound, ...] = ()
    #: Clause 26.3, one entry for each step, the highest load first.
    loss_curve: tuple[LossFound, ...] = ()
    #: Clause 26.4.
    back_to_back: BackToBackFound | None = None
    #: Clause 26.5.
    recovery: RecoveryFound | None = None
    #: Clause 26.6.
    reset: ResetFound | None = None
    #: RFC 2285 section 3.6.1, at the study's overload.
    forwarding_rate: ForwardingRateFound | None = None
    #: 1, or 2: frames were sent both ways; None: nothing was measured that says so.
    directions: int | None = None

    def clause_text(self, name: str) -> str:
        """What was found of the clause in that field, in a line; "" where it was not measured."""
        found = getattr(self, name)
        text = _joined(*(each.text() for each in (found if isinstance(found, tuple) else filter(None, [found]))))
        both = "over both directions" if name == "throughput" else "loads per direction"
        return f"{text}; {both}" if text and self.directions == 2 and name != "latency" else text


def contradiction(
    trials: Iterable[TrialRecord], repetition: int, search: SearchRecord, bound: Bound
) -> Contradiction | None:
    """What contradicts a bound of the throughput `search`; None when nothing does, or there is no loss curve.

    It is loss above the tolerated ratio at a load that is lower by more than the search resolves.
    """
    if not bound.throughput_pps:
        return None
    below_pps = bound.throughput_pps * search.directions * (1 - PRESETS[search.preset].relative_width)
    lossy = []
    for trial in trials_of(trials, repetition, LossCurveRecord.clause):
        result, load_pps = trial.result, trial.offered_pps
        if not result or load_pps is None or load_pps >= below_pps or not result.sent:
            continue
        if result.lost / result.sent > bound.loss_ratio:
            lossy.append((result.lost / result.sent, load_pps))
    if not lossy:
        return None
    ratio, load_pps = max(lossy)
    return Contradiction(load_pps=load_pps, loss_ratio=ratio)


def worst(found: Sequence[Contradiction | None]) -> Contradiction | None:
    """Of several repetitions the one with most loss, where half of them or more are contradicted."""
    return max(filter(None, found), key=lambda each: each.loss_ratio) if in_half(found) else None


def trials_of(trials: Iterable[TrialRecord], repetition: int, clause: str) -> list[TrialRecord]:
    """Steps of a clause in one repetition."""
    return [
        trial
        for trial in trials
        if trial.purpose == "search" and trial.clause == clause and trial.repetition == repetition
    ]


_RATE: dict[str, Any] = {
    "better": "more",
    "unit": "kpps",
    "per": 1e3,
    "said_unit": "Mpps",
    "said_per": 1e6,
    "verb": "forwards",
    "by_loss": True,
}
#: Throughput without loss (§26.1); 0: it lost frames at the lowest load.
NDR = Figure(key="ndr_pps", name="throughput without loss", goal="most frames per second", **_RATE)
#: With a tolerated loss, where only such were searched.
PDR = Figure(key="pdr_pps", name="throughput with a tolerated loss", **_RATE)
#: At the study's overload (RFC 2285 §3.6.1).
FORWARDING_RATE = Figure(key="forwarding_rate_pps", name="forwarding rate at overload", **_RATE)
#: What a second of CPU time forwards at the throughput, that of a thread which polls counted whole.
PER_CORE = Figure(key="ndr_per_core_pps", name="frames per second of CPU time at the throughput",
                  goal="most frames a core", **_RATE)  # fmt: skip


def rfc2544_figures(trials: Sequence[TrialRecord]) -> Rfc2544Figures:
    """Each clause under its name in `_CLAUSES`."""
    found = {name: make(trials) for name, make in _CLAUSES.values()}
    both: list[SearchRecord | LossCurveRecord] = [*_records(trials, SearchRecord), *_records(trials, LossCurveRecord)]
    directions = max((each.directions for each in both), default=None)
    return Rfc2544Figures(directions=directions, **{name: each for name, each in found.items() if each})


def unsupported_clauses(trials: Iterable[TrialRecord]) -> dict[str, str]:
    """Name of a clause, as in `rfc2544_figures` -> why the tester has no figures for it."""
    names = {clause: name for clause, (name, _) in _CLAUSES.items()}
    return {
        names[trial.clause]: UnsupportedClause.of(trial).unsupported
        for trial in trials
        if trial.purpose == "figures" and "unsupported" in trial.figures
    }


def throughput_repetitions(trials: Iterable[TrialRecord]) -> tuple[RepetitionFigures, ...]:
    """Throughput and forwarding rate of each repetition, in pps over all directions, with who set them, for pairing."""
    trials = list(trials)
    found: dict[int, RepetitionFigures] = {}
    for trial in trials:
        search = next((record for _, record in records_of([trial], SearchRecord)), None)
        flood = next((record for _, record in records_of([trial], OverloadRecord)), None)
        if search:
            key, measured = _searched(trial, search, trials)
        elif flood:
            key, measured = _flooded(trial, flood, trials)
        else:
            continue
        earlier = found.get(trial.repetition) or RepetitionFigures(repetition=trial.repetition)
        figures = {**earlier.figures, key: measured}
        if search and (per_core := _per_core(trial, search, trials)):
            figures[PER_CORE.key] = per_core
        values = (figures[each.key].value for each in (NDR, PDR, FORWARDING_RATE) if each.key in figures)
        best = next(filter(None, values), 0.0)
        loss = min(bound.loss_ratio for bound in search.bounds) if search else earlier.loss_ratio
        found[trial.repetition] = earlier.model_copy(
            update={"figures": figures, "loss_ratio": loss, "achieved_pps": best, "forwarded_pps": best}
        )
    return tuple(found.values())


def _searched(trial: TrialRecord, search: SearchRecord, trials: Sequence[TrialRecord]) -> tuple[str, Measured]:
    """The bound of the lowest loss ratio that was searched: NDR, or PDR where no search was without loss.

    Both ends hold: a load that came through was carried, and which trial with loss bounds the forwarder says
    `Step.on_load`. A search that ran out of time resolves what it has left open.
    """
    bound = search.bounds[0]  # the lowest loss ratio
    metric = NDR.key if bound.loss_ratio == 0 else PDR.key
    limited_by, rate = bound.limited_by, (bound.throughput_pps or 0.0) * search.directions
    low, high, doubt = rate, rate, ""
    if limited_by == "below-minimum":
        # new flows are part of each load, which may be more than the search asked for
        low, high = 0.0, min(max(step.load_pps, step.offered_pps) for step in search.steps) * search.directions
    elif bound.from_below:
        high = bound.upper_pps * search.directions if rate and bound.upper_pps else math.inf
        doubt = "" if rate else f"no loss-free load found ({limited_by}-limited)"
    contradicted_by = contradiction(trials, trial.repetition, search, bound)
    return metric, Measured(
        value=rate if rate or limited_by == "below-minimum" else None,
        low=low,
        high=high,
        limited_by="forwarder" if limited_by == "budget" and not bound.from_below else limited_by,
        resolution=max(PRESETS[search.preset].relative_width, 0.0 if bound.from_below else bound.left_open or 0.0),
        doubt=contradicted_by.text() if contradicted_by else doubt,
        called=f"throughput with at most {percent(bound.loss_ratio)} loss" if bound.loss_ratio else "",
    )


def _per_core(trial: TrialRecord, search: SearchRecord, trials: Sequence[TrialRecord]) -> Measured | None:
    """Of the step with the highest rate, up to the throughput, among those within the lowest loss ratio searched.

    A trial above it that happened to lose nothing was of a load that others lost frames at.
    """
    bound = search.bounds[0]
    most_pps = (bound.lower_pps or 0.0) * search.directions * (1 + LOAD_TOLERANCE)
    good = [
        each
        for each in trials_of(trials, trial.repetition, trial.clause)
        if each.result and each.result.received and each.cpu and each.result.achieved_pps <= most_pps
        if each.result.lost <= bound.loss_ratio * each.result.sent
    ]
    best = max(
        good, key=lambda each: each.result.received / each.result.elapsed_s if each.result else 0.0, default=None
    )
    price = cpu_figures(best).get(CPU.key) if best else None
    if price is None or not price.value:
        return price
    return Measured(value=1e6 / price.value, limited_by=price.limited_by, resolution=price.resolution)


def _flooded(trial: TrialRecord, flood: OverloadRecord, trials: Sequence[TrialRecord]) -> tuple[str, Measured]:
    """The forwarding rate; a forwarder that lost nothing may forward more. Single frames resolve it."""
    metric = FORWARDING_RATE.key
    steps = trials_of(trials, trial.repetition, trial.clause)
    received = [each.result.received for each in steps if each.result]
    rate, overloaded = flood.forwarding_rate_pps, flood.overloaded
    return metric, Measured(
        value=rate,
        low=rate,
        high=rate if overloaded else math.inf,
        limited_by="forwarder" if overloaded else "tester",
        resolution=1 / median(received) if any(received) else 0.0,
    )


def _records(trials: Iterable[TrialRecord], kind: type[RecordT]) -> list[RecordT]:
    return [record for _, record in records_of(trials, kind)]


def _throughput(trials: Sequence[TrialRecord]) -> ThroughputFound | None:
    searches = records_of(trials, SearchRecord)
    if not searches:
        return None
    bounds = []
    for ratio in sorted({bound.loss_ratio for _, search in searches for bound in search.bounds}):
        same = [(at, search, b) for at, search in searches for b in search.bounds if b.loss_ratio == ratio]
        contradicted_by = worst([contradiction(trials, at.repetition, search, b) for at, search, b in same])
        pps = {
            name: [None if (pps := getattr(b, name)) is None else pps * search.directions for _, search, b in same]
            for name in ("throughput_pps", "lower_pps", "upper_pps")
        }
        resolution = PRESETS[same[0][1].preset].relative_width
        from_below = sum(bound.from_below for *_, bound in same)
        resolution = max(resolution, *(bound.left_open or 0.0 for *_, bound in same if not bound.from_below), 0.0)
        rates = [rate or 0.0 for rate in pps["throughput_pps"]]
        least = 2 * from_below >= len(same)
        if any(pps["throughput_pps"]):  # a repetition that found no load good is not left out: it has carried nothing
            pps |= {name: [each or 0.0 for each in pps[name]] for name in ("throughput_pps", "lower_pps")}
        bounds.append(
            BoundFound(
                loss_ratio=ratio,
                limited_by=tuple(sorted({bound.limited_by for *_, bound in same})),
                from_below=from_below,
                repetitions=len(same),
                sender_full=all(bound.sender_full for *_, bound in same),
                interval_pps=None if least else geometric_interval(rates, resolution),
                contradicted_by=contradicted_by,
                contradiction=contradicted_by.text() if contradicted_by else "",
                **{name: Spread.known(each) for name, each in pps.items()},
            )
        )
    found = [search for _, search in searches]
    return ThroughputFound(
        bounds=tuple(bounds),
        preset=found[0].preset,
        trials=tuple(len(search.steps) for search in found),
        traffic_s=tuple(search.traffic_s for search in found),
        top_load_pps=median(search.top_load_pps for search in found) * found[0].directions,
        line_rate_bps=found[0].line_rate_bps,
    )


def _latency(trials: Sequence[TrialRecord]) -> tuple[LatencyFound, ...]:
    found = _records(trials, LatencyRecord)
    rows = []
    for index, load in enumerate(found[0].loads if found else ()):
        at_load = [trial for trial in trials if trial.clause == LatencyRecord.clause_at(load.share) and trial.result]
        sample = sample_of(at_load)
        sent = sum(trial.result.sent for trial in at_load if trial.result)
        lost = sum(trial.result.lost for trial in at_load if trial.result)
        rows.append(
            LatencyFound(
                share=load.share,
                load_pps=median(record.loads[index].load_pps for record in found),
                achieved_pps=median(trial.result.achieved_pps for trial in at_load if trial.result)
                if at_load
                else None,
                trials=len(at_load),
                samples=sample.arrived.count,
                loss_ratio=lost / sent if sent else None,
                p50_us=sample.percentile_us(50),
                p99_us=if_enough_samples(at_load, 99, sample.percentile_us(99)),
                p999_us=if_enough_samples(at_load, 99.9, sample.percentile_us(99.9)),
            )
        )
    return tuple(rows)


def _loss_curve(trials: Sequence[TrialRecord]) -> tuple[LossFound, ...]:
    """Medians per step over all repetitions: one that ended after two steps without loss loses nothing below them."""
    found = _records(trials, LossCurveRecord)
    rows = []
    longest = max(found, key=lambda record: len(record.points), default=None)
    for index, step in enumerate(longest.points if longest else ()):
        same = [record.points[index] for record in found if index < len(record.points)]
        ended = sum(record.two_without_loss for record in found if index >= len(record.points))
        rows.append(
            LossFound(
                repetitions=len(same),
                load_pps=step.load_pps,
                loss_ratio=median([*(point.loss_ratio for point in same), *[0.0] * ended]),
                unsent=median(point.unsent for point in same),
                achieved_pps=median(point.achieved_pps for point in same),
            )
        )
    return tuple(rows)


def _over_repetitions(
    kind: type[ClauseRecord], made: type[Model], **own: Callable[[Sequence[Any]], Any]
) -> Callable[[Sequence[TrialRecord]], Model | None]:
    """What makes the figures of a clause from its records: spreads, and flags that hold for all; `own` the rest."""
    types = {name: field.annotation for name, field in made.model_fields.items()}

    def make(trials: Sequence[TrialRecord]) -> Model | None:
        found = _records(trials, kind)
        values = {name: [getattr(record, name) for record in found] for name in types if name not in own}
        merged = {name: all(each) if types[name] is bool else Spread.known(each) for name, each in values.items()}
        return made(**merged, **{name: of(found) for name, of in own.items()}) if found else None

    return make


def _reasons(found: Sequence[BurstsRecord | RecoveryRecord | ResetRecord]) -> tuple[str, ...]:
    """Why there is no figure, of the repetitions that have none."""
    return tuple(sorted({record.reason for record in found if record.reason}))


def _limits(found: Sequence[BurstsRecord | RecoveryRecord | ResetRecord]) -> tuple[str, ...]:
    return tuple(sorted({record.limited_by for record in found}))


#: Clause -> its name, as suites and JSON have it, and what makes its figures.
_CLAUSES: dict[str, tuple[str, Callable[[Sequence[TrialRecord]], Any]]] = {
    SearchRecord.clause: ("throughput", _throughput),
    LatencyRecord.clause: ("latency", _latency),
    LossCurveRecord.clause: ("loss_curve", _loss_curve),
    BurstsRecord.clause: (
        "back_to_back",
        _over_repetitions(
            BurstsRecord,
            BackToBackFound,
            frames=lambda found: tuple(length for record in found for length in record.frames),
            limited_by=_limits,
            reasons=_reasons,
        ),
    ),
    RecoveryRecord.clause: (
        "recovery",
        _over_repetitions(RecoveryRecord, RecoveryFound, limited_by=_limits, reasons=_reasons),
    ),
    ResetRecord.clause: ("reset", _over_repetitions(ResetRecord, ResetFound, limited_by=_limits, reasons=_reasons)),
    OverloadRecord.clause: (
        "forwarding_rate",
        _over_repetitions(OverloadRecord, ForwardingRateFound),
    ),
}
CLAUSE_NAMES = frozenset(name for name, _ in _CLAUSES.values())
