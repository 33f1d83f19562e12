# SPDX-License-Identifier: Apache-2.0
"""What a run sets on cards, where the kernel has some of it on a tap device (`rx-frames`): killed, it is put back."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from xdplab.hosts import LocalHost, NetnsHost
from xdplab.knobs.ethtool import shown
from xdplab.model import TestbedSpec
from xdplab.runner.low_latency import LowLatency, low_latency
from xdplab.runner.recovery import recover_testbed
from xdplab.testbed import Port
from xdplab.testbed.fake import FakeTestbed

pytestmark = pytest.mark.root


class Taps(FakeTestbed):
    """Of the tester's ports one is a tap device, the others are simulated."""

    def __init__(self, tap: Port) -> None:
        super().__init__(TestbedSpec(name="taps", kind="fake"))
        self.ports["a0"] = tap


def tap_in(netns: str) -> Port:
    return Port("a0", NetnsHost("A", netns), "tap0", "", 1500, netns=netns, lasting=True)


@pytest.fixture
def tap() -> Iterator[Port]:
    netns, local = f"xdplab-{secrets.token_hex(2)}-L", LocalHost()
    local.run(["ip", "netns", "add", netns])
    made = tap_in(netns)
    try:
        made.host.run(["ip", "tuntap", "add", "tap0", "mode", "tap"])
        made.host.run(["ethtool", "-C", "tap0", "rx-frames", "3"])
        yield made
    finally:
        made.host.close()
        local.run(["ip", "netns", "delete", netns])


def rx_frames(tap: Port) -> str:
    found = next(line for line in shown(tap.host, "-c", "tap0").splitlines() if line.startswith("rx-frames:"))
    return " ".join(found.split())  # newer versions have a tab


def test_the_kernel_takes_it_and_has_it_back(tap: Port) -> None:
    testbed = Taps(tap)
    testbed.up()
    with low_latency(testbed) as made:
        assert made.found["a0"]["coalesce_rx_frames"] == "1"
        assert made.found["a0"]["channels"].startswith("not set: ")  # a tap has none
        assert rx_frames(tap) == "rx-frames: 1"
    assert rx_frames(tap) == "rx-frames: 3"
    testbed.down()
    assert not testbed.lock.path.exists()


def killed_run(netns: str) -> None:
    """In a process of its own."""
    testbed = Taps(tap_in(netns))
    testbed.up()
    LowLatency(testbed).apply()
    os.kill(os.getpid(), signal.SIGKILL)


def test_after_kill_9_it_is_put_back(tap: Port) -> None:
    argv = [sys.executable, "-c", f"from {Path(__file__).stem} import killed_run; killed_run({tap.netns!r})"]
    ended = subprocess.run(argv, cwd=Path(__file__).parent, check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert rx_frames(tap) == "rx-frames: 1"
    again = Taps(tap)
    assert "A: coalesce_rx_frames back to {'tap0': '3'}" in recover_testbed(again)
    assert rx_frames(tap) == "rx-frames: 3"
    assert not again.lock.path.exists()
