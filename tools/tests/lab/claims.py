# SPDX-License-Identifier: Apache-2.0
"""Two forwarders with planted repetitions, and what is said of them."""

from collections.abc import Sequence
from typing import Any

from lab.records import point, run_record, trial
from xdplab.analysis import answer, summarise
from xdplab.measure import LimitedBy
from xdplab.measure.comparison import Answer
from xdplab.measure.point import PointSummary
from xdplab.model import Point, TrialRecord

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


def searched(summary: PointSummary, values: Sequence[float], limited: LimitedBy = "forwarder", **fields: Any) -> Any:
    """A summary with these throughputs without loss."""
    figures = tuple(
        summary.by_repetition[0].model_copy(
            update={
                "repetition": n,
                "values": {**summary.by_repetition[0].values, "ndr_pps": value},
                "limited_by": {"ndr_pps": limited},
                **fields,
            }
        )
        for n, value in enumerate(values)
    )
    return summary.model_copy(update={"by_repetition": figures, "repetitions": len(figures), "clean": len(figures)})


RATE = [1.0e6, 1.01e6, 0.99e6, 1.02e6, 1.0e6]


def two() -> tuple[PointSummary, PointSummary]:
    _, (ours, theirs) = asked(trial(OURS, 0), trial(THEIRS, 0))
    return ours, theirs
