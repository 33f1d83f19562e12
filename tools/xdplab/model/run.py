# SPDX-License-Identifier: Apache-2.0
"""run.json: the study, the environment and the versions that a run was made with."""

from typing import Any

from xdplab.model.base import SCHEMA_VERSION, Model, Moment, Shown, flat
from xdplab.model.study import Point, StudySpec
from xdplab.model.testbed import CpuLayout, TestbedSpec
from xdplab.model.traffic import TrafficSpec
from xdplab.model.trial import LatencySummary

# The tester measured by itself, so that its own part of every figure is known.


class Calibration(Model):
    """The tester on a direct link, without a forwarder."""

    #: Its ends, by role.
    link: str
    #: Median latency there, the bias that is in every latency; median over its trials, as are the next four.
    p50_ns: int
    #: 99th percentile.
    p99_ns: int
    #: 99.9th percentile.
    p999_ns: int
    #: `p99_ns` less `p50_ns`.
    jitter_ns: int
    #: Frames per second that arrive when as many are sent as the tester can.
    top_pps: float
    #: Highest rate that arrived whole; None where the tester does not lose frames by itself.
    lossless_pps: float | None = None
    #: Share of departures that kept to the schedule; None where the tester does not say.
    on_schedule_ratio: float | None
    #: How far the rate that left was from `at_pps`, as a share of it.
    achieved_error_ratio: float
    #: Rate of the trials with latencies.
    at_pps: float
    #: Size of their frames with FCS.
    frame_bytes: int
    #: How it received.
    rx_program: str
    #: The latencies behind the percentiles, merged over the trials.
    latency: LatencySummary | None = None
    #: Frames per second that leave when it is asked for more than it can send by a schedule; None: not measured.
    paced_pps: float | None = None
    #: Time that its senders spend on a frame, as `sending_ns` of a trial; None where it does not tell.
    frame_ns: float | None = None
    #: And on each handover of frames to the kernel.
    handover_ns: float = 0.0
    #: Largest relative difference between what a calibrating trial took and what these two give.
    sending_spread: float = 0.0
    #: Largest share of a trial in which the machine had taken a sender's core away.
    stalled_share: float | None = None
    #: When it was measured; UTC, ISO 8601.
    taken: str | None = None
    #: Boot of the tester's machine.
    boot_id: str | None = None
    #: Whether that was for an earlier run.
    reused: bool = False

    @property
    def ceiling_pps(self) -> float:
        """Highest load that a result of this tester may be asked for: one that it sends by a schedule, and whole."""
        return min(rate for rate in (self.top_pps, self.paced_pps, self.lossless_pps) if rate is not None)

    def sending_s(self, frames: int, handovers: int) -> float | None:
        """What sending takes it alone, on a direct link; None where it does not tell."""
        if self.frame_ns is None:
            return None
        return (self.frame_ns * frames + self.handover_ns * handovers) / 1e9


#: What the guests of `make lab` are called by their firmware (`Environment.machine`): their figures are an emulator's.
LAB_IN_A_BOX = "xdplab lab in a box"
#: Begins what `Environment.low_latency` says of a setting that a driver or a daemon has undone.
NOT_IN_FORCE = "not in force: "


class Environment(Model):
    """Everything about the machine that can change a number."""

    #: Release of the kernel of the forwarder's machine (uname -r).
    kernel: Shown
    #: As it calls itself (uname -v): PREEMPT_RT or not; absent in runs of before this field.
    kernel_version: Shown = ""
    #: What it was booted with (/proc/cmdline).
    cmdline: str
    #: As /proc/cpuinfo has it.
    cpu_model: Shown
    #: The forwarder's machine, as its firmware calls it; nothing in older runs, and where the firmware does not say.
    machine: Shown = ""
    #: Number of CPUs, those that may be used, hardware threads of each core, isolated CPUs, SMT, idle governor, and
    #: whether a hypervisor is below.
    topology: dict[str, Any]
    #: Frequency governor of CPU 0, or `no cpufreq`.
    governor: str
    #: Vulnerability of the CPU -> what the kernel does about it.
    mitigations: dict[str, str]
    #: All memory, as the kernel counts it (MemTotal).
    memory_kib: int
    #: Role of a port -> name, address and host, what ethtool says with -i, -g, -l, -c, -k and -x, and settings of its
    #: NAPI; of cards also with -a, and the CPUs of its interrupts.
    ports: dict[str, dict[str, Any]]
    #: What the run set on cards for its length (`low_latency` of the testbed file): role of a port -> knob -> its
    #: value, or why it was not set, or was not in force at the end; what a driver has not got is not here.
    low_latency: dict[str, dict[str, Shown]] = {}
    #: Settings of the kernel that matter to polling -> value, or `absent`; empty where all ports are simulated.
    sysctls: dict[str, str]
    #: Program or Python package -> version.
    versions: dict[Shown, Shown]
    #: Commit of the checkout, with `+changes` where files differ from it; `unknown` where there is none;
    #: of a wheel `wheel of` its version.
    git_revision: Shown
    #: The tester's machines by name, where they are not the forwarder's; kernel, command line, CPU, governor.
    hosts: dict[str, dict[str, str]] = {}
    #: Whose clock a one-way latency is of, or why there is none.
    clock: str = ""

    def facts(self) -> dict[str, Any]:
        """Dotted key -> value, of all that is the same each time that a testbed is built.

        That is not so of a port's name, which ethtool repeats, and its address.
        """
        dumped = self.model_dump(mode="json")
        for port in dumped["ports"].values():
            name = str(port.pop("ifname", "")) or "\0"
            port.pop("mac", None)
            port |= {key: each.replace(name, "PORT") for key, each in port.items() if isinstance(each, str)}
        return flat(dumped)


class Resumption(Model):
    """When a run that had been cut off went on."""

    #: UTC, ISO 8601.
    started: Moment
    #: What of its environment was no longer as in `RunRecord.environment`: value then, value now. None of it can
    #: change a number; a run in which anything else differs is not resumed (`runner.resume`).
    differences: dict[str, tuple[Shown, Shown]]


class RunRecord(Model):
    """The head of a run folder."""

    #: Of this file; one with another is refused.
    schema_version: int = SCHEMA_VERSION
    #: Name of the run's folder.
    run_id: str
    #: When the run began; UTC, ISO 8601.
    started: Moment
    #: What was asked for, with every default filled in.
    study: StudySpec
    #: Where.
    testbed: TestbedSpec
    #: CPUs of the data path, where no knob changes them.
    layout: CpuLayout
    #: Receive program of the tester, the same for all forwarders.
    rx_program: str
    #: Why this one.
    rx_reason: str
    #: Point's id -> what it is.
    points: dict[str, Point]
    #: Point's id -> why it cannot be measured here.
    unsupported: dict[str, Shown]
    #: The tester by itself; None where there is no direct link. Of several testers the first.
    calibration: Calibration | None
    #: In a study with several testers, or with several settings of one: the calibration of each.
    calibrations: dict[str, Calibration] = {}
    #: What its parts said of themselves, so that it is drawn again without them: knob -> value -> what that means.
    described: dict[str, dict[str, Shown]] = {}
    #: The same of its forwarders, of those that have something to say: title -> a sentence.
    forwarders: dict[Shown, Shown] = {}
    #: What readers call its forwarders, where that is not their title: title -> `OVS on AF_XDP`.
    plain_names: dict[Shown, Shown] = {}
    #: Title of a forwarder -> the pipelines that it can do.
    pipelines: dict[Shown, tuple[Shown, ...]] = {}
    #: The machine, at the run's beginning.
    environment: Environment
    #: Each time that it went on after it had been cut off.
    resumed: tuple[Resumption, ...] = ()
    #: When it ended; UTC, ISO 8601. None while it lasts, and after kill -9.
    finished: Moment | None = None
    #: How long it took, all parts of a resumed run together.
    wall_s: float | None = None
    #: The part of that in which trials were taken.
    measuring_s: float | None = None
    #: What testers had left changed on their ports, a sentence each; it was put back.
    put_back: tuple[Shown, ...] = ()
    #: Why the run ended early, if it did.
    ended_early: Shown | None = None

    def describe(self, knob: str, value: object) -> str:
        """What a setting of the environment means, in a phrase."""
        return self.described.get(knob, {}).get(str(value), f"{knob}={value}")

    def traffic(self, point: Point) -> TrafficSpec:
        """What a point was measured with: shares of its tester's top rate worked out."""
        calibration = self.calibrations.get(point.tester, self.calibration)
        tester_pps = calibration.ceiling_pps if calibration else 0.0
        return point.traffic.at(point.traffic.top_pps(tester_pps, self.testbed.line_rate_bps))
