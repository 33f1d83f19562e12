# SPDX-License-Identifier: Apache-2.0
"""A machine without /dev/net/tun: Open vSwitch says only that its bridge's socket is not there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab.command import Done
from lab.ovs_host import OvsHost, dut_maker, forwarder

from xdplab.hosts import LocalHost
from xdplab.hosts.base import Completed
from xdplab.hosts.kernel import TUN, why_no_tap

WHY = "No such file or directory"


class NoTun(OvsHost):
    def run(self, argv: Any, **more: Any) -> Completed:
        if TUN in argv:
            return Completed(tuple(argv), 1, "", f"head: cannot open '{TUN}' for reading: {WHY}\n")
        return super().run(argv, **more)


@pytest.mark.parametrize("name", ["ovs-afxdp", "ovs-afpacket", "ovs-dpdk"])
def test_open_vswitch_is_unsupported_with_the_reason(name: str, tmp_path: Path) -> None:
    dut = dut_maker(tmp_path)
    reason = forwarder(name).unsupported(dut(NoTun()))
    assert reason == (
        f"Open vSwitch makes a tap device for each bridge, and {TUN} cannot be opened ({WHY}): "
        "modprobe tun; a container must be given this device"
    )
    assert TUN not in str(forwarder(name).unsupported(dut(OvsHost())))


def test_the_device_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent, there = tmp_path / "tun", tmp_path / "there"
    monkeypatch.setattr("xdplab.hosts.kernel.TUN", str(absent))
    assert why_no_tap(LocalHost()) == f"{absent} cannot be opened ({WHY})"
    there.touch()
    monkeypatch.setattr("xdplab.hosts.kernel.TUN", str(there))
    assert why_no_tap(LocalHost()) is None


def test_the_doctor_has_a_row_of_it(cli: Callable[..., Done]) -> None:
    (row,) = (check for check in cli("doctor", "--json").json() if check["name"] == "tap devices")
    missing = why_no_tap(LocalHost())
    assert row["state"] == ("missing" if missing else "ok")
    assert row["found"] == (f"{missing}: Open vSwitch cannot make a bridge" if missing else TUN)
