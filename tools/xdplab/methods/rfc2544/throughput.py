# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 §26.1: the highest load without loss (NDR), and those with a tolerated loss (PDR), in one search."""

from xdplab.measure.method import Trials
from xdplab.measure.streams import load_streams
from xdplab.methods.rfc2544.bounds import Step
from xdplab.methods.rfc2544.scale import line_rate, top_load, trial_of
from xdplab.methods.rfc2544.search import SearchResult, search
from xdplab.methods.rfc2544.spec import Rfc2544Spec
from xdplab.model import TrafficSpec, TrialResult

CLAUSE = "RFC 2544 26.1"


def throughput(session: Trials, spec: Rfc2544Spec, traffic: TrafficSpec) -> SearchResult:
    """Search and journal the bounds. Loads are per direction, counts over all of them."""
    directions, tolerated = len(traffic.directions), min(spec.loss_ratios)

    def measure(load_pps: float, duration_s: float) -> Step:
        trial = trial_of(spec, load_streams(traffic, load_pps), duration_s)
        result = session.trial(trial, purpose="search", clause=CLAUSE, enough=lambda found: _carried(found, tolerated))
        return Step(
            load_pps=load_pps,
            duration_s=duration_s,
            offered_pps=result.achieved_pps / directions,
            sent=result.sent,
            lost=result.lost,
            stalled_ratio=result.stalled_share,
            disturbed=session.disturbed,
        )

    best = 0.0

    def progress(step: Step) -> None:
        nonlocal best
        if step.loss_ratio <= tolerated:
            best = max(best, step.offered_pps)
        known = f"at least {best / 1e3:.0f} kpps without loss" if best else "no trial without loss yet"
        sent = f" ({step.offered_pps / 1e3:.0f} kpps sent)" if step.short else ""
        session.progress(f"  {step.load_pps / 1e3:.0f} kpps{sent}: loss ratio {step.loss_ratio:.2e}; {known}")

    high = top_load(spec, traffic, session.ceiling_pps)
    found = search(
        spec.preset, sorted(spec.loss_ratios), min(spec.low_pps, high / 2), high, measure,
        budget_s=spec.budget_s, progress=progress,
    )  # fmt: skip
    session.found(
        CLAUSE,
        {
            **found.model_dump(mode="json"),
            "directions": directions,
            "top_load_pps": high,
            "line_rate_bps": line_rate(spec, traffic),
        },
    )
    return found


def _carried(result: TrialResult, tolerated: float) -> bool:
    """Such a trial needs no repetition however disturbed it was: the load was carried all the same."""
    return result.lost <= tolerated * result.sent
