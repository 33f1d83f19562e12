# SPDX-License-Identifier: Apache-2.0
"""Experiments on one socket, before there is a switch: what a program does at one port of the middle host."""

from typing import Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from xdplab.model.base import SCHEMA_VERSION, Model, Shown
from xdplab.model.functions import KEEP_ADDRESSES, NfMatrix, NfMode, NfPoint
from xdplab.model.histogram import Histogram
from xdplab.model.inventory import Name
from xdplab.model.run import Environment
from xdplab.model.study import Scalar
from xdplab.model.testbed import CpuLayout, TestbedSpec
from xdplab.model.trial import DisturbanceRule

#: rxdrop: receive and drop; txonly: send one frame as fast as possible; l2fwd: send back with addresses swapped;
#: stages: when a frame is where, from the wire to the application. Of network functions: what becomes of the traffic
#: (dropped, pass-through, mixed: a share is dropped; local: requests to a memcached on the same
#: machine); web, job: what an nginx or a computing job on its core does while the firewall drops a flood.
Workload = Literal["rxdrop", "txonly", "l2fwd", "stages", "dropped", "pass-through", "mixed", "local", "web", "job"]
Stage = Literal["driver", "stack", "complete"]


class SocketCase(Model):
    """A program and its options."""

    title: Shown
    program: Literal["xsk", "testpmd", "xdpsock", "nf"] = "xsk"
    options: dict[str, Scalar] = {}
    #: Of program `nf`, made from the study's `network_functions`.
    function: NfPoint | None = None
    #: A sentence that stands beside its figures.
    note: Shown = ""
    #: Workloads that it takes part in; none given: all of the study.
    workloads: tuple[Workload, ...] = ()


class Published(Model):
    """Figures of the document that a study reproduces, printed beside ours and never compared by a test."""

    source: Shown
    setup: Shown = ""
    #: Workload -> what the figure is called -> Mpps.
    mpps: dict[Workload, dict[Shown, float]] = {}
    #: Workload -> network function -> mode -> Mpps.
    modes_mpps: dict[Workload, dict[Shown, dict[NfMode, float]]] = {}
    #: What the authors found, in words.
    finding: Shown = ""
    #: Row's title -> stage -> (min, max, peak to peak, mean, RMS) in us.
    stages_us: dict[Shown, dict[Stage, tuple[float, float, float, float, float]]] = {}


class SocketStudy(Model):
    """A file of `suites/studies/sockets`: workloads x cases (x rates)."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: Name
    title: Shown = ""
    testbed: str = "embedded"
    workloads: tuple[Workload, ...] = Field(min_length=1)
    cases: tuple[SocketCase, ...] = ()
    network_functions: NfMatrix | None = None
    #: Settings of the forwarder's machine and ports for all cells (`cpu_layout`, `ddio_ways` ...).
    knobs: dict[str, Scalar] = {}
    #: Frames per second of workload `stages`.
    rates_pps: tuple[float, ...] = (1000.0,)
    frame_bytes: int = Field(default=64, ge=64, le=1518)
    duration_s: float = Field(default=1.0, ge=0.05, le=3600)
    warmup_s: float = Field(default=0.2, ge=0, le=60)
    repetitions: int = Field(default=5, ge=1, le=1000)
    seed: int = 1
    disturbance: DisturbanceRule = DisturbanceRule()
    published: Published | None = None

    @field_validator("rates_pps")
    @classmethod
    def _rates(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not value or not all(0.1 <= rate <= 1e6 for rate in value):
            raise ValueError("should be rates from 0.1 to 1000000")
        return value

    @model_validator(mode="after")
    def _something_to_do(self) -> "SocketStudy":
        if not self.cases and self.network_functions is None:
            raise ValueError("cases: there are none, and no network_functions")
        return self

    @property
    def notes(self) -> dict[str, str]:
        """Case -> the sentence that stands beside its figures."""
        return {case.title: case.note for case in self.cases if case.note}

    def all_cases(self) -> tuple[SocketCase, ...]:
        """Those given, and those of the network functions."""
        if self.network_functions is None:
            return self.cases
        made = []
        for point in self.network_functions.points():
            if "firewall" not in point.functions[:-1]:
                local: tuple[Workload, ...] = ("local",) if KEEP_ADDRESSES.issuperset(point.functions) else ()
                traffic: tuple[Workload, ...] = ("dropped", "pass-through", *local)
                made.append(SocketCase(title=point.title, program="nf", function=point, workloads=traffic))
                if point.functions == ("firewall",):
                    made += self._flooded(point)
                continue
            for share in self.network_functions.drop_percents:  # what the firewall lets through goes on
                mixed = point.model_copy(update={"drop_percent": share, "group": f"{point.group}, {share} % dropped"})
                made.append(SocketCase(title=mixed.title, program="nf", function=mixed, workloads=("mixed",)))
        return self.cases + tuple(made)

    def _flooded(self, point: NfPoint) -> list[SocketCase]:
        assert self.network_functions is not None
        changed = [
            point.model_copy(update={"flood_pps": pps, "group": f"{point.group} beside {pps:.0f} pps"})
            for pps in self.network_functions.flood_pps
        ]
        return [SocketCase(title=p.title, program="nf", function=p, workloads=("web", "job")) for p in changed]

    @model_validator(mode="after")
    def _titles_differ(self) -> "SocketStudy":
        if len({case.title for case in self.cases}) < len(self.cases):
            raise ValueError("cases: a title is there twice")
        return self


class StageSummary(Model):
    """One stage of one trial, in ns; `rms_ns` is about the mean."""

    count: int = Field(ge=1)
    min_ns: int
    max_ns: int
    mean_ns: float
    rms_ns: float
    hdr: Histogram


class SocketTrial(Model):
    """One line of trials.jsonl."""

    schema_version: int = SCHEMA_VERSION
    workload: Workload
    case: Shown
    rate_pps: float | None = None
    repetition: int
    status: Literal["ok", "disturbed", "failed", "unsupported"]
    reason: Shown = ""
    started: Shown
    #: The cell's wall time, and how much of that the traffic asked for took; 0: in journals before these fields.
    visit_s: float = 0.0
    traffic_s: float = 0.0
    pps: float | None = None
    #: What the tester sent meanwhile; None: it sent nothing, or in journals before this field.
    sent_pps: float | None = None
    #: Of workloads `local`, `web` (requests/s) and `job` (s per round).
    figure: float | None = None
    unit: Shown = ""
    stages: dict[Stage, StageSummary] = {}
    #: Frames with a time stamp of the NIC, of this machine only, or none.
    stamps: dict[str, int] = {}
    mode: dict[str, Any] = {}
    counters: dict[str, Any] = {}

    @field_validator("stages")
    @classmethod
    def _all_or_none(cls, value: dict[Stage, StageSummary]) -> dict[Stage, StageSummary]:
        if value and set(value) != set(get_args(Stage)):
            raise ValueError(f"should hold {', '.join(get_args(Stage))}")
        return value


class SocketRunRecord(Model):
    """run.json of such a run."""

    schema_version: int = SCHEMA_VERSION
    kind: Literal["sockets"] = "sockets"
    run_id: Shown
    started: Shown
    study: SocketStudy
    testbed: TestbedSpec
    layout: CpuLayout
    environment: Environment
    #: PREEMPT_RT or not, as the kernel calls itself (uname -v).
    kernel_version: Shown
    interrupted: bool = False
