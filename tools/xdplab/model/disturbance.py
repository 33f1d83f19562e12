# SPDX-License-Identifier: Apache-2.0
"""What a machine took away from a trial (docs/architecture.md, rule 9), and what its threads used."""

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

    @property
    def taken_share(self) -> float:
        """The largest of what was taken from sender, a CPU and a thread."""
        return max(self.stalled_share, self.run_delay_share, *self.steal_share.values())
