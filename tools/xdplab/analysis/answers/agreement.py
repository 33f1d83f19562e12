# SPDX-License-Identifier: Apache-2.0
"""Do two testers agree? What each reports of the same path, next to what each reports of a plain cable.

A tester's own way (its transmit and receive path) is in all that it reports. The direct link shows that way alone; what
two testers differ by there is subtracted from what they differ by through a forwarder, and the rest is left to explain:
where the rest is small they agree, where it is not, one of them changes what it measures (on a shared core, by waking a
forwarder less often, by sending in bursts).
"""

import math
from collections.abc import Sequence

from xdplab.analysis.compare import compare_points, difference
from xdplab.measure.point import PointSummary
from xdplab.model import Calibration, Model, RunRecord


class Differing(Model):
    """One path, two testers; latencies in µs. The differences are the second's figure less the first's."""

    path: str
    first_p50_us: float
    second_p50_us: float
    #: None where too few independent samples lie above a p99.
    first_jitter_us: float | None
    second_jitter_us: float | None
    first_loss_ratio: float | None
    second_loss_ratio: float | None
    difference_us: float
    #: Its 99 % interval, corrected for the number of paths; None of the direct link, and with fewer than three rounds.
    interval_us: tuple[float, float] | None
    #: What is left of the difference without that on the direct link; None without a direct link.
    rest_us: float | None
    #: Why the difference is no fact.
    blockers: tuple[str, ...] = ()


class Agreement(Model):
    """Two testers over a run."""

    first: str
    second: str
    #: The first is the answer.
    sentences: tuple[str, ...]
    #: False where no path is decided; the sentence then says why.
    decided: bool
    direct: Differing | None
    paths: tuple[Differing, ...]
    top_pps: tuple[float, float] | None
    lossless_pps: tuple[float, float] | None


def agreements(run: RunRecord, summaries: Sequence[PointSummary]) -> list[Agreement]:
    """The study's first tester next to each of its others; none in a study with one tester."""
    return [_agreement(run, summaries, run.study.testers[0], other) for other in run.study.testers[1:]]


def _agreement(run: RunRecord, summaries: Sequence[PointSummary], first: str, second: str) -> Agreement:
    alone = run.calibrations.get(first), run.calibrations.get(second)
    direct = _direct(alone[0], alone[1]) if alone[0] and alone[1] else None
    own_us = direct.difference_us if direct else None
    alike = [
        (ours, theirs)
        for ours in summaries
        for theirs in summaries
        if (ours.tester, theirs.tester) == (first, second) and _alike(run, ours, theirs)
    ]
    paths = [_through(ours, theirs, own_us, len(alike)) for ours, theirs in alike]
    measured = [path for path in paths if path is not None]
    return Agreement(
        first=first,
        second=second,
        sentences=_sentences(first, second, direct, measured),
        decided=direct is not None and any(not path.blockers for path in measured),
        direct=direct,
        paths=tuple(measured),
        top_pps=(alone[0].top_pps, alone[1].top_pps) if alone[0] and alone[1] else None,
        lossless_pps=(alone[0].ceiling_pps, alone[1].ceiling_pps) if alone[0] and alone[1] else None,
    )


def _alike(run: RunRecord, ours: PointSummary, theirs: PointSummary) -> bool:
    """Whether two points differ by their tester only."""
    first, second = (run.points[summary.point_id] for summary in (ours, theirs))
    return first.model_copy(update={"tester": ""}) == second.model_copy(update={"tester": ""})


def _direct(ours: Calibration, theirs: Calibration) -> Differing:
    return Differing(
        path=f"direct link {ours.link}",
        first_p50_us=ours.p50_ns / 1000,
        second_p50_us=theirs.p50_ns / 1000,
        first_jitter_us=ours.jitter_ns / 1000,
        second_jitter_us=theirs.jitter_ns / 1000,
        first_loss_ratio=None,
        second_loss_ratio=None,
        difference_us=(theirs.p50_ns - ours.p50_ns) / 1000,
        interval_us=None,
        rest_us=None,
    )


def _through(ours: PointSummary, theirs: PointSummary, own_us: float | None, paths: int) -> Differing | None:
    """By the repetitions and rules of a comparison; None where no repetition is there on both sides."""
    compared = compare_points(theirs, ours)
    if compared is None or ours.p50_us is None or theirs.p50_us is None:
        return None
    if math.isinf(ours.p50_us) or math.isinf(theirs.p50_us):  # half of the frames were lost
        return None
    found = difference(theirs, ours, "p50_us", paths)
    apart = found.mean if found else theirs.p50_us - ours.p50_us
    known = found is not None and found.low is not None and found.high is not None
    few = ("fewer than three rounds: raise --repetitions",) if not known else ()
    return Differing(
        path=f"{ours.forwarder.rpartition(', by ')[0]}, {ours.size}, {ours.path}",
        first_p50_us=ours.p50_us,
        second_p50_us=theirs.p50_us,
        first_jitter_us=_jitter_us(ours),
        second_jitter_us=_jitter_us(theirs),
        first_loss_ratio=ours.loss_ratio,
        second_loss_ratio=theirs.loss_ratio,
        difference_us=apart,
        interval_us=(found.low, found.high) if found and found.low is not None and found.high is not None else None,
        rest_us=None if own_us is None else apart - own_us,
        blockers=compared.blockers or few,
    )


def _jitter_us(side: PointSummary) -> float | None:
    """p99 less p50; None where it is not known, or that frame was lost."""
    if side.p99_us is None or side.p50_us is None or math.isinf(side.p99_us):
        return None
    return side.p99_us - side.p50_us


def _sentences(first: str, second: str, direct: Differing | None, paths: Sequence[Differing]) -> tuple[str, ...]:
    if direct is None:
        return (f"{first} and {second} cannot be compared: both must be measured on the direct link.",)
    word = "more" if direct.difference_us >= 0 else "less"
    own_us = direct.difference_us
    own = (
        f"On the direct link {second} reports {abs(own_us):.2f} µs {word} than {first} at p50 "
        f"({direct.second_p50_us:.2f} against {direct.first_p50_us:.2f} µs): its own way, not the link's."
    )
    if not paths:
        return f"No path was measured by both {first} and {second}.", own
    ends = [path.interval_us for path in paths if path.interval_us and not path.blockers]
    reasons = "; ".join(dict.fromkeys(reason for path in paths for reason in path.blockers))
    left = (f"{len(paths) - len(ends)} of {len(paths)} paths are undecided: {reasons}.",) if reasons else ()
    if not ends:
        return f"Whether {first} and {second} agree through a forwarder is undecided.", own, *left
    low, high = min(low for low, _ in ends) - own_us, max(high for _, high in ends) - own_us
    said = (
        f"Through a forwarder {second} reports {low:+.2f} to {high:+.2f} µs more than {first}, "
        "their own ways subtracted (99 % intervals)."
    )
    return said, own, *left
