# SPDX-License-Identifier: Apache-2.0
"""The throughput search: presets on simulated boxes, who limits a result, and a search that outlives kill -9."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from xdplab.cli.bench_search import bench_search, measure_on
from xdplab.forwarders.fake import Box
from xdplab.methods.mlr import highest_good
from xdplab.methods.search import Counts, Measure, Step, search
from xdplab.model import PresetName

ROOT = Path(__file__).resolve().parents[2]


def box(capacity: float, floor: float = 0.0, top: float = 5e6) -> Measure:
    """A sharp knee, a share lost at any load, and a tester that cannot send above `top`."""

    def measure(load_pps: float, duration_s: float) -> Counts:
        intended = round(load_pps * duration_s)
        sent = round(min(load_pps, top) * duration_s)
        return Counts(intended, sent, max(0, sent - round(capacity * duration_s), round(floor * sent)))

    return measure


@pytest.mark.parametrize("preset", ["rfc2544", "tst009", "csit", "quick", "binary"])
def test_each_preset_finds_a_sharp_knee(preset: PresetName) -> None:
    (bound,) = search(preset, [0.0], 2000, 5e6, box(1.25e6)).bounds
    assert bound.limited_by == "forwarder"
    assert bound.throughput_pps == pytest.approx(1.25e6, rel=0.02)
    assert bound.lower_pps is not None
    assert bound.upper_pps is not None
    assert bound.lower_pps <= 1.25e6 <= bound.upper_pps * 1.0001


@pytest.mark.parametrize("preset", ["quick", "binary"])
@pytest.mark.parametrize(
    ("measure", "limited_by"),
    [
        pytest.param(box(9e6), "tester", id="faster than the top load"),
        pytest.param(box(9e6, top=2e6), "tester", id="tester runs out below the top load"),
        pytest.param(box(500), "below-minimum", id="slower than the lowest load"),
    ],
)
def test_a_limit_that_is_not_the_forwarders_is_said(preset: PresetName, measure: Measure, limited_by: str) -> None:
    (bound,) = search(preset, [0.0], 2000, 5e6, measure).bounds
    assert bound.limited_by == limited_by


@pytest.mark.parametrize("preset", ["quick", "binary"])
def test_frames_that_fell_into_a_stall_of_the_sender_do_not_end_a_search_early(preset: PresetName) -> None:
    noisy = Box(sender_stall_ratio=0.03, jitter_ratio=0.0)
    (bound,) = search(preset, [0.0], 2000, 5e6, measure_on(noisy, 0)).bounds
    assert bound.limited_by == "forwarder"
    assert bound.throughput_pps == pytest.approx(noisy.capacity_pps, rel=0.02)


def test_a_spent_budget_keeps_what_was_measured() -> None:
    found = search("csit", [0.0], 2000, 5e6, box(1.25e6), budget_s=6)
    assert found.bounds[0].limited_by == "budget"
    assert found.steps
    assert found.traffic_s <= 6


def test_a_budget_too_small_for_the_librarys_bound_gives_the_highest_load_that_went_well() -> None:
    (bound,) = search("quick", [0.0], 2000, 5e6, box(1.25e6), budget_s=2.5).bounds
    assert bound.limited_by == "budget"
    assert bound.lower_pps == pytest.approx(1.25e6, rel=0.1)
    assert bound.throughput_pps == bound.lower_pps <= 1.25e6


def test_a_good_trial_above_a_load_that_failed_suggests_nothing() -> None:
    steps = [Step(load_pps=pps, duration_s=0.5, due=1000, sent=1000, lost=lost)
             for pps, lost in ((1e5, 0), (2e5, 0), (2e5, 9), (3e5, 9), (3e5, 9), (3e5, 0), (4e5, 0))]  # fmt: skip
    assert highest_good(0.0, 0.01, steps) == 2e5
    assert highest_good(0.0, 0.01, steps[3:5]) is None


def test_several_loss_ratios_come_from_one_search() -> None:
    found = search("quick", [0.0, 0.001, 0.005], 2000, 5e6, box(1.25e6, floor=0.0005))
    none, tenth, half = found.bounds
    assert (none.throughput_pps or 0) < 0.01 * 1.25e6
    assert tenth.throughput_pps == pytest.approx(1.25e6, rel=0.02)
    assert (half.throughput_pps or 0) >= (tenth.throughput_pps or 0)


def test_quick_needs_a_tenth_of_the_traffic_of_bisection_and_spreads_less() -> None:
    rows = {(row.shape, row.preset): row for row in bench_search(10)}
    quick, binary = (rows["stall of 300 frames each 100 s", preset] for preset in ("quick", "binary"))
    assert quick.traffic_s <= binary.traffic_s / 10
    assert quick.p95 - quick.p5 < binary.p95 - binary.p5
    assert abs(quick.median_error) < 0.03


def test_a_search_killed_in_the_middle_goes_on_and_finds_the_same(tmp_path: Path) -> None:
    whole = records(run(tmp_path, "whole"), 0)
    process = run(tmp_path, "cut")
    deadline = time.monotonic() + 60
    while not (kept := lines(tmp_path / "cut")) > 12 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 12 < kept < len(whole)
    resumed = records(xdplab(tmp_path, "cut", "run", "--resume", "latest"), 0)
    names = ("purpose", "trial", "attempt", "clause")
    steps, same = ([tuple(each[name] for name in names) for each in run] for run in (resumed, whole))
    assert steps == same
    assert figures(resumed) == figures(whole)


def run(folder: Path, name: str) -> "subprocess.Popen[str]":
    study = str(ROOT / "suites" / "studies" / "rfc2544.yaml")
    changes = ["testbed=fake", "tester=fake", "forwarders=[fake]", "answer=null", "repetitions=1"]
    return xdplab(folder, name, "run", study, *[part for change in changes for part in ("--set", change)])


def xdplab(folder: Path, name: str, *args: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "XDPLAB_STATE": str(folder / "state"), "XDPLAB_RESULTS": str(folder / name)}
    program = str(Path(sys.executable).parent / "xdplab")
    process = subprocess.Popen(
        [program, *args], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )
    process.results = folder / name  # type: ignore[attr-defined]
    return process


def lines(results: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in results.glob("rfc2544-*/trials.jsonl"))


def records(process: "subprocess.Popen[str]", code: int) -> list[dict[str, Any]]:
    assert process.wait(timeout=120) == code
    (path,) = process.results.glob("rfc2544-*/trials.jsonl")  # type: ignore[attr-defined]
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def figures(trials: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(trial["clause"], trial["figures"]) for trial in trials if trial["purpose"] == "figures"]
