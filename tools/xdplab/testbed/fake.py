# SPDX-License-Identifier: Apache-2.0
"""A testbed without ports: lets every layer run without root, together with the fake tester and forwarder."""

import shutil

from xdplab.hosts import LocalHost
from xdplab.model import CpuLayout, TestbedSpec, do_each
from xdplab.testbed.base import OneMachine, Port
from xdplab.testbed.state import TestbedLock, working_folder


class FakeTestbed(OneMachine):
    """Ports that exist in name only."""

    freezer = None

    def __init__(self, spec: TestbedSpec) -> None:
        self.spec = spec
        self.layout = CpuLayout(tester_tx=0, forwarder=1)
        self.lock = TestbedLock(spec.name)
        self.dut = host = LocalHost("fake")
        self.cpus = (0, 1)
        self.ports = {
            role: Port(role, host, role, f"02:00:00:00:00:{index:02x}", spec.mtu, simulated=True)
            for index, role in enumerate(("a0", "b0", "b1", "c0", "d0", "d1"))
        }

    def beside(self, number: int) -> "FakeTestbed":
        return self

    def clear_away(self, done: list[str], *, force: bool = False) -> None:
        pass

    def up(self) -> None:
        self.lock.acquire_unchanged()
        self.lock.remember_boots(self.system)

    def down(self) -> None:
        if self.lock.held:
            shutil.rmtree(working_folder(self.spec.name), ignore_errors=True)
            do_each(f"testbed {self.spec.name}", self.lock.forget_unchanged, self.lock.release)
