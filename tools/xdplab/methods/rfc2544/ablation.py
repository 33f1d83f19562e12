# SPDX-License-Identifier: Apache-2.0
"""What each variant of a forwarder contributes: throughput and latency against one reference, in pairs."""

from collections.abc import Sequence

from xdplab.analysis.compare import Comparison, compare_points, corrected
from xdplab.analysis.figures import Rate, rate_of
from xdplab.analysis.stats import Interval
from xdplab.analysis.summary import PointSummary
from xdplab.methods import figure
from xdplab.methods.rfc2544.calls import PerFrame, per_frame
from xdplab.model import Model, RunRecord, TrialRecord
from xdplab.model.digits import percent, significant

#: Metric -> how a gain in it is said.
_GAINS = {"ndr_pps": "forwards", "forwarding_rate_pps": "at overload forwards", "p50_us": "p50", "p99_us": "p99"}
_NAMES = {"ndr_pps": "NDR", "forwarding_rate_pps": "rate at overload", "p50_us": "p50", "p99_us": "p99"}


#: Above, a figure is told as so many times the other one, below as so many percent more.
_TIMES = 3.0


class Variant(Model):
    """One point against the reference; ratios are above 1 when the point is better."""

    summary: PointSummary
    #: What is said of its throughput without loss, and why that is doubted.
    ndr: Rate
    comparisons: dict[str, Comparison | None]
    per_frame: PerFrame | None = None
    note: str = ""

    def verdict(self) -> str:
        """What it contributes, in words: a ratio whose interval holds 1 is no contribution that was found."""
        known = {metric: found for metric, found in self.comparisons.items() if found is not None}
        said = [_gain(metric, found) for metric, found in known.items() if found.better is not None]
        if said:
            return "; ".join(said)
        able = {metric: found.interval for metric, found in known.items() if found.interval and not found.hindrances}
        if not able:
            reasons = dict.fromkeys(reason for found in known.values() for reason in found.hindrances)
            return f"cannot be said: {'; '.join(reasons) or 'never measured in the same repetition'}"
        seen = ", ".join(f"{_NAMES[metric]} {_visible(interval)}" for metric, interval in able.items())
        return f"nil: told apart in nothing; what would have shown: {seen}"


def _gain(metric: str, found: Comparison) -> str:
    interval = found.interval
    assert interval is not None
    bounded = found.sense != "exact" or interval.method == "each-pair"
    ratio = ((interval.low if found.better else interval.high) if bounded else interval.ratio) or 1.0
    rate = figure(metric).more
    more, less = ("more", "less") if rate else ("higher", "lower")
    # a ratio is of the better over the worse; what is said is of the figure, and a latency gains by being less
    gain = ratio if rate else 1 / ratio
    times = f"{significant(gain)} times as {'much' if rate else 'high'}"
    change = times if gain > _TIMES else f"{percent(abs(gain - 1))} {more if gain > 1 else less}"
    return f"{_GAINS[metric]} {'at least ' if bounded else ''}{change}"


def _visible(interval: Interval) -> str:
    """The smallest gain that would have been told apart."""
    widest = max(interval.floor, (interval.high or interval.ratio) / interval.ratio) - 1
    return percent(widest) if widest < 9 else f"over {significant(widest + 1)} times"


class Ablation(Model):
    """The reference and everything that was measured beside it at the same load, size, path and knobs."""

    reference: PointSummary
    reference_ndr: Rate
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
    told = corrected({key: one for key, one in found.items() if one is not None})
    by_point = {point_id: [trial for trial in trials if trial.point_id == point_id] for point_id in run.points}
    return Ablation(
        reference=reference,
        reference_ndr=_ndr(reference),
        reference_per_frame=per_frame(by_point[reference.point_id]),
        variants=tuple(
            Variant(
                summary=summary,
                ndr=_ndr(summary),
                comparisons={metric: told.get((summary.point_id, metric)) for metric in _GAINS},
                per_frame=per_frame(by_point[summary.point_id]),
                note=run.study.notes.get(summary.forwarder, ""),
            )
            for summary in alike
        ),
    )


def _ndr(summary: PointSummary) -> Rate:
    found = rate_of(summary.by_repetition, "ndr_pps")
    assert found is not None, "only what was searched stands in an ablation"
    return found
