# SPDX-License-Identifier: Apache-2.0
"""CPU time of a million frames: by what was planted in snapshots and records, and what this machine's threads took."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import pytest
from lab.claims import LATENCY, NOISE
from lab.records import LAYOUT, point, result, run_record, stream, trial

from xdplab.analysis import summarise
from xdplab.analysis.columns import cells_of, rows_of
from xdplab.analysis.run import Run
from xdplab.cli.tables import csv_text
from xdplab.forwarders import Dut
from xdplab.hosts import LocalHost
from xdplab.hosts.agent.cpu_time import CpuTimes
from xdplab.methods.rfc2544.figures import PER_CORE, throughput_repetitions
from xdplab.model import (
    Calibration,
    Disturbance,
    Path,
    StreamSpec,
    TestbedSpec,
    ThreadUse,
    TrialRecord,
    TrialResult,
    TrialSpec,
)
from xdplab.model.trial import CpuTime
from xdplab.runner.disturbance import Use, cpu_time, sender_full
from xdplab.testbed import FakeTestbed
from xdplab.testers import TesterContext, calibrate
from xdplab.testers.fake import FakeTester

S = 1_000_000_000
DUT = Dut(LocalHost(), (), Path.THROUGH, LAYOUT, FilePath("/nowhere"))
FRAMES = 100_000
PMD = ThreadUse(name="pmd", cpu=1, allowed=(1,), ran_ns=0, run_delay_ns=0, nonvoluntary_switches=0)


def ran(ran_s: float, waited_s: float = 0.0) -> ThreadUse:
    return PMD.model_copy(update={"ran_ns": int(ran_s * S), "run_delay_ns": int(waited_s * S)})


#: A frame takes the tester 100 ns alone, and each handover of one or more to the kernel 400 ns.
ALONE = Calibration(
    link="a0-c0", p50_ns=300, p99_ns=400, p999_ns=500, jitter_ns=100, top_pps=5e6, on_schedule_ratio=1.0,
    achieved_error_ratio=0.0, at_pps=1e5, frame_bytes=64, rx_program="tc",
    frame_ns=100.0, handover_ns=400.0, sending_spread=0.05,
)  # fmt: skip
PACED = TrialSpec(streams=(StreamSpec(kind="latency", pps=FRAMES, frame_bytes=64),), duration_s=1.0)
#: A tenth of the trial the sender stood still for the forwarder's receive half.
RECEIVED = Disturbance(stalled_share=0, receive_half_share=0.1, steal_share={}, run_delay_share=0)


def times(own: float = 0, kernel: float = 0, others: float = 0) -> CpuTimes:
    return CpuTimes({7: int(own * S)}, {15: int(kernel * S)}, {99: int(others * S)})


def used(
    after: CpuTimes,
    spec: TrialSpec = PACED,
    *,
    dut: Dut = DUT,
    found: Disturbance | None = None,
    calibration: Calibration | None = ALONE,
    elapsed_s: float = 1.25,
    softirqs: dict[int, int] | None = None,
    threads: tuple[ThreadUse, ...] = (PMD,),
    away_s: dict[int, float] | None = None,
    **fields: Any,
) -> CpuTime:
    use = Use(elapsed_s, {}, {}, softirqs or {0: FRAMES}, threads, away_s or {}, (times(), after))
    given = {"sending_ns": 70_000_000, "handovers": FRAMES, **fields}
    got = result(stream([1000], sent=FRAMES, received=FRAMES, lost=0, rx_pps=FRAMES), **given)
    made = cpu_time(
        use, spec, got, found or Disturbance(stalled_share=0, steal_share={}, run_delay_share=0), dut, calibration
    )
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("after", "fields", "s_per_million"),
    [
        # 700 ns with the sender, 500 of them the tester's own
        (times(), {}, 0.2),
        (times(kernel=0.03), {}, 0.5),
        # polls for all of 1.25 s, of which 1 s are the trial
        (times(own=1.25), {"threads": (ran(1.25),)}, 10.2),
        # the same while somebody else had its core for a while
        (times(own=0.75), {"threads": (ran(0.75, 0.5),)}, 6.2),
        # sleeps between frames
        (times(own=0.4), {}, 4.2),
        # its receive half costs less than the tester's, which runs on its core
        (times(own=0.4), {"sending_ns": 30_000_000}, 3.8),
        # a stall of the machine is not for frames, one in the receive half is
        (times(), {"sending_ns": 170_000_000, "sending_stalled_ns": 100_000_000}, 0.2),
        (times(), {"sending_ns": 170_000_000, "sending_stalled_ns": 100_000_000, "found": RECEIVED}, 1.2),
        (times(), {"handovers": FRAMES // 4}, 0.5),
        # frames of a warm-up count like those of the trial
        (times(own=0.4), {"spec": PACED.model_copy(update={"warmup_s": 0.25})}, 0.4 / 0.125 + 0.2),
    ],
)  # fmt: skip
def test_what_was_planted_is_found(after: CpuTimes, fields: dict[str, Any], s_per_million: float) -> None:
    assert used(after, **fields).s_per_mframes == pytest.approx(s_per_million, rel=1e-6)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"sending_ns": None}, "tester fake does not report what sending takes on the forwarder's machine"),
        ({"calibration": None}, "what the tester takes alone was not measured on a direct link"),
        ({"calibration": ALONE.model_copy(update={"frame_ns": None})}, "what the tester takes alone was not measured"),
        (
            {"softirqs": {0: FRAMES, 1: 5000}, "threads": ()},
            "CPU 1 had 5000 NET_RX softirqs, and no thread of the path",
        ),
        ({"sending_ns": 50_000_001}, "too short for clocks that resolve 0.0025 s"),
    ],
)
def test_what_cannot_be_known_says_why_and_has_no_number(fields: dict[str, Any], why: str) -> None:
    found = used(times(), **fields)
    assert why in found.doubt
    assert found.s_per_mframes is None


def test_a_trial_too_short_for_the_scheduler_s_clock_is_not_known() -> None:
    short = {"elapsed_s": 0.05, "sending_ns": 50_000_000}
    assert "resolve" in used(times(own=0.03), **short).doubt
    assert used(times(own=0.03), **{**short, "elapsed_s": 0.5}).doubt == ""  # it slept, so it was counted to the end


def test_on_a_machine_of_its_own_all_that_no_thread_has_is_the_forwarder_s() -> None:
    alone = replace(DUT, tester_here=False)
    # two CPUs for 1.25 s, idle for 1.0 and 0.75: 0.75 s busy, 0.2 of others, 0.1 and 0.05 known
    away_s = {0: 1.0, 1: 0.75}
    took = times(own=0.1, kernel=0.05, others=0.2)
    found = used(took, dut=alone, calibration=None, sending_ns=None, away_s=away_s)
    assert found.softirq_s == pytest.approx(0.4)
    assert found.s_per_mframes == pytest.approx(5.5)
    assert found.resolution_s == pytest.approx(0.02)


def test_threads_of_this_machine_are_counted_for_whom_they_belong_to() -> None:
    """A process of a session of its own burns half a second in a child that it starts."""
    burn = "import time\nwhile time.process_time() < 0.5: pass\nprint(time.process_time(), flush=True); time.sleep(60)"
    code = f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {burn!r}])"
    before = LocalHost().cpu_times([], True)
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            after = LocalHost().cpu_times([process.pid], True)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert 0.45e9 < sum(after.own.values()) < 2e9
    assert not after.own.keys() & after.others.keys()
    assert before.own == {}
    assert any(ns > 0 for ns in after.kernel.values())


OVS, XDP, PACKET = (point(name) for name in ("ovs-afxdp", "xdp", "ovs-afpacket"))


def planted(
    at: Any, s_per_million: float, repetitions: int = 5, latency_ns: int = 1000, **fields: Any
) -> list[TrialRecord]:
    found = []
    for number, noise in enumerate(NOISE[:repetitions]):
        took = {
            "elapsed_s": 1.0,
            "frames": 2000.0,
            "forwarder_s": s_per_million * noise * 2e-3,
            "polling_s": 0.0,
            "kernel_s": 0.0,
        }
        took |= {"softirq_s": 0.0, "resolution_s": 0.0, **fields}
        found.append(trial(at, number, [latency_ns] * 2000, cpu=CpuTime.model_validate(took)))
    return found


def read(trials: list[TrialRecord]) -> Run:
    return Run(FilePath("nowhere"), run_record(OVS, XDP, PACKET, study={**LATENCY, "repetitions": 5}), trials)


def test_it_goes_to_json_csv_table_and_advice() -> None:
    run = read([*planted(OVS, 10), *planted(XDP, 0.5), *planted(PACKET, 4)])
    method = run.method
    rows = {row["forwarder"]: row for row in rows_of(method, run.points)}
    assert rows["ovs-afxdp"]["cpu_s_per_mframes"] == pytest.approx(10, rel=0.05)
    assert json.loads(json.dumps(rows["xdp"]["measured"]["cpu_s_per_mframes"]["value"])) == pytest.approx(0.5, rel=0.05)
    lines = {row["forwarder"]: row for row in csv.DictReader(io.StringIO(csv_text(method, run.points)))}
    assert float(lines["ovs-afpacket"]["cpu_s_per_mframes"]) == pytest.approx(4, rel=0.05)
    assert cells_of(method, run.points)["CPU s per million"][0].startswith(("10", "9.9"))
    found = {each.goal: each for each in run.advice if each.goal.startswith("least CPU")}
    texts = [each.text for each in found.values() if each.decided]
    assert any(
        "XDP redirect is ahead with 0.5" in text and "times as cheap as OVS on AF_PACKET" in text for text in texts
    )
    among = next(each.text for goal, each in found.items() if "among switches" in goal)
    assert among.startswith("OVS on AF_PACKET is ahead with")


def test_what_is_not_known_competes_with_nobody() -> None:
    run = read([*planted(OVS, 10), *planted(XDP, 0.5, softirq_s=None, unknown="it is hidden"), *planted(PACKET, 4)])
    row = {each["forwarder"]: each for each in rows_of(run.method, run.points)}["xdp"]
    assert row["cpu_s_per_mframes"] is None
    assert row["measured"]["cpu_s_per_mframes"]["doubt"] == "CPU time is not known: it is hidden"
    said = [each.text for each in run.advice if each.goal.startswith("least CPU")]
    assert said
    assert not any("XDP redirect" in text for text in said)


def test_polling_that_met_no_frame_is_what_the_forwarder_says_of_its_threads() -> None:
    pmd = {"pmd-c01": {"frames": 2000.0, "cycles": 25.0, "idle": 75.0}}
    trials = [each.model_copy(update={"increments": {"lookups": pmd}}) for each in planted(OVS, 10, polling_s=0.016)]
    (found,) = summarise(run_record(OVS, study={**LATENCY, "repetitions": 5}), trials)
    assert found.value("cpu_idle_s_per_mframes") == pytest.approx(0.75 * 0.016 / 2e-3)


def test_frames_of_a_core_are_those_of_the_step_at_the_throughput(searched: list[TrialRecord]) -> None:
    (found,) = throughput_repetitions(searched)
    assert found.figures[PER_CORE.key].value == pytest.approx(500_000)


@pytest.fixture
def searched() -> list[TrialRecord]:
    """A search that found 300 kpps good and 600 kpps bad: 2 and 1 s per million frames."""
    at = point("ovs-afxdp")
    clause = "RFC 2544 26.1"
    steps = []
    for number, (kpps, lost, price) in enumerate([(100, 0, 5.0), (300, 0, 2.0), (600, 50, 1.0)]):
        frames = kpps * 1000
        got = result(stream((), sent=frames, received=frames - lost, lost=lost, rx_pps=frames - lost))
        took = CpuTime(
            elapsed_s=1,
            frames=frames,
            forwarder_s=price * frames / 1e6,
            polling_s=0,
            kernel_s=0,
            softirq_s=0,
            resolution_s=0,
        )
        steps.append(trial(at, 0, purpose="search", clause=clause, trial=number, result=got, cpu=took))
    bound = {"loss_ratio": 0.0, "limited_by": "forwarder", "throughput_pps": 3e5, "lower_pps": 3e5, "upper_pps": 6e5}
    figures = {
        "preset": "quick", "bounds": [bound], "steps": [], "traffic_s": 1.0, "directions": 1, "top_load_pps": 1e6,
        "line_rate_bps": None,
    }  # fmt: skip
    return [*steps, trial(at, 0, purpose="figures", clause=clause, figures=figures, result=None, status="ok")]


class Sender(FakeTester):
    """Says what sending takes: 100 ns a frame and 400 ns a handover, a little more in each trial."""

    def __init__(self) -> None:
        super().__init__()
        self.trials = 0

    def run(self, context: TesterContext, trial: TrialSpec) -> TrialResult:
        got = super().run(context, trial)
        (asked,) = trial.streams
        batch = 64 if asked.pps is None else 8 if asked.pps > 1e6 else 1
        self.trials += 1
        handovers = got.sent // batch
        spent = round((got.sent * 100 + handovers * 400) * (1 + self.trials / 1000))
        return got.model_copy(update={"sending_ns": spent + 7, "sending_stalled_ns": 7, "handovers": handovers})


def test_the_calibration_has_what_sending_takes_and_how_sure_that_is(tmp_path: FilePath) -> None:
    testbed = FakeTestbed(TestbedSpec(name="t", kind="fake"))
    ports = testbed.direct_ports()
    assert ports is not None
    context = TesterContext(ports, testbed.layout, "none", tmp_path, LocalHost())
    found = calibrate(Sender(), context, 64, duration_s=0.01)
    assert found.frame_ns == pytest.approx(100, rel=0.02)
    assert found.handover_ns == pytest.approx(400, rel=0.02)
    assert 0.002 < found.sending_spread < 0.02
    alone_s = found.sending_s(1000, 500)
    assert alone_s == pytest.approx(300e-6, rel=0.02)
    assert found.paced_pps is not None
    assert found.ceiling_pps == min(found.top_pps, found.paced_pps)


@pytest.mark.parametrize(
    ("sent", "fields", "full"),
    [
        (800_000, {}, True),
        # it sends as much without a forwarder
        (1_800_000, {}, False),
        # all of it left
        (996_000, {"intended": 1_000_000}, False),
        # the machine was away
        (800_000, {"intended": 1_000_000, "stalled_ns": 150_000_000}, False),
        (800_000, {"intended": 2_000_000, "stalled_ns": 150_000_000}, True),
        # a tester that does not say when it stood still
        (800_000, {"sending_ns": None}, False),
    ],
)
def test_a_sender_whose_cpu_the_forwarder_filled(sent: int, fields: dict[str, Any], full: bool) -> None:
    """A trial of a second in which 2 Mpps were asked for, of a sender that alone sends 2 Mpps."""
    alone = ALONE.model_copy(update={"paced_pps": 2e6})
    asked = fields.pop("intended", 2_000_000)
    one = stream([1000], sent=sent, received=sent, lost=0, intended=asked, achieved_pps=sent)
    got = result(one, **{"elapsed_s": 1.0, "sending_ns": 900_000_000, **fields})
    assert sender_full(got, DUT, alone) == full
    assert not sender_full(got, replace(DUT, tester_here=False), alone)
    assert not sender_full(got, DUT, None)
