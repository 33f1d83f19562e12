# SPDX-License-Identifier: Apache-2.0
"""`python tools/dev bench-search`: what RFC 2544's searches find on simulated boxes whose truth is known.

The methods are those of a run; only the box and the sender are simulated. Throughput: how well each search preset finds
the capacity, next to plain bisection. Back-to-back: how well the buffer is found.
"""

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any, get_args

import numpy as np

from xdplab.forwarders import Dut
from xdplab.forwarders.fake import KNEE_LOSS, Box, FakeForwarder
from xdplab.measure import TrialFigures
from xdplab.methods.rfc2544.clauses import back_to_back
from xdplab.methods.rfc2544.records import BurstsRecord, SearchResult
from xdplab.methods.rfc2544.search import throughput
from xdplab.methods.rfc2544.spec import PresetName, Rfc2544Spec
from xdplab.model import Model, Path as Way, TestbedSpec, TrafficSpec, TrialResult, TrialSpec
from xdplab.model.digits import columns
from xdplab.testbed import FakeTestbed
from xdplab.testers import TesterContext
from xdplab.testers.fake import FakeTester

#: What the tester is calibrated to send; a box may leave it less.
CEILING_PPS = 5e6


@dataclass(frozen=True)
class Shape:
    """A box, the loss ratio that is searched for on it, and the load in pps that is right for it."""

    name: str
    box: Box
    loss_ratio: float
    truth_pps: float


_CAPACITY, _ROUND = 1.25e6, 1.0e6
_KNEE = 0.05
#: Frames that a sender catches up with after a stall: none, or all it missed.
_KINDS = {"skips": 0, "catches up": 10**9}


def steady(**fields: Any) -> Box:
    """A box of 1 Mpps that is the same in each trial."""
    return Box(capacity_pps=_ROUND, jitter_ratio=0.0, **fields)


SHAPES = (
    Shape("stall of 300 frames each 100 s", Box(stall_every_s=100, stall_frames=300), 0.0, _CAPACITY),
    Shape("stall of 300 frames each 10 s", Box(stall_every_s=10, stall_frames=300), 0.0, _CAPACITY),
    Shape("capacity jitter of 2 %", Box(jitter_ratio=0.02), 0.0, _CAPACITY),
    Shape(
        "soft knee, PDR 0.1 %",
        Box(knee_ratio=_KNEE, stall_every_s=100),
        0.001,
        _CAPACITY * (1 + _KNEE * math.log(0.001 / KNEE_LOSS)),
    ),
    Shape("loss floor of 1e-4, PDR 0.1 %", Box(loss_floor=1e-4, stall_every_s=100), 0.001, _CAPACITY),
    Shape("sender never stalls", steady(), 0.0, _ROUND),
    *(
        Shape(
            f"sender stalls {share:.0%}, {kind}",
            steady(sender_stall_ratio=share, sender_catch_up_frames=frames),
            0.0,
            _ROUND,
        )
        for kind, frames in _KINDS.items()
        for share in (0.05, 0.1, 0.25)
    ),
)
BUFFER_FRAMES = 500
#: Rates in pps at which the bursts leave; the last one is below what the box forwards.
BURST_RATES = (5e6, 1.5e6, 1.2e6, 0.9e6)


class Row(Model):
    """One preset on one shape. Errors and spread are ratios to the truth."""

    shape: str
    preset: str
    median_error: float
    p5: float
    p95: float
    #: Who set the most of the results; where it is not the forwarder the figure is a lower limit.
    limited_by: str
    traffic_s: float
    searches: int


class BufferRow(Model):
    """A box of 1 Mpps with a buffer of `BUFFER_FRAMES`, its throughput searched first (RFC 9004 §5)."""

    top_pps: float
    burst_rate_pps: float | None
    longest_burst_frames: float
    buffer_frames: float | None
    resolution_frames: float | None
    reason: str


class Bench(Model):
    """All rows."""

    throughput: tuple[Row, ...]
    back_to_back: tuple[BufferRow, ...]


def bench_search(searches: int, progress: Callable[[str], None] = lambda text: None) -> Bench:
    """Repeat each preset's search on each shape with seeds 0, 1, 2, ...; then the searches for the buffer."""
    rows = []
    for shape in SHAPES:
        for preset in get_args(PresetName):
            progress(f"{shape.name}: {preset}")
            rows.append(_row(shape, preset, searches))
    return Bench(throughput=tuple(rows), back_to_back=tuple(map(bench_buffer, BURST_RATES)))


def _row(shape: Shape, preset: PresetName, searches: int) -> Row:
    # without chance one search is all of them
    seeds = range(searches) if shape.box.jitter_ratio else range(1)
    results = [search_on(shape.box.model_copy(update={"seed": n}), preset, shape.loss_ratio) for n in seeds]
    found = [(result.bounds[0].throughput_pps or 0.0) / shape.truth_pps for result in results]
    p5, p95 = (float(value) for value in np.percentile(found, [5, 95]))
    ((limited_by, _),) = Counter(result.bounds[0].limited_by for result in results).most_common(1)
    return Row(
        shape=shape.name,
        preset=preset,
        median_error=median(found) - 1,
        p5=p5,
        p95=p95,
        limited_by=limited_by,
        traffic_s=median(result.traffic_s for result in results),
        searches=len(results),
    )


def search_on(box: Box, preset: PresetName = "quick", loss_ratio: float = 0.0) -> SearchResult:
    """The throughput of a simulated box."""
    spec = Rfc2544Spec(name="throughput", preset=preset, loss_ratios=(loss_ratio,))
    return throughput(SimulatedSession(box), spec, TrafficSpec())


def bench_buffer(top_pps: float) -> BufferRow:
    """What back-to-back finds where bursts leave at `top_pps`."""
    session = SimulatedSession(steady(buffer_frames=BUFFER_FRAMES, tester_top_pps=top_pps))
    spec, traffic = Rfc2544Spec(name="back-to-back", preset="rfc2544", loss_ratios=(0.0,)), TrafficSpec()
    back_to_back(session, spec, traffic, throughput(session, spec, traffic).bounds[0])
    found = session.figures[BurstsRecord.clause]
    assert isinstance(found, BurstsRecord)
    return BufferRow(
        top_pps=top_pps,
        burst_rate_pps=found.burst_rate_pps,
        longest_burst_frames=found.average_frames,
        buffer_frames=found.corrected_buffer_frames,
        resolution_frames=found.buffer_resolution_frames,
        reason=found.reason,
    )


class SimulatedSession:
    """The session of a simulated box. Each has a tester of its own, so that a seed gives one sequence of trials."""

    ceiling_pps = CEILING_PPS
    disturbed = False
    sender_full = False
    cannot: Mapping[str, str] = MappingProxyType({})

    def __init__(self, box: Box) -> None:
        self.figures: dict[str, TrialFigures] = {}
        self._tester = FakeTester()
        testbed = FakeTestbed(TestbedSpec(schema=1, name="bench", kind="fake"))
        folder = Path(tempfile.gettempdir())
        self.forwarder = FakeForwarder(box)
        self.dut = Dut(testbed.dut, (), Way.THROUGH, testbed.layout, folder)
        self._context = TesterContext(
            ports=testbed.tester_ports(Way.THROUGH),
            layout=testbed.layout,
            rx_program="none",
            workdir=folder,
            forwarder=self.forwarder,
        )

    def trial(
        self,
        spec: TrialSpec,
        purpose: str = "measure",
        clause: str = "",
        restart_after_s: float | None = None,
        enough: Any = None,
    ) -> TrialResult:
        return self._tester.run(self._context, spec)

    def record_figures(self, clause: str, figures: TrialFigures) -> None:
        self.figures[clause] = figures

    def progress(self, text: str) -> None:
        """Say nothing."""


def bench_table(bench: Bench) -> str:
    """The rows as text, with traffic time as a share of plain bisection's."""
    binary = {row.shape: row.traffic_s for row in bench.throughput if row.preset == "binary"}
    searched = [
        ["simulated box", "preset", "median error", "p5 to p95 of truth", "limited by", "traffic s", "of binary's"]
    ]
    for row in bench.throughput:
        figures = [f"{row.median_error:+.2%}", f"{row.p5:.3f} to {row.p95:.3f}", "forwarder"]
        if row.limited_by != "forwarder":
            words = "below the lowest load" if row.limited_by == "below-minimum" else f"at least {row.p5:.3f}"
            figures = ["-", words, row.limited_by]
        share = f"{row.traffic_s / binary[row.shape]:.1%}"
        searched.append([row.shape, row.preset, *figures, f"{row.traffic_s:.1f}", share])
    buffers = [["bursts at most at", "left at", "longest burst", f"buffer (is {BUFFER_FRAMES})", ""]]
    for each in bench.back_to_back:
        known = each.buffer_frames is not None and each.resolution_frames is not None
        buffer = f"{each.buffer_frames:.0f} ± {each.resolution_frames:.0f}" if known else "-"
        left = f"{each.burst_rate_pps / 1e6:.3f} Mpps" if each.burst_rate_pps else "-"
        buffers.append(
            [f"{each.top_pps / 1e6:.1f} Mpps", left, f"{each.longest_burst_frames:.0f} frames", buffer, each.reason]
        )
    return f"{columns(searched)}\n\nBack-to-back, a box of 1 Mpps:\n{columns(buffers)}"
