# SPDX-License-Identifier: Apache-2.0
"""What runs between a forwarder's start and its stop, and what it counts of its own work."""

import hashlib
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from xdplab.forwarders.base import Dut, Forwarder, OptionsT
from xdplab.hosts import Running
from xdplab.hosts.kernel import link_counters
from xdplab.hosts.waiting import how_it_ended, last_words, wait_until
from xdplab.model import PointFailed
from xdplab.model.base import Amount, Model


def by_hash(path: Path) -> str:
    """What stands for the version of a file that tells none."""
    return f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


class Instance:
    """What runs between a forwarder's start and its stop; here what the kernel does by itself, without a process."""

    def __init__(self, name: str, dut: Dut) -> None:
        """`name`: of the forwarder, for messages."""
        self.name = name
        self.dut = dut

    @property
    def pids(self) -> tuple[int, ...]:
        return ()

    def ended(self) -> str | None:
        """None while it runs, or a sentence saying which process ended how."""
        return None

    def log_tail(self) -> tuple[str, ...]:
        """The last lines of its log."""
        return ()

    def stop(self) -> None:
        """End it and remove what it made; safe after a crash."""

    def until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Waits for a condition.

        Raises:
            PointFailed: it ended, or the condition does not hold after `timeout_s`.
        """

        def holds() -> bool:
            self.check_alive()
            return condition()

        wait_until(holds, timeout_s, f"{self.name}: {what}")

    def check_alive(self) -> None:
        """Raises PointFailed when it ended, with its last words."""
        ended = self.ended()
        if ended:
            who = "" if ended.startswith(self.name) else f"{self.name}: "
            raise PointFailed(f"{who}{ended}: {last_words(self.log_tail())}")

    def link_counters(self) -> dict[str, Any]:
        return {port.role: link_counters(self.dut.host, port.ifname) for port in self.dut.ports}


InstanceT = TypeVar("InstanceT", bound=Instance)


class InstanceForwarder(Forwarder[OptionsT], Generic[OptionsT, InstanceT]):
    """A forwarder whose `start` makes an instance, which exists only while it runs."""

    _instance: InstanceT | None = None

    @property
    def instance(self) -> InstanceT:
        """What runs.

        Raises:
            PointFailed: nothing does.
        """
        if self._instance is None:
            raise PointFailed(f"{self.name}: it does not run")
        return self._instance

    @instance.setter
    def instance(self, instance: InstanceT) -> None:
        """Set by `start` before it waits, so that `stop` finds what a failed start has left."""
        self._instance = instance

    def stop(self) -> None:
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.stop()

    def crashed(self) -> str | None:
        """Whether a process of it ended."""
        return self._instance.ended() if self._instance else None

    def pids(self) -> tuple[int, ...]:
        return self._instance.pids if self._instance else ()

    def log_tail(self) -> tuple[str, ...]:
        return self._instance.log_tail() if self._instance else ()


class Process(Instance):
    """An instance that is one process."""

    def __init__(self, name: str, program: str, dut: Dut, running: Running, grace_s: float = 3.0) -> None:
        """Args: `name` of the forwarder and of its `program`, for messages; `grace_s`: how long it may take to end."""
        super().__init__(name, dut)
        self.program = program
        self.running = running
        self._grace_s = grace_s

    @property
    def pids(self) -> tuple[int, ...]:
        return (self.running.pid,)

    def ended(self) -> str | None:
        return how_it_ended(self.program, self.running)

    def log_tail(self) -> tuple[str, ...]:
        return self.running.log_tail()

    def stop(self) -> None:
        """SIGTERM: it takes back what it has attached."""
        self.running.stop(self._grace_s)

    def until_socket(self, timeout_s: float) -> None:
        """Until its port has an XDP program and it has a socket there: no frame that comes proves it."""
        host, ifname = self.dut.host, self.dut.ports[0].ifname
        self.until(
            lambda: host.xdp(ifname) is not None and any(host.xsk_sockets(pid) for pid in self.pids),
            timeout_s,
            f"an AF_XDP socket on {ifname}",
        )


class EventProcess(Process):
    """A program of `bpf/`: it writes events as JSON, one a line, when it is ready and when it is asked."""

    def __init__(self, name: str, program: str, dut: Dut, running: Running, output: Path) -> None:
        """`output` is where it writes."""
        super().__init__(name, program, dut, running)
        self._output = output

    def events(self) -> list[dict[str, Any]]:
        """All so far; half a last line is left for the next look."""
        host, found = self.dut.host, []
        for line in host.read(str(self._output)).splitlines() if host.exists(self._output) else ():
            try:
                found.append(json.loads(line))
            except ValueError:
                break
        return found

    def until_ready(self, timeout_s: float) -> None:
        """Until its ready line.

        Raises:
            PointFailed: it ended, or has none after `timeout_s`.
        """
        self.until(lambda: bool(self.events()), timeout_s, "its ready line")

    def ask(self, number: signal.Signals, timeout_s: float, what: str) -> dict[str, Any]:
        """The event that it answers a signal with; the last one where it has ended.

        Raises:
            PointFailed: it does not answer.
        """
        before = len(self.events())
        self.running.signal(number)
        wait_until(lambda: len(self.events()) > before or self.ended() is not None, timeout_s, f"{self.name}: {what}")
        return self.events()[-1]


# What a forwarder counted of its own work in a trial: lookup hits, and what they cost, by its own clock.

#: Keys of `TrialRecord.increments`: thread of a datapath -> `ThreadLookups`; thread of a graph -> node -> `NodeWork`.
LOOKUPS, NODES = "lookups", "nodes"
#: Of a port of Open vSwitch (custom statistics): frames that offloaded flows forwarded or dropped, and those left to
#: the socket, which met none, or were not understood, or may not be sent so.
XDP_FLOW_OFFLOADED, XDP_FLOW_LEFT = "xdp_flow_packets", ("xdp_flow_misses", "xdp_flow_undecided", "xdp_flow_unsendable")


class ThreadLookups(Model):
    """Of a thread of Open vSwitch's netdev datapath (`dpif-netdev/pmd-stats-show`, since 4.0 `pmd-perf-show`).

    Each look-up of a frame ends in one place; a frame that is recirculated is looked up again.
    """

    #: Frames that it received from ports.
    frames: Amount = 0
    #: Look-ups next to the first of each frame.
    recirculated: Amount = 0
    #: Met by a flow of the network card ("PHWOL hits").
    hardware: Amount = 0
    #: Met by the table of flows that match nothing but the port and the Ethernet type ("simple match").
    simple: Amount = 0
    #: Met by the exact-match cache.
    emc: Amount = 0
    #: Met by the signature-match cache.
    smc: Amount = 0
    #: Met by the classifier of megaflows (dpcls).
    megaflow: Amount = 0
    #: Subtables that were looked into for those.
    subtables: Amount = 0
    #: Met by none, and answered by ofproto.
    upcalls: Amount = 0
    #: Met by none, and not answered.
    lost: Amount = 0
    #: Ticks of the time stamp counter in iterations that had frames; None of the main thread, whose are not counted.
    cycles: Amount | None = None
    #: The same in iterations that had none.
    idle: Amount | None = None


class NodeWork(Model):
    """Of a node of VPP's graph that was handed frames, or fetched them from ports, in one thread (`show runtime`)."""

    #: How often it was called.
    calls: Amount = 0
    #: Of a node that fetches: about how many of these calls found no frame.
    empty: Amount = 0
    #: Frames that it was handed or fetched.
    vectors: Amount = 0
    #: Those of them that it fetched.
    received: Amount = 0
    #: Ticks of the time stamp counter in all calls, within half a percent: VPP prints three digits of their mean.
    clocks: Amount = 0
    #: About how many of these the empty calls took; None where that is not known.
    idle: Amount | None = None
