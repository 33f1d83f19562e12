# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 figures of a point: medians over repetitions, each under the clause it follows, all values kept."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from xdplab.measure.distribution import carried, sample_of
from xdplab.measure.figure import Figure
from xdplab.measure.measured import Measured, RepetitionFigures, Spread, disturbed_share
from xdplab.methods.rfc2544.contradiction import contradiction, last_attempts, worst
from xdplab.methods.rfc2544.found import (
    BackToBackFound,
    BoundFound,
    ForwardingRateFound,
    LatencyFound,
    LossFound,
    RecoveryFound,
    ResetFound,
    Rfc2544Figures,
    ThroughputFound,
)
from xdplab.methods.rfc2544.search import PRESETS
from xdplab.model import TrialRecord
from xdplab.model.digits import percent
from xdplab.stats.bimodal import bimodal
from xdplab.stats.contamination import rate_ends

_RATE: dict[str, Any] = {
    "better": "more",
    "unit": "kpps",
    "per": 1e3,
    "said_unit": "Mpps",
    "said_per": 1e6,
    "verb": "forwards",
}
#: Throughput without loss (§26.1); 0: it lost frames at the lowest load.
NDR = Figure(key="ndr_pps", name="throughput without loss", main=True, **_RATE)
#: With a tolerated loss, where only such were searched.
PDR = Figure(key="pdr_pps", name="throughput with a tolerated loss", **_RATE)
#: At the study's overload (RFC 2285 §3.6.1).
FORWARDING_RATE = Figure(key="forwarding_rate_pps", name="forwarding rate at overload", **_RATE)
Found = Sequence[dict[str, Any]]


def rfc2544_figures(trials: Sequence[TrialRecord]) -> Rfc2544Figures:
    """Each clause under its name in `_MAKERS`."""
    found = {name: (_found(trials, clause), make) for clause, (name, make) in _MAKERS.items()}
    return Rfc2544Figures(**{name: make(each, trials) for name, (each, make) in found.items() if each})


def unsupported_clauses(trials: Iterable[TrialRecord]) -> dict[str, str]:
    """Name of a clause, as in `rfc2544_figures` -> why the tester has no figures for it."""
    names = {clause: name for clause, (name, _) in _MAKERS.items()}
    return {
        names[trial.clause]: trial.figures["unsupported"]
        for trial in trials
        if trial.purpose == "figures" and "unsupported" in trial.figures
    }


def throughput_repetitions(trials: Iterable[TrialRecord]) -> tuple[RepetitionFigures, ...]:
    """Throughput and forwarding rate of each repetition, in pps over all directions, with who set them, for pairing."""
    trials = list(trials)
    found: dict[int, RepetitionFigures] = {}
    for trial in trials:
        if trial.purpose != "figures" or trial.clause not in _RATES or "unsupported" in trial.figures:
            continue
        earlier = found.get(trial.repetition) or RepetitionFigures(repetition=trial.repetition)
        key, measured = _RATES[trial.clause](trial, trials)
        figures = {**earlier.figures, key: measured}
        rates = (figures[each.key].value for each in (NDR, PDR, FORWARDING_RATE) if each.key in figures)
        best = next(filter(None, rates), 0.0)
        loss = min((bound["loss_ratio"] for bound in trial.figures.get("bounds", ())), default=earlier.loss_ratio)
        found[trial.repetition] = earlier.model_copy(
            update={"figures": figures, "loss_ratio": loss, "achieved_pps": best, "forwarded_pps": best}
        )
    return tuple(found.values())


def _share(trial: TrialRecord, trials: Sequence[TrialRecord]) -> float | None:
    """Of the last attempts at each step, the share that the machine disturbed; 0 where that is at most half of them."""
    searched = last_attempts(trials, trial.repetition, trial.clause)
    disturbed = sum(one.status == "disturbed" for one in searched)
    return disturbed / len(searched) if disturbed * 2 > len(searched) else 0.0


def _searched(trial: TrialRecord, trials: Sequence[TrialRecord]) -> tuple[str, Measured]:
    """The bound of the lowest loss ratio that was searched: NDR, or PDR where no search was without loss.

    Both ends hold whatever the machine did: a load that came through was carried, and a load that was lost bounds
    nobody unless it was offered and forwarded undisturbed (`Step.on_load`).
    """
    figures = trial.figures
    bound = min(figures["bounds"], key=lambda each: float(each["loss_ratio"]))
    metric = NDR.key if bound["loss_ratio"] == 0 else PDR.key
    limited_by, rate = bound["limited_by"], (bound["throughput_pps"] or 0.0) * figures["directions"]
    low, high, doubt = rate, rate, ""
    if limited_by == "below-minimum":
        # new flows are part of each load, which may be more than the search asked for
        low, high = 0.0, min(max(step["load_pps"], step["offered_pps"]) for step in figures["steps"])
        high *= figures["directions"]
    elif limited_by in ("tester", "budget", "machine"):
        high = bound["upper_pps"] * figures["directions"] if rate and bound["upper_pps"] else math.inf
        doubt = "" if rate else f"no load was found good: limited by the {limited_by}"
    contradicted_by = contradiction(trials, trial.repetition, figures, bound)
    return metric, Measured(
        value=rate if rate or limited_by == "below-minimum" else None,
        low=low,
        high=high,
        limited_by=limited_by,
        share=_share(trial, trials),
        resolution=PRESETS[figures["preset"]].relative_width,
        doubt=contradicted_by.text() if contradicted_by else doubt,
        called=f"throughput with at most {percent(bound['loss_ratio'])} loss" if bound["loss_ratio"] else "",
    )


def _flooded(trial: TrialRecord, trials: Sequence[TrialRecord]) -> tuple[str, Measured]:
    """The forwarding rate; a forwarder that lost nothing may forward more. Single frames resolve it."""
    metric = FORWARDING_RATE.key
    attempts = last_attempts(trials, trial.repetition, trial.clause)
    received = [each.result.received for each in attempts if each.result]
    shares = [disturbed_share(each) for each in attempts]
    share = None if None in shares else max((each for each in shares if each is not None), default=0.0)
    rate, overloaded = trial.figures[metric], trial.figures["overloaded"]
    low, high = rate_ends(rate, share) if share is not None else (0.0, math.inf)
    return metric, Measured(
        value=rate,
        low=low,
        high=high if overloaded else math.inf,
        limited_by="tester" if not overloaded else "machine" if share != 0.0 else "forwarder",
        share=share,
        resolution=1 / median(received) if any(received) else 0.0,
    )


_RATES: dict[str, Callable[[TrialRecord, Sequence[TrialRecord]], tuple[str, Measured]]] = {
    "RFC 2544 26.1": _searched,
    "RFC 2285 3.6.1": _flooded,
}


def _found(trials: Iterable[TrialRecord], clause: str) -> list[dict[str, Any]]:
    return [
        trial.figures
        for trial in trials
        if trial.purpose == "figures" and trial.clause == clause and "unsupported" not in trial.figures
    ]


def _spreads(found: Found, names: Iterable[str]) -> dict[str, Any]:
    return {name: Spread.known(figures.get(name) for figures in found) for name in names}


def _throughput(found: Found, trials: Sequence[TrialRecord]) -> ThroughputFound:
    records = [each for each in trials if each.purpose == "figures" and each.clause == "RFC 2544 26.1"]
    bounds = []
    for ratio in sorted({bound["loss_ratio"] for figures in found for bound in figures["bounds"]}):
        same = [(each, b) for each in records for b in each.figures.get("bounds", ()) if b["loss_ratio"] == ratio]
        contradicted_by = worst([contradiction(trials, each.repetition, each.figures, b) for each, b in same])
        bounds.append(
            BoundFound(
                loss_ratio=ratio,
                limited_by=tuple(sorted({bound["limited_by"] for _, bound in same})),
                contradicted_by=contradicted_by,
                contradiction=contradicted_by.text() if contradicted_by else "",
                **{
                    name: Spread.known(bound[name] and bound[name] * each.figures["directions"] for each, bound in same)
                    for name in ("throughput_pps", "lower_pps", "upper_pps")
                },
            )
        )
    return ThroughputFound(
        bounds=tuple(bounds),
        preset=found[0]["preset"],
        trials=tuple(len(figures["steps"]) for figures in found),
        traffic_s=tuple(figures["traffic_s"] for figures in found),
        top_load_pps=median(figures["top_load_pps"] for figures in found) * found[0]["directions"],
        line_rate_bps=found[0]["line_rate_bps"],
    )


def _latency(found: Found, trials: Sequence[TrialRecord]) -> list[LatencyFound]:
    rows = []
    for index, load in enumerate(found[0]["loads"]):
        clause = f"RFC 2544 26.2 at {load['share']:.2f}"
        at_load = [trial for trial in trials if trial.clause == clause and trial.result]
        quiet = [trial for trial in at_load if trial.status == "ok"] or at_load
        sample = sample_of(quiet)
        sent = sum(trial.result.sent for trial in quiet if trial.result)
        lost = sum(trial.result.lost for trial in quiet if trial.result)
        rows.append(
            LatencyFound(
                share=load["share"],
                load_pps=median(figures["loads"][index]["load_pps"] for figures in found),
                achieved_pps=median(trial.result.achieved_pps for trial in quiet if trial.result) if quiet else None,
                trials=len(quiet),
                disturbed=len(at_load) - len([trial for trial in at_load if trial.status == "ok"]),
                samples=sample.arrived.count,
                loss_ratio=lost / sent if sent else None,
                p50_us=sample.percentile_us(50),
                p99_us=carried(quiet, 99, sample.percentile_us(99)),
                p999_us=carried(quiet, 99.9, sample.percentile_us(99.9)),
            )
        )
    return rows


def _loss_curve(found: Found, trials: Sequence[TrialRecord]) -> list[LossFound]:
    """Medians per step over all repetitions: one that ended after two steps without loss loses nothing below them."""
    steps = max((figures["points"] for figures in found), key=len)
    rows = []
    for index, step in enumerate(steps):
        same = [figures["points"][index] for figures in found if index < len(figures["points"])]
        ended = sum(bool(figures["two_without_loss"]) for figures in found if index >= len(figures["points"]))
        rows.append(
            LossFound(
                repetitions=len(same),
                load_pps=step["load_pps"],
                loss_ratio=median([*(point["loss_ratio"] for point in same), *[0.0] * ended]),
                **{name: median(point[name] for point in same) for name in ("unsent", "achieved_pps")},
            )
        )
    return rows


def _back_to_back(found: Found, trials: Sequence[TrialRecord]) -> BackToBackFound:
    names = ("average_frames", "burst_rate_pps", "implied_buffer_us", "corrected_buffer_us", "corrected_buffer_frames",
             "buffer_resolution_frames")  # fmt: skip
    return BackToBackFound(
        frames=tuple(length for figures in found for length in figures["frames"]),
        limited_by=tuple(sorted({figures["limited_by"] for figures in found})),
        reasons=_reasons(found),
        **_spreads(found, names),
    )


def _recovery(found: Found, trials: Sequence[TrialRecord]) -> RecoveryFound:
    names = ("recovery_us", "overload_pps", "relief_pps", "lost_in_overload", "resolution_us")
    overloaded = all(figures["overloaded"] for figures in found)
    return RecoveryFound(overloaded=overloaded, reasons=_reasons(found), **_spreads(found, names))


def _reasons(found: Found) -> tuple[str, ...]:
    """Why there is no figure, of the repetitions that have none."""
    return tuple(sorted({figures["reason"] for figures in found if figures.get("reason")}))


def _forwarding_rate(found: Found, trials: Sequence[TrialRecord]) -> ForwardingRateFound:
    names = ("forwarding_rate_pps", "offered_pps", "intended_pps")
    split = bimodal([figures["forwarding_rate_pps"] for figures in found])
    return ForwardingRateFound(
        overloaded=all(figures["overloaded"] for figures in found),
        bimodal_kpps=split.text(1000) if split else "",
        **_spreads(found, names),
    )


def _reset(found: Found, trials: Sequence[TrialRecord]) -> ResetFound:
    names = ("gap_us", "own_us", "reset_us", "lost", "load_pps", "resolution_us")
    came_back = all(figures["came_back"] for figures in found)
    return ResetFound(came_back=came_back, reasons=_reasons(found), **_spreads(found, names))


_MAKERS: dict[str, tuple[str, Callable[[Found, Sequence[TrialRecord]], Any]]] = {
    "RFC 2544 26.1": ("throughput", _throughput),
    "RFC 2544 26.2": ("latency", _latency),
    "RFC 2544 26.3": ("loss_curve", _loss_curve),
    "RFC 2544 26.4": ("back_to_back", _back_to_back),
    "RFC 2544 26.5": ("recovery", _recovery),
    "RFC 2544 26.6": ("reset", _reset),
    "RFC 2285 3.6.1": ("forwarding_rate", _forwarding_rate),
}
#: As suites and JSON have them.
CLAUSE_NAMES = frozenset(name for name, _ in _MAKERS.values())
