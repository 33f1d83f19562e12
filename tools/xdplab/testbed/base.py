# SPDX-License-Identifier: Apache-2.0
"""What every testbed offers to forwarders, testers and knobs."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Literal, Protocol

from xdplab.hosts import Host, LocalHost, NetnsHost
from xdplab.hosts.freezer import Freezer
from xdplab.model import CpuLayout, InputError, Path, TestbedSpec
from xdplab.testbed.state import TestbedLock, working_folder


@dataclass(frozen=True)
class Port:
    """One end of a link. `role` is a0, b0, b1, c0 or d0, d1 (the direct link); `netns` is a path or None."""

    role: str
    host: Host
    ifname: str
    mac: str
    mtu: int
    netns: str | None = None
    #: True on the fake testbed: there is no interface to ask.
    simulated: bool = False
    #: True when the interface is there before the run and after it: what is changed on it must be put back.
    lasting: bool = False
    #: Address on the PCI bus of a card that a program's own driver has: there is no interface meanwhile.
    pci: str = ""
    #: IPv4 address of the frames that it sends; empty: that of RFC 2544.
    address: str = ""
    #: Number of a port of TRex, whose card is none of the kernel's.
    trex: int | None = None

    @property
    def in_kernel(self) -> bool:
        """Whether there is an interface to ask."""
        return not (self.simulated or self.pci or self.trex is not None)


@dataclass(frozen=True)
class RuleAddresses:
    """Addresses by which a direction's frames meet the other rules of a pipeline; see `packets.Range`."""

    of: Literal["source", "target"]
    #: With the traffic's own, which is the first.
    count: int
    next: str
    step: int


@dataclass(frozen=True)
class TesterPorts:
    """The tester's view of a path: frames leave at `first`; `last` receives them.

    On `hairpin` both are the same port; on `reflect` the far port (`mirror`) sends them back.
    """

    first: Port
    last: Port
    mirror: Port | None = None
    #: True when `mirror` is on a machine of its own, where the tester has to start something.
    far: bool = False
    #: The forwarder's addresses next to `first` and `last`, where frames are addressed to it.
    routers: tuple[str, str] | None = None
    #: For frames from `first` and from `last`; None: the pipeline has one rule.
    rules: tuple[RuleAddresses, RuleAddresses] | None = None
    #: Bytes that the forwarder puts in front of a frame on its way to `last`.
    added_bytes: int = 0


def ports_of_path(ports: dict[str, Port], path: Path) -> TesterPorts:
    """A sends; C receives on `through` and mirrors on `reflect`."""
    a0 = ports["a0"]
    if path is Path.THROUGH:
        return TesterPorts(a0, ports["c0"])
    return TesterPorts(a0, a0, mirror=ports["c0"] if path is Path.REFLECT else None)


class Testbed(Protocol):
    """Hosts A, B, C, their ports, and the CPUs that the data path may use."""

    @property
    def spec(self) -> TestbedSpec:
        """The file it was made from."""

    @property
    def lock(self) -> TestbedLock:
        """Its lock, with the state that `xdplab restore` reads."""

    @property
    def layout(self) -> CpuLayout:
        """The default placement of the four consumers of CPU time."""

    @property
    def ports(self) -> dict[str, Port]:
        """All ports by role."""

    @property
    def dut(self) -> Host:
        """The middle host, where the forwarder runs."""

    @property
    def tester_host(self) -> Host:
        """Where the tester's programs run: they reach its ports from there, by `Port.netns`."""

    @property
    def pods(self) -> tuple[NetnsHost, ...]:
        """Containers on the forwarder's host, which frames can pass on their way."""

    @property
    def system(self) -> Host:
        """Where settings of the forwarder's whole machine are read and written."""

    @property
    def cpus(self) -> tuple[int, ...]:
        """CPUs of the forwarder's machine that the data path may use."""

    def cpus_of(self, host: Host) -> tuple[int, ...]:
        """CPUs of the machine of one of the hosts that the data path may use."""

    @property
    def one_machine(self) -> bool:
        """True when tester and forwarder share their CPUs."""

    @property
    def clock(self) -> tuple[bool, str]:
        """Whether the tester's ports share one clock, so that a one-way latency means something, and why."""

    @property
    def freezer(self) -> Freezer | None:
        """Of what a forwarder has running on its middle host; None where it cannot be put to sleep."""

    def beside(self, number: int) -> "Testbed":
        """Place `number` for a forwarder that stands next to others, from 0 on, which is this testbed itself.

        Only where the testbed is built of namespaces are there several (`runner.turns.why_alone`).
        """

    def folder_on(self, host: Host) -> FilePath:
        """Where a run keeps sockets, databases and logs on one of the hosts; gone with the run."""

    def look(self) -> None:
        """Hold it for questions, until `down`: on hosts nothing is changed, what is built is of the testbed alone.

        Raises:
            InputError: it is in use, or this user may not.
        """

    def up(self) -> None:
        """Build it, holding its lock.

        Raises:
            InputError: it is in use, or this user may not.
        """

    def down(self) -> None:
        """Remove everything that `up` made and put everything back; safe to call twice.

        Raises:
            XdplabError: something stays; the state file tells `xdplab restore` what.
        """

    def check_connections(self) -> None:
        """A trial counts only if every host was there all the time.

        Raises:
            LinkLost: the connection to one is lost, and what ran there has ended.
        """

    def reconnect(self) -> list[str]:
        """Make lost connections again; the names of their hosts.

        Raises:
            HostLost: one is not reached again, or is not as before.
        """

    def clear_away(self, done: list[str], *, force: bool = False) -> None:
        """Holding the lock, instead of `up`: end and remove what a killed run left; `done` says what, also on errors.

        Settings of knobs can be put back after it, until `down`, on what is not left alone: `ports` is without the
        ports that are. `force`: also of a port that somebody needs by now.

        Raises:
            XdplabError: what is left alone, and why; InputError if nothing but the user can change that.
        """

    @property
    def left_alone(self) -> Sequence[Host]:
        """Hosts that `clear_away` has not reached, or that are other machines by now."""

    def notes(self) -> list[str]:
        """What is worth telling of the testbed after a run."""

    def tester_ports(self, path: Path) -> TesterPorts:
        """Where the tester sends and receives for a path."""

    def direct_ports(self) -> TesterPorts | None:
        """The direct link between two tester ports, for calibration; None when there is none."""


class OneMachine(ABC):
    """What testbeds have in common whose hosts are all this machine."""

    spec: TestbedSpec
    ports: dict[str, Port]
    one_machine = True
    pods: tuple[NetnsHost, ...] = ()
    left_alone: tuple[Host, ...] = ()
    clock = (True, "A, B and C are one machine")
    #: One object: a tester keeps its process as long as it is asked for the same host.
    _machine = LocalHost()

    @abstractmethod
    def up(self) -> None:
        """Build the testbed; `down` takes it away."""

    @property
    def tester_host(self) -> Host:
        """This machine: the tester opens the namespaces of its ports."""
        return self._machine

    @property
    def system(self) -> Host:
        """The host whose settings of the whole machine a run may change: this one."""
        return self._machine

    def cpus_of(self, host: Host) -> tuple[int, ...]:
        """The same of all of them."""
        return usable_cpus(self.spec)

    def look(self) -> None:
        """As `up`: there are no ports to ask before they are built, and they go with `down`."""
        self.up()

    def folder_on(self, host: Host) -> FilePath:
        """In the state folder, the same for all hosts."""
        return working_folder(self.spec.name)

    def notes(self) -> list[str]:
        """What a reader of the report should know of the testbed; nothing here."""
        return []

    def check_connections(self) -> None:  # noqa: B027 # of this machine there is nothing to check
        """Raise where a connection is lost; this machine has none."""

    def reconnect(self) -> list[str]:
        """Make lost connections again; names of hosts whose connection was lost: none here."""
        return []

    def tester_ports(self, path: Path) -> TesterPorts:
        """Where the tester sends and receives for a path."""
        return ports_of_path(self.ports, path)

    def direct_ports(self) -> TesterPorts | None:
        """The direct link between A and C."""
        return TesterPorts(self.ports["d0"], self.ports["d1"])


def usable_cpus(spec: TestbedSpec) -> tuple[int, ...]:
    """CPUs of the testbed file, or all that this process may run on.

    Raises:
        InputError: the file names a CPU that is not there, or fewer than two are left.
    """
    here = tuple(sorted(os.sched_getaffinity(0)))
    cpus = tuple(dict.fromkeys(spec.cpus)) if spec.cpus is not None else here
    missing = [cpu for cpu in cpus if cpu not in here]
    if missing:
        raise InputError(f"testbed {spec.name}: cpus: {missing} not available here (available: {list(here)})")
    if len(cpus) < 2:
        raise InputError(f"testbed {spec.name}: cpus: two are needed, one for the tester and one for the forwarder")
    return cpus


def extra_sender_cpus(first: int, spare: Sequence[int], spec: TestbedSpec) -> tuple[int, ...]:
    """CPUs that send next to `first`, as many as the testbed file has or there are.

    A veth takes a frame into queue number CPU modulo queues: those that fill other queues come first.
    """
    found = [first]
    left = list(spare)
    while left and len(found) < spec.senders:
        filled = [cpu % spec.queues for cpu in found]
        found.append(min(left, key=lambda cpu: (filled.count(cpu % spec.queues), left.index(cpu))))
        left.remove(found[-1])
    return tuple(found[1:])


def default_layout(spec: TestbedSpec) -> CpuLayout:
    """Tester on the first CPU, forwarder on the second, both NAPIs inline; further senders, and the rest keeps house.

    With two CPUs housekeeping shares the tester's core: what it takes there shows as late departures,
    whereas on the forwarder's core it would pass for the forwarder's latency.
    """
    cpus = usable_cpus(spec)
    beside = extra_sender_cpus(cpus[0], cpus[2:], spec)
    rest = tuple(cpu for cpu in cpus[2:] if cpu not in beside)
    return CpuLayout(tester_tx=cpus[0], forwarder=cpus[1], housekeeping=rest or cpus[:1], extra_senders=beside)
