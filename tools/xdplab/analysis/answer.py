# SPDX-License-Identifier: Apache-2.0
"""The answer first: one sentence that says who is faster, by what ratio, with its interval, or why nobody can say.

The sentence is the same in console, report and Robot; what it may say is decided in `compare`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdplab.analysis.agreement import agreements
from xdplab.analysis.compare import Comparison, compare_points
from xdplab.analysis.doubts import doubts_of_one, silences
from xdplab.analysis.figures import known_median, rate_of, standing
from xdplab.analysis.summary import PointSummary
from xdplab.methods import Figure, Method, figure, make_method
from xdplab.model import Model, RunRecord, TrialRecord
from xdplab.model.digits import significant

if TYPE_CHECKING:
    from xdplab.analysis.sweep import SweepAnalysis

#: Hindrances that the sentence names; the report lists all.
_TOLD = 2


class Answer(Model):
    """The sentence, and the comparison behind it (None when it could not be made)."""

    sentence: str
    #: False where nothing can be said; the sentence then says why.
    said: bool = False
    comparison: Comparison | None = None
    #: With a light load, which `comparison` is of: the one at the study's rate.
    at_rate: Comparison | None = None


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
        said = all(each.said for each in found_agreement)
        return Answer(sentence=" ".join(each.sentence for each in found_agreement), said=said)
    method = make_method(run.study.method)
    if run.study.sweep is not None and method.swept:
        from xdplab.analysis.sweep import analyse_sweep, sweep_sentence

        swept = analyse_sweep(run, trials) if sweeps is None else sweeps
        return Answer(sentence=sweep_sentence(run, trials, swept), said=bool(swept))
    own = method.answer(run, summaries)
    if own is not None:
        return own
    titles = tuple(dict.fromkeys(one.forwarder for one in summaries))
    wanted = run.study.answer or titles
    if len(wanted) != 2:
        return Answer(sentence=_unasked(run, method, summaries))
    if len({one.pipeline for one in summaries}) > 1:
        from xdplab.analysis.pipelines import answer_by_pipeline

        return answer_by_pipeline(wanted, summaries, method.figures)
    alike = pairs_of(*wanted, summaries)
    if not alike:
        missing = [title for title in wanted if not _named(title, summaries)]
        why = f"{' and '.join(missing)} not part of this run" if missing else "the two have no setting in common"
        return Answer(sentence=f"No answer: {why}.{_alone(summaries, method.figures)}")
    ours, theirs = alike[0]
    others = f" The first of {len(alike)} settings; the table has the others." if len(alike) > 1 else ""
    for summary in (ours, theirs):
        if not summary.repetitions:
            return Answer(sentence=f"No answer: {summary.forwarder} was not measured ({summary.reason}).{others}")
    found = compared(ours, theirs, metric_of(ours, theirs, method.figures), method.beside)
    return found.model_copy(update={"sentence": found.sentence + others})


def _unasked(run: RunRecord, method: Method[Any], summaries: Sequence[PointSummary]) -> str:
    """Of a study that names no two forwarders and has one, or several."""
    from xdplab.analysis.sweep.analyse import MIN_CONFIGURATIONS  # takes long to import

    if method.swept and len(summaries) >= MIN_CONFIGURATIONS:
        return "Which settings matter in this run: `xdplab analyse` says it."
    several = len({one.forwarder for one in summaries}) > 1
    why = "the study names no two forwarders (answer)" if several else "nothing to compare with in this run"
    return f"No answer: {why}.{_alone(summaries, method.figures)}"


def metric_of(ours: PointSummary, theirs: PointSummary, figures: Sequence[Figure]) -> str:
    """The first figure of a method that one of the two has."""
    return next((each.key for each in figures if _has(ours, each.key) or _has(theirs, each.key)), figures[0].key)


def compared(ours: PointSummary, theirs: PointSummary, metric: str, beside: Sequence[str] = ()) -> Answer:
    """At the study's load; where something was measured beside it, the answer is there, then the study's."""
    there = next((clause for clause in beside if clause in ours.beside and clause in theirs.beside), None)
    full = _compared(ours, theirs, metric)
    if there is None:
        return full
    light = _compared(ours.beside[there], theirs.beside[there], metric)
    both = {"sentence": f"{light.sentence} {full.sentence}", "said": light.said or full.said}
    return light.model_copy(update={**both, "at_rate": full.comparison})


def _compared(ours: PointSummary, theirs: PointSummary, metric: str) -> Answer:
    comparison = compare_points(ours, theirs, metric)
    if comparison is None:
        silent = [
            one.forwarder for one in (ours, theirs) if figure(metric).at_load and 0 < silences(one) == one.repetitions
        ]
        why = "the two were never measured in the same repetition"
        if silent:
            why = f"no time-stamped frame of {' and '.join(silent)} arrived"
        return Answer(sentence=f"No answer: {why}.")
    return Answer(sentence=_sentence(ours, theirs, comparison), said=comparison.known, comparison=comparison)


def _sentence(ours: PointSummary, theirs: PointSummary, found: Comparison) -> str:
    names = f"{_long(ours.forwarder)} and {_long(theirs.forwarder)}"
    remarks = "".join(f" ({remark})" for remark in found.remarks)
    metric = figure(found.metric)
    figures = _figures(ours, theirs, metric) + remarks
    at = f"At {significant((ours.offered_pps or 0) / 1e3)} kpps " if metric.at_load else ""
    if found.hindrances:
        why = "; ".join(found.hindrances[:_TOLD])
        return f"{at or 'Here '}no winner can be named, {why}. {names}: {figures}."
    repeats = _repeats(found)
    if found.better is None or found.interval is None:
        why = "" if found.sense == "exact" else ", for figures are bounds"
        return f"{at}{names} cannot be told apart{why}: {figures}, ratio {found.text()}{repeats}."
    ahead, behind = (ours, theirs) if found.better else (theirs, ours)
    verb, as_much = (metric.verb, "as much") if metric.more else ("is", "as fast")
    times, often, spread = found.ahead()
    who = f"{_long(ahead.forwarder)} {verb} {times} {as_much} as {_long(behind.forwarder)}"
    return f"{at}{who}{often}: {figures}{spread}{repeats}."


def _repeats(found: Comparison) -> str:
    """How many pairs it stands on, and whether the first attempts alone say the same."""
    stands = f", {found.clean} clean of {found.repetitions} paired repetitions"
    if not found.depends_on_repeats or found.first is None:
        return stands
    first = found.first.text()
    alone = f"say {first}" if found.first.differs else f"do not tell them apart ({first})"
    return f"{stands}; this depends on repeats, the first attempts with the disturbed ones {alone}"


def _alone(summaries: Sequence[PointSummary], figures: Sequence[Figure]) -> str:
    """What is known of one point with nothing to compare it with, and what is wrong with it; empty with several."""
    measured = [each for each in summaries if each.repetitions]
    if len(measured) != 1:
        return ""
    (one,) = measured
    metric = next((each for each in figures if _has(one, each.key)), None)
    if metric is None:
        return ""
    doubts = [*doubts_of_one(one, metric.key)]
    wrong = f"; not to be taken for a fact: {'; '.join(doubts)}" if doubts else ""
    at = f" at {significant((one.offered_pps or 0) / 1e3)} kpps" if metric.at_load else ""
    repeats = f", {one.repeats} repetition{'s' * (one.repetitions != 1)}"
    return f" {_long(one.forwarder)} alone{at}: {_what(one, metric)} {_figure(one, metric)}{repeats}{wrong}."


def _figures(ours: PointSummary, theirs: PointSummary, metric: Figure) -> str:
    both = f"{_figure(ours, metric)} against {_figure(theirs, metric)}"
    return f"{_what(ours, metric)} {both}, {ours.frame_bytes}-byte frames"


def _what(one: PointSummary, metric: Figure) -> str:
    if metric.at_load:
        return f"{one.quantity} {metric.name}"
    return next((each.called[metric.key] for each in one.by_repetition if metric.key in each.called), metric.name)


def _figure(one: PointSummary, metric: Figure) -> str:
    """Median over the repetitions, as a bound where it is one."""
    unit, per = metric.said
    rate = rate_of(one.by_repetition, metric.key)
    if rate and (metric.more or rate.below_pps):
        return rate.text(per, f" {unit}")
    value = known_median(each.value(metric.key) for each in standing(one.by_repetition, metric.key))
    return f"{value / per:.2f} {unit}" if value is not None else "(none)"


def _has(one: PointSummary, metric: str) -> bool:
    return any(each.was_searched(metric) for each in one.by_repetition)


def _long(title: str) -> str:
    names = {"ovs": "OVS", "vpp": "VPP"}, {"afxdp": "AF_XDP", "afpacket": "AF_PACKET"}
    switch, _, port = title.partition("-")
    return f"{names[0][switch]} on {names[1][port]}" if switch in names[0] and port in names[1] else title


def pairs_of(first: str, second: str, summaries: Sequence[PointSummary]) -> list[tuple[PointSummary, PointSummary]]:
    """Two forwarders at each setting that both have, in the study's order.

    Settings that one of them cannot have are left out where there are others; one that failed, or that the run has not
    come to, is not: which setting is told must not depend on what was measured.
    """
    ours, theirs = _named(first, summaries), _named(second, summaries)
    alike = [(one, other) for one in ours for other in theirs if one.setting == other.setting]
    return [pair for pair in alike if all(each.status != "unsupported" for each in pair)] or alike


def _named(title: str, summaries: Sequence[PointSummary]) -> list[PointSummary]:
    """By title; a bare name also finds its first variant (`ovs-afxdp` finds `ovs-afxdp:xdp_mode=generic`)."""
    exact = [summary for summary in summaries if summary.forwarder == title]
    loose = [summary for summary in summaries if summary.forwarder.split(":")[0] == title]
    return exact or [summary for summary in loose if summary.forwarder == loose[0].forwarder]
