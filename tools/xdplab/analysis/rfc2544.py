# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 figures of a point: medians over repetitions, each under the clause it follows, all values kept."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from xdplab.analysis.distribution import distribution
from xdplab.analysis.figures import RepetitionFigures
from xdplab.analysis.levels import two_levels
from xdplab.model import TrialRecord

Found = Sequence[dict[str, Any]]


def rfc2544_figures(trials: Sequence[TrialRecord]) -> dict[str, Any]:
    """Clause -> figures, each under its name in `_MAKERS`; {} without any."""
    figures = {}
    for clause, (name, make) in _MAKERS.items():
        found = _found(trials, clause)
        if found:
            figures[name] = make(found, trials)
    return figures


def unsupported_clauses(trials: Iterable[TrialRecord]) -> dict[str, str]:
    """Name of a clause, as in `rfc2544_figures` -> why the tester has no figures for it."""
    names = {clause: name for clause, (name, _) in _MAKERS.items()}
    return {
        names[trial.clause]: trial.figures["unsupported"]
        for trial in trials
        if trial.purpose == "figures" and "unsupported" in trial.figures
    }


def throughput_repetitions(trials: Iterable[TrialRecord]) -> tuple[RepetitionFigures, ...]:
    """Throughput without loss and forwarding rate of each repetition, in pps over all directions, for pairing."""
    trials = list(trials)
    found: dict[int, RepetitionFigures] = {}
    for trial in trials:
        if trial.purpose != "figures" or trial.clause not in ("RFC 2544 26.1", "RFC 2285 3.6.1"):
            continue
        best, total, rate = {"loss_ratio": 0.0}, 0.0, trial.figures.get("forwarding_rate_pps")
        if rate is None:
            best = min(trial.figures["bounds"], key=lambda bound: float(bound["loss_ratio"]))
            total = (best["throughput_pps"] or 0.0) * trial.figures["directions"]
        earlier = found.get(trial.repetition)
        searched = _last_attempts(trials, trial.repetition, trial.clause)
        disturbed = sum(one.status == "disturbed" for one in searched) * 2 > len(searched)
        found[trial.repetition] = RepetitionFigures(
            repetition=trial.repetition,
            disturbed=disturbed or (earlier is not None and earlier.disturbed),
            p50_us=None,
            p99_us=None,
            p999_us=None,
            loss_ratio=best["loss_ratio"],
            achieved_pps=total or rate or 0.0,
            forwarded_pps=total or rate or 0.0,
            ndr_pps=total or (earlier.ndr_pps if earlier else None),
            forwarding_rate_pps=rate or (earlier.forwarding_rate_pps if earlier else None),
        )
    return tuple(found.values())


def _last_attempts(trials: Iterable[TrialRecord], repetition: int, clause: str) -> list[TrialRecord]:
    """The attempt that the search was given, of each of its trials in one repetition."""
    last: dict[int, TrialRecord] = {}
    for trial in trials:
        if trial.purpose == "search" and trial.clause == clause and trial.repetition == repetition:
            last[trial.trial] = trial
    return list(last.values())


def _found(trials: Iterable[TrialRecord], clause: str) -> list[dict[str, Any]]:
    return [
        trial.figures
        for trial in trials
        if trial.purpose == "figures" and trial.clause == clause and "unsupported" not in trial.figures
    ]


def _spread(values: Iterable[float | None]) -> dict[str, Any] | None:
    """Median and range of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return {"median": median(known), "low": min(known), "high": max(known), "count": len(known)} if known else None


def _throughput(found: Found, trials: Sequence[TrialRecord]) -> dict[str, Any]:
    bounds = []
    for ratio in sorted({bound["loss_ratio"] for figures in found for bound in figures["bounds"]}):
        same = [(bound, f["directions"]) for f in found for bound in f["bounds"] if bound["loss_ratio"] == ratio]
        bounds.append(
            {
                "loss_ratio": ratio,
                "limited_by": sorted({bound["limited_by"] for bound, _ in same}),
                **{
                    name: _spread(bound[name] and bound[name] * directions for bound, directions in same)
                    for name in ("throughput_pps", "lower_pps", "upper_pps")
                },
            }
        )
    return {
        "bounds": bounds,
        "preset": found[0]["preset"],
        "trials": [len(figures["steps"]) for figures in found],
        "traffic_s": [figures["traffic_s"] for figures in found],
        "top_load_pps": median(figures["top_load_pps"] for figures in found) * found[0]["directions"],
        "line_rate_bps": found[0]["line_rate_bps"],
    }


def _latency(found: Found, trials: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    rows = []
    for index, load in enumerate(found[0]["loads"]):
        clause = f"RFC 2544 26.2 at {load['share']:.2f}"
        at_load = [trial for trial in trials if trial.clause == clause and trial.result]
        quiet = [trial for trial in at_load if trial.status == "ok"] or at_load
        merged = distribution(quiet)
        sent = sum(trial.result.sent for trial in quiet if trial.result)
        lost = sum(stream.lost for trial in quiet if trial.result for stream in trial.result.streams)
        rows.append(
            {
                "share": load["share"],
                "load_pps": median(figures["loads"][index]["load_pps"] for figures in found),
                "trials": len(quiet),
                "disturbed": len(at_load) - len([trial for trial in at_load if trial.status == "ok"]),
                "samples": merged.count,
                "loss_ratio": lost / sent if sent else None,
                "p50_us": merged.percentile_us(50),
                "p99_us": merged.percentile_us(99),
                "p999_us": merged.percentile_us(99.9),
            }
        )
    return rows


def _loss_curve(found: Found, trials: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """Medians per step; repetitions may end at different steps."""
    steps = max((figures["points"] for figures in found), key=len)
    rows = []
    for index in range(len(steps)):
        same = [figures["points"][index] for figures in found if index < len(figures["points"])]
        rows.append(
            {
                name: median(point[name] for point in same)
                for name in ("load_pps", "loss_ratio", "unsent", "achieved_pps")
            }
            | {"repetitions": len(same)}
        )
    return rows


def _back_to_back(found: Found, trials: Sequence[TrialRecord]) -> dict[str, Any]:
    names = ("average_frames", "burst_rate_pps", "implied_buffer_us", "corrected_buffer_us", "corrected_buffer_frames")
    return {name: _spread(figures[name] for figures in found) for name in names} | {
        "frames": [length for figures in found for length in figures["frames"]],
        "limited_by": sorted({figures["limited_by"] for figures in found}),
    }


def _recovery(found: Found, trials: Sequence[TrialRecord]) -> dict[str, Any]:
    names = ("recovery_us", "overload_pps", "relief_pps", "lost_in_overload", "resolution_us")
    return {name: _spread(figures[name] for figures in found) for name in names} | {
        "overloaded": all(figures["overloaded"] for figures in found)
    }


def _forwarding_rate(found: Found, trials: Sequence[TrialRecord]) -> dict[str, Any]:
    names = ("forwarding_rate_pps", "offered_pps", "intended_pps")
    levels = two_levels([figures["forwarding_rate_pps"] for figures in found])
    return {name: _spread(figures[name] for figures in found) for name in names} | {
        "overloaded": all(figures["overloaded"] for figures in found),
        "two_levels_kpps": levels.text(1000) if levels else "",
    }


def _reset(found: Found, trials: Sequence[TrialRecord]) -> dict[str, Any]:
    names = ("gap_us", "lost", "load_pps", "resolution_us")
    return {name: _spread(figures[name] for figures in found) for name in names} | {
        "came_back": all(figures["came_back"] for figures in found)
    }


_MAKERS: dict[str, tuple[str, Callable[[Found, Sequence[TrialRecord]], Any]]] = {
    "RFC 2544 26.1": ("throughput", _throughput),
    "RFC 2544 26.2": ("latency", _latency),
    "RFC 2544 26.3": ("loss_curve", _loss_curve),
    "RFC 2544 26.4": ("back_to_back", _back_to_back),
    "RFC 2544 26.5": ("recovery", _recovery),
    "RFC 2544 26.6": ("reset", _reset),
    "RFC 2285 3.6.1": ("forwarding_rate", _forwarding_rate),
}
