# SPDX-License-Identifier: Apache-2.0
"""What plug-ins, gates and notebooks import. Nothing else of xdplab is promised to stay where it is.

A plug-in subclasses `Forwarder`, `Tester`, `Knob` or `Method` and names its class in an entry point group of its own
package (`xdplab.forwarders`, `.testers`, `.knobs`, `.methods`); a command is a function with typer's annotations
(`xdplab.commands`), the judge of `xdplab gate --cost` one that returns a `GateResult` (`xdplab.gates`). A gate or a
notebook calls `load` or `measure`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from xdplab import __version__ as __version__, app
from xdplab.analysis.answers.answer import answer_by as answer_by, headline as headline
from xdplab.analysis.answers.ranking import Contender as Contender
from xdplab.analysis.columns import (
    LOAD_COLUMNS as LOAD_COLUMNS,
    figure_column as figure_column,
    range_columns as range_columns,
)
from xdplab.analysis.compare import compare_points as compare_points, corrected as corrected
from xdplab.analysis.doubts import doubts_of_one as doubts_of_one
from xdplab.analysis.gate import GateResult as GateResult, LayerChange as LayerChange, Side, verdict_of as verdict_of
from xdplab.analysis.run import Run as Run
from xdplab.analysis.sweep import (
    MAX_LOSS as MAX_LOSS,
    Configuration as Configuration,
    Factor as Factor,
    Importance as Importance,
    SweepAnalysis as SweepAnalysis,
    Table as Table,
    analyse_sweep as analyse_sweep,
)
from xdplab.analysis.sweep.effects import response as response
from xdplab.analysis.sweep.table import RESOLUTION as RESOLUTION, log_features as log_features, lossy as lossy, tables
from xdplab.analysis.words import (
    NEVER_PAIRED as NEVER_PAIRED,
    listed as listed,
    ratio_text as ratio_text,
    verdict,
)
from xdplab.forwarders import (
    Dut as Dut,
    Forwarder as Forwarder,
    forwarder_spec as forwarder_spec,
    make_forwarder as make_forwarder,
    plain_name as plain_name,
)
from xdplab.forwarders.base import (
    Counting as Counting,
    Explaining as Explaining,
    NewFlows as NewFlows,
    OnePort as OnePort,
    Probed as Probed,
    ProbeTarget as ProbeTarget,
    Receiving as Receiving,
    RuleCounting as RuleCounting,
    RuleHits as RuleHits,
    Stamping as Stamping,
    frames_received as frames_received,
    in_role as in_role,
    mode_in_use as mode_in_use,
    mode_name as mode_name,
    probes_of as probes_of,
)
from xdplab.forwarders.changes import (
    FIRST_FRAME as FIRST_FRAME,
    KINDS,
    MOST_RULES as MOST_RULES,
    Change as Change,
    Changing as Changing,
    Kind,
    Step as Step,
    cannot_change as cannot_change,
)
from xdplab.forwarders.fake import Box as Box, FakeForwarder as FakeForwarder
from xdplab.forwarders.options import Key as Key, arguments as arguments
from xdplab.forwarders.process import (
    EventProcess as EventProcess,
    Instance as Instance,
    InstanceForwarder as InstanceForwarder,
    Process as Process,
)
from xdplab.forwarders.vpp.process import rendered
from xdplab.forwarders.work import prefixes, sides
from xdplab.forwarders.xsk.forwarder import XskForwarder as XskForwarder, XskOptions as XskOptions, XskRole as XskRole
from xdplab.hosts import (
    Completed as Completed,
    Conversation as Conversation,
    Host as Host,
    LocalHost as LocalHost,
    Running as Running,
)
from xdplab.hosts.bpf import built, why_not_built as why_not_built
from xdplab.hosts.kernel import (
    CpuUse as CpuUse,
    cpu_model as cpu_model,
    cpu_use as cpu_use,
    is_veth as is_veth,
    link_counters as link_counters,
    link_mtu as link_mtu,
    napi_on as napi_on,
)
from xdplab.hosts.waiting import how_it_ended as how_it_ended, wait_until as wait_until
from xdplab.knobs import Knob as Knob, KnobContext as KnobContext
from xdplab.knobs.base import PortFileKnob as PortFileKnob, ValueKnob as ValueKnob
from xdplab.measure import (
    Column as Column,
    CountedFigures as CountedFigures,
    Figure as Figure,
    Method as Method,
    MethodResult as MethodResult,
    PointFigures as PointFigures,
    Session as Session,
    TrialFigures as TrialFigures,
)
from xdplab.measure.comparison import MAX_WORDS as MAX_WORDS, Answer as Answer, Comparison as Comparison
from xdplab.measure.distribution import (
    Distribution as Distribution,
    carried_by as carried_by,
    distribution as distribution,
    if_enough_samples as if_enough_samples,
)
from xdplab.measure.figure import P50 as P50, P99 as P99
from xdplab.measure.measured import (
    Measured as Measured,
    RepetitionFigures as RepetitionFigures,
    known_median as known_median,
)
from xdplab.measure.method import Part as Part, untested as untested
from xdplab.measure.page import Page as Page, Section as Section
from xdplab.measure.point import PointSummary as PointSummary
from xdplab.measure.streams import (
    load_streams as load_streams,
    new_flow_streams as new_flow_streams,
    probe_streams as probe_streams,
)
from xdplab.methods.counting import (
    DRAIN_S as DRAIN_S,
    MPPS as MPPS,
    UNDER_WAY_S as UNDER_WAY_S,
    CountingMethod as CountingMethod,
    Curve as Curve,
    RateRecord as RateRecord,
    Rung as Rung,
    counting_trials as counting_trials,
)
from xdplab.model import (
    CpuLayout as CpuLayout,
    DoesNotCompile as DoesNotCompile,
    ForwarderSpec as ForwarderSpec,
    InputError as InputError,
    Interrupted as Interrupted,
    LatencySummary as LatencySummary,
    MethodSpec as MethodSpec,
    Missing as Missing,
    Model as Model,
    NamesProgram as NamesProgram,
    Path as _PortsPath,
    Point as Point,
    PointFailed as PointFailed,
    RunRecord as RunRecord,
    Shown as Shown,
    StreamResult as StreamResult,
    StreamSpec as StreamSpec,
    StudySpec as StudySpec,
    TrafficSpec as TrafficSpec,
    TrialRecord as TrialRecord,
    TrialResult as TrialResult,
    TrialSpec as TrialSpec,
    Unsupported as Unsupported,
    XdplabError as XdplabError,
    validated as validated,
)
from xdplab.model.base import Amount as Amount, Count as Count, Distinct as Distinct
from xdplab.model.design import TESTER as TESTER, same_level as same_level
from xdplab.model.digits import (
    columns,
    number as number,
    number_of as number_of,
    percent as percent,
    significant as significant,
    spreadsheet_row as spreadsheet_row,
)
from xdplab.model.histogram import Histogram as Histogram
from xdplab.model.pipeline import UNCHANGING as UNCHANGING
from xdplab.model.plugins import need as need
from xdplab.model.published import (
    NfMode as NfMode,
    Published as Published,
    PublishedCluster as PublishedCluster,
    PublishedTable as PublishedTable,
    Stage,
    published as published,
    published_table as published_table,
)
from xdplab.model.study import Names as Names, Scalar as Scalar
from xdplab.model.trial import BY_APPLICATIONS as BY_APPLICATIONS
from xdplab.report.chart import (
    Axis as Axis,
    Chart as Chart,
    InRow as InRow,
    distribution_chart as distribution_chart,
    row_chart as row_chart,
)
from xdplab.report.exports import metric
from xdplab.report.pictures import rate_chart as rate_chart
from xdplab.results import trials_by_point as trials_by_point
from xdplab.runner import Listener as Listener
from xdplab.stats import (
    MIN_ROUNDS as MIN_ROUNDS,
    Difference as Difference,
    Interval as Interval,
    difference_interval as difference_interval,
    ratio_interval as ratio_interval,
)
from xdplab.testbed import Port as Port
from xdplab.testbed.port_settings import features
from xdplab.testers import Tester as Tester, TesterContext as TesterContext, make_tester as make_tester
from xdplab.testers.base import RxChoice as RxChoice
from xdplab.tools import (
    cache_folder as cache_folder,
    checkout as checkout,
    project_root as project_root,
    setup_command as setup_command,
)

read_study = app.read_study
#: A part of a frame's way that documents have times of.
PublishedStage = Stage
#: What a comparison says of two forwarders.
comparison_verdict = verdict
#: Of a sweep, one table for each path and traffic profile.
sweep_tables = tables
#: Rows as text, the first column to the left.
text_table = columns
#: Which way frames take through a forwarder: `through`, `hairpin`, `reflect`.
PortsPath = _PortsPath
#: A change that a forwarder may carry out under load, and all of them.
ChangeKind = Kind
CHANGE_KINDS = KINDS
#: BASE or NEW of a `GateResult`.
GateSide = Side
#: VPP's configuration from a template of `vpp/`.
vpp_configuration = rendered
#: Path of a program of `bpf/` on a host.
bpf_program = built
#: Offloads of an interface that can be changed -> `on` or `off`.
port_offloads = features
#: Of a pipeline that routes: the tester's side of the switch and the other, and the prefixes that lead to one of them.
pipeline_sides, pipeline_prefixes = sides, prefixes
#: A value with its bounds, as Bencher's metric format has it.
bencher_metric = metric


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
        Interrupted: by a signal, before anything was measured; no `XdplabError`, nor an `Exception`.
    """
    spec = study if isinstance(study, StudySpec) else app.read_study(study, changes)
    folder, outcome = app.run_study(app.prepare(spec, allowed_programs), listener or Listener(), app.results_folder())
    return Run.of(folder, outcome)
