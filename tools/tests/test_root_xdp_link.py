# SPDX-License-Identifier: Apache-2.0
"""Links and the XDP programs on them: what netlink tells is what `ip` tells, at each moment."""

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from xdplab.hosts import Host, LocalHost, NetnsHost
from xdplab.hosts.kernel import link_counters, link_mtu, link_names, version_of, wait_for_queues
from xdplab.model import XdplabError
from xdplab.tools import bpf_program

pytestmark = pytest.mark.root


@pytest.fixture
def host() -> Iterator[NetnsHost]:
    """A namespace with the veth pair x0 - x1."""
    name = f"xl{secrets.token_hex(3)}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        made = NetnsHost("B", name)
        made.run(["ip", "link", "add", "x0", "type", "veth", "peer", "name", "x1"])
        yield made
        made.close()
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def xdp_by_ip(host: Host, ifname: str) -> tuple[int, str]:
    (link,) = json.loads(host.run(["ip", "-json", "-details", "link", "show", "dev", ifname]).stdout)
    return link["xdp"]["prog"]["id"], link["xdp"]["prog"]["name"]


@contextmanager
def program(host: NetnsHost, log: Path, mode: str) -> Iterator[None]:
    """Our XDP forwarder is on x0."""
    path = bpf_program("xdpfwd")
    assert path, "bpf/ is not built"
    process = host.converse([str(path), "--if0=x0", f"--mode={mode}", "--hairpin"], log=log)
    assert process.receive(60), process.log_tail()
    yield
    process.signal(15)
    assert process.wait(60) is not None
    process.stop()


def test_each_change_is_seen(host: NetnsHost, tmp_path: Path) -> None:
    seen = []
    for mode in ("native", "generic", "generic", "native"):
        assert host.xdp("x0") is None
        with program(host, tmp_path / "log", mode):
            found = host.xdp("x0")
            assert found
            assert (found.prog_id, found.prog_name) == xdp_by_ip(host, "x0")
            assert found.mode == mode
            assert found.prog_name
            assert host.xdp("x1") is None
            seen.append(found.prog_id)
    assert len(set(seen)) == 4


def test_an_interface_that_is_not_there_is_named(host: NetnsHost) -> None:
    with pytest.raises(XdplabError, match="B: XDP program of nothere: No such device"):
        host.xdp("nothere")
    with pytest.raises(XdplabError, match="local: XDP program of nothere: No such device"):
        LocalHost().xdp("nothere")
    with pytest.raises(XdplabError, match="C: XDP program of x0: No such file or directory"):
        NetnsHost("C", "no-such-namespace").xdp("x0")
    assert LocalHost().xdp("lo") is None


def test_links_and_their_counters_are_those_that_ip_tells(host: NetnsHost) -> None:
    host.run(["ip", "-batch", "-"], stdin="link set x0 up\nlink set x1 up\naddr add 192.0.2.1/24 dev x0\n")
    host.run(["ping", "-c", "3", "-i", "0.01", "-W", "0.01", "192.0.2.2"], check=False)  # some ARP, which none answers
    for each in (host, LocalHost()):
        reported = json.loads(each.run(["ip", "-json", "-s", "link", "show"]).stdout)
        assert link_names(each) == {link["ifname"] for link in reported}
    for ifname in ("x0", "x1"):
        before, after = {"no": "counters"}, link_counters(host, ifname)
        while before != after:  # the kernel sends frames of its own
            before = after
            (reported,) = json.loads(host.run(["ip", "-json", "-s", "link", "show", "dev", ifname]).stdout)
            after = link_counters(host, ifname)
        assert (after, link_mtu(host, ifname)) == (reported["stats64"], reported["mtu"])
    assert link_counters(host, "x0")["tx"]["packets"] > 0
    with pytest.raises(XdplabError, match="B: nothere: there is no such interface"):
        link_counters(host, "nothere")
    with pytest.raises(XdplabError, match="C: links: No such file or directory"):
        link_names(NetnsHost("C", "no-such-namespace"))


@pytest.mark.skipif(version_of(os.uname().release) < (6, 15), reason="this kernel does not tell whose a queue is")
def test_queues_are_waited_for_until_the_kernel_has_them_back(host: NetnsHost, tmp_path: Path) -> None:
    """It takes them back some time after the socket has closed, and a bind before that meets EBUSY."""
    host.run(["ip", "-batch", "-"], stdin="link set x0 up\nlink set x1 up\n")
    path = bpf_program("xsk")
    assert path, "bpf/ is not built"
    asked = {"role": "reflect", "ports": [{"ifname": "x0"}], "cpus": [0], "wait": "poll"}
    for _ in range(3):
        process = host.converse([str(path), "-"], log=tmp_path / "log")
        process.send(json.dumps(asked))
        process.hang_up()
        assert process.receive(60), process.log_tail()
        assert host.held_queues(["x0", "x1"]) == ["x0"]
        process.signal(15)
        assert process.wait(60) is not None
        wait_for_queues(host, ["x0", "x1"])
        assert host.held_queues(["x0", "x1"]) == []
        process.stop()


def test_nothing_of_it_starts_a_program(host: NetnsHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with program(host, tmp_path / "log", "native"):
        monkeypatch.setattr(subprocess, "Popen", None)
        found = host.xdp("x0")
        assert found
        assert found.prog_name
        assert link_counters(host, "x0")
        assert "x1" in link_names(host)
        monkeypatch.undo()
