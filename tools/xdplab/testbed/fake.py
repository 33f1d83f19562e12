# SPDX-License-Identifier: Apache-2.0
"""A testbed of nothing: lets every layer run without root, together with the fake tester and forwarder."""

import shutil
from pathlib import Path as FilePath

from xdplab.hosts import Host, LocalHost
from xdplab.model import CpuLayout, Path, TestbedSpec
from xdplab.testbed.base import Port, TesterPorts, ports_of_path
from xdplab.testbed.state import TestbedLock, working_folder


class FakeTestbed:
    """Ports that exist in name only."""

    def __init__(self, spec: TestbedSpec) -> None:
        self.spec = spec
        self.layout = CpuLayout(tester_tx=0, forwarder=1)
        self.lock = TestbedLock(spec.name)
        host = LocalHost("fake")
        self._host = host
        self.ports = {
            role: Port(role, host, role, f"02:00:00:00:00:{index:02x}", spec.mtu, simulated=True)
            for index, role in enumerate(("a0", "b0", "b1", "c0", "d0", "d1"))
        }

    @property
    def dut(self) -> Host:
        """The middle host."""
        return self._host

    @property
    def tester_host(self) -> Host:
        """This machine: the tester opens the namespaces of its ports."""
        return LocalHost()

    @property
    def system(self) -> Host:
        """This machine."""
        return LocalHost()

    @property
    def cpus(self) -> tuple[int, ...]:
        """Two."""
        return (0, 1)

    @property
    def one_machine(self) -> bool:
        """Always."""
        return True

    @property
    def clock(self) -> tuple[bool, str]:
        """All hosts are this machine."""
        return True, "A, B and C are one machine"

    def folder_on(self, host: Host) -> FilePath:
        """In the state folder, the same for all hosts."""
        return working_folder(self.spec.name)

    def clear_away(self) -> list[str]:
        """Nothing."""
        return []

    def up(self) -> None:
        """Take the lock."""
        self.lock.acquire()
        self.lock.remember_boots(self.system)

    def down(self) -> None:
        """Give the lock back."""
        if self.lock.held:
            shutil.rmtree(working_folder(self.spec.name), ignore_errors=True)
            if not self.lock.state().get("settings"):
                self.lock.forget()
            self.lock.release()

    def notes(self) -> list[str]:
        """None."""
        return []

    def tester_ports(self, path: Path) -> TesterPorts:
        """Where the tester sends and receives for a path."""
        return ports_of_path(self.ports, path)

    def direct_ports(self) -> TesterPorts | None:
        """The simulated direct link."""
        return TesterPorts(self.ports["d0"], self.ports["d1"])
