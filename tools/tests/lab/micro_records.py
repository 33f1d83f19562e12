# SPDX-License-Identifier: Apache-2.0
"""Runs of micro-benchmarks made by hand, for everything that reads them."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.records import encoded, result, run_record, stream
from xdplab import app
from xdplab.model import Point, RunRecord, StudySpec, TrialRecord, validated
from xdplab.results import RunFolder, new_run
from xdplab_timeline.stages import StageSummary

MODE = {"xdp": {"b0": {"mode": "native"}}, "xsk": [{"zero_copy": False}]}


def study(cases: Sequence[str] = ("one",), **changes: Any) -> dict[str, Any]:
    """Of forwarders `xsk` with these labels."""
    forwarders = [{"name": "xsk", "label": title} for title in cases]
    return {"schema": 1, "name": "s", "forwarders": forwarders, "method": {"name": "micro"}, **changes}


def functions(**matrix: Any) -> dict[str, Any]:
    given = {"name": "functions", "functions": ["macswap"], "modes": ["xdp", "af_xdp"], **matrix}
    return {"schema": 1, "name": "s", "method": given}


def points_of(spec: Mapping[str, Any]) -> tuple[Point, ...]:
    """All of a study, in its order."""
    return app.prepare(validated(StudySpec, spec, "study")).plan.points


def point(spec: Mapping[str, Any], case: str, **levels: Any) -> Point:
    """The one of that title, or the first, at that workload, traffic or rate."""
    found = [each for each in points_of(spec) if each.forwarder.title == case and levels.items() <= each.levels.items()]
    return found[0]


def trial(
    at: Point, pps: float | None = 1e6, *, repetition: int = 0, sent_pps: float | None = None, **more: Any
) -> TrialRecord:
    """A rate that was counted; without one there is no result. `sent_pps`: the tester was the limit."""
    figures: dict[str, Any] = {}
    if pps is not None:
        figures = {"text": f"{pps / 1e6:.3f} Mpps", "mpps": pps / 1e6, "sent_pps": sent_pps, "limited": bool(sent_pps)}
    return record(at, figures, repetition=repetition, **more)


def record(at: Point, figures: Mapping[str, Any], **more: Any) -> TrialRecord:
    measured = {"result": result(stream([], sent=7)), "mode": MODE} if figures else {}
    given = {"point_id": at.id, "repetition": 0, "status": "ok", "started": "2026-01-02T03:04:05.678+00:00", **measured}
    return TrialRecord.model_validate({**given, "figures": dict(figures), **more})


def stage(values: Sequence[int]) -> StageSummary:
    """A stage in which frames took these ns."""
    return StageSummary(
        count=len(values),
        min_ns=min(values),
        max_ns=max(values),
        mean_ns=statistics.fmean(values),
        rms_ns=statistics.pstdev(values),
        hdr=encoded(values),
    )


def staged(at: Point, values: Sequence[int], **more: Any) -> TrialRecord:
    """A trial each stage of which took these ns."""
    stages = dict.fromkeys(("driver", "stack", "complete"), stage(values).model_dump(mode="json"))
    stamps = {"hardware": 0, "software": len(values), "unstamped": 0}
    return record(at, {"text": "some us", "stages": stages, "stamps": stamps}, **more)


def run(spec: Mapping[str, Any], **fields: Any) -> RunRecord:
    """The head of a run of a study."""
    made = run_record(*points_of(spec), **fields)
    return made.model_copy(update={"study": validated(StudySpec, spec, "study")})


def store(results: Path, spec: Mapping[str, Any], trials: Sequence[TrialRecord], **fields: Any) -> RunFolder:
    """A run folder with these trials."""
    folder = new_run(results, "s")
    folder.head(run(spec, run_id=folder.name, **fields))
    for each in trials:
        folder.append(each)
    return folder
