# SPDX-License-Identifier: Apache-2.0
"""The words of docs/glossary.md as frozen pydantic models: configuration in, results out."""

from xdplab.model.base import SCHEMA_VERSION, Model, Shown, plain, validated
from xdplab.model.calibration import Calibration
from xdplab.model.errors import (
    HostLost,
    InputError,
    Interrupted,
    JournalFailed,
    Missing,
    MissingProgram,
    PointFailed,
    Unsupported,
    XdplabError,
)
from xdplab.model.flow_figures import FlowFigures
from xdplab.model.forwarder import ForwarderSpec
from xdplab.model.inventory import HostSpec, PortSpec, SshAddress
from xdplab.model.method import MethodSpec
from xdplab.model.run import Environment, RunRecord
from xdplab.model.study import Path, Point, StudySpec
from xdplab.model.testbed import CpuLayout, TestbedSpec
from xdplab.model.traffic import TrafficSpec
from xdplab.model.trial import (
    Disturbance,
    DisturbanceRule,
    LatencySummary,
    StreamResult,
    StreamSpec,
    ThreadUse,
    TrialRecord,
    TrialResult,
    TrialSpec,
)
