# SPDX-License-Identifier: Apache-2.0
"""What each variant of a forwarder contributes: throughput and latency against one reference, in pairs."""

import itertools
import re
from collections.abc import Iterable, Sequence
from statistics import median

from xdplab.analysis.compare import compare_points, corrected
from xdplab.analysis.words import gain, listed, visible
from xdplab.measure.comparison import Comparison
from xdplab.measure.measured import Measured
from xdplab.measure.point import PointSummary
from xdplab.model import Model, RunRecord, TrialRecord

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


class Variant(Model):
    """One point against the reference; ratios are above 1 when the point is better."""

    summary: PointSummary
    #: What is said of its throughput without loss, and why that is doubted.
    ndr: Measured
    comparisons: dict[str, Comparison | None]
    per_frame: PerFrame | None = None
    note: str = ""

    def verdict(self) -> str:
        """What it contributes, in words: a ratio whose interval holds 1 is no contribution that was found."""
        known = {metric: found for metric, found in self.comparisons.items() if found is not None}
        said = [gain(metric, found, _GAINS[metric]) for metric, found in known.items() if found.better is not None]
        if said:
            return "; ".join(said)
        able = {metric: found.interval for metric, found in known.items() if found.interval and found.sense == "exact"}
        able = {metric: interval for metric, interval in able.items() if not known[metric].hindrances}
        if not able:
            reasons = dict.fromkeys(reason for found in known.values() for reason in found.hindrances)
            return f"cannot be said: {'; '.join(reasons) or 'figures are bounds, or were never measured together'}"
        seen = ", ".join(f"{_NAMES[metric]} {visible(interval)}" for metric, interval in able.items())
        others = [
            f"{_NAMES[metric]} ({found.hindrances[0] if found.hindrances else 'a figure is a bound'})"
            for metric, found in known.items()
            if metric not in able
        ]
        unknown = f"; nothing can be said of {listed(others)}" if others else ""
        where = listed([_NAMES[metric] for metric in able])
        return f"no difference seen in {where}; what would have shown: {seen}{unknown}"


class Ablation(Model):
    """The reference and everything that was measured beside it at the same load, size, path and knobs."""

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
    adjusted = corrected({key: one for key, one in found.items() if one is not None})
    by_point = {point_id: [trial for trial in trials if trial.point_id == point_id] for point_id in run.points}
    return Ablation(
        reference=reference,
        reference_ndr=_ndr(reference),
        reference_per_frame=per_frame(by_point[reference.point_id]),
        variants=tuple(
            Variant(
                summary=summary,
                ndr=_ndr(summary),
                comparisons={metric: adjusted.get((summary.point_id, metric)) for metric in _GAINS},
                per_frame=per_frame(by_point[summary.point_id]),
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
    measured = sorted((t for t in trials if t.result), key=lambda t: (t.repetition, t.trial, t.attempt))
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
    """Sums over ports and queues."""
    totals: dict[str, int] = {}
    for port in counters.values():
        for key, value in port.items() if isinstance(port, dict) else ():
            for name, counter in (("frames", "tx_pkts"), *_COUNTERS.items()):
                if re.fullmatch(rf"(xsk_queue_\d+_)?{counter}", key):
                    totals[name] = totals.get(name, 0) + int(value)
    return totals
