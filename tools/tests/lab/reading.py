# SPDX-License-Identifier: Apache-2.0
"""Runs that no folder holds, read as others are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xdplab import report
from xdplab.analysis.run import Run
from xdplab.measure.point import PointSummary
from xdplab.model import RunRecord, TrialRecord


def a_run(
    record: RunRecord,
    points: Sequence[PointSummary] = (),
    name: str = "run",
    *,
    trials: Sequence[TrialRecord] = (),
    **known: Any,
) -> Run:
    """Of these points, whatever its trials were; `known`: other things that would be computed (`answer`, `sweeps`)."""
    run = Run(Path(name), record, trials)
    run.__dict__.update(points=list(points), **known)
    return run


def render(record: RunRecord, trials: Sequence[TrialRecord]) -> str:
    """The report of such a run."""
    return report.render(Run(Path(), record, list(trials)))
