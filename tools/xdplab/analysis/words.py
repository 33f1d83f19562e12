# SPDX-License-Identifier: Apache-2.0
"""Comparisons in words: for tables, sentences, verdicts. What they may say is decided in `compare`, not here."""

import math
from collections.abc import Mapping, Sequence

from xdplab.measure.comparison import Comparison
from xdplab.measure.figure import Figure
from xdplab.measure.method import figure
from xdplab.measure.point import PointSummary
from xdplab.model.digits import number_of, percent, significant
from xdplab.stats import MIN_ROUNDS, Interval

#: Wider than this either way an interval is put into words.
_UNSETTLED = 1000.0
#: Above, a gain is so many times the other figure; below, so many per cent more.
_TIMES = 3.0
#: Of two points without a comparison.
NEVER_PAIRED = "never measured in the same round"


def interval_text(found: Interval) -> str:
    """`10.8 (10.1 to 11.5)`."""
    return f"{significant(found.ratio)} ({interval_spread(found)})"


def interval_spread(found: Interval) -> str:
    """What is known of a ratio next to its value."""
    if found.low is None or found.high is None:
        return f"no interval: {number_of(found.rounds, 'round')}, {MIN_ROUNDS} are needed"
    if max(found.high / found.ratio, found.ratio / found.low) > _UNSETTLED:
        return f"unsettled by a factor of over {_UNSETTLED:,.0f}"
    return f"{_bound(found.low)} to {_bound(found.high)}"


def _bound(value: float) -> str:
    """With as many digits as keep it from reading as 1 when it is not."""
    return next((text for digits in (3, 4, 5) if (text := significant(value, digits)) != "1"), significant(value, 6))


def ratio_cell(found: Comparison) -> str:
    """For a table: the ratio, or the bound of it; in parentheses where nobody may be named, or a dash."""
    known = found.interval
    if known is None:
        return "–"
    if found.blockers:
        return f"({significant(known.ratio)})"
    if found.sense == "exact":
        return significant(known.ratio)
    if found.better is not None:
        return f"at least {_bound(_least(found))}" if found.better else f"at most {_bound(1 / _least(found))}"
    end = known.low if found.sense == "at least" else known.high
    return f"{found.sense} {significant(end or 0)}"


def ratio_spread(found: Comparison) -> str:
    """Below it, small: its interval; empty where the ratio is not said, or is a bound."""
    return interval_spread(found.interval) if found.interval and not found.blockers and found.sense == "exact" else ""


def ratio_text(found: Comparison) -> str:
    """Both in a line, or why neither is said."""
    spread = ratio_spread(found)
    return f"{ratio_cell(found)} ({spread})" if spread else ratio_cell(found)


def with_reason(found: Comparison) -> str:
    """The same, and why it decides nothing."""
    return f"{ratio_text(found)}: {found.blockers[0]}" if found.blockers else ratio_text(found)


def verdict(found: Comparison) -> str:
    """Who is ahead, or why nobody may be named."""
    if found.blockers:
        return f"undecided: {found.blockers[0]}"
    if found.better is None:
        return undecided(found)
    of = figure(found.metric)
    words = "has more" if of.more else "is cheaper" if of.price else "is faster"
    return f"{ahead(found)} {words}{'; to be sure, measure both in one run' if found.apart else ''}"


def undecided(found: Comparison) -> str:
    """Of one without a winner: no measurable difference, or what would decide it."""
    if found.alike and found.interval is not None and found.interval.low and found.interval.high:
        within = max(found.interval.high, 1 / found.interval.low) - 1
        return f"no measurable difference (within {percent(within)})"
    return f"too little to tell: {what_to_do(found)}"


def what_to_do(found: Comparison) -> str:
    if found.apart:
        return "measure both in one run"
    if found.sense != "exact":
        return "a figure is only a bound"
    more = found.more_rounds
    if not more and found.interval is not None and found.interval.open_log:
        away = abs(math.log(found.interval.ratio))
        if found.interval.open_log >= max(away, math.log1p(found.equivalence_margin) - away):
            return "searches ended with their budget; give method.budget_s more"
    if not more:
        return "it is so noisy that ten times the rounds would not decide it"
    return f"about {number_of(more, 'more round')} would decide it"


def ahead(found: Comparison) -> str:
    return found.point if found.better else found.reference


def how_far(found: Comparison, figures: Mapping[str, str] | None = None) -> str:
    """`6.2 times as fast as X (99 % interval 5.8 to 6.6)`, from the better one's side.

    `figures`: how the two are called, where that is not their title.
    """
    behind = found.reference if found.better else found.point
    name = (figures or {}).get(behind, behind)
    much = figure(found.metric).as_much
    times, spread = _times(found)
    return f"{times} times {much} as {name}{spread}"


def lead(found: Comparison) -> str:
    """`OVS 3 times as fast (99 % interval 2.1 to 4.4)`: who is ahead and how far, for lists."""
    much = figure(found.metric).as_much
    times, spread = _times(found)
    return f"{ahead(found)} {times} times {much}{spread}" + "".join(f" ({each})" for each in found.remarks)


def _times(found: Comparison) -> tuple[str, str]:
    assert found.interval is not None
    ratio = found.interval if found.better else found.interval.inverted()
    if found.sense != "exact":
        return f"at least {significant(ratio.low or 1)}", ""
    return significant(ratio.ratio), f" ({100 * ratio.confidence:.0f} % interval {interval_spread(ratio)})"


def _least(found: Comparison) -> float:
    """How far the better one is ahead at least."""
    assert found.interval is not None
    ratio = found.interval if found.better else found.interval.inverted()
    return ratio.low or 1.0


def gain(metric: str, found: Comparison, name: str) -> str:
    """What a variant gains over its reference by a figure: `p50 12 % lower`, `forwards at least 3.4 times as much`."""
    assert found.interval is not None
    bounded = found.sense != "exact"
    own = found.interval if found.better else found.interval.inverted()
    ratio = (own.low if bounded else own.ratio) or 1.0
    rate = figure(metric).more
    factor = ratio if found.better else 1 / ratio
    change = factor if rate else 1 / factor
    more, less = ("more", "less") if rate else ("higher", "lower")
    times = f"{significant(change)} times as {'much' if rate else 'high'}"
    said = times if change > _TIMES else f"{percent(abs(change - 1))} {more if change > 1 else less}"
    return f"{name} {'at least ' if bounded else ''}{said}"


def visible(found: Interval) -> str:
    """The smallest gain that would have been seen."""
    widest = (found.high or found.ratio) / found.ratio - 1
    return percent(widest) if widest < 9 else f"over {significant(widest + 1)} times"


def figure_of(point: PointSummary, metric: Figure) -> str:
    """A point's figure in a sentence, as a bound where it is one."""
    unit, per = metric.said
    found = point.measured.get(metric.key)
    return found.text(per, f" {unit}") if found else "(none)"


def capitalized(text: str) -> str:
    """The first letter of a sentence; a unit or a name with capitals stays as it is."""
    return text[:1].upper() + text[1:]


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
