# SPDX-License-Identifier: Apache-2.0
"""Two forwarders with planted repetitions, and what is said of them."""

import math
from collections.abc import Sequence
from typing import Any

from lab.records import point, run_record, trial
from xdplab.analysis import answer, summarise
from xdplab.measure import LimitedBy, Measured, RepetitionFigures
from xdplab.measure.comparison import Answer, Comparison
from xdplab.measure.point import PointSummary
from xdplab.model import Point, TrialRecord
from xdplab.stats import Interval

OURS, THEIRS = point("ovs-afxdp"), point("ovs-afpacket")
#: Five repetitions that differ by a percent or two.
NOISE = (1.0, 1.012, 0.991, 1.02, 0.985)
LATENCY = {"method": {"name": "latency"}}


def measured(at: Point, us: float, *, frames: int = 200, **fields: Any) -> list[TrialRecord]:
    """A trial for each repetition, all frames about as fast."""
    return [trial(at, n, [round(us * 1000 * noise)] * frames, **fields) for n, noise in enumerate(NOISE)]


def asked(*trials: TrialRecord, **study: Any) -> tuple[Answer, list[PointSummary]]:
    run = run_record(OURS, THEIRS, study={**LATENCY, "repetitions": 5, **study})
    summaries = summarise(run, trials)
    return answer(run, summaries, trials), summaries


def searched(
    summary: PointSummary, values: Sequence[float | None], limited: LimitedBy = "forwarder", **known: Any
) -> PointSummary:
    """A summary with these throughputs without loss; `known`: what else a `Measured` says, or its repetition."""
    own = {key: known.pop(key) for key in [*known] if key in Measured.model_fields}
    if limited in ("tester", "budget"):
        own = {"high": math.inf, **own}
    if limited == "below-minimum":
        own = {"low": 0.0, "high": 2e3, **own}
    first = summary.by_repetition[0]
    repetitions = tuple(
        first.model_copy(
            update={
                "repetition": n,
                "figures": {**first.figures, "ndr_pps": Measured(value=value, limited_by=limited, **own)},
                **known,
            }
        )
        for n, value in enumerate(values)
    )
    return with_repetitions(summary, repetitions)


def with_repetitions(summary: PointSummary, repetitions: Sequence[RepetitionFigures]) -> PointSummary:
    keys = dict.fromkeys(key for one in repetitions for key in one.figures)
    known = {key: Measured.over([one.figures[key] for one in repetitions if key in one.figures]) for key in keys}
    return summary.model_copy(
        update={
            "by_repetition": tuple(repetitions),
            "measured": known,
            "repetitions": len(repetitions),
        }
    )


def ratio(found: Comparison | None) -> Interval:
    """Of a comparison that has one."""
    assert found is not None
    assert found.interval is not None
    return found.interval


RATE = [1.0e6, 1.01e6, 0.99e6, 1.02e6, 1.0e6]


def two() -> tuple[PointSummary, PointSummary]:
    _, (ours, theirs) = asked(trial(OURS, 0), trial(THEIRS, 0))
    return ours, theirs
