# SPDX-License-Identifier: Apache-2.0
"""`xdplab bench-search`: how well each search preset finds what simulated boxes can do, beside plain bisection."""

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import get_args

import numpy as np

from xdplab.cli.tables import columns
from xdplab.forwarders.fake import KNEE_LOSS, Box, FakeForwarder
from xdplab.methods.search import Counts, search
from xdplab.model import CpuLayout, Model, PresetName, StreamSpec, TestbedSpec, TrialSpec
from xdplab.model import Path as Way
from xdplab.testbed import FakeTestbed
from xdplab.testers import TesterContext
from xdplab.testers.fake import TOP_PPS, FakeTester


@dataclass(frozen=True)
class Shape:
    """A box, the loss ratio that is searched for on it, and the load in pps that is right for it."""

    name: str
    box: Box
    loss_ratio: float
    truth_pps: float


_CAPACITY = 1.25e6
_KNEE = 0.05
SHAPES = (
    Shape("stall of 300 frames each 100 s", Box(stall_every_s=100, stall_frames=300), 0.0, _CAPACITY),
    Shape("stall of 300 frames each 10 s", Box(stall_every_s=10, stall_frames=300), 0.0, _CAPACITY),
    Shape("sender stalled for 3 % of each trial", Box(sender_stall_ratio=0.03), 0.0, _CAPACITY),
    Shape("capacity jitter of 2 %", Box(jitter_ratio=0.02), 0.0, _CAPACITY),
    Shape(
        "soft knee, PDR 0.1 %",
        Box(knee_ratio=_KNEE, stall_every_s=100),
        0.001,
        _CAPACITY * (1 + _KNEE * math.log(0.001 / KNEE_LOSS)),
    ),
    Shape("loss floor of 1e-4, PDR 0.1 %", Box(loss_floor=1e-4, stall_every_s=100), 0.001, _CAPACITY),
)


class Row(Model):
    """One preset on one shape. Errors and spread are ratios to the truth."""

    shape: str
    preset: str
    median_error: float
    p5: float
    p95: float
    traffic_s: float
    traffic_s_longest: float
    searches: int


def bench_search(searches: int, progress: Callable[[str], None] = lambda text: None) -> list[Row]:
    """Repeat each preset's search on each shape with seeds 0, 1, 2, ..."""
    rows = []
    for shape in SHAPES:
        for preset in get_args(PresetName):
            progress(f"{shape.name}: {preset}")
            found, traffic = [], []
            for seed in range(searches):
                result = search(preset, [shape.loss_ratio], 2000, TOP_PPS, measure_on(shape.box, seed))
                found.append((result.bounds[0].throughput_pps or 0.0) / shape.truth_pps)
                traffic.append(result.traffic_s)
            p5, p95 = (float(value) for value in np.percentile(found, [5, 95]))
            rows.append(
                Row(
                    shape=shape.name,
                    preset=preset,
                    median_error=median(found) - 1,
                    p5=p5,
                    p95=p95,
                    traffic_s=median(traffic),
                    traffic_s_longest=max(traffic),
                    searches=searches,
                )
            )
    return rows


def bench_table(rows: list[Row]) -> str:
    """The rows as text, with traffic time as a share of plain bisection's."""
    binary = {row.shape: row.traffic_s for row in rows if row.preset == "binary"}
    table = [["simulated box", "preset", "median error", "p5 to p95 of truth", "traffic s", "of binary's"]]
    table += [
        [
            row.shape,
            row.preset,
            f"{row.median_error:+.2%}",
            f"{row.p5:.3f} to {row.p95:.3f}",
            f"{row.traffic_s:.1f}",
            f"{row.traffic_s / binary[row.shape]:.1%}",
        ]
        for row in rows
    ]
    return columns(table)


def measure_on(box: Box, seed: int) -> Callable[[float, float], Counts]:
    """A trial on the fake tester; a new tester for each search, so that a seed gives one sequence of trials."""
    tester = FakeTester()
    ports = FakeTestbed(TestbedSpec(schema=1, name="bench", kind="fake")).tester_ports
    context = TesterContext(
        ports=ports(Way.THROUGH),
        layout=CpuLayout(tester_tx=0, forwarder=1),
        rx_program="none",
        workdir=Path(tempfile.gettempdir()),
        forwarder=FakeForwarder(box.model_copy(update={"seed": seed})),
    )

    def measure(load_pps: float, duration_s: float) -> Counts:
        stream = StreamSpec(kind="load", pps=load_pps, frame_bytes=64)
        result = tester.run(context, TrialSpec(streams=(stream,), duration_s=duration_s))
        return Counts(result.due, result.sent, result.streams[0].lost)

    return measure
