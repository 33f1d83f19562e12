# SPDX-License-Identifier: Apache-2.0
"""What every testbed offers to forwarders, testers and knobs."""

import os
from dataclasses import dataclass
from typing import Protocol

from xdplab.hosts import Host
from xdplab.model import CpuLayout, InputError, Path, TestbedSpec
from xdplab.testbed.state import TestbedLock


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


@dataclass(frozen=True)
class TesterPorts:
    """The tester's view of a path: frames leave at `first`; `last` receives them.

    On `hairpin` both are the same port; on `reflect` the far port (`mirror`) sends them back.
    """

    first: Port
    last: Port
    mirror: Port | None = None


def ports_of_path(ports: dict[str, Port], path: Path) -> TesterPorts:
    """A sends; C receives on `through` and mirrors on `reflect`."""
    a0, c0 = ports["a0"], ports["c0"]
    if path is Path.THROUGH:
        return TesterPorts(a0, c0)
    return TesterPorts(a0, a0, mirror=c0 if path is Path.REFLECT else None)


class Testbed(Protocol):
    """Hosts A, B, C, their ports, and the CPUs that the data path may use."""

    @property
    def spec(self) -> TestbedSpec:
        """The file it was made from."""

    @property
    def lock(self) -> TestbedLock:
        """Its lock, with the state that `xdplab down` reads."""

    @property
    def layout(self) -> CpuLayout:
        """The default placement of the four consumers of CPU time."""

    @property
    def ports(self) -> dict[str, Port]:
        """All ports by role."""

    @property
    def dut(self) -> Host:
        """The middle host, where the forwarder runs."""

    def up(self) -> None:
        """Build it, holding its lock.

        Raises:
            InputError: it is in use, or this user may not.
        """

    def down(self) -> None:
        """Remove everything that `up` made; safe to call twice."""

    def tester_ports(self, path: Path) -> TesterPorts:
        """Where the tester sends and receives for a path."""

    def direct_ports(self) -> TesterPorts | None:
        """The direct link between two tester ports, for calibration; None when there is none."""


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


def default_layout(spec: TestbedSpec) -> CpuLayout:
    """Tester on the first CPU, forwarder on the second, both NAPIs inline; the rest keeps house.

    With two CPUs housekeeping shares the tester's core: what it takes there shows as late departures,
    whereas on the forwarder's core it would pass for the forwarder's latency.
    """
    cpus = usable_cpus(spec)
    return CpuLayout(tester_tx=cpus[0], forwarder=cpus[1], housekeeping=cpus[2:] or cpus[:1])
