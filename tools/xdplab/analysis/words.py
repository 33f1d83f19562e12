# SPDX-License-Identifier: Apache-2.0
"""Comparisons in words: for tables, sentences, verdicts. What they may say is decided in `compare`, not here."""

from collections.abc import Mapping, Sequence

from xdplab.measure.comparison import Comparison
from xdplab.measure.figure import Figure
from xdplab.measure.point import PointSummary
from xdplab.measure.registry import figure
from xdplab.model.digits import number_of, percent, significant
from xdplab.stats.contamination import LITTLE
from xdplab.stats.interval import MIN_PAIRS, Interval

#: Wider than this either way an interval is put into words.
_UNSETTLED = 1000.0
#: Above, a gain is so many times the other figure; below, so many per cent more.
_TIMES = 3.0
#: Of two points without a comparison.
NEVER_PAIRED = "never measured in the same repetition"


def interval_text(found: Interval) -> str:
    """`10.8 (10.1 to 11.5)`, `22.7 (at least 10.4 times in each of 3 repetitions)`."""
    return f"{significant(found.ratio)} ({interval_spread(found)})"


def interval_spread(found: Interval) -> str:
    """What is known of a ratio next to its value."""
    if found.low is None or found.high is None:
        return f"no interval: {number_of(found.pairs, 'pair')}, {MIN_PAIRS} are needed"
    if found.method == "each-pair":
        bound = f"at least {_bound(found.low)}" if found.ratio > 1 else f"at most {_bound(found.high)}"
        return f"{bound} times in each of {found.pairs} repetitions"
    if max(found.high / found.ratio, found.ratio / found.low) > _UNSETTLED:
        return f"unsettled by a factor of over {_UNSETTLED:,.0f}"
    return f"{_bound(found.low)} to {_bound(found.high)}"


def _bound(value: float) -> str:
    """With as many digits as keep it from reading as 1 when it is not."""
    return next((text for digits in (3, 4, 5) if (text := significant(value, digits)) != "1"), significant(value, 6))


def ratio_cell(found: Comparison) -> str:
    """For a table: the ratio, or the bound of it; of what is not decided the plain ratio, in parentheses, or a dash."""
    known = found.interval
    if found.hindrances or known is None:
        plain = found.estimate or known
        return f"({significant(plain.ratio)})" if plain else "–"
    if found.sense == "exact" and found.basis != "bounds":
        return significant(known.ratio)
    if found.better is not None:
        return f"at least {_bound(_least(found))}" if found.better else f"at most {_bound(1 / _least(found))}"
    if found.basis == "bounds":
        return f"({significant(found.estimate.ratio)})" if found.estimate else "–"
    if found.sense == "within":
        return f"within {significant(known.low or 0)} to {significant(known.high or 0)}"
    end = known.low if found.sense == "at least" else known.high
    return f"{found.sense} {significant(end or 0)}"


def ratio_spread(found: Comparison) -> str:
    """Below it, small: its interval, or on what the bound stands; empty where the ratio is not said."""
    if found.interval is None or found.hindrances:
        return ""
    if found.basis == "bounds" and found.better is not None:
        return f"about {significant(found.estimate.ratio)}" if found.estimate else ""
    return interval_spread(found.interval) if found.sense == "exact" and found.basis != "bounds" else ""


def ratio_text(found: Comparison) -> str:
    """Both in a line, or why neither is said."""
    spread = ratio_spread(found)
    return f"{ratio_cell(found)} ({spread})" if spread else ratio_cell(found)


def with_reason(found: Comparison) -> str:
    """The same, and why it decides nothing."""
    return f"{ratio_text(found)}: {found.hindrances[0]}" if found.hindrances else ratio_text(found)


def verdict(found: Comparison) -> str:
    """Who is ahead, or why nobody may be named."""
    if found.hindrances:
        return f"undecided: {found.hindrances[0]}"
    if found.better is None:
        return undecided(found)
    of = figure(found.metric)
    words = "has more" if of.more else "is cheaper" if of.price else "is faster"
    hints = [*(["the first attempts do not say so"] if found.depends_on_repeats else [])]
    hints += ["to be sure, measure both in one run"] if found.basis == "runs" else []
    return f"{ahead(found)} {words}{''.join(f'; {hint}' for hint in hints)}"


def undecided(found: Comparison) -> str:
    """Of one without a winner: no measurable difference, or too little to tell."""
    if found.alike and found.interval is not None and found.interval.low and found.interval.high:
        within = max(found.interval.high, 1 / found.interval.low) - 1
        return f"no measurable difference (within {percent(within)})"
    return f"too little to tell{_what_to_do(found)}"


def _what_to_do(found: Comparison) -> str:
    if found.basis == "runs":
        return ": measure both in one run"
    if found.basis == "bounds" and found.share and found.share > LITTLE:  # no number of pairs makes up for it
        return f": the machine disturbed up to {percent(found.share)} of a trial; use a quieter one"
    by_machine = found.basis == "bounds" and found.sense == "within"  # what a tester bounds has no upper end
    return ": ask for more repetitions" if found.sense == "exact" or by_machine else ": a figure is a bound"


def ahead(found: Comparison) -> str:
    """Title of the better one."""
    return found.point if found.better else found.reference


def how_far(found: Comparison, figures: Mapping[str, str] | None = None) -> str:
    """`at least 6.2 times as fast as X in each of 7 repetitions`, from the better one's side.

    `figures`: how the two are called, where that is not their title.
    """
    behind = found.reference if found.better else found.point
    name = (figures or {}).get(behind, behind)
    much = figure(found.metric).as_much
    times, often, spread = _times(found)
    return f"{times} times {much} as {name}{often}{spread}"


def lead(found: Comparison) -> str:
    """`OVS 3 times as fast (99 % interval 2.1 to 4.4)`: who is ahead and how far, for lists."""
    much = figure(found.metric).as_much
    times, often, spread = _times(found)
    return f"{ahead(found)} {times} times {much}{often}{spread}" + "".join(
        f" ({each})" for each in qualifications(found)
    )


def _times(found: Comparison) -> tuple[str, str, str]:
    assert found.interval is not None
    ratio = found.interval if found.better else found.interval.inverted()
    each = f" in each of {ratio.pairs} repetitions"
    if found.basis == "bounds":
        often = each if ratio.clear else ""
        return f"at least {significant(_least(found))}", f"{often}, whatever the machine disturbed", ""
    if found.sense != "exact":
        return f"at least {significant(ratio.low or 1)}", "", ""
    if ratio.method == "each-pair":
        return f"at least {significant(ratio.least or 1)}", each, ""
    return significant(ratio.ratio), "", f" ({100 * ratio.confidence:.0f} % interval {interval_spread(ratio)})"


def _least(found: Comparison) -> float:
    """How far the better one is ahead at least."""
    assert found.interval is not None
    ratio = found.interval if found.better else found.interval.inverted()
    if found.basis == "bounds" and ratio.clear and ratio.least:
        return ratio.least
    return ratio.low or 1.0


def qualifications(found: Comparison) -> list[str]:
    """What has to be said next to how far one is ahead."""
    repeats = ["this depends on repeats"] if found.depends_on_repeats else []
    return [*found.remarks, *repeats, *basis_words(found)]


def basis_words(found: Comparison) -> list[str]:
    """On what a bound stands; empty where clean pairs decide."""
    if found.basis != "bounds" or found.better is None:
        return []
    plain = found.estimate if found.better else found.estimate and found.estimate.inverted()
    notes = [f"about {significant(plain.ratio)} times over all repetitions"] if plain else []
    notes += [f"the machine disturbed up to {percent(found.share)} of a trial"] if found.share else []
    notes += [f"this would hold up to {percent(found.breakdown)}"] if found.breakdown else []
    return notes


def repeats(found: Comparison) -> str:
    """How many pairs it stands on, and whether the first attempts alone say the same."""
    if found.basis == "turns":
        return f"by {found.repetitions} rounds of turns"
    stands = f"{found.clean} of {found.repetitions} paired repetitions {'is' if found.clean == 1 else 'are'} clean"
    if found.basis == "bounds" and found.interval is not None:
        stands += f", {found.interval.pairs} decide as bounds"
    if not found.depends_on_repeats or found.first is None:
        return stands
    first = interval_text(found.first)
    alone = f"say {first}" if found.first.differs else f"show no difference ({first})"
    return f"{stands}; this depends on repeats, the first attempts with the disturbed ones {alone}"


def gain(metric: str, found: Comparison, name: str) -> str:
    """What a variant gains over its reference by a figure: `p50 12 % lower`, `forwards at least 3.4 times as much`."""
    ratio = _least(found) if found.sense != "exact" else 0.0
    bounded = bool(ratio) or (found.interval is not None and found.interval.method == "each-pair")
    if not ratio:
        assert found.interval is not None
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
    widest = max(found.floor, (found.high or found.ratio) / found.ratio) - 1
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
