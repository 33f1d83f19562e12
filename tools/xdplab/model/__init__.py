# SPDX-License-Identifier: Apache-2.0
"""The words of docs/glossary.md as frozen pydantic models: configuration in, results out."""

from xdplab.model.base import (
    SCHEMA_VERSION as SCHEMA_VERSION,
    Model as Model,
    Shown as Shown,
    plain as plain,
    validated as validated,
)
from xdplab.model.calibration import Calibration as Calibration
from xdplab.model.disturbance import (
    Disturbance as Disturbance,
    ThreadUse as ThreadUse,
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
    Unsupported as Unsupported,
    XdplabError as XdplabError,
)
from xdplab.model.flow_figures import FlowFigures as FlowFigures
from xdplab.model.forwarder import ForwarderSpec as ForwarderSpec
from xdplab.model.headers import FlowSpec as FlowSpec
from xdplab.model.inventory import HostSpec as HostSpec, PortSpec as PortSpec, SshAddress as SshAddress
from xdplab.model.method import MethodSpec as MethodSpec
from xdplab.model.pipeline import Pipeline as Pipeline
from xdplab.model.programs import NamesProgram as NamesProgram
from xdplab.model.run import Environment as Environment, RunRecord as RunRecord
from xdplab.model.steps import Steps as Steps, do_each as do_each
from xdplab.model.study import Path as Path, Point as Point, StudySpec as StudySpec
from xdplab.model.testbed import CpuLayout as CpuLayout, TestbedSpec as TestbedSpec
from xdplab.model.traffic import TrafficSpec as TrafficSpec
from xdplab.model.trial import (
    LatencySummary as LatencySummary,
    StreamResult as StreamResult,
    StreamSpec as StreamSpec,
    TrialRecord as TrialRecord,
    TrialResult as TrialResult,
    TrialSpec as TrialSpec,
)
