# SPDX-License-Identifier: Apache-2.0
"""The answer first: one sentence that says who is faster, by what ratio, with its interval."""

from collections.abc import Sequence
from statistics import median

from xdplab.analysis.agreement import agreements
from xdplab.analysis.compare import Comparison, compare_points
from xdplab.analysis.figures import RepetitionFigures
from xdplab.analysis.stats import MIN_PAIRS
from xdplab.analysis.summary import PointSummary
from xdplab.model import Model, RunRecord, TracingSpec

_DEFAULT = ("ovs-afxdp", "ovs-afpacket")


class Answer(Model):
    """The sentence, and the comparison behind it (None when it could not be made)."""

    sentence: str
    comparison: Comparison | None = None


def answer(run: RunRecord, summaries: Sequence[PointSummary]) -> Answer:
    """Compare the two forwarders that the study names, else OVS on AF_XDP with OVS on AF_PACKET.

    A study with several testers asks whether they agree; one of method breakdown where the time goes.
    """
    found_agreement = agreements(run, summaries)
    if found_agreement:
        return Answer(sentence=" ".join(each.sentence for each in found_agreement))
    if run.study.method.name == "breakdown":
        return Answer(sentence=_breakdown(summaries))
    if isinstance(run.study.method, TracingSpec):
        return Answer(sentence=_tracing(summaries, run.study.method.goal_us))
    wanted = run.study.answer or _DEFAULT
    found = [_find(title, summaries) for title in wanted]
    missing = [title for title, summary in zip(wanted, found, strict=True) if summary is None]
    ours, theirs = found
    if missing and not run.study.answer and (run.study.knobs or run.study.options or run.study.tester_options):
        return Answer(sentence="Which settings matter in this run: `xdplab sweep` says it.")
    if ours is None or theirs is None:
        return Answer(sentence=f"No answer: {' and '.join(missing)} not part of this run.")
    for summary in (ours, theirs):
        if not summary.repetitions:
            return Answer(sentence=f"No answer: {summary.forwarder} was not measured ({summary.reason}).")
    searched = any(one.ndr_pps for summary in (ours, theirs) for one in summary.by_repetition)
    rate = "ndr_pps" if searched else "forwarding_rate_pps"
    metric = rate if run.study.method.name != "latency" else "p50_us"
    comparison = compare_points(ours, theirs, metric)
    if comparison is None:
        return Answer(sentence="No answer: the two were never measured in the same repetition.")
    return Answer(sentence=_sentence(ours, theirs, comparison), comparison=comparison)


def _sentence(ours: PointSummary, theirs: PointSummary, comparison: Comparison) -> str:
    interval = comparison.interval
    faster, slower = (ours, theirs) if interval.ratio >= 1 else (theirs, ours)
    ratio = max(interval.ratio, 1 / interval.ratio)
    figures = _latencies(faster, slower) if comparison.metric == "p50_us" else _rates(faster, slower, comparison.metric)
    caution = _caution([*ours.by_repetition, *theirs.by_repetition])
    names = f"{_long(faster.forwarder)} and {_long(slower.forwarder)}"
    if interval.low is None or interval.high is None:
        return (
            f"{names}: {figures}, ratio {ratio:.3g}; whether they differ cannot be said from {interval.pairs} of the "
            f"{MIN_PAIRS} repetitions that an interval needs.{caution}"
        )
    low, high = (interval.low, interval.high) if interval.ratio >= 1 else (1 / interval.high, 1 / interval.low)
    spread = f"{interval.confidence:.0%} interval {low:.3g} to {high:.3g}, {interval.pairs} paired repeats"
    if not interval.differs:
        return f"{names} cannot be told apart: {figures}, ratio {ratio:.3g} ({spread}).{caution}"
    verb = ("is", "as fast") if comparison.metric == "p50_us" else ("forwards", "as much")
    who = f"{_long(faster.forwarder)} {verb[0]} {ratio:.3g} times {verb[1]} as {_long(slower.forwarder)}"
    return f"{who}: {figures} ({spread}).{caution}"


def _breakdown(summaries: Sequence[PointSummary]) -> str:
    """Of the first forwarder, at the highest rate at which its frames are alone."""
    found = [(s.forwarder, one) for s in summaries for one in s.figures.get("breakdown", ()) if one["typical_less_us"]]
    if not found:
        return "No answer: no frame was followed by the probes alone in its batch."
    name = found[0][0]
    rate, stages = [(one["rate_pps"], one["typical_less_us"]) for forwarder, one in found if forwarder == name][-1]
    words = ", ".join(f"{stage} {value:.2f} µs" for stage, value in stages.items())
    return (
        f"{name}, median frame at {rate / 1000:g} kpps: {words} (what the probes cost has been taken off, an estimate)."
    )


def _tracing(summaries: Sequence[PointSummary], goal_us: float) -> str:
    """Of the first forwarder at its lowest rate, where traced frames hold nobody else up."""
    found = [(s.forwarder, one) for s in summaries for one in s.figures.get("tracing", ()) if "cost" in one]
    if not found:
        return "No answer: nothing was traced."
    name, rate = found[0][0], min(one["rate_pps"] for forwarder, one in found if forwarder == found[0][0])
    rows = [one for forwarder, one in found if (forwarder, one["rate_pps"]) == (name, rate)]
    words = []
    for one in rows:
        cost = one["cost"]["p50"]["difference_us"]
        spread = f" ({cost['low']:.2f} to {cost['high']:.2f})" if cost["low"] is not None else ""
        words.append(f"{one['way']} {cost['mean']:.2f} µs{spread}, {one['verdict']}")
    return f"What tracing costs {name} at p50, {rate / 1000:g} kpps, goal below {goal_us:g} µs: {'; '.join(words)}."


def _latencies(ours: PointSummary, theirs: PointSummary) -> str:
    return (
        f"{ours.quantity} p50 {ours.p50_us or 0:.2f} µs against {theirs.p50_us or 0:.2f} µs at "
        f"{(ours.offered_pps or 0) / 1000:g} kpps of {ours.frame_bytes}-byte frames"
    )


def _rates(ours: PointSummary, theirs: PointSummary, metric: str) -> str:
    known = [[getattr(one, metric) for one in summary.by_repetition] for summary in (ours, theirs)]
    rates = [median(value / 1e6 for value in values if value) for values in known]
    what = "throughput without loss" if metric == "ndr_pps" else "forwarding rate at overload"
    return f"{what} {rates[0]:.3f} against {rates[1]:.3f} Mpps of {ours.frame_bytes}-byte frames"


def _caution(figures: Sequence[RepetitionFigures]) -> str:
    """Said beside the figures when the machine was not quiet enough for most of what they stand on."""
    disturbed = sum(one.disturbed for one in figures)
    if disturbed * 2 <= len(figures):
        return ""
    return f" The machine was disturbed in {disturbed} of these {len(figures)} measurements: repeat on a quieter one."


def _long(title: str) -> str:
    names = {"ovs": "OVS", "vpp": "VPP"}, {"afxdp": "AF_XDP", "afpacket": "AF_PACKET"}
    switch, _, port = title.partition("-")
    return f"{names[0][switch]} on {names[1][port]}" if switch in names[0] and port in names[1] else title


def _find(title: str, summaries: Sequence[PointSummary]) -> PointSummary | None:
    """By title; a bare name also finds its first variant (`ovs-afxdp` finds `ovs-afxdp:xdp_mode=generic`)."""
    exact = [summary for summary in summaries if summary.forwarder == title]
    loose = [summary for summary in summaries if summary.forwarder.split(":")[0] == title]
    return next(iter(exact + loose), None)
