# SPDX-License-Identifier: Apache-2.0
"""How long and how often: what the RFC says, and what fits a machine without hardware."""

from dataclasses import dataclass

from xdplab.methods.rfc2544.spec import Rfc2544Spec
from xdplab.model import StreamSpec, TrafficSpec, TrialSpec, Unsupported


@dataclass(frozen=True)
class Scale:
    """Durations in s and counts of one preset."""

    at_load_s: float
    at_load_repeats: int
    loss_trial_s: float
    burst_repeats: int
    longest_burst_s: float
    recovery_s: float
    reset_s: float
    #: Late frames are waited for until none has arrived for so long; None: all of `drain_s`, as §23 asks.
    drain_idle_s: float | None


#: §26.2: 120 s, 20 repetitions; §26.3 and §26.5: 60 s; §26.4: bursts up to 2 s, 50 repetitions.
FULL = Scale(120.0, 20, 60.0, 50, 2.0, 60.0, 30.0, None)
QUICK = Scale(0.8, 2, 0.4, 3, 0.1, 1.0, 4.0, 0.2)


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
