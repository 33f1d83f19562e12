# SPDX-License-Identifier: Apache-2.0
"""Whatever a forwarder leaves changed on its ports is named, and put back before the next one has them."""

import re
import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.bench import Bench
from lab.command import finish, kill_9, start, wait_for, xdplab
from lab.cuts import running
from lab.rooted import Lab

from xdplab.hosts import NetnsHost
from xdplab.hosts.agent import ports
from xdplab.model import TrialRecord
from xdplab.testbed.state import shared_memory_prefix
from xdplab.tools import bpf_program

pytestmark = pytest.mark.root

#: A forwarder that leaves something changed when it is asked to end.
_LEAVES = """
{program} --if0={{port_a}} --if1={{port_b}} --mode=native &
trap 'wait; {change}; exit 0' TERM
wait
"""
#: What is done to port b0 -> what is said of it.
PLANTED = {
    "mtu": ("ip link set {port_a} mtu 3542", "mtu of b0: 1500 to 3542"),
    "down": ("ip link set {port_a} down", "up of b0: on to off"),
    "promiscuous": ("ip link set {port_a} promisc off", "promiscuous of b0: on to off"),
    "multicast": ("ip link set {port_a} allmulticast on", "all-multicast of b0: off to on"),
    "arp": ("ip link set {port_a} arp off", "arp of b0: on to off"),
    "mac": ("ip link set {port_a} address 02:00:00:00:00:77", "mac of b0: 02:00:.* to 02:00:00:00:00:77"),
    "master": ("ip link add br7 type bridge; ip link set {port_a} master br7", "master of b0: none to br7"),
    "offload": ("ethtool -K {port_a} gro off", "offloads rx-gro of b0: on to off"),
    "channels": ("ethtool -L {port_a} rx 1", "channels rx of b0: 2 to 1"),
    "napi": ("echo 7 > /sys/class/net/{port_a}/napi_defer_hard_irqs", "napi napi_defer_hard_irqs of b0: 0 to 7"),
    "timeout": ("echo 9000 > /sys/class/net/{port_a}/gro_flush_timeout", "napi gro_flush_timeout of b0: 0 to 9000"),
    "threaded": ("echo 1 > /sys/class/net/{port_a}/threaded", "napi threaded of b0: 0 to 1"),
    "xdp": ("ip link set {port_a} xdp object {object} section xdp", "xdp of b0: none to native xsk_redirect"),
    "generic": (
        "ip link set {port_a} xdpgeneric object {object} section xdp",
        "xdp of b0: none to generic xsk_redirect",
    ),
    "address": ("ip address add 192.0.2.7/24 dev {port_a}", "addresses of b0: none to 192.0.2.7/24"),
    "qdisc": ("tc qdisc add dev {port_a} root handle 7: pfifo", "qdiscs of b0: none to pfifo 7: at root"),
    "filter": (
        "tc qdisc add dev {port_a} clsact; tc filter add dev {port_a} ingress protocol ip u32 match u32 0 0 flowid 1:1",
        "filters of b0: none to u32 at ffff:fff2 pref 49152",
    ),
    "ipv6": ("echo 0 > /proc/sys/net/ipv6/conf/{port_a}/disable_ipv6", "disable_ipv6 of b0: 1 to 0"),
}  # fmt: skip


#: What goes with some of them.
ALSO = {
    "filter": {"qdiscs of b0: none to clsact ffff: at ffff:fff1"},
    "ipv6": {"addresses of b0: none to fe80::.*/64"},
}


@pytest.fixture
def host() -> Iterator[NetnsHost]:
    netns = f"xdplab-port-{secrets.token_hex(2)}"
    subprocess.run(["ip", "netns", "add", netns], check=True)
    try:
        made = NetnsHost("B", netns)
        made.run(["ip", "link", "add", "p0", "type", "veth", "peer", "name", "p1"])
        yield made
        made.close()
    finally:
        subprocess.run(["ip", "netns", "delete", netns], check=True)


def leaving(change: str) -> dict[str, Any]:
    text = _LEAVES.format(program=bpf_program("xdpfwd"), change=change).replace("{{", "{").replace("}}", "}")
    text = text.replace("{object}", str(bpf_program("xdpfwd").parent / "redirect.bpf.o"))
    return {"name": "command", "options": {"argv": ["sh", "-c", text], "redirects": True}}


def ended(lab: Lab) -> dict[str, TrialRecord]:
    """The last record of each repetition, by the label of its forwarder."""
    run = lab.newest().load()
    return {run.points[each.point_id].forwarder.title: each for each in lab.trials() if each.purpose == "end"}


def test_each_is_named_and_put_back(lab: Lab) -> None:
    """A run in which one could not be put back ends early."""
    lab.testbed.write_text(f"{lab.testbed.read_text(encoding='utf-8')}queues: 2\n", encoding="utf-8")
    forwarders = [{"label": label, **leaving(change)} for label, (change, _) in PLANTED.items()]
    done = lab.run(forwarders=forwarders, options=["--allow-program", "sh"])
    assert done.code == 0, done.err
    lab.assert_nothing_left()
    found = {label: record.put_back for label, record in ended(lab).items()}
    for label, (_, what) in PLANTED.items():
        wanted = {what, *ALSO.get(label, ())}
        for sentence in found[label]:
            matched = {each for each in wanted if re.fullmatch(f"{label} changed {each}; put back", sentence)}
            assert matched, sentence
            wanted -= matched
        assert not wanted, (label, found[label])
    report = (lab.newest().path / "report.html").read_text(encoding="utf-8")
    for sentences in found.values():
        for sentence in sentences:
            assert f"{sentence}\n" in done.err
            assert f"<li>{sentence}</li>" in report


def test_what_a_program_changes_while_it_is_looked_at_is_no_setting_of_the_port(lab: Lab) -> None:
    """Whether it redirects is not given, so it is started once before the run, whatever that look finds."""
    change, what = PLANTED["mtu"]
    looked_at = {"label": "unknown", **leaving(change)}
    del looked_at["options"]["redirects"]
    done = lab.run(forwarders=[looked_at], options=["--allow-program", "sh"])
    assert "by XDP, as its ports count" in done.err
    (sentence,) = ended(lab)["unknown"].put_back
    assert re.fullmatch(f"unknown changed {what}; put back", sentence)
    lab.assert_nothing_left()


def test_what_a_tester_leaves_is_as_well(lab: Lab) -> None:
    """After its calibration on the direct link, and at the end."""
    done = lab.run(tester="untidy")
    assert done.code == 0, done.err
    sentences = [f"untidy changed mtu of {role}: 1500 to 2000; put back" for role in ("d0", "a0")]
    assert list(lab.newest().load().put_back) == sentences
    assert all(f"{sentence}\n" in done.err for sentence in sentences)
    lab.assert_nothing_left()


def test_what_cannot_be_put_back_ends_the_run(lab: Lab) -> None:
    forwarders = [{"label": "breaks", **leaving("ip link delete {port_a}")}]
    done = lab.run(forwarders=forwarders, repetitions=3, options=["--allow-program", "sh"])
    assert done.code == 1, done.err
    assert re.search(r"b0: .*: No such device", lab.newest().load().ended_early or ""), done.err
    assert len({trial.repetition for trial in lab.trials()}) == 1
    lab.assert_nothing_left()


def test_on_hosts_as_well(tmp_path: Path) -> None:
    """Also what a forwarder had changed when it and the run were killed."""
    with Bench.up(tmp_path) as bench:
        labels = ("mtu", "offload", "address", "napi", "xdp")
        forwarders = [{"label": label, **leaving(PLANTED[label][0])} for label in labels]
        allow = ["--allow-program", "sh"]
        done = xdplab("run", bench.study(forwarders=forwarders), *allow, env=bench.env, timeout_s=150)
        assert done.code == 0, done.err
        for label in labels:
            assert re.search(f"^{label} changed {PLANTED[label][1]}; put back$", done.err, re.MULTILINE), done.err
        bench.assert_as_before()
        at_once = "ip link set {port_a} mtu 1998 allmulticast on; ethtool -L {port_a} rx 1; "
        killed = leaving("true")
        killed["options"]["argv"][2] = at_once + killed["options"]["argv"][2]
        method = {"name": "latency", "duration_s": 20}
        process = start("run", bench.study(forwarders=[killed], method=method), *allow, env=bench.env)
        wait_for(lambda: "xdpgen" in " ".join(running(bench.lab)), "a trial", 60)
        wait_for(lambda: "xdpfwd" in " ".join(running(bench.lab)), "the forwarder", 60)
        kill_9(process.pid)
        finish(process)
        done = xdplab("restore", "--testbed", bench.lab.testbed, env=bench.env, timeout_s=100)
        assert done.code == 0, done.err
        bench.assert_as_before()


def test_restore_removes_what_a_killed_forwarder_has_in_shared_memory(lab: Lab) -> None:
    folder = lab.state / f"{lab.name}.dut"
    made = "; ".join(f"touch /dev/shm/{shared_memory_prefix(folder / place)}-x" for place in ("dut", "beside1/dut"))
    others = shared_memory_prefix(Path("/of/another/run")) + "-x"
    text = f"mkdir -p {folder}/beside1/dut; touch /dev/shm/{others}; {made}; "
    forwarder = leaving("true")
    forwarder["options"]["argv"][2] = text + forwarder["options"]["argv"][2]
    try:
        killed = {"at": "lab.saboteur:QuickXdpgen.measure", "after_s": 0.05, "signal": "SIGKILL", "target": "self"}
        lab.run(killed, forwarders=[forwarder], options=["--allow-program", "sh"])
        assert len(lab.files()) == 2
        done = lab.down()
        assert done.out.count("/dev/shm/xdplab-") == 2
        lab.assert_nothing_left()
        assert Path("/dev/shm", others).exists()
    finally:
        Path("/dev/shm", others).unlink(missing_ok=True)


def test_a_port_is_read_within_milliseconds(host: NetnsHost) -> None:
    """CPU time: on a busy machine it may take longer."""
    took = sorted(host.within(_read_s, "p0") for _ in range(50))
    assert took[25] < 0.005


def _read_s(ifname: str) -> float:
    began = time.thread_time()
    ports.read(ifname)
    return time.thread_time() - began


def test_an_address_with_a_lifetime_stays(host: NetnsHost) -> None:
    """Such as one by DHCP, which NetworkManager asks for when a link comes up: it is no setting of a run's."""
    was = host.read_port("p0")
    for address, more in (("192.0.2.7/24", []), ("203.0.113.7/24", ["valid_lft", "600", "preferred_lft", "600"])):
        host.run(["ip", "address", "add", address, "dev", "p0", *more])
    assert host.read_port("p0")["addresses"].keys() - was["addresses"].keys() == {"192.0.2.7/24"}
    assert host.put_port_back("p0", was) == []
    shown = host.run(["ip", "address", "show", "dev", "p0"]).stdout
    assert ("203.0.113.7" in shown, "192.0.2.7" in shown) == (True, False)
