# SPDX-License-Identifier: Apache-2.0
"""Knobs on this machine and on namespaces: those that are live are set, seen and put back, also after kill -9.

`XDPLAB_KILLS=200 pytest tools/tests/test_root_knobs.py -k kill_9` is the long form; `make test` kills a handful.
"""

import json
import os
import platform
import random
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.command import finish, kill_9
from lab.rooted import Lab

from xdplab.hosts import LocalHost, NetnsHost
from xdplab.knobs import KnobContext, make_knob
from xdplab.model import CpuLayout, plugins
from xdplab.model.design import Scalar
from xdplab.runner.settings import Settings
from xdplab.testbed import Port, TestbedLock

pytestmark = pytest.mark.root

#: What is live on veth, and a value that it does not have before.
ON_VETH: dict[str, Scalar] = {
    "channels": 2,
    "cpu_layout": "1C1T",
    "gro_flush_timeout": 20000,
    "irq_suspend_timeout": 30000,
    "mtu": 1400,
    "napi_defer_hard_irqs": 2,
    "offload_gro": "off",
    "offload_rx_checksum": "off",
    "offload_rx_vlan": "off",
    "offload_tso": "off",
    "offload_tx_checksum": "off",
    "threaded_napi": 1,
}
#: Where not each kernel since Debian 12's has it.
SINCE = {"irq_suspend_timeout": (6, 13)}
#: And of the machine, as far as it has them.
OF_THE_MACHINE: dict[str, Scalar] = {
    "cpu_dma_latency_us": 0,
    "cpuidle_max_state": 0,
    "sysctl_busy_poll_us": 3,
    "sysctl_busy_read_us": 7,
}
#: What veth has not got: the reason says so.
NOT_ON_VETH: dict[str, Scalar] = {
    "coalesce_adaptive_rx": "on", "coalesce_adaptive_tx": "on", "coalesce_rx_frames": 1, "coalesce_rx_usecs": 1,
    "coalesce_tx_frames": 1, "coalesce_tx_usecs": 1, "flow_steering": 0, "irq_cpu": "forwarder", "ntuple": "on",
    "offload_lro": "on", "pause": "off", "private_flag": "x=on", "rss_queues": 1, "rx_ring": 64, "tx_ring": 64,
}  # fmt: skip


@pytest.fixture
def context() -> Iterator[KnobContext]:
    """Two ports of veth pairs with NAPI on, in a namespace of this test."""
    netns, tag, local = f"xdplab-{secrets.token_hex(2)}-K", secrets.token_hex(2), LocalHost()
    local.run(["ip", "netns", "add", netns])
    host, ports = NetnsHost("B", netns), []
    for role in ("b0", "b1"):
        ends = [["name", f"{role}{side}{tag}", "netns", netns, "numrxqueues", "4", "numtxqueues", "4"] for side in "xy"]
        local.run(["ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1]])
        for side in "xy":
            host.run(["ip", "link", "set", f"{role}{side}{tag}", "up"])
        host.run(["ethtool", "-K", f"{role}x{tag}", "gro", "on"])
        ports.append(Port(role=role, host=host, ifname=f"{role}x{tag}", mac="", mtu=1500, netns=f"/run/netns/{netns}"))
    yield KnobContext(host, tuple(ports), CpuLayout(tester_tx=0, forwarder=1, housekeeping=(0,)), (0, 1))
    local.run(["ip", "netns", "delete", netns])


def machine_settings() -> dict[str, Any]:
    """What the knobs of the machine would save now."""
    here = KnobContext(LocalHost(), (), CpuLayout(tester_tx=0, forwarder=1), tuple(sorted(os.sched_getaffinity(0))))
    live = {name: value for name, value in OF_THE_MACHINE.items() if make_knob(name).unsupported(here, value) is None}
    return {name: make_knob(name).read(here) for name in live}


@pytest.mark.parametrize("name", ON_VETH)
def test_what_is_live_on_veth_is_set_seen_and_put_back(name: str, context: KnobContext) -> None:
    knob = make_knob(name)
    value = knob.check(ON_VETH[name])
    reason = knob.unsupported(context, value)
    if name in SINCE and tuple(map(int, platform.release().split(".")[:2])) < SINCE[name]:
        version = ".".join(map(str, SINCE[name]))
        assert (reason or "").startswith(f"{name}: Linux {platform.release()} ")
        assert f"needs {version}" in (reason or "")
        return
    assert reason is None
    saved = json.loads(json.dumps(knob.read(context)))  # as the state file keeps it
    knob.apply(context, value)
    knob.verify(context, value)
    assert knob.read(context) != saved
    knob.restore(context, saved)
    assert knob.read(context) == saved


@pytest.mark.parametrize("name", OF_THE_MACHINE)
def test_what_the_machine_has_is_set_seen_and_put_back(name: str, context: KnobContext) -> None:
    knob = make_knob(name)
    value = knob.check(OF_THE_MACHINE[name])
    reason = knob.unsupported(context, value)
    if reason:
        pytest.skip(reason)
    settings = Settings(TestbedLock("knobs"), context, {name: value})
    before = knob.read(context)
    settings.apply()
    changed = settings.read_back()[name]
    lasting = TestbedLock("knobs").state()["settings"]
    settings.restore()
    assert changed != before
    assert lasting == {name: before}
    assert knob.read(context) == before


@pytest.mark.parametrize("name", NOT_ON_VETH)
def test_what_veth_has_not_got_is_said(name: str, context: KnobContext) -> None:
    knob = make_knob(name)
    reason = knob.unsupported(context, knob.check(NOT_ON_VETH[name])) or ""
    assert reason.startswith(f"{name}: ")
    assert "veth" in reason


def test_every_knob_is_tried_on_this_machine_or_on_a_card_that_is_played() -> None:
    played = {"ddio_ways", "governor", "turbo"}  # test_knobs_card.py; hugepages_2m: test_root_interrupts.py
    assert {*ON_VETH, *OF_THE_MACHINE, *NOT_ON_VETH, *played, "hugepages_2m"} == set(plugins.names("xdplab.knobs"))


def test_a_level_that_leaves_a_knob_alone_touches_nothing(context: KnobContext) -> None:
    settings = Settings(TestbedLock("knobs"), context, {"coalesce_rx_usecs": "unset", "mtu": "unset"})
    assert settings.unsupported() is None
    settings.apply()
    assert settings.read_back() == {}
    settings.restore()


KILLS = int(os.environ.get("XDPLAB_KILLS", "5"))
_SEED = int(os.environ.get("XDPLAB_KILL_SEED", "1"))


@pytest.mark.slow
@pytest.mark.timeout(60 + 30 * KILLS)
def test_kill_9_at_random_moments_leaves_nothing_changed_after_restore(lab: Lab) -> None:
    """Runs with all live knobs are killed between their start and their end; `xdplab restore` puts everything back."""
    rng = random.Random(_SEED)
    before = machine_settings()
    # GRO stays: switching it off takes NAPI away, and with it what `threaded` and the others set
    knobs = {n: [value] for n, value in ON_VETH.items() if n not in ("channels", "threaded_napi", "offload_gro")}
    knobs |= {name: [OF_THE_MACHINE[name]] for name in before}
    study = lab.study(forwarders=["xdp"], knobs=knobs, repetitions=2)
    longest = _time_of_a_run(lab, study)
    found_changed = 0
    for number in range(KILLS):
        process = lab.start("run", study)
        time.sleep(rng.uniform(0.3, longest))
        kill_9(process.pid)
        code = finish(process).code
        found_changed += machine_settings() != before
        done = lab.xdplab("restore", "--testbed", lab.testbed)
        assert done.complaints == [], f"kill {number} (seed {_SEED}): {done.err}"
        assert machine_settings() == before, f"kill {number} (seed {_SEED}, exit {code})"
        assert lab.namespaces() == [], f"kill {number} (seed {_SEED})"
        lab.assert_nothing_left()
    if KILLS >= 5:
        assert found_changed, "no kill met a changed setting: they were too early or too late to prove anything"


def _time_of_a_run(lab: Lab, study: Path) -> float:
    for _ in range(3):  # a calibration of 30 ms meets a stall of the machine now and then
        began = time.monotonic()
        done = lab.xdplab("run", study)
        lab.assert_nothing_left()
        if done.code == 0:
            return time.monotonic() - began
    raise AssertionError(done.err)


def test_a_process_that_holds_a_latency_ends_with_its_run(lab: Lab) -> None:
    """The kernel takes the request back when the file closes; nobody else knows of the process."""
    before = machine_settings()
    if "cpu_dma_latency_us" not in before:
        pytest.skip("this machine has no cpuidle")
    done = lab.run(
        {"at": "lab.saboteur:QuickXdpgen.measure", "after_s": 0.1, "signal": "SIGKILL", "target": "self"},
        knobs={"cpu_dma_latency_us": [0]},
        method={"name": "latency", "duration_s": 1},
    )
    assert done.code == -signal.SIGKILL
    deadline = time.monotonic() + 5
    while machine_settings() != before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert machine_settings() == before
    assert lab.down().complaints == []
    assert subprocess.run(["pgrep", "-f", "exec sleep infinity"], capture_output=True, check=False).stdout == b""
