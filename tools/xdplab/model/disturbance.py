# SPDX-License-Identifier: Apache-2.0
"""What a machine took away from a trial, what its threads used, and when that is too much."""

from pydantic import Field

from xdplab.model.base import Model


class ThreadUse(Model):
    """What a thread of the forwarder used during a trial (from /proc/PID/task/TID)."""

    #: As the kernel has it (comm).
    name: str
    #: Where it was seen last.
    cpu: int
    #: CPUs that it may run on.
    allowed: tuple[int, ...]
    #: Time on a CPU.
    ran_ns: int
    #: Time in which it could have run and waited for a CPU.
    run_delay_ns: int
    #: How often another thread was put in its place.
    nonvoluntary_switches: int
    #: Time in user space, in steps of 10 ms; where the kernel takes it with its timer it is sampled.
    user_ns: int | None = None
    #: Time in the kernel, likewise.
    system_ns: int | None = None


class DisturbanceRule(Model):
    """When a trial counts as disturbed: the machine, not the forwarder, was late (docs/architecture.md, rule 9).

    Shares are of the trial's duration.
    """

    #: Of the time in which the machine had taken the sender's core away.
    max_stalled_share: float = Field(default=0.01, gt=0)
    #: Of the time that the hypervisor took from a CPU of the path.
    max_steal_share: float = Field(default=0.01, gt=0)
    #: Of the time that a busy forwarding thread waited for its CPU, and was not the one to give it up.
    max_run_delay_share: float = Field(default=0.01, gt=0)
    #: How often a disturbed step of a search is repeated within its repetition at the most, and how often a disturbed
    #: repetition as a whole, for all points, behind the planned ones (`Method.repeats_whole`).
    max_repeats: int = Field(default=2, ge=0, le=20)
    #: What both may take, as a share of the traffic time: of the study's plan, and for steps of searches of what was
    #: taken so far. So a machine that is never quiet ends a run in bounded time, with its disturbed trials marked. One
    #: of five repetitions is a share of 0.2, and one that does not fit is not begun.
    max_repeats_share: float = Field(default=0.4, ge=0, le=20)


class Disturbance(Model):
    """What the machine took away during a trial."""

    #: The machine's part of the sender's stalls.
    stalled_share: float
    #: The forwarder's part: its receive half, which on veth runs on the sender's core.
    receive_half_share: float = 0.0
    #: CPU of the path -> share of the time that the hypervisor took from it.
    steal_share: dict[int, float]
    #: Share of the time that a busy forwarding thread waited for its CPU.
    run_delay_share: float
    #: What the rule found, in words; empty: undisturbed.
    reasons: tuple[str, ...] = ()

    @property
    def disturbed(self) -> bool:
        """True when the rule found a reason."""
        return bool(self.reasons)
