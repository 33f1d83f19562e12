# SPDX-License-Identifier: Apache-2.0
"""What a tester is: one method that runs a trial, and questions asked before."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, ClassVar, NamedTuple, TypeVar

from pydantic import ValidationError

from xdplab.hosts import Host, LocalHost, Running
from xdplab.hosts.waiting import last_words, stopped
from xdplab.model import (
    Calibration,
    CpuLayout,
    ForwarderSpec,
    InputError,
    Model,
    PointFailed,
    TestbedSpec,
    TrafficSpec,
    TrialResult,
    TrialSpec,
    plugins,
    validated,
)
from xdplab.model.traffic import ONE_BUFFER_BYTES
from xdplab.testbed import Testbed, TesterPorts

#: What a trial may take next to its traffic.
_GRACE_S = 30.0


class RxChoice(NamedTuple):
    """The receive program of a run and why it was chosen: it is the same for all forwarders of a run."""

    program: str
    reason: str


#: Of a tester that has the cards itself.
OWN_CARDS = RxChoice("cards of its own", "the tester has the cards of A and C without the kernel")


@dataclass(frozen=True)
class TesterContext:
    """Where a trial runs. `forwarder` is None on the direct link.

    `check_alive` is asked about once a second and answers with a sentence when the forwarder has died.
    """

    ports: TesterPorts
    layout: CpuLayout
    rx_program: str
    #: The same for all trials of a run.
    workdir: FilePath
    #: Where the tester's programs run, and where `workdir` is.
    host: Host = field(default_factory=LocalHost)
    forwarder: Any = None
    check_alive: Callable[[], str | None] = lambda: None
    #: Which trial of the run this is; a simulated tester draws its chance from it, so that a resumed run repeats it.
    trial_key: str = ""
    #: Trials on other paths come in between.
    beside: bool = False


T = TypeVar("T")


def while_well(
    receive: Callable[[float], T | None], process: Running, context: TesterContext, trial: TrialSpec, name: str
) -> T:
    """What a tester's process gives when a trial is over; `receive` waits for it, for so many seconds.

    Raises:
        PointFailed: it is late, or the forwarder has died, which ends a long trial early.
    """
    deadline = time.monotonic() + trial.warmup_s + trial.duration_s + trial.drain_s + _GRACE_S
    while (given := receive(1.0)) is None:
        if ended := context.check_alive():
            raise PointFailed(ended)
        if time.monotonic() > deadline:
            held = stopped(context.host, [process.pid])
            raise PointFailed(held or f"{name}: did not end in time: {last_words(process.log_tail(), 3)}")
    return given


class Tester(ABC):
    """Base of all testers."""

    name: ClassVar[str]
    #: Receive programs it has, the one that costs the forwarder's core least first.
    rx_programs: ClassVar[tuple[str, ...]] = ("none",)
    #: True when it only exists on the fake testbed.
    simulated: ClassVar[bool] = False
    #: True when both its ports must be on one host; the embedded testbed then has A and C in one namespace.
    one_host: ClassVar[bool] = False
    #: True when it loses frames by itself below its top rate: its calibration then finds the highest it carries whole.
    loses_by_itself: ClassVar[bool] = False
    #: True when it sends one thing at a time and waits for it: it has round trips without a load, no rates.
    closed_loop: ClassVar[bool] = False
    #: True when it recognises its frames inside others (`TesterPorts.added_bytes`).
    knows_tunnelled: ClassVar[bool] = False
    #: True when frames can have a payload of the user's, with their identity inside (`request` of the traffic).
    sends_requests: ClassVar[bool] = False
    #: True when it can have cards without the kernel (`trex` of a port in the testbed file).
    owns_cards: ClassVar[bool] = False
    #: True when more than one CPU sends for a port (`senders` of the testbed file).
    several_senders: ClassVar[bool] = False
    #: Largest frame that it sends and receives, in bytes with FCS.
    largest_frame: ClassVar[int] = ONE_BUFFER_BYTES
    #: RFC 2544 clauses it has no figures for, and why.
    cannot: ClassVar[Mapping[str, str]] = {}
    #: Options of `name:option=value,...`; they are given to its constructor. None: it takes none.
    options_model: ClassVar[type[Model] | None] = None

    def unsupported(self, testbed: Testbed) -> str | None:
        """None, or the reason why it cannot run here."""
        return None

    def supports_path(self, ports: TesterPorts) -> str | None:
        """None, or the reason why it cannot measure a path with these ports."""
        return None

    def supports_traffic(self, traffic: TrafficSpec, ports: TesterPorts) -> str | None:
        """None, or the reason why it cannot send such frames, at such times, or choose among these flows."""
        return None

    def choose_rx(self, redirects: bool) -> RxChoice:
        """The receive program for a run; `redirects`: one of its forwarders transmits by XDP redirect."""
        return RxChoice(self.rx_programs[0], "the only one")

    def smallest_frame(self, ip: int, tag_bytes: int = 0) -> int:
        """Smallest frame in bytes (with FCS) that can carry its trailer; `tag_bytes`: length of its VLAN tags."""
        return 64

    def senders(self, testbed: TestbedSpec) -> int:
        """CPUs that send for each port."""
        return testbed.senders if self.several_senders else 1

    @abstractmethod
    def run(self, context: TesterContext, trial: TrialSpec) -> TrialResult:
        """Send, receive, stop, drain, count.

        Raises:
            PointFailed: the tester or the forwarder broke.
        """

    def identity(self) -> Mapping[str, str] | None:
        """What tells it from every other build and setting of it, so that a calibration holds for its next runs too.

        None: it is calibrated before each run.
        """
        return None

    def find_top_rate(self, send: Callable[[float], TrialResult]) -> None:  # noqa: B027 - most need not
        """Before its calibration on the direct link, by short trials of so many frames per second."""

    def calibrated(self, found: Calibration) -> None:  # noqa: B027 - most need none of it
        """What its calibration has found, also that of an earlier run."""

    def macs(self, context: TesterContext) -> tuple[str, str]:
        """MAC addresses of its two ports, asked of itself where it has their cards; before its first trial.

        Raises:
            PointFailed: it does not answer.
        """
        return context.ports.first.mac, context.ports.last.mac

    def unproven(self) -> tuple[str, ...]:
        """Names of options that were passed on as they are, which nothing shows to be in force."""
        return ()

    def rest(self) -> None:  # noqa: B027 - most leave nothing there
        """A repetition of a point is over: nothing may stay at the ports; what is slow to start may wait."""

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of the ports: another tester wants them, or the run is over. The next trial takes them again."""

    @classmethod
    def versions(cls, host: Host) -> Mapping[str, str]:
        """Program -> version."""
        return {}


def run_trial(tester: Tester, context: TesterContext, trial: TrialSpec) -> TrialResult:
    """Run a trial; an impossible report fails its point alone.

    Raises:
        PointFailed: the tester broke, or reports what cannot be.
    """
    try:
        return tester.run(context, trial)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        got = f"{first['msg']} (got {first['input']!r:.40})"
        raise PointFailed(f"{tester.name}: impossible value in its report: {where}: {got}") from None


GROUP = "xdplab.testers"


def make_tester(text: str) -> Tester:
    """The tester of `name[:option=value,...]`.

    Raises:
        InputError: no such tester, or an option it has not.
    """
    try:
        asked = ForwarderSpec.parse(text)
    except ValueError as exc:
        raise InputError(f"tester: {str(exc).replace('forwarder', 'tester')}") from None
    name, options = asked["name"], asked["options"]
    found = plugins.find(GROUP, "tester", name)
    model = found.options_model
    if model is None:
        if options:
            raise InputError(f"tester {name!r}: takes no options, {next(iter(options))!r} is given")
        tester = found()
    else:
        tester = found(validated(model, options, f"tester {name}"))
    assert isinstance(tester, Tester)
    return tester
