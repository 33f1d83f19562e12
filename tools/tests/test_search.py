# SPDX-License-Identifier: Apache-2.0
"""The throughput search: presets on simulated boxes, who limits a result, and a search that outlives kill -9."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dev.bench_search import bench_search, bench_table, search_on, steady
from xdplab.methods.rfc2544.records import Step
from xdplab.methods.rfc2544.search import PRESETS, Measure, search, so_far
from xdplab.methods.rfc2544.spec import PresetName

ROOT = Path(__file__).resolve().parents[2]


def box(capacity: float, floor: float = 0.0, top: float = 5e6) -> Measure:
    """A sharp knee, a share lost at any load, and a tester that cannot send above `top`."""

    def measure(load_pps: float, duration_s: float) -> Step:
        sent = round(min(load_pps, top) * duration_s)
        lost = max(0, sent - round(capacity * duration_s), round(floor * sent))
        return Step(load_pps=load_pps, duration_s=duration_s, offered_pps=sent / duration_s, sent=sent, lost=lost)

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


@pytest.mark.parametrize("preset", ["rfc2544", "tst009", "csit", "quick", "binary"])
def test_what_a_stalled_sender_did_not_offer_is_not_credited(preset: PresetName) -> None:
    """A box of exactly 1 Mpps: within 1 %, or a lower limit that is true and that the tester set."""
    for catch_up_frames, stall_ratio in itertools.product([0, 200, 10**9], [0.0, 0.05, 0.1, 0.25]):
        noisy = steady(sender_stall_ratio=stall_ratio, sender_catch_up_frames=catch_up_frames)
        (bound,) = search_on(noisy, preset).bounds
        case = (catch_up_frames, stall_ratio, bound)
        assert bound.throughput_pps is not None, case
        if stall_ratio:
            assert bound.limited_by == "tester", case
            assert bound.upper_pps is None, case
            assert bound.throughput_pps <= 1.005e6, case
        else:
            assert bound.limited_by == "forwarder", case
            assert bound.throughput_pps == pytest.approx(1e6, rel=0.01), case


def test_stalls_within_the_tolerance_leave_the_bound_to_the_forwarder() -> None:
    (bound,) = search_on(steady(sender_stall_ratio=0.004), "rfc2544").bounds
    assert bound.limited_by == "forwarder"
    assert bound.throughput_pps == pytest.approx(1e6, rel=0.01)


def test_a_burst_after_a_stall_overruns_a_box_that_carries_the_load() -> None:
    """All frames leave, and the mean load is what was asked for: nothing but the stall says that it was not."""
    (bound,) = (found := search_on(steady(sender_stall_ratio=0.05, sender_catch_up_frames=10**9), "rfc2544")).bounds
    lossy = [step for step in found.steps if step.lost and step.load_pps < 0.5e6]
    assert lossy
    assert not any(step.short or step.on_load for step in lossy)
    assert bound.limited_by == "tester"


@pytest.mark.parametrize("preset", ["quick", "binary"])
def test_a_tester_that_cannot_send_the_top_load_credits_what_it_sent(preset: PresetName) -> None:
    (bound,) = search(preset, [0.0], 2000, 5e6, box(9e6, top=2e6)).bounds
    assert (bound.lower_pps, bound.throughput_pps) == (2e6, 2e6)


@pytest.mark.parametrize("preset", ["rfc2544", "quick", "binary"])
def test_loss_at_a_load_that_was_not_offered_bounds_the_tester(preset: PresetName) -> None:
    """A sender that leaves out a fifth of each load and, as TRex, does not say that it stood still."""

    def measure(load_pps: float, duration_s: float) -> Step:
        whole = box(1e6)(0.8 * load_pps, duration_s)
        return whole.model_copy(update={"load_pps": load_pps})

    (bound,) = search(preset, [0.0], 2000, 5e6, measure).bounds
    assert (bound.limited_by, bound.upper_pps) == ("tester", None)
    assert bound.throughput_pps is not None
    assert 0.99e6 < bound.throughput_pps <= 1e6


@pytest.mark.parametrize("preset", ["rfc2544", "quick", "binary"])
def test_loss_at_a_load_that_was_offered_less_and_steadily_is_the_forwarders(preset: PresetName) -> None:
    """A sender that runs out at 1.2 Mpps and says that it never stood still, into a box of 1 Mpps."""

    def measure(load_pps: float, duration_s: float) -> Step:
        sent = box(1e6, top=1.2e6)(load_pps, duration_s)
        return sent.model_copy(update={"stalls_known": True})

    (bound,) = search(preset, [0.0], 2000, 5e6, measure).bounds
    assert bound.limited_by == "forwarder"
    assert bound.throughput_pps == pytest.approx(1e6, rel=0.02)
    assert bound.upper_pps is not None
    assert 1e6 <= bound.upper_pps <= 1.2e6


@pytest.mark.parametrize("preset", ["rfc2544", "quick", "binary"])
def test_a_forwarder_that_fills_the_senders_cpu_is_the_limit(preset: PresetName) -> None:
    """It loses nothing: whatever is asked for, 0.8 Mpps leave; a tester that runs out by itself is another matter."""

    def measure(full: bool) -> Measure:
        def trial(load_pps: float, duration_s: float) -> Step:
            sent = box(9e6, top=0.8e6)(load_pps, duration_s)
            return sent.model_copy(update={"stalls_known": True, "sender_full": full and sent.short})

        return trial

    (bound,) = search(preset, [0.0], 2000, 5e6, measure(True)).bounds
    assert (bound.limited_by, bound.sender_full) == ("forwarder", True)
    assert bound.throughput_pps == pytest.approx(0.8e6, rel=1e-6)
    (bound,) = search(preset, [0.0], 2000, 5e6, measure(False)).bounds
    assert (bound.limited_by, bound.sender_full) == ("tester", False)


@pytest.mark.parametrize("top", [0.9995e6, 0.999e6])
def test_a_figure_is_no_more_than_what_left(top: float) -> None:
    """Within the tolerance the load counts as offered, and still only what left is credited."""
    (bound,) = search("binary", [0.0], 2000, 1e6, box(9e6, top=top)).bounds
    assert bound.throughput_pps == pytest.approx(top, rel=1e-6)


@pytest.mark.parametrize(
    ("preset", "complies"), [("rfc2544", True), ("binary", True), ("tst009", False), ("csit", False), ("quick", False)]
)
def test_what_complies_with_the_rfc(preset: PresetName, complies: bool) -> None:
    assert PRESETS[preset].complies == complies


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
    steps = [Step(load_pps=pps, duration_s=0.5, offered_pps=pps, sent=1000, lost=lost)
             for pps, lost in ((1e5, 0), (2e5, 0), (2e5, 9), (3e5, 9), (3e5, 9), (3e5, 0), (4e5, 0))]  # fmt: skip
    assert so_far(0.0, 0.5, steps) == (2e5, 3e5)
    assert so_far(0.0, 0.0, steps) == (1e5, 2e5)
    assert so_far(0.0, 0.5, steps[3:5]) == (None, 3e5)


def test_several_loss_ratios_come_from_one_search() -> None:
    found = search("quick", [0.0, 0.001, 0.005], 2000, 5e6, box(1.25e6, floor=0.0005))
    none, tenth, half = found.bounds
    assert (none.throughput_pps or 0) < 0.01 * 1.25e6
    assert tenth.throughput_pps == pytest.approx(1.25e6, rel=0.02)
    assert (half.throughput_pps or 0) >= (tenth.throughput_pps or 0)


def test_quick_needs_a_tenth_of_the_traffic_of_bisection_and_spreads_less() -> None:
    bench = bench_search(10)
    rows = {(row.shape, row.preset): row for row in bench.throughput}
    quick, binary = (rows["stall of 300 frames each 100 s", preset] for preset in ("quick", "binary"))
    assert quick.traffic_s <= binary.traffic_s / 10
    assert quick.p95 - quick.p5 < binary.p95 - binary.p5
    assert abs(quick.median_error) < 0.03
    table = bench_table(bench)
    for share in ("5%", "10%", "25%"):
        for kind in ("skips", "catches up"):
            assert re.search(rf"sender stalls {share}, {kind} +quick +- +at least 0\.\d+ +tester", table)
    assert re.search(r"1\.2 Mpps +1\.200 Mpps +\d+ frames +50\d ± 11", table)


@pytest.mark.slow
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
    names = ("purpose", "trial", "clause")
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
    """Without the one that is no simulation: what a restart took of the suite's own time."""
    return [
        (trial["clause"], {name: value for name, value in trial["figures"].items() if name != "own_us"})
        for trial in trials
        if trial["purpose"] == "figures"
    ]
