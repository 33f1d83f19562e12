# SPDX-License-Identifier: Apache-2.0
"""What plug-ins, gates and notebooks import. Nothing else of xdplab is promised to stay where it is.

A plug-in subclasses `Forwarder`, `Tester`, `Knob` or `Method` and names its class in an entry point group of its own
package (`xdplab.forwarders`, `.testers`, `.knobs`, `.methods`); a gate or a notebook calls `load` or `measure`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from xdplab import app
from xdplab.analysis import compare_points
from xdplab.analysis.doubts import doubts_of_one
from xdplab.analysis.run import Run
from xdplab.forwarders import Dut, Forwarder
from xdplab.forwarders.base import (
    Counting,
    Explaining,
    NewFlows,
    OnePort,
    Probed,
    ProbeTarget,
    Receiving,
    RuleCounting,
    RuleHits,
    Stamping,
)
from xdplab.forwarders.changes import Change, Changing, Step
from xdplab.forwarders.fake import Box, FakeForwarder
from xdplab.forwarders.options import Key, arguments
from xdplab.forwarders.process import InstanceForwarder, Process
from xdplab.hosts.waiting import how_it_ended
from xdplab.knobs import Knob, KnobContext
from xdplab.measure import Column, CountedFigures, Figure, Method, MethodResult, PointFigures, Session, TrialFigures
from xdplab.measure.comparison import Answer, Comparison
from xdplab.measure.distribution import Distribution, distribution
from xdplab.measure.measured import Measured, RepetitionFigures
from xdplab.measure.point import PointSummary
from xdplab.measure.streams import load_streams, new_flow_streams, probe_streams
from xdplab.model import (
    InputError,
    LatencySummary,
    MethodSpec,
    Missing,
    Model,
    NamesProgram,
    Point,
    PointFailed,
    RunRecord,
    StreamResult,
    StreamSpec,
    StudySpec,
    TrafficSpec,
    TrialRecord,
    TrialResult,
    TrialSpec,
    Unsupported,
    XdplabError,
)
from xdplab.runner import Listener
from xdplab.testers import Tester, TesterContext
from xdplab.tools import project_root

__all__ = [
    "Answer",
    "Box",
    "Change",
    "Changing",
    "Column",
    "Comparison",
    "CountedFigures",
    "Counting",
    "Distribution",
    "Dut",
    "Explaining",
    "FakeForwarder",
    "Figure",
    "Forwarder",
    "InputError",
    "InstanceForwarder",
    "Key",
    "Knob",
    "KnobContext",
    "LatencySummary",
    "Listener",
    "Measured",
    "Method",
    "MethodResult",
    "MethodSpec",
    "Missing",
    "Model",
    "NamesProgram",
    "NewFlows",
    "OnePort",
    "Point",
    "PointFailed",
    "PointFigures",
    "PointSummary",
    "ProbeTarget",
    "Probed",
    "Process",
    "Receiving",
    "RepetitionFigures",
    "RuleCounting",
    "RuleHits",
    "Run",
    "RunRecord",
    "Session",
    "Stamping",
    "Step",
    "StreamResult",
    "StreamSpec",
    "StudySpec",
    "Tester",
    "TesterContext",
    "TrafficSpec",
    "TrialFigures",
    "TrialRecord",
    "TrialResult",
    "TrialSpec",
    "Unsupported",
    "XdplabError",
    "arguments",
    "compare_points",
    "distribution",
    "doubts_of_one",
    "how_it_ended",
    "load",
    "load_streams",
    "measure",
    "new_flow_streams",
    "points",
    "probe_streams",
    "project_root",
    "read_study",
]


read_study = app.read_study


def load(name: str | Path = "latest", results: Path | None = None) -> Run:
    """A run folder by its path, or by its name in the results folder.

    Raises:
        InputError: there is none, or another version wrote it.
    """
    return Run.named(str(name), results or app.results_folder())


def points(study: StudySpec, allowed_programs: Iterable[str] = ()) -> Sequence[Point]:
    """What a study comes to; nothing is run. `allowed_programs`: as for `measure`.

    Raises:
        InputError: something in it cannot be.
    """
    return app.prepare(study, allowed_programs).plan.points


def measure(
    study: StudySpec | Path,
    changes: dict[str, Any] | None = None,
    listener: Listener | None = None,
    allowed_programs: Iterable[str] = (),
) -> Run:
    """Execute a study into a new run folder, with some of its keys replaced.

    `allowed_programs`: what its options may name and start as root (`xdplab run --allow-program`).

    Raises:
        InputError: it is bad, or nothing could be measured.
        Missing: this machine has not got what all of it needs.
    """
    spec = study if isinstance(study, StudySpec) else app.read_study(study, changes)
    folder, outcome = app.run_study(app.prepare(spec, allowed_programs), listener or Listener(), app.results_folder())
    return Run.of(folder, outcome)
