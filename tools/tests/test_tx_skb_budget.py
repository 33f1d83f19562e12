# SPDX-License-Identifier: Apache-2.0
"""The budget of a send call in copy mode: unsupported where the kernel has none (before Linux 6.17)."""

from pathlib import Path
from typing import Any

import pytest

from xdplab.forwarders import Dut
from xdplab.forwarders.options import SocketOptions
from xdplab.forwarders.xsk.forwarder import XskForwarder, XskOptions
from xdplab.hosts import LocalHost
from xdplab.model import CpuLayout, Path as Way
from xdplab.testbed import Port
from xdplab.testbed.base import ports_of_path
from xdplab.testers.xsk import XskTester

BEFORE, SINCE = "6.1.0-32-amd64\n", "6.17.0\n"


class Kernel(LocalHost):
    def __init__(self, release: str) -> None:
        super().__init__()
        self._release = release

    def read(self, path: Any) -> str:
        assert str(path) == "/proc/sys/kernel/osrelease"
        return self._release


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xdplab.hosts.bpf.bpf_program", lambda name: Path("/bin/true"))


@pytest.mark.parametrize(
    ("release", "options", "needs"),
    [
        (BEFORE, {"tx_skb_budget": 256}, "Linux 6.1.0-32-amd64 has no XDP_MAX_TX_SKB_BUDGET (needs 6.17)"),
        (BEFORE, {}, None),
        (SINCE, {"tx_skb_budget": 256}, None),
    ],
)
def test_a_kernel_without_it(tmp_path: Path, release: str, options: dict[str, Any], needs: str | None) -> None:
    host = Kernel(release)
    dut = Dut(host, (), Way.HAIRPIN, CpuLayout(tester_tx=0, forwarder=0), tmp_path)
    port = Port("a0", host, "p0", "02:00:00:00:00:0a", 1500)
    ports = ports_of_path({"a0": port, "c0": port}, Way.HAIRPIN)
    tester = XskTester(SocketOptions(**options))
    for reason in (XskForwarder(XskOptions(**options)).unsupported(dut), tester.supports_path(ports)):
        assert (reason is None) if needs is None else (needs in (reason or ""))
