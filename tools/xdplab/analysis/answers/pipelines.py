# SPDX-License-Identifier: Apache-2.0
"""Which points are compared with one another; two forwarders at each pipeline, all of them one family (Holm)."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from xdplab.analysis.compare import compare_points, corrected, metric_of
from xdplab.analysis.words import NEVER_PAIRED, capitalized, lead, ratio_text, undecided
from xdplab.measure import Figure, figure
from xdplab.measure.comparison import Answer, Comparison
from xdplab.measure.point import PointSummary
from xdplab.model.digits import number_of, significant


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
