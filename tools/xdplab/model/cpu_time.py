# SPDX-License-Identifier: Apache-2.0
"""CPU time that the frames of a trial took: the forwarder's, and what the kernel did for it; not the tester's own."""

from xdplab.model.base import Model, Shown

#: Above this share of a figure, what its clocks do not resolve makes it unknown.
_MAX_UNRESOLVED = 0.2


class CpuTime(Model):
    """Of a trial, from before its warm-up until after it (docs/methods.md, CPU time)."""

    #: Between the two looks at the clocks; the time of a CPU over this is the share of a core.
    elapsed_s: float
    #: Frames that arrived in that time; those of the warm-up are taken to have arrived at the trial's rate.
    frames: float
    #: All threads of the forwarder's processes; of those that polled without a pause, the time of the traffic.
    forwarder_s: float
    #: Part of it that is of threads which polled without a pause.
    polling_s: float
    #: Threads of the kernel that carry frames: ksoftirqd, napi, irq.
    kernel_s: float
    #: Softirqs that are in no time above: on the tester's senders, beyond what these take on a direct link; with a
    #: tester on another machine all that its CPUs did and no thread has. None: not known.
    softirq_s: float | None
    #: Why not.
    unknown: Shown = ""
    #: What the clocks do not resolve, of all of it.
    resolution_s: float

    @property
    def total_s(self) -> float | None:
        """All of it; None where a part is not known."""
        return None if self.softirq_s is None else self.forwarder_s + self.kernel_s + self.softirq_s

    @property
    def s_per_mframes(self) -> float | None:
        """For a million frames; None where it is not known, or below what the clocks resolve."""
        return None if self.doubt or self.total_s is None else self.total_s / self.frames * 1e6

    @property
    def resolution(self) -> float:
        """Smallest relative difference."""
        return self.resolution_s / self.total_s if self.total_s else 0.0

    @property
    def doubt(self) -> str:
        """Why it is not known; empty where it is."""
        if self.total_s is None:
            return f"CPU time is not known: {self.unknown}"
        if not self.frames:
            return "CPU time is not known: no frame arrived"
        if self.resolution_s > _MAX_UNRESOLVED * self.total_s:
            return f"CPU time is not known: the trial is too short for clocks that resolve {self.resolution_s:.2g} s"
        return ""
