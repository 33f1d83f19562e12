# SPDX-License-Identifier: Apache-2.0
"""Statements on the figures of several points: graphs that the RFC asks for, threads, variants of a forwarder."""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Any, get_args

from xdplab.analysis.answers.ranking import Contender
from xdplab.analysis.compare import compare_points, corrected
from xdplab.analysis.words import gain, listed, visible
from xdplab.forwarders.base import THREADS
from xdplab.measure.comparison import Comparison
from xdplab.measure.measured import Measured
from xdplab.measure.method import Method
from xdplab.measure.page import Page, Section
from xdplab.measure.point import PointSummary
from xdplab.methods.counting import Curve, Rung
from xdplab.methods.rfc2544.figures import FORWARDING_RATE, NDR, PDR, Rfc2544Figures
from xdplab.methods.rfc2544.search import PRESETS
from xdplab.methods.rfc2544.spec import FULL, Clause, Rfc2544Spec, scale_of
from xdplab.model import Model, Point, RunRecord, StudySpec, TrialRecord
from xdplab.model.digits import number_of
from xdplab.model.study import Names
from xdplab.report.chart import Axis, Chart, Series
from xdplab.results import trials_by_point


def rfc2544_section(method: Method[Any], page: Page) -> list[Section]:
    rfc = [summary for summary in page.measured if Rfc2544Figures.of(summary) != Rfc2544Figures()]
    if not rfc:
        return []
    charts = {
        "throughput": throughput_chart(rfc),
        "loss_curve": loss_chart(rfc),
        "latency": latency_at_load_chart(rfc),
    }
    found = page.section(
        method,
        "report.html.j2",
        rfc=rfc,
        charts={name: page.chart(chart) for name, chart in charts.items() if chart.series},
        ratios=page.ratios(),
        by_size=len({summary.frame_bytes for summary in page.measured}) > 1,
        preset=PRESETS[method.spec.preset],
        full_scale=scale_of(method.spec) is FULL,
        drain_idle_s=scale_of(method.spec).drain_idle_s,
    )
    return [found]


def throughput_chart(summaries: Sequence[PointSummary]) -> Chart:
    """§26.1: frame size against frame rate, with the theoretical rate of the medium where one is given."""
    found = [(s, Rfc2544Figures.of(s).throughput) for s in summaries if isinstance(s.frame_bytes, int)]
    sized = [(s, throughput) for s, throughput in found if throughput]
    series = []
    for name in dict.fromkeys(summary.forwarder for summary, _ in sized):
        bounds = {int(s.frame_bytes): throughput.bounds[0] for s, throughput in sized if s.forwarder == name}
        known = {size: bound for size, bound in sorted(bounds.items()) if bound.found and not bound.contradicted_by}
        own = {size: bound.throughput_pps for size, bound in known.items() if not bound.at_least}
        rates = [[each / 1e6 for each in (rate.median, rate.low, rate.high)] for rate in own.values() if rate]
        middle, low, high = ([rate[at] for rate in rates] for at in range(3))
        series += [Series(name, [*own], middle, low, high)] if own else []
        # who else set it sets no throughput: the forwarder carries that much at least
        least = {
            size: bound.throughput_pps.median / 1e6
            for size, bound in known.items()
            if size not in own and bound.throughput_pps
        }
        series += [Series(f"{name}, at least", [*least], [*least.values()], joined=False)] if least else []
    tops = {int(s.frame_bytes): throughput for s, throughput in sized}
    speed = next((each.line_rate_bps for each in tops.values() if each.line_rate_bps), None)
    limits = {size: speed / ((size + 20) * 8) if speed else each.top_load_pps for size, each in sorted(tops.items())}
    label = "theoretical (line rate)" if speed else "tester's top rate"
    series.append(Series(label, list(limits), [limit / 1e6 for limit in limits.values()]))
    x = Axis("frame size, FCS counted", "bytes")
    caption = "Band: all rounds. Points without a line: lower bounds, set by the tester or the time."
    return Chart("throughput by frame size", x, Axis("without loss", "Mpps"), series, caption)


def loss_chart(summaries: Sequence[PointSummary]) -> Chart:
    """§26.3: achieved load against the share of frames lost."""
    series = []
    for summary in summaries:
        if points := Rfc2544Figures.of(summary).loss_curve:
            loads = [point.achieved_pps / 1e6 for point in points]
            series.append(Series(_name(summary), loads, [100 * point.loss_ratio for point in points]))
    return Chart("frame loss rate by load", Axis("achieved load", "Mpps"), Axis("frames lost", "%"), series)


def latency_at_load_chart(summaries: Sequence[PointSummary]) -> Chart:
    """§26.2: share of the throughput against p50 and p99."""
    series = []
    for summary in summaries:
        rows = [row for row in Rfc2544Figures.of(summary).latency or () if row.p50_us]
        shares = [100 * row.share for row in rows]
        for word, values in (("p50", [row.p50_us for row in rows]), ("p99", [row.p99_us for row in rows])):
            drawn = [value if value is not None and math.isfinite(value) else None for value in values]
            if any(drawn):
                series.append(Series(f"{_name(summary)}, {word}", shares, drawn))
    y = Axis(f"{summaries[0].quantity} latency" if summaries else "latency", "µs", log=True)
    return Chart("latency by load", Axis("load, share of the throughput", "%"), y, series)


def _name(summary: PointSummary) -> str:
    return f"{summary.forwarder}, {summary.frame_bytes} bytes"


_QUEUES = "n_rxq"


def curves(run: RunRecord, summaries: Sequence[PointSummary]) -> dict[str, Curve]:
    """Those of all forwarders whose threads vary, by what else they are."""
    found: dict[str, tuple[Point, list[tuple[int, int, PointSummary]]]] = {}
    for summary in summaries:
        point = run.points[summary.point_id]
        options = point.forwarder.options
        name = next((name for name in THREADS if options.get(name)), None)
        if name is not None:
            rest = {key: value for key, value in options.items() if key not in (name, _QUEUES)}
            other = point.model_copy(
                update={"forwarder": point.forwarder.model_copy(update={"options": rest, "label": ""})}
            )
            at = int(options[name]), int(options.get(_QUEUES, 1))
            found.setdefault(other.id, (other, []))[1].append((*at, summary))
    names = Names(point for point, _ in found.values())
    several = {names.of(point): rows for point, rows in found.values() if len({threads for threads, *_ in rows}) > 1}
    return {title: _curve(rows) for title, rows in several.items()}


def lines(found: dict[str, Curve]) -> Iterator[str]:
    """A line for each number of threads and queues, and why there is no efficiency."""
    for title, curve in found.items():
        yield from (f"{title}: {rung.at}: {_rung_line(curve, rung)}" for rung in curve.rungs)
        if curve.without:
            yield f"{title}: no efficiency: one thread: {curve.without}"


def _curve(rows: Sequence[tuple[int, int, PointSummary]]) -> Curve:
    """By the first figure that one of them has."""
    rungs = []
    tried = (NDR, PDR, FORWARDING_RATE)
    figure = next((each for each in tried if any(row[-1].searched(each.key) for row in rows)), NDR)
    places = [row[:2] for row in rows]
    for threads, queues, summary in sorted(rows, key=lambda row: row[:2]):
        at = f"{number_of(threads, 'thread')}, {number_of(queues, 'queue')}"
        at += f" ({summary.forwarder})" if places.count((threads, queues)) > 1 else ""
        at += f", {figure.name}" if figure != NDR else ""
        rungs.append(Rung(threads, Contender(summary, figure, summary.forwarder, ""), at))
    return Curve(rungs)


def _rung_line(curve: Curve, rung: Rung) -> str:
    """`1.9 Mpps, 79 to 86 % of 2 times one thread`."""
    row = rung.row
    if not rung.values:
        looked_for = row.point.searched(row.figure.key)
        return row.point.reason or (f"not known: {row.blocker}" if looked_for else "not measured")
    if row.blocker:
        return f"{row.amount}, uncertain: {row.blocker}"
    share = curve.share(rung) if rung.number > 1 else ""
    shown = f", {share} of {rung.number} times one thread" if share else ""
    return row.amount + shown + (f" ({row.limit})" if row.limit else "")


#: Metric -> how a gain in it is said.
_GAINS = {"ndr_pps": "forwards", "forwarding_rate_pps": "at overload forwards", "p50_us": "p50", "p99_us": "p99"}
_NAMES = {"ndr_pps": "NDR", "forwarding_rate_pps": "rate at overload", "p50_us": "p50", "p99_us": "p99"}


#: Counters that our patches add to the AF_XDP ports of Open vSwitch.
_COUNTERS = {"send_calls": "tx_kick", "receive_calls": "rx_wakeup", "copied_bytes": "tx_copy_bytes"}


class PerFrame(Model):
    """System calls and copied bytes for each frame that was sent on: medians over the repetitions."""

    send_calls: float
    receive_calls: float
    copied_bytes: float


#: Of an interval whose ends lie further apart, as a ratio, nothing is said: a factor of ten either way.
_WIDEST = 100.0
_TOO_FAR_APART = "its rounds lie too far apart: raise --repetitions"


class Variant(Model):
    """One point against the reference; ratios are above 1 when the point is better."""

    summary: PointSummary
    #: Its throughput without loss in words, and why that is doubted.
    ndr: Measured
    comparisons: dict[str, Comparison | None]
    per_frame: PerFrame | None = None
    note: str = ""

    def verdict(self) -> str:
        """What it contributes, in words: a ratio whose interval holds 1 is no contribution that was found."""
        known = {metric: found for metric, found in self.comparisons.items() if found is not None}
        said = [_gain(metric, found) for metric, found in known.items() if found.better is not None]
        if said:
            return "; ".join(said)
        able = {metric: found.interval for metric, found in known.items() if found.interval and found.sense == "exact"}
        able = {metric: interval for metric, interval in able.items() if not known[metric].blockers}
        wide = {metric for metric, each in able.items() if each.low and each.high and each.high > _WIDEST * each.low}
        able = {metric: interval for metric, interval in able.items() if metric not in wide}
        if not able:
            reasons = dict.fromkeys(reason for found in known.values() for reason in found.blockers)
            why = _TOO_FAR_APART if wide else "figures are bounds, or were never paired"
            return f"undecided: {'; '.join(reasons) or why}"
        seen = ", ".join(f"{_NAMES[metric]} {visible(interval)}" for metric, interval in able.items())
        others = [
            f"{_NAMES[metric]} ({_why_undecided(found, wide=metric in wide)})"
            for metric, found in known.items()
            if metric not in able
        ]
        unknown = f"; undecided: {listed(others)}" if others else ""
        where = listed([_NAMES[metric] for metric in able])
        remarks = dict.fromkeys(remark for metric in able for remark in known[metric].remarks)
        remarked = f" ({'; '.join(remarks)})" if remarks else ""
        return f"no difference seen in {where}{remarked}; what would have shown: {seen}{unknown}"


def _why_undecided(found: Comparison, *, wide: bool) -> str:
    if found.blockers:
        return found.blockers[0]
    return _TOO_FAR_APART if wide else "a figure is only a bound"


def _gain(metric: str, found: Comparison) -> str:
    """`p50 12 % lower (a lost 0.4 %)`."""
    said = "; ".join(found.remarks)
    return gain(metric, found, _GAINS[metric]) + (f" ({said})" if said else "")


class Ablation(Model):
    """The reference and everything that was measured next to it at the same load, size, path and knobs."""

    reference: PointSummary
    reference_ndr: Measured
    reference_per_frame: PerFrame | None
    variants: tuple[Variant, ...]


def ablation(run: RunRecord, summaries: Sequence[PointSummary], trials: Sequence[TrialRecord] = ()) -> Ablation | None:
    """Compare each measured point with the second forwarder of the study's `answer`.

    None when the study names no reference, or it was not measured with both throughput and latency.
    """
    measured = [
        s for s in summaries if any(one.was_searched("ndr_pps") and one.value("p50_us") for one in s.by_repetition)
    ]
    wanted = run.study.answer[1] if run.study.answer else None
    reference = next((summary for summary in measured if summary.forwarder == wanted), None)
    if reference is None:
        return None
    alike = [s for s in measured if s.setting == reference.setting and s.point_id != reference.point_id]
    found = {(s.point_id, metric): compare_points(s, reference, metric) for s in alike for metric in _GAINS}
    adjusted = corrected(found)
    by_point = trials_by_point(trials)
    return Ablation(
        reference=reference,
        reference_ndr=_ndr(reference),
        reference_per_frame=per_frame(by_point.get(reference.point_id, ())),
        variants=tuple(
            Variant(
                summary=summary,
                ndr=_ndr(summary),
                comparisons={metric: adjusted.get((summary.point_id, metric)) for metric in _GAINS},
                per_frame=per_frame(by_point.get(summary.point_id, ())),
                note=run.study.notes.get(summary.forwarder, ""),
            )
            for summary in alike
        ),
    )


def _ndr(summary: PointSummary) -> Measured:
    return summary.measured["ndr_pps"]


def per_frame(trials: Iterable[TrialRecord]) -> PerFrame | None:
    """From the first to the last trial of each repetition; None when the ports have no such counters."""
    ratios: dict[str, list[float]] = {name: [] for name in _COUNTERS}
    measured = sorted((t for t in trials if t.result), key=lambda t: (t.repetition, t.trial))
    for _, repetition in itertools.groupby(measured, key=lambda trial: trial.repetition):
        seen = [_totals(trial.counters) for trial in repetition]
        first, last = seen[0], seen[-1]
        frames = last.get("frames", 0) - first.get("frames", 0)
        if frames <= 0 or not _COUNTERS.keys() <= last.keys():
            continue
        for name in _COUNTERS:
            ratios[name].append((last[name] - first[name]) / frames)
    if not all(ratios.values()):
        return None
    return PerFrame(**{name: median(values) for name, values in ratios.items()})


def _totals(counters: dict[str, object]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for port in counters.values():
        for key, value in port.items() if isinstance(port, dict) else ():
            for name, counter in (("frames", "tx_pkts"), *_COUNTERS.items()):
                if re.fullmatch(rf"(xsk_queue_\d+_)?{counter}", key):
                    totals[name] = totals.get(name, 0) + int(value)
    return totals


# What of RFC 2544 a study does not keep to, clause by clause, from its own parameters.

#: §9.1: frame sizes of Ethernet, with FCS.
SIZES = (64, 128, 256, 512, 1024, 1280, 1518)
_SECTIONS: dict[Clause, str] = {
    "throughput": "§26.1",
    "latency": "§26.2",
    "loss-curve": "§26.3",
    "back-to-back": "§26.4",
    "recovery": "§26.5",
    "reset": "§26.6",
}


def deviations(spec: Rfc2544Spec, study: StudySpec) -> list[str]:
    """A sentence for each, in the order of the RFC."""
    return [*_of_traffic(study), *_of_waiting(spec), *_of_clauses(spec)]


def _of_traffic(study: StudySpec) -> Iterator[str]:
    sizes = study.frame_bytes or (study.traffic.frame_bytes,)
    missing = [size for size in SIZES if size not in sizes]
    if missing:
        yield f"§9.1: not all frame sizes of Ethernet: without {', '.join(map(str, missing))} bytes"
    yield "§11: no broadcast frames, management frames, routing updates or filters among the test frames"
    pairs = study.traffic.src_addresses * study.traffic.dst_addresses
    if pairs < 256:
        yield f"§12: {pairs} pair{'s' * (pairs > 1)} of addresses, and not one drawn from 256 networks as well"
    if not study.traffic.bidirectional:
        yield "§14: one direction only"


def _of_waiting(spec: Rfc2544Spec) -> Iterator[str]:
    idle_s = scale_of(spec).drain_idle_s
    if spec.drain_s < 2 or idle_s is not None:
        until = f"until none has come for {idle_s:g} s" if idle_s is not None else f"for {spec.drain_s:g} s"
        yield f"§23: late frames are waited for {until}, not for 2 s"
    yield "§23: no rest of 5 s before the next trial"


def _of_clauses(spec: Rfc2544Spec) -> Iterator[str]:
    scale, wanted = scale_of(spec), spec.wanted
    left_out = [_SECTIONS[each] for each in get_args(Clause) if each not in wanted]
    if left_out:
        yield f"{', '.join(left_out)}: not asked for"
    per_clause: dict[Clause, list[str]] = {
        "throughput": list(PRESETS[spec.preset].deviations),
        "latency": [
            "every probe frame is time-stamped, not one of each stream",
            *_shorter("trials", scale.at_load_s, FULL.at_load_s),
            *_fewer("repetitions", scale.at_load_repeats, FULL.at_load_repeats),
        ],
        "loss-curve": _shorter("trials", scale.loss_trial_s, FULL.loss_trial_s),
        "back-to-back": [
            *_shorter("the longest burst", scale.longest_burst_s, FULL.longest_burst_s),
            *_fewer("searches", scale.burst_repeats, FULL.burst_repeats),
        ],
        "recovery": _shorter("the overload", scale.recovery_s, FULL.recovery_s),
        "reset": ["a reset of software; no hardware or power reset is made"],
    }
    if spec.loss_ratios and min(spec.loss_ratios) > 0:
        per_clause["throughput"].append("no search was without tolerated loss")
    for clause in wanted:
        if found := per_clause[clause]:
            yield f"{_SECTIONS[clause]}: {'; '.join(found)}"


def _shorter(what: str, is_s: float, asked_s: float) -> list[str]:
    return [f"{what}: {is_s:g} s instead of {asked_s:g} s"] if is_s < asked_s else []


def _fewer(what: str, count: int, asked: int) -> list[str]:
    return [f"{count} {what} instead of {asked}"] if count < asked else []
