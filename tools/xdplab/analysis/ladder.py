# SPDX-License-Identifier: Apache-2.0
"""What each variant of a forwarder contributes: throughput and latency against one reference, in pairs."""

from collections.abc import Sequence

from xdplab.analysis.calls import PerFrame, per_frame
from xdplab.analysis.compare import MORE_IS_BETTER, Comparison, compare_points
from xdplab.analysis.summary import PointSummary
from xdplab.methods.search import PRESETS
from xdplab.model import Model, Rfc2544Spec, RunRecord, TrialRecord

#: Metric -> how a gain in it is said.
_GAINS = {"ndr_pps": "forwards", "forwarding_rate_pps": "at overload forwards", "p50_us": "p50", "p99_us": "p99"}
_NAMES = {"ndr_pps": "NDR", "forwarding_rate_pps": "rate at overload", "p50_us": "p50", "p99_us": "p99"}


class Rung(Model):
    """One point against the reference; ratios are above 1 when the point is better."""

    summary: PointSummary
    comparisons: dict[str, Comparison | None]
    #: Two throughputs nearer than this ratio are one to the search that found them.
    resolution: float
    per_frame: PerFrame | None = None
    note: str = ""

    def verdict(self) -> str:
        """What it contributes, in words: a ratio whose interval holds 1 is no contribution that was found."""
        known = {metric: found.interval for metric, found in self.comparisons.items() if found is not None}
        if not known or any(interval.low is None for interval in known.values()):
            return "too few repetitions to say"
        said = []
        for metric, interval in known.items():
            unresolved = metric == "ndr_pps" and abs(interval.ratio - 1) <= self.resolution
            if interval.differs and not unresolved:
                words = ("more", "less") if metric in MORE_IS_BETTER else ("lower", "higher")
                said.append(f"{_GAINS[metric]} {abs(interval.ratio - 1):.1%} {words[interval.ratio < 1]}")
        if said:
            return "; ".join(said)
        widest = {
            _NAMES[metric]: max(self.resolution, (i.high or i.ratio) - 1, 1 / (i.low or i.ratio) - 1)
            for metric, i in known.items()
        }
        seen = ", ".join(
            f"{name} {ratio:.0%}" if ratio < 10 else f"{name} over 10 times" for name, ratio in widest.items()
        )
        return f"nil: told apart in nothing; what would have shown: {seen}"


class Ladder(Model):
    """The reference and everything that was measured beside it at the same load, size, path and knobs."""

    reference: PointSummary
    reference_per_frame: PerFrame | None
    rungs: tuple[Rung, ...]


def ladder(run: RunRecord, summaries: Sequence[PointSummary], trials: Sequence[TrialRecord] = ()) -> Ladder | None:
    """Compare each measured point with the second forwarder of the study's `answer`.

    None when the study names no reference, or it was not measured with both throughput and latency.
    """
    measured = [s for s in summaries if any(one.ndr_pps and one.p50_us for one in s.by_repetition)]
    wanted = run.study.answer[1] if run.study.answer else None
    reference = next((summary for summary in measured if summary.forwarder == wanted), None)
    if reference is None:
        return None
    alike = [s for s in measured if _setting(s) == _setting(reference) and s.point_id != reference.point_id]
    by_point = {point_id: [trial for trial in trials if trial.point_id == point_id] for point_id in run.points}
    return Ladder(
        reference=reference,
        reference_per_frame=per_frame(by_point[reference.point_id]),
        rungs=tuple(
            Rung(
                summary=summary,
                comparisons={metric: compare_points(summary, reference, metric) for metric in _GAINS},
                resolution=_resolution(run),
                per_frame=per_frame(by_point[summary.point_id]),
                note=run.study.notes.get(summary.forwarder, ""),
            )
            for summary in alike
        ),
    )


def _resolution(run: RunRecord) -> float:
    method = run.study.method
    return PRESETS[method.preset].relative_width if isinstance(method, Rfc2544Spec) else 0.0


def _setting(summary: PointSummary) -> tuple[object, ...]:
    return (summary.path, summary.frame_bytes, sorted(summary.knobs.items()))
