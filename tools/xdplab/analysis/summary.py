# SPDX-License-Identifier: Apache-2.0
"""One summary per point. A figure is the median over its repetitions; of a repetition with turns, over its turns.

A percentile above which the data hold fewer than ten independent samples is None: one stall of the machine is one
sample, however many frames wait.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from xdplab.forwarders.base import mode_name
from xdplab.hosts.kernel import pause_on
from xdplab.measure.datapath import cpu_figures, datapath_stats
from xdplab.measure.distribution import (
    MIN_ABOVE,
    Distribution,
    Sample,
    distribution,
    if_enough_samples,
    sample_of,
    timed,
)
from xdplab.measure.figure import P50, P99, P999, Figure, PointFigures
from xdplab.measure.measured import Measured, RepetitionFigures, in_half, known_median
from xdplab.measure.method import Method, make_method
from xdplab.measure.point import OWN_FRAMES, PointSummary, flows_of, new_flows_of
from xdplab.model import Path, Point, RunRecord, TrialRecord
from xdplab.model.digits import number_of
from xdplab.model.run import NOT_IN_FORCE
from xdplab.model.study import unusual
from xdplab.results import trials_by_point

PERCENTILES = (P50, P99, P999)
#: A trial whose tester left out more than this share of its schedule is limited by the tester.
TESTER_LIMIT_RATIO = 0.01


def trials_used(method: Method[Any], trials: Sequence[TrialRecord], clause: str = "") -> list[TrialRecord]:
    """The trials that a point is judged by: a method may measure more than one thing in a repetition."""
    return first_measured(
        trial for trial in trials if (trial.clause == clause if clause else trial.clause not in method.side_clauses)
    )


def first_measured(trials: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Of each repetition the first trial that is measured and has a result, or that of each turn."""
    first: dict[int, dict[int | None, TrialRecord]] = {}
    for trial in trials:
        if trial.purpose == "measure" and trial.result:
            first.setdefault(trial.repetition, {}).setdefault(trial.turn, trial)
    return [trial for repetition in sorted(first) for trial in first[repetition].values()]


def loss_of(trials: Iterable[TrialRecord]) -> float | None:
    """Frames lost of those sent; None where none was sent."""
    results = [trial.result for trial in trials if trial.result]
    sent = sum(result.sent for result in results)
    return sum(result.lost for result in results) / sent if sent else None


def summarise(run: RunRecord, trials: Iterable[TrialRecord]) -> list[PointSummary]:
    """A summary of each point of a run, in the study's order."""
    by_point = trials_by_point(trials)
    method = make_method(run.study.method)
    found = []
    for point_id in run.points:
        own = [*by_point.get(point_id, ())]
        there = [clause for clause in method.side_clauses if trials_used(method, own, clause)]
        by_clause = {clause: _summary(run, method, point_id, own, clause) for clause in there}
        found.append(_summary(run, method, point_id, own).model_copy(update={"by_clause": by_clause}))
    return found


def _plain_name(run: RunRecord, point: Point) -> str:
    """As its forwarder said when it was measured, and who measured it where there are several testers."""
    title = point.forwarder.title
    return run.plain_names.get(title, title) + point.name.removeprefix(title)


def _summary(
    run: RunRecord, method: Method[Any], point_id: str, trials: list[TrialRecord], clause: str = ""
) -> PointSummary:
    point = run.points[point_id]
    chosen = trials_used(method, trials, clause)
    figures = _repetitions(chosen, [] if clause else method.repetition_figures(trials))
    # a trial in which the forwarder was restarted knows no thread from its beginning to its end
    seen = chosen or sorted((trial for trial in trials if trial.result), key=lambda trial: bool(trial.threads))[-1:]
    merged = distribution(chosen)
    status, reason = _status(run, point_id, trials, chosen)
    flows = flows_of(chosen)
    returns = method.frames_return(point.levels)
    streams = [stream for trial in chosen if trial.result for stream in trial.result.streams]
    latencies = [stream.latency for trial in chosen for stream in timed(trial) if stream.latency]
    return PointSummary(
        point_id=point_id,
        forwarder=point.name,
        plain_name=_plain_name(run, point),
        forwards=run.pipelines.get(point.forwarder.title) != (),
        levels=dict(point.levels),
        setting=point.setting,
        tester=point.tester,
        mode=mode_name(seen[-1].mode) if seen else "",
        path=point.path.value,
        quantity=method.quantity or point.path.quantity,
        frame_bytes=OWN_FRAMES if method.own_ends else point.traffic.frame_bytes,
        udp_flows=point.traffic.flows * point.traffic.address_pairs,
        profile=unusual(point.traffic, "frame_bytes", "flows", "address_pairs"),
        pipeline=str(point.pipeline),
        options=_hidden(run, point),
        knobs=dict(point.knobs),
        cpus=_cpus(seen[-1], run) if seen else "",
        offered_pps=known_median(trial.offered_pps for trial in chosen),
        achieved_pps=known_median(figure.achieved_pps for figure in figures),
        forwarded_pps=known_median(figure.forwarded_pps for figure in figures),
        loss_ratio=loss_of(chosen) if returns else None,
        where_lost=_where_lost(trials),
        measured=_of_point(figures, chosen),
        p99999_us=if_enough_samples(chosen, 99.999, sample_of(chosen).percentile_us(99.999)),
        min_us=_extreme(min, (latency.min_ns for latency in latencies)),
        max_us=_extreme(max, (latency.max_ns for latency in latencies)),
        sent=sum(trial.result.sent for trial in chosen if trial.result),
        samples=merged.count,
        duplicated=sum(stream.duplicated for stream in streams),
        faults=_ownership_faults(trials),
        beyond_window=sum(stream.beyond_window for stream in streams),
        out_of_order=sum(stream.out_of_order for stream in streams),
        tx_drops=sum(trial.result.tx_drops for trial in chosen if trial.result),
        pausing=_pausing(run, point, trials),
        flows=flows.number,
        worst_flows=flows.worst,
        free_buffers=_free_buffers(trials),
        datapath=datapath_stats(chosen or _steps(trials)),
        new_flows=new_flows_of(chosen) if point.traffic.new_flows_pps else None,
        planned=run.study.repetitions,
        repetitions=len(figures),
        begun=len({trial.repetition for trial in trials}),
        failed=len({trial.repetition for trial in trials if trial.status == "failed"}),
        machine_tail=_machine_tail(chosen),
        tester_limited=in_half([_tester_limited(trial) for trial in chosen]),
        status=status,
        reason=reason,
        figures=PointFigures() if clause else method.point_figures(run, point, trials),
        unsupported_clauses={} if clause else method.unsupported_clauses(trials),
        all_turns=_all_turns(chosen),
        by_repetition=figures,
        equivalence_margin=run.study.equivalence_margin,
    )


def _where_lost(trials: Iterable[TrialRecord]) -> str:
    told = [trial for trial in trials if trial.where_lost and trial.result]
    return max(told, key=lambda trial: loss_of([trial]) or 0.0).where_lost if told else ""


def _ownership_faults(trials: Sequence[TrialRecord]) -> tuple[str, ...]:
    """Whether a forwarder let go of each frame once, as it came: what the tester counted in all of its trials.

    A forwarder shares memory with the kernel, and a frame's buffer has one owner at a time. Who forgets that sends a
    buffer twice, sends one that somebody else is writing to, or one that was left over from before it was started. A
    single frame is a fault.
    """
    streams = [stream for trial in trials if trial.result for stream in trial.result.streams]
    twice = sum(stream.duplicated for stream in streams)
    damaged = sum(stream.damaged or 0 for stream in streams)
    earlier = sum(trial.result.earlier for trial in trials if trial.result and trial.from_before_start)
    return tuple(
        f"delivered {number_of(count, 'frame')} {how}"
        for count, how in (
            (twice, "twice"),
            (damaged, "damaged"),
            (earlier, "of earlier trials, from before it was started"),
        )
        if count
    )


def _free_buffers(trials: Sequence[TrialRecord]) -> tuple[int, int] | None:
    """Of one start of the forwarder: where there are as many again as in its beginning, it was restarted."""
    ends: list[tuple[int, int]] = []
    repetition = None
    for trial in trials:
        free, restarted = trial.free_buffers, trial.result is not None and trial.result.restart_own_ns is not None
        if free is None or restarted:
            repetition = None
        elif repetition == trial.repetition and free[0] < ends[-1][0]:
            ends[-1] = (ends[-1][0], free[1])
        else:
            ends.append(free)
            repetition = trial.repetition
    first, last = max(ends, key=lambda pair: pair[0] - pair[1], default=(0, 0))
    return (first, last) if last < first else None


def _pausing(run: RunRecord, point: Point, trials: Iterable[TrialRecord]) -> tuple[str, ...]:
    """Ports of its path whose pause frames are on, as `b0 (eth2)`.

    As read when the run began, or undone until it ended; of the forwarder's by the point's own setting.
    """
    own: dict[str, Any] = next(
        (trial.knobs["pause"] for trial in trials if isinstance(trial.knobs.get("pause"), dict)), {}
    )
    roles = ("a0", "b0") if point.path is Path.HAIRPIN else ("a0", "b0", "b1", "c0")
    found = []
    for role in roles:
        facts = run.environment.ports.get(role, {})
        name = str(facts.get("ifname", ""))
        undone = run.environment.low_latency.get(role, {}).get("pause", "").startswith(NOT_IN_FORCE)
        set_here = own.get(name) if role.startswith("b") else None
        if isinstance(set_here, dict):
            on = "on" in (set_here.get("rx"), set_here.get("tx"))
        else:
            on = undone or pause_on(str(facts.get("ethtool -a", "")))
        found += [f"{role} ({name})"] if on else []
    return tuple(found)


def _hidden(run: RunRecord, point: Point) -> dict[str, Any]:
    """Options that the study sweeps, where a label hides them."""
    swept = run.study.options.get(point.forwarder.name, {}) if point.forwarder.label else {}
    return {name: point.forwarder.options[name] for name in swept if name in point.forwarder.options}


def _steps(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Of a point of which no single trial stands: those of its searches."""
    return [trial for trial in trials if trial.result and trial.purpose == "search"]


def _machine_tail(trials: Iterable[TrialRecord]) -> tuple[str, ...]:
    """Percentiles with less above them than the share of the time in which a forwarding thread's core was gone.

    A forwarder in softirq context has no thread: while its core is gone, the sender's is, and no frame waits for it.
    """
    gone = known_median(_gone(trial) for trial in trials) or 0.0
    upper = {P99.key: 99.0, P999.key: 99.9, "p99999_us": 99.999}
    return tuple(name for name, percent in upper.items() if gone >= 1 - percent / 100)


def _gone(trial: TrialRecord) -> float:
    if trial.disturbance is None or not trial.threads:
        return 0.0
    stolen = [trial.disturbance.steal_share.get(thread.cpu, 0.0) for thread in trial.threads]
    return max(trial.disturbance.run_delay_share, *stolen)


def _repetitions(measured: Sequence[TrialRecord], own: Iterable[RepetitionFigures]) -> tuple[RepetitionFigures, ...]:
    """Latency, the method's own figures, or both of each repetition: a method may measure the two in one repetition."""
    found = {one.repetition: one for one in own}
    for repetition, trials in itertools.groupby(measured, key=lambda trial: trial.repetition):
        timed, other = _of_turns([*trials]), found.get(repetition)
        both = {**other.figures, **timed.figures} if other else timed.figures
        found[repetition] = timed.model_copy(update={"figures": both})
    return tuple(found[repetition] for repetition in sorted(found))


def _of_turns(trials: Sequence[TrialRecord]) -> RepetitionFigures:
    """Of one trial, or of those of its turns: medians over them, and each value with the number of its turn."""
    samples = [sample_of([trial]) for trial in trials]
    parts = [_figures(trial, sample) for trial, sample in zip(trials, samples, strict=True)]
    if trials[0].turn is None:
        return parts[0]
    numbers = [trial.turn or 0 for trial in trials]
    by_turn = [*zip(numbers, parts, samples, strict=True)]
    turns = {
        key: {turn: value for turn, each, own in by_turn if (value := _of_turn(key, each, own)) is not None}
        for key in dict.fromkeys(key for each in parts for key in each.figures)
    }
    figures = {
        key: Measured(
            value=median(values.values()),
            limited_by="tester" if in_half([one.limited_by == "tester" for one in own]) else "forwarder",
            resolution=max(one.resolution for one in own),
        )
        for key, values in turns.items()
        if 2 * len(values) > len(parts) and (own := [each.figures[key] for each in parts if key in each.figures])
    }
    return parts[0].model_copy(
        update={
            "figures": figures,
            "turns": {key: turns[key] for key in figures},
            "loss_ratio": loss_of(trials) or 0.0,
            "achieved_pps": median(each.achieved_pps for each in parts),
            "forwarded_pps": median(each.forwarded_pps for each in parts),
            "arrived": sum(each.arrived or 0 for each in parts),
        }
    )


def _all_turns(trials: Sequence[TrialRecord]) -> dict[float, float]:
    sample = sample_of(trial for trial in trials if trial.turn is not None)
    known = ((each.percent, sample.percentile_us(each.percent)) for each in PERCENTILES if each.percent)
    return {percent: value for percent, value in known if value is not None}


def _of_turn(key: str, one: RepetitionFigures, sample: Sample) -> float | None:
    """A figure of one turn. A percentile needs enough frames above it, and is infinite where none came at all."""
    percent = next((each.percent for each in PERCENTILES if each.key == key), None)
    if percent is None:
        return one.value(key)
    if not sample.count:
        return math.inf if one.achieved_pps else None
    return one.value(key) if sample.count * (100 - percent) / 100 >= MIN_ABOVE else None


def _figures(trial: TrialRecord, sample: Sample) -> RepetitionFigures:
    result = trial.result
    assert result is not None
    percentiles = {each.key: _percentile(sample, each, trial) for each in PERCENTILES if sample.count}
    return RepetitionFigures(
        repetition=trial.repetition,
        figures={**percentiles, **cpu_figures(trial)},
        loss_ratio=loss_of([trial]) or 0.0,
        offered_pps=trial.offered_pps,
        achieved_pps=sum(stream.achieved_pps for stream in result.streams),
        forwarded_pps=sum(stream.rx_pps for stream in result.streams),
        arrived=sample.arrived.count,
    )


def _percentile(sample: Sample, figure: Figure, trial: TrialRecord) -> Measured:
    """By rank of what was sent; infinite where that frame was lost."""
    assert figure.percent is not None
    value = sample.percentile_us(figure.percent) or 0.0
    return Measured(
        value=value,
        limited_by="tester" if _tester_limited(trial, 1 - figure.percent / 100) else "forwarder",
        resolution=Distribution.resolution(value) if 0 < value < math.inf else 0.0,
    )


def _of_point(figures: Sequence[RepetitionFigures], trials: Sequence[TrialRecord]) -> dict[str, Measured]:
    """Each figure of a point. A percentile that the trials it is of do not carry is not known, and says why."""
    found = {}
    for key in dict.fromkeys(key for one in figures for key in one.figures):
        searched = [each for each in figures if each.was_searched(key)]
        one = Measured.over([each.figures[key] for each in searched])
        known = next((each for each in PERCENTILES if each.key == key), None)
        used = {each.repetition for each in searched}
        own = [trial for trial in trials if trial.repetition in used]
        if (
            known
            and known.percent
            and own[0].turn is None
            and one.value is not None
            and if_enough_samples(own, known.percent, one.value) is None
        ):
            doubt = f"too few independent samples lie above its {known.name}"
            one = one.model_copy(update={"value": None, "doubt": doubt})
        found[key] = one
    return found


def _status(run: RunRecord, point_id: str, trials: list[TrialRecord], measured: list[TrialRecord]) -> tuple[str, str]:
    """`ok`, `partial`, `failed`, `unsupported` or `not measured`, and why."""
    if point_id in run.unsupported:
        return "unsupported", run.unsupported[point_id]
    for word in ("unsupported", "failed"):
        reasons = Counter(trial.reason for trial in trials if trial.status == word)
        if reasons:
            reason = reasons.most_common(1)[0][0]
            return ("partial" if measured else word), reason
    if any(trial.purpose == "end" and trial.status == "ok" for trial in trials) and not measured:
        return "ok", ""
    if not measured:
        return "not measured", run.ended_early or "no trial of it yet"
    return "ok", ""


def _cpus(trial: TrialRecord, run: RunRecord) -> str:
    """Where the four halves ran: `tx 0 · napi with tx · forwarder 1 · rx 1`; forwarder and rx as they were seen."""
    layout = run.layout
    threads = sorted({thread.cpu for thread in trial.threads})
    rx_cpus = trial.result.rx_cpus if trial.result else {}
    receivers = sorted(cpu for cpu, frames in rx_cpus.items() if frames)
    pinned = trial.knobs.get("cpu_layout")
    moved = isinstance(pinned, dict) and "1" in pinned.values()
    napi = "thread" if moved else "with tx"
    forwarder = "/".join(map(str, threads)) or "in NAPI"
    tx, rx = ("/".join(map(str, cpus)) or "-" for cpus in (layout.tx_cpus, receivers))
    return f"tx {tx} · napi {napi} · forwarder {forwarder} · rx {rx}"


def _tester_limited(trial: TrialRecord, above: float = TESTER_LIMIT_RATIO) -> bool:
    """Whether the tester left out more than a share of its schedule: of a percentile what lies above it, or 1 %.

    Frames that its card dropped mark the trial however few they are: the card was asked for more than it takes.
    """
    result = trial.result
    if result is None:
        return False
    short = result.sent < (1 - max(above, TESTER_LIMIT_RATIO)) * result.intended
    return bool(result.tester_lost or result.tx_drops or short)


def _extreme(function: Any, values: Iterable[int]) -> float | None:
    known = list(values)
    return float(function(known)) / 1000 if known else None
