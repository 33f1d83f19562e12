# SPDX-License-Identifier: Apache-2.0
"""Runs of socket studies made by hand, for everything that reads them."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.records import LAYOUT, encoded, environment
from xdplab.model import TestbedSpec
from xdplab.model.sockets import SocketRunRecord, SocketStudy, SocketTrial, StageSummary
from xdplab.results import SocketFolder, new_run

STUDY: dict[str, Any] = {"schema": 1, "name": "s", "workloads": ["rxdrop"], "cases": [{"title": "one"}]}


def trial(pps: float | None = 1e6, **more: Any) -> SocketTrial:
    """A trial of `rxdrop: one`."""
    given = {"workload": "rxdrop", "case": "one", "repetition": 0, "status": "ok", "started": "now", "pps": pps}
    mode = {"xdp": {"b0": {"mode": "native"}}, "xsk": [{"zero_copy": False}]}
    return SocketTrial.model_validate({**given, "mode": mode, **more})


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


def staged(values: Sequence[int], **more: Any) -> SocketTrial:
    """A trial of `stages: one` at 1000 pps, each stage of which took these ns."""
    stages = dict.fromkeys(("driver", "stack", "complete"), stage(values))
    return trial(**{"workload": "stages", "rate_pps": 1000.0, "stages": stages, **more})


def record(study: dict[str, Any] | None = None, **fields: Any) -> SocketRunRecord:
    """The head of a run."""
    given: dict[str, Any] = {
        "run_id": "s-1",
        "started": "2026-01-02T03:04:05+00:00",
        "study": SocketStudy.model_validate({**STUDY, **(study or {})}),
        "testbed": TestbedSpec(name="t", kind="embedded"),
        "layout": LAYOUT,
        "environment": environment(),
        "kernel_version": "#1 SMP PREEMPT_DYNAMIC",
    }
    return SocketRunRecord(**{**given, **fields})


def store(
    results: Path, trials: Sequence[SocketTrial], study: dict[str, Any] | None = None, **fields: Any
) -> SocketFolder:
    """A run folder with these trials."""
    folder = SocketFolder(new_run(results, "s").path)
    folder.head(record(study, run_id=folder.path.name, **fields))
    for each in trials:
        folder.append(each)
    return folder
