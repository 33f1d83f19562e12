# SPDX-License-Identifier: Apache-2.0
"""A simulated box, for testing every layer without root and for judging search methods."""

from functools import partial
from typing import Any, ClassVar

from pydantic import Field

from xdplab.forwarders.base import Dut, Forwarder, no_role
from xdplab.forwarders.changes import Change, Changing, Step, count_differs
from xdplab.model import Model, PointFailed
from xdplab.model.study import OnePortRole

#: Loss ratio of a soft knee at capacity.
KNEE_LOSS = 0.01


class Box(Model):
    """Time, loss and rate of a simulated forwarder."""

    capacity_pps: float = Field(default=1.25e6, gt=0)
    base_latency_us: float = Field(default=3.0, gt=0)
    #: Standard deviation of the capacity from trial to trial, as a ratio.
    jitter_ratio: float = Field(default=0.002, ge=0, lt=1)
    #: Standard deviation of the logarithm of the latency from trial to trial.
    latency_jitter_ratio: float = Field(default=0.02, ge=0, lt=1)
    #: Mean time between stalls (0: none) and how many frames one loses.
    stall_every_s: float = Field(default=0.0, ge=0)
    stall_frames: int = Field(default=300, ge=0)
    #: Frames that may wait before one is lost.
    buffer_frames: int = Field(default=256, ge=0)
    #: Softness of the knee (0: sharp): below capacity the loss falls by a factor e for each such share of it.
    knee_ratio: float = Field(default=0.0, ge=0, lt=1)
    #: What the tester in front of it can send at the most, while a forwarder runs next to it.
    tester_top_pps: float = Field(default=5e6, gt=0)
    #: Share of each trial in which the machine takes the sender's core away, in stalls of about `sender_stall_s`.
    sender_stall_ratio: float = Field(default=0.0, ge=0, lt=1)
    sender_stall_s: float = Field(default=0.01, gt=0)
    #: Frames that the sender catches up with after a stall, in a burst at its top rate; it skips the others.
    sender_catch_up_frames: int = Field(default=0, ge=0)
    #: Share of frames lost at any load.
    loss_floor: float = Field(default=0.0, ge=0, lt=1)
    seed: int = 0
    #: What a change under load takes for each rule, for how long nothing is forwarded at its beginning, and how many
    #: times as long frames take in such a trial.
    change_us: float = Field(default=10.0, gt=0)
    change_blocks_s: float = Field(default=0.0, ge=0)
    change_slows: float = Field(default=1.0, gt=0)
    #: Test hooks: it takes a change and does nothing; it dies of one.
    change_ignored: bool = False
    change_crashes: bool = False
    #: Test hooks: die in the middle of the n-th trial; refuse to start; be unsupported with this reason.
    crash_at_trial: int = 0
    fail_to_start: bool = False
    unsupported_reason: str = ""


class FakeForwarder(Forwarder[Box], Changing):
    """Forwards nothing; the fake tester asks it for its box."""

    name: ClassVar[str] = "fake"
    options_model: ClassVar[type[Model]] = Box
    simulated: ClassVar[bool] = True
    changes: ClassVar[tuple[str, ...]] = ("rules", "rule-stream", "hit-rule", "port-added", "new-flows")

    def __init__(self, options: Box) -> None:
        super().__init__(options)
        self.box = options
        self._crashed = False
        self._received = 0
        self._rules = 0
        #: Whether a change fell into the trial that is played next.
        self.changed = False

    def unsupported(self, dut: Dut) -> str | None:
        return self.box.unsupported_reason or None

    def start(self, dut: Dut) -> None:
        if self.box.fail_to_start:
            raise PointFailed("fake: did not start, as its option fail_to_start asked for")

    def stop(self) -> None:
        """Nothing to stop."""

    def in_role(self, role: OnePortRole, frame_bytes: int) -> "FakeForwarder":
        """It forwards nothing: with one port it is the same."""
        if role not in ("rxdrop", "l2fwd"):
            raise no_role(self, role)
        return self

    def change(self, kind: str, count: int) -> Change:
        """As many rules as were asked for, or one of what else there is, a restart among it."""
        number = count if kind.startswith("rule") else 1

        def act(wanted: int) -> float:
            self.changed = True
            if self.box.change_crashes:
                self.crash()
                raise PointFailed("fake: died of a change, as its option change_crashes asked for")
            self._rules = 0 if self.box.change_ignored else wanted
            return number * self.box.change_us / 1e6

        steps = (("installed", number), ("removed", 0))
        done = [Step(n, number, partial(act, w), count_differs("rules", w, lambda: self._rules)) for n, w in steps]
        return Change(done)

    def flows_met(self) -> int:
        """As if each frame were of a new one."""
        return 0 if self.box.change_ignored else self._received

    def tally(self, frames: int) -> None:
        """Told by the fake tester: as many came in."""
        self._received += frames

    def frames_received(self) -> int:
        return self._received

    def crash(self) -> None:
        self._crashed = True

    def crashed(self) -> str | None:
        return "fake was ended by its option" if self._crashed else None

    def mode(self) -> dict[str, Any]:
        return {"label": "simulated"}

    def log_tail(self) -> tuple[str, ...]:
        """One line, so that records can be tested for it."""
        return ("fake: last line of the log",)
