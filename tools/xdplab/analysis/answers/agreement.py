# SPDX-License-Identifier: Apache-2.0
"""Do two testers agree? What each reports of the same path, beside what each reports of a plain cable.

A tester's own way (its transmit and receive path) is in all that it reports. The direct link shows that way alone; what
two testers differ by there is subtracted from what they differ by through a forwarder, and the rest is left to explain:
where the rest is small they agree, where it is not, one of them changes what it measures (on a shared core, by waking a
forwarder less often, by sending in bursts).
"""

from collections.abc import Sequence
from statistics import median

from xdplab.analysis.compare import paired_repetitions
from xdplab.analysis.doubts import doubts_of
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
    #: Lowest and highest difference of a repetition; None with one repetition.
    range_us: tuple[float, float] | None
    #: What is left of the difference without that on the direct link; None without a direct link.
    rest_us: float | None
    #: Why the difference is no fact.
    hindrances: tuple[str, ...] = ()


class Agreement(Model):
    """Two testers over a run."""

    first: str
    second: str
    sentence: str
    #: False where nothing can be said of any path; the sentence then says why.
    said: bool
    direct: Differing | None
    paths: tuple[Differing, ...]
    top_pps: tuple[float, float] | None
    lossless_pps: tuple[float, float] | None


def agreements(run: RunRecord, summaries: Sequence[PointSummary]) -> list[Agreement]:
    """The study's first tester beside each of its others; none in a study with one tester."""
    return [_agreement(run, summaries, run.study.testers[0], other) for other in run.study.testers[1:]]


def _agreement(run: RunRecord, summaries: Sequence[PointSummary], first: str, second: str) -> Agreement:
    alone = run.calibrations.get(first), run.calibrations.get(second)
    direct = _direct(alone[0], alone[1]) if alone[0] and alone[1] else None
    own_us = direct.difference_us if direct else None
    paths = [
        _through(ours, theirs, own_us)
        for ours in summaries
        for theirs in summaries
        if (ours.tester, theirs.tester) == (first, second) and _alike(run, ours, theirs)
    ]
    measured = [path for path in paths if path is not None]
    return Agreement(
        first=first,
        second=second,
        sentence=_sentence(first, second, direct, measured),
        said=direct is not None and any(not path.hindrances for path in measured),
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
        range_us=None,
        rest_us=None,
    )


def _through(ours: PointSummary, theirs: PointSummary, own_us: float | None) -> Differing | None:
    """By the repetitions and rules of a comparison; None where no repetition is there on both sides."""
    paired = paired_repetitions(ours, theirs, "p50_us")
    if paired is None or ours.p50_us is None or theirs.p50_us is None:
        return None
    pairs = [(first.value("p50_us") or 0.0, second.value("p50_us") or 0.0) for first, second in paired.used]
    differences = [second - first for first, second in pairs]
    difference = median(differences)
    return Differing(
        path=f"{ours.forwarder.rpartition(', by ')[0]}, {ours.frame_bytes} bytes, {ours.path}",
        first_p50_us=ours.p50_us,
        second_p50_us=theirs.p50_us,
        first_jitter_us=None if ours.p99_us is None else ours.p99_us - ours.p50_us,
        second_jitter_us=None if theirs.p99_us is None else theirs.p99_us - theirs.p50_us,
        first_loss_ratio=ours.loss_ratio,
        second_loss_ratio=theirs.loss_ratio,
        difference_us=difference,
        range_us=(min(differences), max(differences)) if len(pairs) > 1 else None,
        rest_us=None if own_us is None else difference - own_us,
        hindrances=doubts_of((ours, theirs), "p50_us", len(paired.pairs), len(paired.clean), paired.basis).hindrances,
    )


def _sentence(first: str, second: str, direct: Differing | None, paths: Sequence[Differing]) -> str:
    if direct is None:
        return f"No agreement of {first} and {second} without both on the direct link."
    word = "more" if direct.difference_us >= 0 else "less"
    own = (
        f"On the direct link {second} reports {abs(direct.difference_us):.2f} µs {word} than {first} at p50 "
        f"({direct.second_p50_us:.2f} against {direct.first_p50_us:.2f} µs): its own way, not the link's."
    )
    if not paths:
        return f"{own} No path was measured by both."
    rests = sorted(path.rest_us or 0.0 for path in paths if not path.hindrances)
    unsaid = len(paths) - len(rests)
    reasons = "; ".join(dict.fromkeys(reason for path in paths for reason in path.hindrances))
    left = f" Nothing can be said of {unsaid} of {len(paths)} paths: {reasons}." if unsaid else ""
    if not rests:
        return f"{own}{left}"
    span = f"{rests[0]:+.2f} µs" if len(rests) == 1 else f"between {rests[0]:+.2f} and {rests[-1]:+.2f} µs"
    return f"{own} Through a forwarder they differ by that and {span}.{left}"
