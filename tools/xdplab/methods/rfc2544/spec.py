# SPDX-License-Identifier: Apache-2.0
"""What a study may ask of method `rfc2544`, and how long and how often that takes."""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import Field

from xdplab.model import MethodSpec, Model, StreamSpec, TrafficSpec, TrialSpec, Unsupported

PresetName = Literal["rfc2544", "tst009", "csit", "quick", "binary"]
Clause = Literal["throughput", "latency", "loss-curve", "back-to-back", "recovery", "reset"]


class EqualLoadSpec(Model):
    """What a repetition measures next to the clauses, at loads that are the same for all forwarders: it pairs."""

    #: Latency as in RFC 2544 §26.2, at this load and not at each forwarder's own throughput.
    latency_pps: float | None = Field(default=None, gt=0, le=100e6)
    #: Forwarding rate (RFC 2285 §3.6.1) in response to this offered load, above what any of them carries. At the
    #: tester's top rate, which bounds it, it is the rate at maximum offered load (FRMOL, §3.6.2).
    overload_pps: float | None = Field(default=None, gt=0, le=100e6)


class Rfc2544Spec(MethodSpec):
    """RFC 2544 §26.1 to §26.6: one clause by its name, or all with `name: rfc2544`."""

    name: Literal["rfc2544", "throughput", "loss-curve", "back-to-back", "recovery", "reset"]
    #: Clauses of `rfc2544`; each of the others is one clause, with the throughput in front where it is based on.
    clauses: tuple[Clause, ...] = get_args(Clause)
    #: Of the searches: how long a trial is, when a load counts as good, how narrow the bounds are (docs/methods.md).
    preset: PresetName = "quick"
    #: Loss that is tolerated; for each the search finds a throughput.
    loss_ratios: tuple[Annotated[float, Field(ge=0, lt=1)], ...] = Field(default=(0.0, 0.001, 0.005), min_length=1)
    #: Speed of the medium, instead of `traffic.line_rate_bps`; where neither is known, the tester's calibrated top
    #: rate is the top load.
    line_rate_bps: float | None = Field(default=None, gt=0)
    #: Lowest load of a search, per direction.
    low_pps: float = Field(default=2000, gt=0)
    #: Traffic seconds of a search at the most (default: the preset's).
    budget_s: float | None = Field(default=None, gt=0)
    #: Wait for frames that are still on their way, at the most (§23: 2 s after the last one was sent).
    drain_s: float = Field(default=2.0, ge=0.01, le=10)
    #: What is measured next to the clauses.
    equal_load: EqualLoadSpec = EqualLoadSpec()

    @property
    def wanted(self) -> tuple[Clause, ...]:
        """Clauses to carry out, in the order of the RFC."""
        asked = set(self.clauses) if self.name == "rfc2544" else {self.name}
        if self.name in ("back-to-back", "recovery"):
            asked.add("throughput")
        return tuple(clause for clause in get_args(Clause) if clause in asked)


@dataclass(frozen=True)
class Scale:
    """Durations in s and counts of one preset."""

    at_load_s: float
    #: Trials that the latency at an equal load is divided into: points that stand side by side take turns at it.
    at_load_turns: int
    at_load_repeats: int
    loss_trial_s: float
    burst_repeats: int
    longest_burst_s: float
    recovery_s: float
    reset_s: float
    #: Late frames are waited for until none has arrived for so long; None: all of `drain_s`, as §23 asks.
    drain_idle_s: float | None


#: §26.2: 120 s, 20 repetitions; §26.3 and §26.5: 60 s; §26.4: bursts up to 2 s, 50 repetitions.
FULL = Scale(120.0, 1, 20, 60.0, 50, 2.0, 60.0, 30.0, None)
QUICK = Scale(0.8, 8, 2, 0.4, 3, 0.1, 1.0, 4.0, 0.2)


def scale_of(spec: Rfc2544Spec) -> Scale:
    """Full for the presets whose trials are as long as the RFC's."""
    return FULL if spec.preset in ("rfc2544", "tst009", "binary") else QUICK


def trial_of(spec: Rfc2544Spec, streams: tuple[StreamSpec, ...], duration_s: float, warmup_s: float = 0.0) -> TrialSpec:
    """A trial that waits for late frames as long as the study and its preset say."""
    idle_s = scale_of(spec).drain_idle_s
    return TrialSpec(
        streams=streams, duration_s=duration_s, warmup_s=warmup_s, drain_s=spec.drain_s, drain_idle_s=idle_s
    )


def line_rate(spec: Rfc2544Spec, traffic: TrafficSpec) -> float | None:
    """Speed of the medium, in bit/s; None where it is not known."""
    return spec.line_rate_bps or traffic.line_rate_bps


def top_load(spec: Rfc2544Spec, traffic: TrafficSpec, ceiling_pps: float) -> float:
    """Highest load per direction: the medium's line rate where one is given, and never above the tester's top rate.

    Raises:
        Unsupported: neither is known.
    """
    tester = [ceiling_pps / len(traffic.directions)] if ceiling_pps else []
    speed_bps = line_rate(spec, traffic)
    line = [traffic.line_pps(speed_bps)] if speed_bps else []
    if not tester + line:
        raise Unsupported(
            "no top load is known: the testbed has no direct link (ports d0 and d1) to calibrate the tester on; give "
            "speed_mbps of each of its ports, or traffic.line_rate_bps"
        )
    return min(tester + line)
