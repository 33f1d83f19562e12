# SPDX-License-Identifier: Apache-2.0
"""Comparisons are paired: the same repetition of two points, taken minutes apart on the same machine."""

from collections.abc import Iterable
from typing import Any

from xdplab.analysis.stats import Interval, ratio_interval
from xdplab.analysis.summary import PointSummary
from xdplab.model import Model, RunRecord
from xdplab.model.sockets import SocketRunRecord

METRICS = ("p50_us", "p99_us", "ndr_pps", "forwarding_rate_pps")
#: Metrics of which more is better; of all others less is.
MORE_IS_BETTER = ("ndr_pps", "forwarding_rate_pps")


class Comparison(Model):
    """Point against a reference, as a ratio that is above 1 when the point is better, whatever the metric."""

    point: str
    reference: str
    point_id: str
    reference_id: str
    metric: str
    interval: Interval

    def verdict(self) -> str:
        """In words."""
        if self.interval.low is None:
            return "too few repetitions to say"
        if not self.interval.differs:
            return "cannot be told apart"
        return f"{self.point} is faster" if self.interval.ratio > 1 else f"{self.reference} is faster"


def compare_points(point: PointSummary, reference: PointSummary, metric: str = "p50_us") -> Comparison | None:
    """Pairs repetitions of the same number; None when no repetition is there on both sides."""
    ours = {figures.repetition: getattr(figures, metric) for figures in point.by_repetition}
    theirs = {figures.repetition: getattr(figures, metric) for figures in reference.by_repetition}
    common = sorted(ours.keys() & theirs.keys())
    better, worse = (ours, theirs) if metric in MORE_IS_BETTER else (theirs, ours)
    interval = ratio_interval([(better[r], worse[r]) for r in common if ours[r] and theirs[r]])
    if interval is None:
        return None
    return Comparison(
        point=point.forwarder,
        reference=reference.forwarder,
        point_id=point.point_id,
        reference_id=reference.point_id,
        metric=metric,
        interval=interval,
    )


def self_comparisons(point: PointSummary, twin: PointSummary, group: int, metric: str = "p50_us") -> list[Comparison]:
    """Comparisons of a point with itself under another label, each over `group` consecutive repetitions."""
    found = []
    count = min(len(point.by_repetition), len(twin.by_repetition)) // group
    for start in range(0, count * group, group):
        part = {"by_repetition": point.by_repetition[start : start + group]}
        other = {"by_repetition": twin.by_repetition[start : start + group]}
        comparison = compare_points(point.model_copy(update=part), twin.model_copy(update=other), metric)
        if comparison is not None:
            found.append(comparison)
    return found


def compare_runs(
    first: Iterable[PointSummary], second: Iterable[PointSummary]
) -> list[tuple[PointSummary, PointSummary, dict[str, Comparison | None]]]:
    """The points that two runs share. Runs are not interleaved: their difference includes the time between them."""
    earlier = {summary.point_id: summary for summary in first}
    return [
        (earlier[s.point_id], s, {metric: compare_points(s, earlier[s.point_id], metric) for metric in METRICS})
        for s in second
        if s.point_id in earlier and s.repetitions and earlier[s.point_id].repetitions
    ]


def environment_difference(
    first: RunRecord | SocketRunRecord, second: RunRecord | SocketRunRecord
) -> dict[str, tuple[Any, Any]]:
    """Key -> (value in the first run, value in the second) for every part of the environment that differs."""
    one, two = _flat(first.environment.model_dump()), _flat(second.environment.model_dump())
    # names and addresses of the ports are new in every run and mean nothing
    keys = sorted(key for key in one.keys() | two.keys() if not key.endswith((".ifname", ".mac")))
    return {key: (one.get(key), two.get(key)) for key in keys if _plain(one.get(key)) != _plain(two.get(key))}


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for key, inner in value.items():
            found |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
        return found
    return {prefix: value}


def _plain(value: Any) -> Any:
    """Ethtool repeats the interface's name, which differs between runs: its first word of the tag is cut."""
    if not isinstance(value, str):
        return value
    return "\n".join(line for line in value.splitlines() if not line.endswith(":") and "-" not in line.split(":")[0])
