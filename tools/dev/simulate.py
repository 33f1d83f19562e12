# SPDX-License-Identifier: Apache-2.0
"""Runs made up from Tables I and II of the delay study, for judging the analysis: the truth is known.

Each configuration belongs to the cluster of the first of its NIC's rules that it meets. Its own mean is drawn around
the cluster's mean with `between` times the cluster's standard deviation; its latencies are lognormal with the rest, so
that all latencies of a cluster have the mean and standard deviation of the table.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdplab.model import (
    CpuLayout,
    Environment,
    ForwarderSpec,
    LatencySummary,
    Path,
    Point,
    RunRecord,
    StreamResult,
    StudySpec,
    TestbedSpec,
    TrafficSpec,
    TrialRecord,
    TrialResult,
)
from xdplab.model.histogram import histogram_of

#: Settings of the study, each off and on.
FACTORS = (
    "zero_copy", "busy_poll", "need_wakeup", "poll_receiver", "poll_forwarder", "c_state", "coalesce_rx", "coalesce_tx",
)  # fmt: skip
#: Settings of which the study says that they do nothing.
INSIGNIFICANT = ("c_state", "coalesce_rx", "coalesce_tx")
#: Of each NIC: mean and standard deviation of its clusters in us, by the table.
CLUSTERS = {
    "mlx5": (
        (10.06, 1.85),
        (30.51, 5.16),
        (64.57, 10.09),
        (76.93, 3.18),
        (89.69, 7.56),
        (127.41, 6.66),
        (167.25, 17.274),
    ),
    "i40e": ((13.36, 1.90), (70.00, 6.17), (124.57, 8.29), (139.86, 36.91), (153.45, 38.09)),
}
#: Latency of configurations that wait for the next probe, one second later.
_WAITING_US = (990_000.0, 5_000.0)
#: Two clusters whose best telling apart errs more often than this overlap.
OVERLAP = 0.01
_REPETITION_SPREAD = 0.01


def cluster_of(nic: str, levels: dict[str, int]) -> int | None:
    """Number of the cluster by the tables' rules; None for a configuration that waits for the next probe (i40e).

    The rules of Table I meet some configurations twice; poll_receiver with busy polling is then the slow one.
    """
    zc, bp, nw, pr, pf = (bool(levels[name]) for name in FACTORS[:5])
    ordered: tuple[tuple[int, bool], ...]
    if nic == "mlx5":
        ordered = (
            (0, bp and not pr and not pf and not nw),
            (6, bp and pr),
            (2, bp and nw),
            (1, not nw and (bp or (pf and not pr))),
            (4, pf and not bp and (nw or pr)),
            (5, not bp and (nw or pr)),
            (3, True),
        )
    else:
        ordered = (
            (0, bp and not nw),
            (1, bp and nw),
            (2, not bp and not zc),
            (3, nw and pf and not bp),
            (4, pf and pr and not bp and not nw),
        )
    return next((number for number, met in ordered if met), None)


@dataclass(frozen=True)
class Simulated:
    """A run that was never made, and the truth about it."""

    run: RunRecord
    trials: list[TrialRecord]
    #: Point id -> cluster; None: it waits for the next probe.
    truth: dict[str, int | None]
    #: Cluster -> the first cluster that it overlaps with, or itself.
    merged: dict[int, int]
    #: The largest error of the best telling apart, over pairs that do not overlap.
    overlap_apart: float


def simulate(
    nic: str, seed: int, *, configurations: int | None = None, repetitions: int = 3, samples: int = 30,
    between: float = 0.25, noise: bool = False,
) -> Simulated:  # fmt: skip
    """A run of `configurations` (None: all 256) over the study's eight settings.

    Args:
        nic: `mlx5` or `i40e`.
        seed: of everything random.
        configurations: drawn at random from the full factorial.
        repetitions: trials of each.
        samples: pings of each trial (the study: one a second for 30 s).
        between: share of a cluster's standard deviation that lies between its configurations.
        noise: settings do nothing: every trial has its own mean, drawn from one distribution.
    """
    rng = np.random.default_rng([seed, sorted(CLUSTERS).index(nic)])
    full = [dict(zip(FACTORS, map(int, f"{number:08b}"), strict=True)) for number in range(1 << len(FACTORS))]
    wanted = full if configurations is None else [full[i] for i in sorted(rng.choice(256, configurations, False))]
    points = [a_point(levels) for levels in wanted]
    trials, truth = [], {}
    for point, levels in zip(points, wanted, strict=True):
        cluster = cluster_of(nic, levels)
        truth[point.id] = None if noise else cluster
        mean, std = _WAITING_US if cluster is None else CLUSTERS[nic][cluster]
        if noise:
            mean, std = 80.0, 8.0
        own = mean if noise else mean + between * std * rng.normal()
        for repetition in range(repetitions):
            # noise has no configuration's own mean: it is drawn anew for each trial
            here = mean + between * std * rng.normal() if noise else own * math.exp(_REPETITION_SPREAD * rng.normal())
            spread = math.sqrt(1 - between**2) * std
            trials.append(a_trial(point, repetition, lognormal(rng, here, spread, samples)))
    merged, apart = _overlaps(nic, between, repetitions * samples)
    title = f"Simulated from the delay study's table for {nic}, seed {seed}"
    run = a_run(f"simulated-{nic}-{seed}", title, FACTORS, points, repetitions)
    return Simulated(run, trials, truth, merged, apart)


def _overlaps(nic: str, between: float, samples: int) -> tuple[dict[int, int], float]:
    """Which clusters cannot be told apart by mean or standard deviation of a configuration, and how far others can.

    The error is that of two normal distributions with equal error on both sides, erfc(d / sqrt(2)) / 2 at a distance of
    d standard deviations, of whichever of the two statistics tells better.
    """
    clusters = CLUSTERS[nic]
    merged = {number: number for number in range(len(clusters))}
    apart = 0.0
    for second in range(len(clusters)):
        for first in range(second):
            (m1, s1), (m2, s2) = clusters[first], clusters[second]
            spreads = [s * math.sqrt(between**2 + (1 - between**2) / samples) for s in (s1, s2)]
            by_mean = abs(m1 - m2) / sum(spreads)
            by_std = abs(math.log(s1 / s2)) / (2 / math.sqrt(2 * samples))
            error = math.erfc(max(by_mean, by_std) / math.sqrt(2)) / 2
            if error > OVERLAP:
                merged[second] = merged[first]
            else:
                apart = max(apart, error)
    return merged, apart


def a_point(levels: Mapping[str, int]) -> Point:
    return Point(
        forwarder=ForwarderSpec(name="fake"),
        path=Path.HAIRPIN,
        knobs=dict(levels),
        traffic=TrafficSpec(frame_bytes=64, probe_pps=1.0),
    )


def lognormal(rng: np.random.Generator, mean: float, std: float, samples: int) -> np.ndarray:
    """Latencies of that mean and standard deviation, shape (samples,)."""
    sigma = math.sqrt(math.log1p((std / mean) ** 2))
    return np.asarray(rng.lognormal(math.log(mean) - sigma**2 / 2, sigma, samples))


def a_trial(point: Point, repetition: int, latencies_us: np.ndarray) -> TrialRecord:
    """A repetition in which pings took these us."""
    histogram = histogram_of()
    values = np.clip(latencies_us * 1000, 1, 10e9).astype(int)
    for value, times in zip(*(each.tolist() for each in np.unique(values, return_counts=True)), strict=True):
        histogram.record_value(value, times)
    count = len(values)
    latency = LatencySummary(
        count=count,
        min_ns=int(values.min()),
        max_ns=int(values.max()),
        mean_ns=float(values.mean()),
        hdr=histogram.encode().decode(),
    )
    stream = StreamResult(
        kind="latency",
        frame_bytes=64,
        offered_pps=1.0,
        intended=count,
        sent=count,
        received=count,
        lost=0,
        achieved_pps=1.0,
        rx_pps=1.0,
        latency=latency,
    )
    return TrialRecord(
        point_id=point.id,
        repetition=repetition,
        status="ok",
        started="2026-01-01T00:00:00.000+00:00",
        offered_pps=1.0,
        result=TrialResult(tester="simulated", sender="simulated", elapsed_s=float(count), streams=(stream,)),
        mode={"label": "simulated"},
    )


def a_run(
    name: str, title: str, factors: Sequence[str], points: Sequence[Point], repetitions: int,
    sweep: Mapping[str, Any] | None = None,
) -> RunRecord:  # fmt: skip
    """The head of a run of a sweep over switches."""
    study: dict[str, Any] = {
        "name": name,
        "title": title,
        "testbed": "fake",
        "tester": "fake",
        "path": ["hairpin"],
        "forwarders": ["fake"],
        "knobs": {name: [0, 1] for name in factors},
        "repetitions": repetitions,
        "sweep": dict(sweep or {}),
    }
    return RunRecord(
        run_id=name,
        started="2026-01-01T00:00:00+00:00",
        study=StudySpec.model_validate(study),
        testbed=TestbedSpec(name="fake", kind="fake"),
        layout=CpuLayout(tester_tx=0, forwarder=1),
        rx_program="none",
        rx_reason="simulated",
        points={point.id: point for point in points},
        unsupported={},
        calibration=None,
        environment=Environment(
            kernel="simulated",
            cmdline="",
            cpu_model="simulated",
            topology={"cpus": 2, "hypervisor": False},
            governor="simulated",
            mitigations={},
            memory_kib=1,
            ports={},
            sysctls={},
            versions={},
            git_revision="simulated",
        ),
    )
