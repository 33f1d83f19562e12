# SPDX-License-Identifier: Apache-2.0
"""The embedded testbed on this machine: what `up` builds, and that `down` leaves nothing."""

import json
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.command import finish, wait_for
from lab.rooted import Lab

from xdplab.hosts.agent.cpus import CPU, Held
from xdplab.model import InputError, TestbedSpec, XdplabError
from xdplab.testbed import EmbeddedTestbed, TestbedLock, embedded

pytestmark = pytest.mark.root


def links(netns: str) -> dict[str, Any]:
    found = subprocess.run(
        ["ip", "-n", netns, "-json", "-d", "link"], capture_output=True, text=True, check=True
    ).stdout
    return {link["ifname"]: link for link in json.loads(found)}


def xdplab_up(lab: Lab) -> subprocess.Popen[str]:
    """`xdplab up`; it does not load our tester, so the tag is its own."""
    process = lab.start("up", "--testbed", lab.testbed)
    assert process.stdout
    for line in iter(process.stdout.readline, ""):
        if line.startswith("a0: "):
            lab.tag = line.split()[1].split("-")[1]
        if line.startswith("up;"):
            return process
    raise AssertionError(finish(process).err)


def test_up_builds_three_hosts_and_ctrl_c_takes_them_down(lab: Lab) -> None:
    process = xdplab_up(lab)
    assert sorted(lab.namespaces()) == [f"xdplab-{lab.tag}-{host}" for host in "ABC"]
    ports = links(f"xdplab-{lab.tag}-B")
    assert set(ports) == {"lo", f"b0-{lab.tag}", f"b1-{lab.tag}"}
    for role in ("b0", "b1"):
        port = ports[f"{role}-{lab.tag}"]
        assert (port["mtu"], port["num_rx_queues"]) == (1500, 1)
        assert {"UP", "PROMISC"} <= set(port["flags"])
    process.send_signal(signal.SIGINT)
    assert finish(process).complaints == []
    lab.assert_nothing_left()


def test_an_up_testbed_is_in_use_and_nobody_takes_it_away(lab: Lab) -> None:
    process = xdplab_up(lab)
    lab.down().refused(f"testbed {lab.name}: in use by process {process.pid}")
    lab.run().refused("in use by process", str(process.pid))
    assert len(lab.namespaces()) == 3
    process.send_signal(signal.SIGTERM)
    finish(process)
    lab.assert_nothing_left()


def test_down_after_kill_9_leaves_nothing_and_can_be_repeated(lab: Lab) -> None:
    process = xdplab_up(lab)
    process.kill()
    finish(process)
    wait_for(lambda: not lab.processes(), "its end")
    assert len(lab.namespaces()) == 3
    done = lab.down()
    assert (done.code, done.out.count(" removed")) == (0, 3)
    lab.assert_nothing_left()
    again = lab.down()
    assert (again.code, again.out) == (0, "")


def test_a_run_after_kill_9_needs_no_down(lab: Lab) -> None:
    process = xdplab_up(lab)
    process.kill()
    finish(process)
    done = lab.run()
    assert f"after a killed run: namespace xdplab-{lab.tag}-A removed" in done.err
    assert [row["status"] for row in lab.rows()] == ["ok"]
    lab.assert_nothing_left()


@pytest.fixture
def theirs() -> Iterator[str]:
    """A tag of which somebody else has the namespace of host B."""
    tag = secrets.token_hex(2)
    subprocess.run(["ip", "netns", "add", f"xdplab-{tag}-B"], check=True)
    yield tag
    subprocess.run(["ip", "netns", "delete", f"xdplab-{tag}-B"], check=True)


@pytest.mark.parametrize("seen", [True, False], ids=["there before", "made meanwhile"])
def test_a_namespace_of_somebody_else_stays(theirs: str, seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _: theirs)
    testbed = EmbeddedTestbed(TestbedSpec(name="taken", kind="embedded"))
    if not seen:
        there = embedded._is_taken
        monkeypatch.setattr(embedded, "_is_taken", lambda netns: netns[-1] != "B" and there(netns))
    with pytest.raises(XdplabError, match=f"xdplab-{theirs}-B.*" + ("is there already" if seen else "File exists")):
        testbed.up()
    assert [path.name for path in Path("/run/netns").glob(f"xdplab-{theirs}-*")] == [f"xdplab-{theirs}-B"]
    assert not TestbedLock("taken").path.exists()


def test_two_testbeds_do_not_measure_on_the_same_cpu() -> None:
    spec = TestbedSpec(name="second", kind="embedded")
    testbed = EmbeddedTestbed(spec)
    first: Held[int] = Held(CPU)
    assert first.hold([testbed.cpus[1]]) is None
    words = f"testbed second: CPU {testbed.cpus[1]} is in use by a run of process {os.getpid()}; wait for it, or give"
    with pytest.raises(InputError, match=words):
        testbed.up()
    assert not TestbedLock("second").path.exists()
    first.release()
    testbed.up()
    assert first.hold(testbed.cpus) is not None
    testbed.down()
    assert first.hold(testbed.cpus) is None
    first.release()
