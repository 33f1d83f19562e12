# SPDX-License-Identifier: Apache-2.0
"""Why no winner may be named between two points, and what has to be said next to their ratio (docs/claims.md)."""

from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import NamedTuple

from xdplab.measure.measured import RepetitionFigures, in_half, shared_doubt
from xdplab.measure.method import figure
from xdplab.measure.point import PointSummary
from xdplab.model.digits import loss, loss_over, number_of, significant
from xdplab.model.trial import REPORTED_LOSS
from xdplab.stats import MIN_ROUNDS

#: Below this share of the load that was asked for, a latency is of another load.
MIN_ACHIEVED = 0.95
#: Shares of the free buffers: a fall that is told of, and what must be left.
_BUFFERS_FELL, _BUFFERS_LEFT = 0.03, 0.25
_ADVICE = "lower the load, or repeat on an idle machine"


class Doubts(NamedTuple):
    """Each blocker says what was wrong and what to do; each remark goes next to the figures."""

    blockers: tuple[str, ...]
    remarks: tuple[str, ...]


def doubts_of(sides: Sequence[tuple[PointSummary, Sequence[RepetitionFigures]]], metric: str) -> Doubts:
    """Of a comparison of two sides, each with the rounds that both have, or of one."""
    blockers: list[str] = []
    remarks: list[str] = []
    for side, figures in sides:
        blockers += _of_side(side, figures, metric)
        zeros = sum(one.value(metric) == 0 and one.figures[metric].high == 0 for one in figures)
        if figure(metric).more and zeros:
            many = f"{zeros} of {len(figures)} repetitions"
            blockers.append(f"{side.forwarder} was 0 in {many}, so no ratio can be formed")
        if figure(metric).at_load:
            short = [*_of_load(side, figures)]
            if len(sides) > 1 and _sent_alike(sides):  # both fell short of it, and were measured at the same load
                remarks += short
            else:
                blockers += short
            blockers += _left_out(side, figures, metric) if not short else []
            remarks += _of_loss(side, figures, metric)
        remarks += _of_buffers(side, scarce=False)
    blockers, remarks = [*dict.fromkeys(blockers)], [*dict.fromkeys(remarks)]  # of the testbed both say the same
    if figure(metric).at_load:
        blockers += _of_loads(sides)
    fewest = min(len(figures) for _, figures in sides)
    if fewest < MIN_ROUNDS:  # what another run would not change comes first
        blockers.append(f"{fewest} of the {MIN_ROUNDS} rounds that an interval needs: raise --repetitions")
    return Doubts(tuple(blockers), tuple(remarks))


def doubts_of_one(side: PointSummary, metric: str) -> Iterator[str]:
    """What is wrong with the figure of a point by itself."""
    figures = searched(side, metric)
    if not figures:
        return
    yield from _of_side(side, figures, metric)
    if figure(metric).at_load:
        short = [*_of_load(side, figures)]
        yield from short or _left_out(side, figures, metric)


def trusted_value(side: PointSummary, metric: str) -> float | None:
    """The figure of a point where it is the forwarder's own; None for bounds and doubts."""
    found = side.measured.get(metric)
    return found.value if found and found.exact and not any(doubts_of_one(side, metric)) else None


def _of_buffers(side: PointSummary, *, scarce: bool) -> list[str]:
    """That a repetition left it fewer free buffers; `scarce`: so few that it may have lacked some."""
    first, last = side.free_buffers or (0, 0)
    if last >= (1 - _BUFFERS_FELL) * first or (last < _BUFFERS_LEFT * first) != scarce:
        return []
    return [f"{side.forwarder}'s free buffers fell from {first:,} to {last:,} within a repetition"]


def remarks_of_one(side: PointSummary, metric: str) -> Iterator[str]:
    """What has to be said next to the figure of a point."""
    yield from _of_loss(side, searched(side, metric), metric)
    yield from _of_buffers(side, scarce=False)


def of_pause(ports: Sequence[str]) -> str:
    """Of ports whose pause frames are on; "" without any."""
    slows = "a full receiver slows the sender instead of losing frames"
    return f"pause frames are on at {' and '.join(ports)}: {slows}" if ports else ""


def _of_loss(side: PointSummary, figures: Sequence[RepetitionFigures], metric: str) -> Iterator[str]:
    if figure(metric).at_load and side.pausing:
        yield of_pause(side.pausing)
    losses = [one.loss_ratio for one in figures]
    if figure(metric).at_load and losses and (mean := fmean(losses)) > REPORTED_LOSS:
        late = ", counted as infinitely late" if figure(metric).percent else ""
        yield f"{side.forwarder} lost {loss_over(mean, losses)}{late}"


def searched(side: PointSummary, metric: str) -> list[RepetitionFigures]:
    """Repetitions in which a figure was looked for."""
    return [one for one in side.by_repetition if one.was_searched(metric)]


def repetitions_without_samples(side: PointSummary) -> int:
    """Repetitions in which frames were lost, and no time-stamped one arrived."""
    return sum(one.loss_ratio > 0 and one.arrived == 0 for one in side.by_repetition)


def _of_side(side: PointSummary, figures: Sequence[RepetitionFigures], metric: str) -> Iterator[str]:
    if side.failed:
        yield f"{side.forwarder} failed in {side.failed} of {max(side.planned, side.begun)} repetitions: {side.reason}"
    yield from (f"{each}: later trials may have run out of receive buffers" for each in _of_buffers(side, scarce=True))
    if side.beyond_window:
        late = f"{number_of(side.beyond_window, 'frame')} of {side.forwarder}'s arrived too late to be distinguished"
        yield f"{late} from copies, and are counted as lost"
    for fault in side.faults:
        yield f"{side.forwarder} {fault}, which is its fault"
    if figure(metric).by_loss and side.pausing:
        yield of_pause(side.pausing)
    if figure(metric).at_load and repetitions_without_samples(side):
        silent = f"{repetitions_without_samples(side)} of {side.repetitions} repetitions"
        yield f"no time-stamped frame of {side.forwarder}'s arrived in {silent}"
    found = [shared_doubt([one.figures[metric].doubt for one in figures])]
    found += [side.measured[metric].doubt] if metric in side.measured else []
    for said in dict.fromkeys(filter(None, found)):
        yield f"{side.forwarder}: {said}"


def _of_load(side: PointSummary, figures: Sequence[RepetitionFigures]) -> Iterator[str]:
    """A latency is of the load that was sent; a few rounds that fell short move no median."""
    asked = _asked(figures)
    sent = median(one.achieved_pps for one in figures)
    if sent < MIN_ACHIEVED * asked:
        loads = f"{significant(sent / 1e3)} of {significant(asked / 1e3)} kpps"
        yield f"the tester sent {side.forwarder} {loads}: {_ADVICE}"


def _left_out(side: PointSummary, figures: Sequence[RepetitionFigures], metric: str) -> Iterator[str]:
    if in_half([one.figures[metric].limited_by == "tester" for one in figures]):
        at = f"{significant(_asked(figures) / 1e3)} kpps"
        yield f"the tester left out frames of {side.forwarder}'s at {at}: {_ADVICE}"


def _asked(figures: Sequence[RepetitionFigures]) -> float:
    return fmean(one.offered_pps or one.achieved_pps for one in figures)


def _sent_alike(sides: Sequence[tuple[PointSummary, Sequence[RepetitionFigures]]]) -> bool:
    sent = [median(one.achieved_pps for one in figures) for _, figures in sides]
    return min(sent) >= MIN_ACHIEVED * max(sent)


def _of_loads(sides: Sequence[tuple[PointSummary, Sequence[RepetitionFigures]]]) -> Iterator[str]:
    """A load that is a share of what each forwards (`load_share`) is another one for each."""
    asked = [fmean(one.offered_pps or 0.0 for one in figures) for _, figures in sides]
    shared = any(side.profile.get("load_share") for side, _ in sides)
    if shared and all(asked) and min(asked) < MIN_ACHIEVED * max(asked):
        loads = (f"{side.forwarder} at {significant(pps / 1e3)}" for (side, _), pps in zip(sides, asked, strict=True))
        yield f"{' and '.join(loads)} kpps are latencies at different loads: give both the same load_pps"


def doubtful(one: RepetitionFigures, metric: str) -> bool:
    """Whether the figure of one repetition is no fact by itself: a bound, doubted, or of another load."""
    found = one.figures.get(metric)
    if found is None or not found.exact or found.limited_by != "forwarder":
        return True
    return figure(metric).at_load and one.achieved_pps < MIN_ACHIEVED * (one.offered_pps or 0.0)


def _losses_below(lost: int) -> float:
    """Of frames of which so many were lost, how many are to be expected at the most at 95 % (Poisson); 3 of none."""
    from scipy.special import chdtri  # takes long to import

    return float(chdtri(2 * (lost + 1), 0.05)) / 2


def loss_above(point: PointSummary, limit: float | None) -> str:
    """Why the loss of a measured point is not shown to be within a limit; empty where it is, or there is none."""
    if limit is None or not point.repetitions:
        return ""
    if point.loss_ratio is None:
        return f"{point.forwarder}: its loss is not known, and the study allows {loss(limit)}"
    if point.loss_ratio > limit:
        return f"{point.forwarder}: loss {point.loss_text}, the study allows {loss(limit)}"
    lost = round(point.loss_ratio * point.sent)
    shown = min(1.0, _losses_below(lost) / point.sent) if point.sent else 1.0
    if 0 < limit < shown:
        many = f"{f'only {lost:,}' if lost else 'none'} of {point.sent:,} frames {'were' if lost > 1 else 'was'} lost"
        return f"{point.forwarder}: {many}, which shows a loss below {loss(shown)} and not {loss(limit)}: send more"
    if point.pausing:
        return f"{point.forwarder}: its loss is not shown to be within {loss(limit)}: {of_pause(point.pausing)}"
    return ""
