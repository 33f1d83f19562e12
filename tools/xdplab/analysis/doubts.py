# SPDX-License-Identifier: Apache-2.0
"""Why no winner may be named between two points, and what has to be said beside their ratio (docs/claims.md)."""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from xdplab.analysis.figures import MAX_LOSS, RepetitionFigures, standing
from xdplab.analysis.summary import PointSummary
from xdplab.methods import figure
from xdplab.model.digits import percent, significant

#: Below this share of the load that was asked for, a latency is of another load.
MIN_ACHIEVED = 0.95
#: Loss above which latencies are those of the survivors.
SURVIVORS_LOSS = 0.001


class Doubts(NamedTuple):
    """Each hindrance says what was wrong and what to do; each remark goes beside the figures."""

    hindrances: tuple[str, ...]
    remarks: tuple[str, ...]


def doubts_of(sides: tuple[PointSummary, PointSummary], metric: str, pairs: int, clean: int) -> Doubts:
    """Of a comparison over `pairs` pairs, `clean` of which the machine left undisturbed on both sides."""
    hindrances: list[str] = []
    remarks: list[str] = []
    for side in sides:
        figures = standing(side.by_repetition, metric)
        hindrances += _of_side(side, figures, metric)
        zeros = sum(
            one.value(metric) == 0 and one.limited_by.get(metric, "forwarder") == "forwarder" for one in figures
        )
        if figure(metric).more and zeros:
            many = f"{zeros} of {len(figures)} repetitions"
            hindrances.append(f"{side.forwarder} came to 0 in {many}, of which nothing is a multiple")
        if figure(metric).at_load:
            hindrances += _of_load(side, figures, metric)
            loss = fmean(one.loss_ratio for one in figures)
            if SURVIVORS_LOSS < loss <= MAX_LOSS:
                remarks.append(f"of the frames that arrived: {side.forwarder} lost {percent(loss)}")
    # what another run would not change comes first
    return Doubts((*hindrances, *_of_pairs(metric, pairs, clean)), tuple(remarks))


def doubts_of_one(side: PointSummary, metric: str) -> Iterator[str]:
    """What is wrong with the figure of a point by itself."""
    figures = standing(side.by_repetition, metric)
    if all(one.was_disturbed(metric) for one in figures):
        yield f"the machine disturbed each of its {len(figures)} repetitions"
    yield from _of_side(side, figures, metric)
    if figure(metric).at_load:
        yield from _of_load(side, figures, metric)


def silences(side: PointSummary) -> int:
    """Repetitions in which frames were lost, and no time-stamped one arrived."""
    return sum(one.loss_ratio > 0 and one.value("p50_us") is None for one in side.by_repetition)


def _of_pairs(metric: str, pairs: int, clean: int) -> Iterator[str]:
    needed = figure(metric).pairs
    if pairs < needed:
        yield f"{pairs} of the {needed} repetitions that an interval needs: ask for more"
    elif clean < needed:
        yield (
            f"{clean} clean of {pairs} paired repetitions, {needed} are needed: the machine was disturbed, "
            "repeat on a quieter one"
        )


def _of_side(side: PointSummary, figures: Sequence[RepetitionFigures], metric: str) -> Iterator[str]:
    if side.failed:
        yield f"{side.forwarder} failed in {side.failed} of {max(side.planned, side.begun)} repetitions: {side.reason}"
    if figure(metric).at_load and silences(side):
        silent = f"{silences(side)} of {side.repetitions} repetitions"
        yield f"no time-stamped frame of {side.forwarder}'s arrived in {silent}"
    for said in dict.fromkeys(one.doubts[metric] for one in figures if metric in one.doubts):
        yield f"{side.forwarder}: {said}"
    if figure(metric).at_load and getattr(side, metric, None) is None:
        yield f"{side.forwarder}: too few independent samples lie above its {metric.removesuffix('_us')}"


def _of_load(side: PointSummary, figures: Sequence[RepetitionFigures], metric: str) -> Iterator[str]:
    """A latency is of the load that was sent, and of the frames that arrived."""
    asked = fmean(one.offered_pps or one.achieved_pps for one in figures)
    sent = fmean(one.achieved_pps for one in figures)
    loss = fmean(one.loss_ratio for one in figures)
    at, advice = f"{significant(asked / 1e3)} kpps", "ask for less, or repeat on a quieter machine"
    if loss > MAX_LOSS:
        yield (
            f"{side.forwarder} lost {percent(loss)} of the frames at {at}, and its latency is that of the frames that "
            "arrived: compare at a load that both carry"
        )
    if sent < MIN_ACHIEVED * asked:
        yield f"{side.forwarder} was sent {significant(sent / 1e3)} of {at}: {advice}"
    elif any(one.limited_by.get(metric) == "tester" for one in figures):
        yield f"the tester left out frames of {side.forwarder}'s at {at}: {advice}"


def doubtful(one: RepetitionFigures, metric: str) -> bool:
    """Whether the figure of one repetition is no fact by itself: disturbed, a bound, doubted, or of another load."""
    if one.was_disturbed(metric) or metric in one.doubts or one.limited_by.get(metric, "forwarder") != "forwarder":
        return True
    if not figure(metric).at_load:
        return False
    return one.loss_ratio > MAX_LOSS or one.achieved_pps < MIN_ACHIEVED * (one.offered_pps or 0.0)
