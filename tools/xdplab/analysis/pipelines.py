# SPDX-License-Identifier: Apache-2.0
"""Which forwarder for which work: two forwarders compared at each pipeline, all of them one family (Holm)."""

from collections.abc import Mapping, Sequence

from xdplab.analysis.answer import Answer, metric_of, pairs_of
from xdplab.analysis.compare import Comparison, compare_points, corrected
from xdplab.analysis.point import PointSummary
from xdplab.methods import Figure, figure
from xdplab.model.digits import significant

NEVER = "the two were never measured in the same repetition"


def answer_by_pipeline(wanted: tuple[str, str], summaries: Sequence[PointSummary], figures: Sequence[Figure]) -> Answer:
    """One sentence over all pipelines; its `comparison` is the first, of whose reference the table's ratios are."""
    found: dict[str, Comparison | str] = {}
    several = len({one.udp_flows for one in summaries}) > 1
    names = [_work(one, several) for one in summaries]
    for work in dict.fromkeys(names):
        alike = [one for one, name in zip(summaries, names, strict=True) if name == work]
        pair = the_two(wanted, alike)
        found[work] = pair if isinstance(pair, str) else compare_points(*pair, metric_of(*pair, figures)) or NEVER
    told = corrected({work: one for work, one in found.items() if isinstance(one, Comparison)})
    first = next(iter(told.values()), None)
    about = f"{wanted[0]} against {wanted[1]}"
    if first is not None:
        metric = figure(first.metric)
        offered = {one.offered_pps for one in summaries if one.offered_pps}
        at = f" at {significant(min(offered) / 1e3)} kpps" if metric.at_load and len(offered) == 1 else ""
        about += f", {metric.name}{at}"
    sentence = f"{about}, by work: {'; '.join(parts({work: told.get(work, one) for work, one in found.items()}))}."
    return Answer(sentence=sentence, said=any(one.known for one in told.values()), comparison=first)


def the_two(wanted: tuple[str, str], points: Sequence[PointSummary]) -> tuple[PointSummary, PointSummary] | str:
    """The two forwarders at their first setting, or why nothing is said of them."""
    alike = pairs_of(*wanted, points)
    if not alike:
        return "not measured for both"
    silent = next((each for each in alike[0] if not each.repetitions), None)
    return f"{silent.forwarder} was not measured ({silent.reason})" if silent else alike[0]


def parts(found: Mapping[str, Comparison | str]) -> list[str]:
    """Each piece of work by itself; those that cannot be told apart, or of which nothing can be said, together."""
    told: list[str] = []
    alike: list[str] = []
    unsaid: dict[str, list[str]] = {}
    for work, one in found.items():
        if isinstance(one, str) or not one.known:
            why = one if isinstance(one, str) else next(iter(one.hindrances), "figures are bounds")
            unsaid.setdefault(why, []).append(work)
        elif one.better is None:
            alike.append(f"{work} ({one.text()})")
        else:
            told.append(f"{work}: {_ahead(one)}")
    told += [f"cannot be told apart in {', '.join(alike)}"] if alike else []
    if len(unsaid) > 1:
        often = max(unsaid, key=lambda each: len(unsaid[each]))
        works = ", ".join(work for each in unsaid.values() for work in each)
        why = f"{often} (so {', '.join(unsaid[often])}; the others for other reasons)"
        return [*told, f"nothing is said of {works}: {why}"]
    return [*told, *(f"nothing is said of {', '.join(works)}: {why}" for why, works in unsaid.items())]


def _work(one: PointSummary, several_flows: bool) -> str:
    flows = f", {one.udp_flows:,} flow{'s' if one.udp_flows > 1 else ''}"
    return one.pipeline + (flows if several_flows else "")


def _ahead(found: Comparison) -> str:
    """Who is ahead how far, and what has to be said beside it."""
    times, often, spread = found.ahead()
    words = "as much" if figure(found.metric).more else "as fast"
    told = f"{found.point if found.better else found.reference} {times} {words}{often}{spread}"
    return told + "".join(f" ({each})" for each in found.beside)
