# SPDX-License-Identifier: Apache-2.0
"""The answer first: one sentence that says who is faster, by what ratio, with its interval, or why nobody can say.

The sentence is the same in console, report and Robot; `compare` decides what it may say, `words` says it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdplab.analysis.compare import compare_points, corrected, difference, metric_of
from xdplab.analysis.doubts import doubts_of_one, remarks_of_one
from xdplab.analysis.words import (
    NEVER_PAIRED,
    ahead,
    capitalized,
    figure_of,
    how_far,
    lead,
    ratio_text,
    undecided,
)
from xdplab.measure.comparison import MAX_WORDS, Answer, Comparison
from xdplab.measure.figure import Figure
from xdplab.measure.method import Method, figure, make_method
from xdplab.measure.point import PointSummary
from xdplab.model import Calibration, Model, RunRecord, TrialRecord
from xdplab.model.digits import duration, number_of, significant

if TYPE_CHECKING:
    from xdplab.analysis.sweep import SweepAnalysis


#: When a run until it is decided is looked at, in rounds of its study; the last ends it.
UNTIL_DECIDED = (1, 2, 3, 4)


def answer(
    run: RunRecord,
    summaries: Sequence[PointSummary],
    trials: Sequence[TrialRecord] = (),
    sweeps: "Sequence[SweepAnalysis] | None" = None,
) -> Answer:
    """Compare the two forwarders that the study names, or has, at the first setting that both can have.

    A study with several testers asks whether they agree, a sweep which settings matter (`sweeps`: what `analyse_sweep`
    says, by who has it already), and a method may have a question of its own.
    """
    found_agreement = agreements(run, summaries)
    if found_agreement:
        said = all(each.decided for each in found_agreement)
        first, *more = (sentence for each in found_agreement for sentence in each.sentences)
        return Answer(sentence=first, details=tuple(more), decided=said)
    method = make_method(run.study.method)
    if run.study.sweep is not None and method.swept:
        from xdplab.analysis.sweep import analyse_sweep, sweep_sentence

        swept = analyse_sweep(run, trials) if sweeps is None else sweeps
        return Answer(sentence=sweep_sentence(run, trials, swept), decided=bool(swept))
    own = method.answer(run, summaries)
    if own is not None:
        return own
    titles = tuple(dict.fromkeys(one.forwarder for one in summaries if one.forwards))
    wanted = run.study.answer or titles
    if len(wanted) != 2:
        return _unasked(run, method, summaries)
    if len({one.pipeline for one in summaries}) > 1:
        return answer_by_pipeline(wanted, summaries, method.figures)
    alike = pairs_of(*wanted, summaries)
    if not alike:
        missing = [title for title in wanted if not named(title, summaries)]
        why = f"{' and '.join(missing)} not part of this run" if missing else "the two have no setting in common"
        return _no_answer(why, *_alone(summaries, method.figures))
    ours, theirs = alike[0]
    others = (f"The first of {len(alike)} settings; the table has the others.",) if len(alike) > 1 else ()
    for summary in (ours, theirs):
        if not summary.repetitions:
            return _no_answer(f"{summary.forwarder} was not measured ({summary.reason})", *others)
    found = compared(ours, theirs, metric_of(ours, theirs, method.figures), method.light_clause)
    return found.model_copy(update={"details": (*found.details, *_until_decided(run, found), *others)})


def _until_decided(run: RunRecord, found: Answer) -> list[str]:
    """How long the rounds take that would decide it."""
    open_ones = [one for one in (found.comparison, found.at_rate) if one is not None and one.more_rounds]
    round_s = (run.wall_s or 0.0) / run.study.repetitions
    if not open_ones or not round_s:
        return []
    more = max(one.more_rounds or 0 for one in open_ones)
    by_itself = (
        "; a run with `--until-decided` takes them by itself"
        if more <= (UNTIL_DECIDED[-1] - 1) * run.study.repetitions
        else ""
    )
    return [f"{number_of(more, 'more round')} would take about {duration(more * round_s)}{by_itself}."]


def _unasked(run: RunRecord, method: Method[Any], summaries: Sequence[PointSummary]) -> Answer:
    """Of a study that names no two forwarders and has one, or several."""
    from xdplab.analysis.sweep import MIN_CONFIGURATIONS  # takes long to import

    if method.swept and len(summaries) >= MIN_CONFIGURATIONS:
        return Answer(sentence="Which settings matter in this run: `xdplab analyse` says it.")
    several = len({one.forwarder for one in summaries if one.forwards}) > 1
    why = "the study names no two forwarders (answer)" if several else "this run has no two forwarders to compare"
    return _no_answer(why, *_alone(summaries, method.figures))


def _no_answer(why: str, *details: str) -> Answer:
    """A reason that is too long for a headline stands below it."""
    whole = f"No answer: {why}."
    if len(whole.split()) <= MAX_WORDS:
        return Answer(sentence=whole, details=details)
    what, _, reason = why.partition(" (")
    return Answer(sentence=f"No answer: {what}.", details=(f"Why: {reason.removesuffix(')')}.", *details))


def compared(ours: PointSummary, theirs: PointSummary, metric: str, light_clause: str = "") -> Answer:
    """At the study's load; where a light load was measured next to it, the answer is there, then the study's."""
    full = _compared(ours, theirs, metric)
    if light_clause not in ours.by_clause or light_clause not in theirs.by_clause:
        return full
    light = _compared(ours.by_clause[light_clause], theirs.by_clause[light_clause], metric)
    first, second = (light, full) if light.decided or not full.decided else (full, light)
    remarks = second.comparison.remarks if second.comparison else ()
    other = f"{'; '.join((second.sentence.removesuffix('.'), *remarks))}."
    both = {"sentence": first.sentence, "details": (*first.details, other), "decided": first.decided}
    return light.model_copy(update={**both, "at_rate": full.comparison})


def _compared(ours: PointSummary, theirs: PointSummary, metric: str) -> Answer:
    comparison = compare_points(ours, theirs, metric)
    if comparison is None:
        return Answer(sentence=f"No answer: the two were {NEVER_PAIRED}.")
    first, *details = _sentences(ours, theirs, comparison)
    return Answer(sentence=first, details=tuple(details), decided=comparison.decided, comparison=comparison)


def _sentences(ours: PointSummary, theirs: PointSummary, found: Comparison) -> list[str]:
    """The answer; then the figures, and on what it stands."""
    metric = figure(found.metric)
    names = {one.forwarder: one.plain_name for one in (ours, theirs)}
    both = " and ".join(names.values())
    at = f"At {significant((ours.offered_pps or 0) / 1e3)} kpps " if metric.at_load else ""
    remarks = f" ({'; '.join(found.remarks)})" if found.remarks else ""
    figures = f"{_figures(ours, theirs, metric)}, {number_of(found.rounds, 'round')}{remarks}"
    if found.blockers:
        why = [f"Why: {'; '.join(found.blockers)}."] if len(found.blockers) > 1 else []
        return [
            f"{at or 'Here '}xdplab names no winner: {found.blockers[0]}.",
            *why,
            f"{both}: {figures}.",
        ]
    if found.better is None:
        missing, _, advice = undecided(found).partition(":")
        between = f"{missing} between {both}" + (f":{advice}" if advice else "")
        return [
            f"{at}{between if at else capitalized(between)}.",
            f"{capitalized(figures)}, ratio {ratio_text(found)}.",
        ]
    who = names.get(ahead(found), ahead(found))
    verb = metric.verb if metric.more else "is"
    first = f"{at}{who} {verb} {how_far(found, names)}."
    return [first, f"{capitalized(figures)}."]


def _alone(summaries: Sequence[PointSummary], figures: Sequence[Figure]) -> list[str]:
    """What is known of one point with nothing to compare it with, and what is wrong with it; empty with several."""
    measured = [each for each in summaries if each.repetitions]
    if len(measured) != 1:
        return []
    (one,) = measured
    metric = next((each for each in figures if one.searched(each.key)), None)
    if metric is None:
        return []
    remarks = "".join(f"; {remark}" for remark in remarks_of_one(one, metric.key))
    doubts = [*doubts_of_one(one, metric.key)]
    wrong = f"; uncertain: {'; '.join(doubts)}" if doubts else ""
    at = f" at {significant((one.offered_pps or 0) / 1e3)} kpps" if metric.at_load else ""
    count = f", {number_of(one.repetitions, 'repetition')}"
    return [f"{one.plain_name} alone{at}: {_what(one, metric)} {figure_of(one, metric)}{count}{remarks}{wrong}."]


def _figures(ours: PointSummary, theirs: PointSummary, metric: Figure) -> str:
    both = f"{figure_of(ours, metric)} against {figure_of(theirs, metric)}"
    return f"{_what(ours, metric)} {both}, {ours.frames}"


def _what(one: PointSummary, metric: Figure) -> str:
    if metric.at_load:
        return f"{one.quantity} {metric.name}"
    found = one.measured.get(metric.key)
    return (found and found.called) or metric.name


# Do two testers agree? What each reports of the same path, next to what each reports of a plain cable.
#
# A tester's own way (its transmit and receive path) is in all that it reports. The direct link shows that way alone;
# what two testers differ by there is subtracted from what they differ by through a forwarder, and the rest is left to
# explain: where the rest is small they agree, where it is not, one of them changes what it measures (on a shared core,
# by waking a forwarder less often, by sending in bursts).


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
    """Whether two testers agree over the points of a run."""

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
        sentences=_sentences_of(first, second, direct, measured),
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


def _sentences_of(first: str, second: str, direct: Differing | None, paths: Sequence[Differing]) -> tuple[str, ...]:
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


# Which points are compared with one another; two forwarders at each pipeline, all of them one family (Holm).


def named(title: str, summaries: Sequence[PointSummary]) -> list[PointSummary]:
    """By title; a bare name also finds its first variant (`ovs-afxdp` finds `ovs-afxdp:xdp_mode=generic`)."""
    exact = [summary for summary in summaries if summary.forwarder == title]
    loose = [summary for summary in summaries if summary.forwarder.split(":")[0] == title]
    return exact or [summary for summary in loose if summary.forwarder == loose[0].forwarder]


def pairs_of(first: str, second: str, summaries: Sequence[PointSummary]) -> list[tuple[PointSummary, PointSummary]]:
    """Two forwarders at each setting that both have, in the study's order.

    Settings that one of them cannot have are left out where there are others; one that failed, or that the run has not
    come to, is not: which setting is said must not depend on what was measured.
    """
    alike = [
        (one, other)
        for one in named(first, summaries)
        for other in named(second, summaries)
        if one.setting == other.setting
    ]
    return [pair for pair in alike if all(each.status != "unsupported" for each in pair)] or alike


def answer_by_pipeline(wanted: tuple[str, str], summaries: Sequence[PointSummary], figures: Sequence[Figure]) -> Answer:
    """One sentence over all pipelines; its `comparison` is the first, of whose reference the table's ratios are."""
    several = len({one.udp_flows for one in summaries}) > 1
    compared, details = answer_by(wanted, summaries, lambda one: _work(one, several), figures)
    first = next(iter(compared.values()), None)
    at = ""
    if first is not None:
        metric = figure(first.metric)
        at = f", {metric.name}" + (_at_loads(compared.values(), summaries) if metric.at_load else "")
    said = any(one.decided for one in compared.values())
    sentence = headline(wanted, compared, f"pieces of work{at}")
    return Answer(sentence=sentence, details=tuple(details), decided=said, comparison=first)


def _at_loads(compared: Iterable[Comparison], summaries: Sequence[PointSummary]) -> str:
    """` at 100 kpps`, ` at 5 to 100 kpps`: of the points that were compared, of all that a run has."""
    ids = {one.point_id for one in compared}
    loads = sorted(one.offered_pps for one in summaries if one.point_id in ids and one.offered_pps)
    ends = dict.fromkeys(significant(pps / 1e3) for pps in (*loads[:1], *loads[-1:]))
    return f" at {' to '.join(ends)} kpps" if ends else ""


def headline(wanted: tuple[str, str], compared: Mapping[str, Comparison], what: str) -> str:
    """`ovs-afxdp is ahead in 9 of 11 pieces of work, ovs-afpacket in none; undecided in 2`, as a sentence."""
    ours, theirs = (sum(one.better is side for one in compared.values()) for side in (True, False))
    alike = sum(one.alike for one in compared.values())
    rest = len(compared) - ours - theirs - alike
    parts = [f"{wanted[0]} is ahead in {ours} of {len(compared)} {what}, {wanted[1]} in {theirs or 'none'}"]
    parts += [f"no measurable difference in {alike}"] if alike else []
    parts += [f"undecided in {rest}"] if rest else []
    return f"{'; '.join(parts)}."


def answer_by(
    wanted: tuple[str, str],
    points: Sequence[PointSummary],
    work: Callable[[PointSummary], str],
    figures: Sequence[Figure],
    nothing: Callable[[PointSummary, PointSummary, str], str] = lambda ours, theirs, metric: "",
    *,
    named: bool = False,
) -> tuple[dict[str, Comparison], list[str]]:
    """The two at the first setting of each piece of work, corrected together; and in words, a line each.

    `nothing`: why a comparison by a figure has nothing to compare, or "". `named`: each is of a figure of its own.
    """
    found: dict[str, Comparison | str] = {}
    works: dict[str, list[PointSummary]] = {}
    for one in points:
        works.setdefault(work(one), []).append(one)
    settings = 0
    for name, own in works.items():
        alike = pairs_of(*wanted, own)
        settings = max(settings, len(alike))
        silent = next((each for pair in alike[:1] for each in pair if not each.repetitions), None)
        if silent or not alike:
            found[name] = (
                f"{silent.forwarder} was not measured ({silent.reason})" if silent else "not measured for both"
            )
            continue
        metric = metric_of(*alike[0], figures)
        title = f"{name} ({figure(metric).name})" if named else name
        why = nothing(*alike[0], metric)
        found[name if why else title] = why or compare_points(*alike[0], metric) or f"the two were {NEVER_PAIRED}"
    adjusted = corrected({name: one for name, one in found.items() if isinstance(one, Comparison)})
    others = [f"Each at the first of {settings} settings; the table has the others."] if settings > 1 else []
    parts = _parts({name: adjusted.get(name, one) for name, one in found.items()})
    return adjusted, [*(f"{capitalized(part)}." for part in parts), *others]


def _parts(found: Mapping[str, Comparison | str]) -> list[str]:
    """Each piece of work by itself; those without a measurable difference, or of which nothing is said, in one part."""
    adjusted: list[str] = []
    alike: list[str] = []
    without: dict[str, list[str]] = {}
    for work, one in found.items():
        if isinstance(one, str) or not one.decided:
            why = one if isinstance(one, str) else next(iter(one.blockers), undecided(one))
            without.setdefault(why, []).append(work)
        elif one.alike:
            alike.append(f"{work} ({'; '.join([ratio_text(one), *one.remarks])})")
        else:
            adjusted.append(f"{work}: {lead(one)}")
    adjusted += [f"no measurable difference in {', '.join(alike)}"] if alike else []
    if len(without) > 1:
        often = max(without, key=lambda each: len(without[each]))
        works = ", ".join(work for each in without.values() for work in each)
        why = f"{often} (so {', '.join(without[often])}; the others for other reasons)"
        return [*adjusted, f"no statement about {works}: {why}"]
    return [*adjusted, *(f"no statement about {', '.join(works)}: {why}" for why, works in without.items())]


def _work(one: PointSummary, several_flows: bool) -> str:
    return one.pipeline + (f", {number_of(one.udp_flows, 'flow')}" if several_flows else "")
