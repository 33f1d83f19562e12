# SPDX-License-Identifier: Apache-2.0
"""run.json: the study, the environment and the versions that a run was made with."""

from typing import Any

from xdplab.model.base import SCHEMA_VERSION, Model, Shown, flat
from xdplab.model.study import Point, StudySpec
from xdplab.model.testbed import CpuLayout, TestbedSpec
from xdplab.model.traffic import TrafficSpec
from xdplab.model.trial import Calibration


class Environment(Model):
    """Everything about the machine that can change a number."""

    kernel: Shown
    #: As it calls itself (uname -v): PREEMPT_RT or not; absent in runs of before this field.
    kernel_version: Shown = ""
    cmdline: str
    cpu_model: Shown
    topology: dict[str, Any]
    governor: str
    mitigations: dict[str, str]
    memory_kib: int
    ports: dict[str, dict[str, Any]]
    sysctls: dict[str, str]
    versions: dict[Shown, Shown]
    git_revision: Shown
    #: The tester's machines by name, where they are not the forwarder's; kernel, command line, CPU, governor.
    hosts: dict[str, dict[str, str]] = {}
    #: Whose clock a one-way latency is of, or why there is none.
    clock: str = ""

    def facts(self) -> dict[str, Any]:
        """Dotted key -> value, of all that is the same each time that a testbed is built.

        That is not so of a port's name, which ethtool repeats, and its address.
        """
        told = self.model_dump(mode="json")
        for port in told["ports"].values():
            name = str(port.pop("ifname", "")) or "\0"
            port.pop("mac", None)
            port |= {key: each.replace(name, "PORT") for key, each in port.items() if isinstance(each, str)}
        return flat(told)


class Resumption(Model):
    """When a run that had been cut off went on."""

    started: str
    #: What of its environment was no longer as in `RunRecord.environment`: value then, value now. None of it can
    #: change a number; a run in which anything else differs is not resumed (`runner.resume`).
    differences: dict[str, tuple[Shown, Shown]]


class RunRecord(Model):
    """The head of a run folder."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    started: str
    study: StudySpec
    testbed: TestbedSpec
    layout: CpuLayout
    rx_program: str
    rx_reason: str
    points: dict[str, Point]
    unsupported: dict[str, Shown]
    calibration: Calibration | None
    #: In a study with several testers, or with several settings of one: the calibration of each.
    calibrations: dict[str, Calibration] = {}
    #: What its parts said of themselves, so that it is drawn again without them: knob -> value -> what that means.
    described: dict[str, dict[str, Shown]] = {}
    #: The same of its forwarders, of those that have something to say: title -> a sentence.
    forwarders: dict[Shown, Shown] = {}
    #: Of the run's beginning.
    environment: Environment
    resumed: tuple[Resumption, ...] = ()
    finished: str | None = None
    wall_s: float | None = None
    measuring_s: float | None = None
    #: Why the run ended early, if it did.
    ended_early: Shown | None = None

    def describe(self, knob: str, value: object) -> str:
        """What a setting means."""
        return self.described.get(knob, {}).get(str(value), f"{knob}={value}")

    def traffic(self, point: Point) -> TrafficSpec:
        """What a point was measured with: shares of its tester's top rate worked out."""
        calibration = self.calibrations.get(point.tester, self.calibration)
        return point.traffic.at(calibration.ceiling_pps if calibration else 0.0)
