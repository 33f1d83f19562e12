# SPDX-License-Identifier: Apache-2.0
"""The words of docs/glossary.md as frozen pydantic models: configuration in, results out."""

from xdplab.model.base import (
    SCHEMA_VERSION as SCHEMA_VERSION,
    Model as Model,
    Shown as Shown,
    plain as plain,
    validated as validated,
)
from xdplab.model.errors import (
    DoesNotCompile as DoesNotCompile,
    HostLost as HostLost,
    InputError as InputError,
    Interrupted as Interrupted,
    JournalFailed as JournalFailed,
    LinkLost as LinkLost,
    Missing as Missing,
    MissingProgram as MissingProgram,
    NothingMeasurable as NothingMeasurable,
    NotThere as NotThere,
    PointFailed as PointFailed,
    Steps as Steps,
    Unsupported as Unsupported,
    XdplabError as XdplabError,
    do_each as do_each,
)
from xdplab.model.pipeline import Pipeline as Pipeline
from xdplab.model.programs import NamesProgram as NamesProgram
from xdplab.model.run import Calibration as Calibration, Environment as Environment, RunRecord as RunRecord
from xdplab.model.study import (
    ForwarderSpec as ForwarderSpec,
    MethodSpec as MethodSpec,
    Path as Path,
    Point as Point,
    StudySpec as StudySpec,
)
from xdplab.model.testbed import (
    CpuLayout as CpuLayout,
    HostSpec as HostSpec,
    PortSpec as PortSpec,
    SshAddress as SshAddress,
    TestbedSpec as TestbedSpec,
)
from xdplab.model.traffic import FlowSpec as FlowSpec, TrafficSpec as TrafficSpec
from xdplab.model.trial import (
    Disturbance as Disturbance,
    FlowFigures as FlowFigures,
    LatencySummary as LatencySummary,
    StreamResult as StreamResult,
    StreamSpec as StreamSpec,
    ThreadUse as ThreadUse,
    TrialRecord as TrialRecord,
    TrialResult as TrialResult,
    TrialSpec as TrialSpec,
)
