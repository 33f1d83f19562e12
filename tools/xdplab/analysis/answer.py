# SPDX-License-Identifier: Apache-2.0
"""The answer first: one sentence that says who is faster, by what ratio, with its interval, or why nobody can say.

The sentence is the same in console, report and Robot; what it may say is decided in `compare`.
"""

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from xdplab.analysis.agreement import agreements
from xdplab.analysis.breakdown import ALONE
from xdplab.analysis.compare import Comparison, compare_points
from xdplab.analysis.digits import percent, significant
from xdplab.analysis.doubts import doubts_of_one
from xdplab.analysis.figures import MORE_IS_BETTER as RATES
from xdplab.analysis.figures import rate_of
from xdplab.analysis.stats import MIN_PAIRS
from xdplab.analysis.summary import PointSummary
from xdplab.model import Model, RunRecord, TracingSpec, TrialRecord

if TYPE_CHECKING:
    from xdplab.analysis.sweep import SweepAnalysis

_DEFAULT = ("ovs-afxdp", "ovs-afpacket")
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
    """Compare the two forwarders that the study names, else OVS on AF_XDP with OVS on AF_PACKET.

    A study with several testers asks whether they agree, one of method breakdown where the time goes, a sweep which
    settings matter (`sweeps`: what `analyse_sweep` says, by who has it already).
    """
    found_agreement = agreements(run, summaries)
    if found_agreement:
        said = all(each.said for each in found_agreement)
        return Answer(sentence=" ".join(each.sentence for each in found_agreement), said=said)
    if run.study.method.name == "breakdown":
        return _told(_breakdown(summaries))
    if isinstance(run.study.method, TracingSpec):
        return _told(_tracing(summaries, run.study.method.goal_us))
    if run.study.sweep is not None and run.study.method.name == "latency":
        from xdplab.analysis.sweep import analyse_sweep, sweep_sentence

        swept = analyse_sweep(run, trials) if sweeps is None else sweeps
        return Answer(sentence=sweep_sentence(run, trials, swept), said=bool(swept))
    wanted = run.study.answer or _DEFAULT
    ours, theirs = found = _pair(*wanted, summaries)
    missing = [title for title, summary in zip(wanted, found, strict=True) if summary is None]
    if missing and not run.study.answer and (run.study.knobs or run.study.options or run.study.tester_options):
        return Answer(sentence="Which settings matter in this run: `xdplab sweep` says it.")
    if ours is None or theirs is None:
        lone = [summary for summary in (found if ours or theirs else summaries) if summary and summary.repetitions]
        alone = f" {_alone(lone[0])}" if len(lone) == 1 else ""
        return Answer(sentence=f"No answer: {' and '.join(missing)} not part of this run.{alone}")
    for summary in (ours, theirs):
        if not summary.repetitions:
            return Answer(sentence=f"No answer: {summary.forwarder} was not measured ({summary.reason}).")
    if run.study.method.name == "latency":
        return _latency(ours, theirs)
    metric = next((each for each in RATES if _has(ours, each) or _has(theirs, each)), "p50_us")
    return _compared(ours, theirs, metric)


def _latency(ours: PointSummary, theirs: PointSummary) -> Answer:
    """At the study's rate; with a light load, the answer is there and the study's rate stands beside it."""
    if ours.light is None or theirs.light is None:
        return _compared(ours, theirs, "p50_us")
    light, full = _compared(ours.light, theirs.light, "p50_us"), _compared(ours, theirs, "p50_us")
    both = {"sentence": f"{light.sentence} {full.sentence}", "said": light.said or full.said}
    return light.model_copy(update={**both, "at_rate": full.comparison})


def _compared(ours: PointSummary, theirs: PointSummary, metric: str) -> Answer:
    comparison = compare_points(ours, theirs, metric)
    if comparison is None:
        silent = [one.forwarder for one in (ours, theirs) if one.loss_ratio_all == 1]
        why = "the two were never measured in the same repetition"
        if silent:
            why = f"no frame of {' and '.join(silent)} arrived"
        return Answer(sentence=f"No answer: {why}.")
    known = comparison.better is not None or comparison.sense in ("exact", "within")
    said = not comparison.hindrances and known
    return Answer(sentence=_sentence(ours, theirs, comparison), said=said, comparison=comparison)


def _sentence(ours: PointSummary, theirs: PointSummary, found: Comparison) -> str:
    names = f"{_long(ours.forwarder)} and {_long(theirs.forwarder)}"
    remarks = "".join(f" ({remark})" for remark in found.remarks)
    figures = _figures(ours, theirs, found.metric) + remarks
    at = f"At {significant((ours.offered_pps or 0) / 1e3)} kpps " if found.metric not in RATES else ""
    if found.hindrances:
        why = "; ".join(found.hindrances[:_TOLD])
        return f"{at or 'Here '}no winner can be named, {why}. {names}: {figures}."
    repeats = _repeats(found)
    if found.better is None or found.interval is None:
        why = "" if found.sense == "exact" else ", for figures are bounds"
        return f"{at}{names} cannot be told apart{why}: {figures}, ratio {found.text()}{repeats}."
    ahead, behind = (ours, theirs) if found.better else (theirs, ours)
    ratio = found.interval if found.better else found.interval.inverted()
    verb, as_much = ("forwards", "as much") if found.metric in RATES else ("is", "as fast")
    times, often, spread = f"{significant(ratio.ratio)} times", "", ""
    if found.sense != "exact":
        times = f"at least {significant(ratio.low or 1)} times"
    elif ratio.method == "each-pair":
        times, often = f"at least {significant(ratio.least or 1)} times", f" in each of {ratio.pairs} repetitions"
    else:
        spread = f" ({ratio.confidence:.0%} interval {ratio.spread()})"
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


def _alone(one: PointSummary) -> str:
    """What is known of a forwarder with nothing to compare it with, and what is wrong with it."""
    metric = next((each for each in (*RATES, "p50_us") if _has(one, each)), None)
    if metric is None:
        return ""
    doubts = [*doubts_of_one(one, metric)]
    wrong = f"; not to be taken for a fact: {'; '.join(doubts)}" if doubts else ""
    at = "" if metric in RATES else f" at {significant((one.offered_pps or 0) / 1e3)} kpps"
    repeats = f", {one.repeats} repetition{'s' * (one.repetitions != 1)}"
    return f"{_long(one.forwarder)} alone{at}: {_what(one, metric)} {_figure(one, metric)}{repeats}{wrong}."


def _figures(ours: PointSummary, theirs: PointSummary, metric: str) -> str:
    both = f"{_figure(ours, metric)} against {_figure(theirs, metric)}"
    return f"{_what(ours, metric)} {both}, {ours.frame_bytes}-byte frames"


def _what(one: PointSummary, metric: str) -> str:
    if metric == "pdr_pps":
        tolerated = [each.pdr_loss_ratio for each in one.by_repetition if each.pdr_loss_ratio is not None]
        return f"throughput with at most {percent(tolerated[0])} loss" if tolerated else "throughput"
    named = {"ndr_pps": "throughput without loss", "forwarding_rate_pps": "forwarding rate at overload"}
    return named.get(metric, f"{one.quantity} p50")


def _figure(one: PointSummary, metric: str) -> str:
    """Median over the repetitions, as a bound where it is one."""
    if metric in RATES:
        rate = rate_of(one.by_repetition, metric)
        return rate.text(unit=" Mpps") if rate else "(none)"
    stands = [each for each in one.by_repetition if getattr(each, metric) is not None]
    stands = [each for each in stands if not each.was_disturbed(metric)] or stands
    return f"{median(getattr(each, metric) for each in stands):.2f} µs" if stands else "(none)"


def _has(one: PointSummary, metric: str) -> bool:
    return any(each.was_searched(metric) for each in one.by_repetition)


def _told(sentence: str) -> Answer:
    return Answer(sentence=sentence, said=not sentence.startswith("No answer"))


def _breakdown(summaries: Sequence[PointSummary]) -> str:
    """Of the first forwarder, at the highest rate at which its frames are alone."""
    found = [(s.forwarder, one) for s in summaries for one in s.figures.get("breakdown", ()) if one["typical_less_us"]]
    if not found:
        return f"No answer: {_why_no_breakdown(summaries)}."
    name = found[0][0]
    last = [one for forwarder, one in found if forwarder == name][-1]
    words = ", ".join(f"{stage} {value:.2f} µs" for stage, value in last["typical_less_us"].items())
    pairs = f"{last['clean']} clean of {last['pairs']} pairs of trials"
    few = f"No answer: {pairs}, {MIN_PAIRS} are needed. " if last["clean"] < MIN_PAIRS else ""
    return (
        f"{few}{name}, median frame at {significant(last['rate_pps'] / 1000)} kpps: {words} (what the probes cost has "
        f"been taken off, an estimate), {pairs}."
    )


def _why_no_breakdown(summaries: Sequence[PointSummary]) -> str:
    """What is missing for a stage without the cost of its probes, and what to do."""
    at_rates = [one for summary in summaries for one in summary.figures.get("breakdown", ())]
    if not at_rates:
        return "; ".join(f"{s.forwarder}: {s.reason or 'no batch was traced'}" for s in summaries)
    fewest = min(at_rates, key=lambda one: float(one["frames_per_batch"]))
    if fewest["frames_per_batch"] > ALONE:
        return (
            f"at no rate was a frame alone in its batch, so the probes' cost cannot be told apart: at "
            f"{significant(fewest['rate_pps'] / 1000)} kpps one held {significant(fewest['frames_per_batch'])} frames; "
            "lower rates_pps, or a faster machine"
        )
    return (
        "frames that were alone in their batch took no longer with the probes than without, so the machine's noise "
        "hides what these cost; more pairs, or a quieter machine"
    )


def _tracing(summaries: Sequence[PointSummary], goal_us: float) -> str:
    """Of the first forwarder at its lowest rate, where traced frames hold nobody else up."""
    found = [(s.forwarder, one) for s in summaries for one in s.figures.get("tracing", ()) if "cost" in one]
    if not found:
        return "No answer: nothing was traced."
    name, rate = found[0][0], min(one["rate_pps"] for forwarder, one in found if forwarder == found[0][0])
    rows = [one for forwarder, one in found if (forwarder, one["rate_pps"]) == (name, rate)]
    words = []
    few = "" if any(one["clean"] >= MIN_PAIRS for one in rows) else "No answer: too few clean rounds. "
    for one in rows:
        cost = one["cost"]["p50"]["difference_us"]
        spread = f" ({cost['low']:.2f} to {cost['high']:.2f})" if cost["low"] is not None else ""
        words.append(f"{one['way']} {cost['mean']:.2f} µs{spread}, {one['verdict']}")
    at = f"{significant(rate / 1000)} kpps"
    return f"{few}What tracing costs {name} at p50, {at}, goal below {goal_us:g} µs: {'; '.join(words)}."


def _long(title: str) -> str:
    names = {"ovs": "OVS", "vpp": "VPP"}, {"afxdp": "AF_XDP", "afpacket": "AF_PACKET"}
    switch, _, port = title.partition("-")
    return f"{names[0][switch]} on {names[1][port]}" if switch in names[0] and port in names[1] else title


def _pair(
    first: str, second: str, summaries: Sequence[PointSummary]
) -> tuple[PointSummary | None, PointSummary | None]:
    """Two forwarders at one setting, measured if there is one at which both were; None for one that is not there."""
    ours, theirs = _named(first, summaries), _named(second, summaries)
    alike = [(one, other) for one in ours for other in theirs if one.setting == other.setting]
    alike.sort(key=lambda pair: not all(each.repetitions for each in pair))
    return alike[0] if alike else (ours[0] if ours else None, None if ours and theirs else next(iter(theirs), None))


def _named(title: str, summaries: Sequence[PointSummary]) -> list[PointSummary]:
    """By title; a bare name also finds its first variant (`ovs-afxdp` finds `ovs-afxdp:xdp_mode=generic`)."""
    exact = [summary for summary in summaries if summary.forwarder == title]
    loose = [summary for summary in summaries if summary.forwarder.split(":")[0] == title]
    return exact or [summary for summary in loose if summary.forwarder == loose[0].forwarder]
