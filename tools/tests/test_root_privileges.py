# SPDX-License-Identifier: Apache-2.0
"""Each program of ours runs with the capabilities that docs/security.md names, and not with one less."""

import json
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from xdplab import hosts
from xdplab.tools import bpf_program, project_root

pytestmark = pytest.mark.root

PROBES = Path(hosts.__file__).parent
#: What the agent asks the kernel, by itself.
_AGENT = (sys.executable, "-c", "import sys; from xdplab.hosts.agent import netlink, xsk; print(eval(sys.argv[1]))")


@pytest.fixture(scope="module")
def netns() -> Iterator[str]:
    """A namespace with a veth pair whose ends take redirected frames."""
    name = f"xdplab-caps-{secrets.token_hex(2)}"
    steps = [
        ["ip", "netns", "add", name],
        ["ip", "-n", name, "link", "add", "p0", "type", "veth", "peer", "name", "p1"],
        *(["ip", "-n", name, "link", "set", port, "up"] for port in ("p0", "p1")),
        *(["ip", "netns", "exec", name, "ethtool", "-K", port, "gro", "on"] for port in ("p0", "p1")),
    ]
    for step in steps:
        subprocess.run(step, check=True, capture_output=True)
    yield name
    subprocess.run(["ip", "netns", "delete", name], check=True)


def documented() -> dict[str, set[str]]:
    """Program -> capabilities, from the table."""
    text = (project_root() / "docs" / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)`( \(AF_XDP sender\)| with ports)?[^|]*\| ([^|]+) \|", text, re.MULTILINE)
    found: dict[str, set[str]] = {}
    for program, kind, capabilities in rows:
        if program == "xdplab":
            continue
        own = {word.lower() for word in re.findall(r"\b[A-Z][A-Z_]{2,}\b", capabilities)}
        if "the same" in capabilities:
            own |= found["xdpgen"]
        found[program + kind] = own
    return found


def limited(netns: str, capabilities: set[str], *argv: str) -> list[str]:
    bounding = "-all" + "".join(f",+{name}" for name in sorted(capabilities))
    return ["ip", "netns", "exec", netns, "setpriv", "--bounding-set", bounding, *argv]


def xdpgen(sender: str, netns_of_ports: bool) -> Callable[[str, set[str]], bool]:
    def run(netns: str, capabilities: set[str]) -> bool:
        where = f"/run/netns/{netns}" if netns_of_ports else None
        port = {"netns": where, "tx_cpu": 0, "reflect": False}
        stream: dict[str, Any] = {
            "id": 0, "kind": "latency", "tx_port": 0, "rx_port": 1, "pps": 1000, "count": 0, "start_ns": 0,
            "frame_bytes": 64, "src_mac": "02:00:00:00:00:01", "dst_mac": "02:00:00:00:00:02", "vlan": None, "ip": 4,
            "src_ip": "198.18.0.1", "dst_ip": "198.19.0.1", "udp_src": 1, "udp_dst": 2, "flows": 1,
        }  # fmt: skip
        configuration = {
            "ports": [
                {**port, "name": "a", "ifname": "p0", "rx": "tc"},
                {**port, "name": "c", "ifname": "p1", "rx": "xdp"},
            ],
            "streams": [stream],
            "warmup_s": 0.0,
            "duration_s": 0.05,
            "drain_s": 0.02,
            "sender": sender,
        }
        done = subprocess.run(
            limited(netns, capabilities, str(bpf_program("xdpgen")), "-"),
            input=json.dumps(configuration),
            capture_output=True,
            text=True,
            timeout=30,
        )
        reported = json.loads(done.stdout) if done.stdout else {"error": done.stderr}
        return not reported.get("error") and reported["sender"] == sender and reported["streams"][0]["sent"] > 0

    return run


def xdpfwd(netns: str, capabilities: set[str]) -> bool:
    argv = limited(netns, capabilities, str(bpf_program("xdpfwd")), "--if0=p0", "--if1=p1", "--mode=native")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout
        ready = bool(process.stdout.readline())
        process.terminate()
    return ready


def xdpends(netns: str, capabilities: set[str]) -> bool:
    """It counts the runs of a program that is there."""
    forwarder = ["ip", "netns", "exec", netns, str(bpf_program("xdpfwd")), "--if0=p0", "--if1=p1", "--mode=native"]
    argv = limited(netns, capabilities, str(bpf_program("xdpends")), "p0")
    with subprocess.Popen(forwarder, stdout=subprocess.PIPE) as forwards:
        assert forwards.stdout
        assert forwards.stdout.readline()
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout
            ready = process.stdout.readline()
            process.terminate()
            said = process.stdout.read()
        forwards.terminate()
    return bool(ready) and json.loads(said)["ports"][0]["runs"] is not None


def xsk_sockets(netns: str, capabilities: set[str]) -> bool:
    with subprocess.Popen(["sleep", "20"]) as other:
        argv = limited(netns, capabilities, *_AGENT, f"xsk.sockets_of({other.pid})")
        done = subprocess.run(argv, capture_output=True)
        other.kill()
    return done.returncode == 0


def netlink(netns: str, capabilities: set[str]) -> bool:
    argv = limited(netns, capabilities, *_AGENT, 'netlink.features("p0")')
    return "basic" in subprocess.run(argv, capture_output=True, text=True).stdout


def cable_probe(netns: str, capabilities: set[str]) -> bool:
    argv = limited(netns, capabilities, sys.executable, "-I", "-S", str(PROBES / "cable_probe.py"), "send", "x", "p0")
    return subprocess.run(argv, capture_output=True).returncode == 0


PROGRAMS: dict[str, Callable[[str, set[str]], bool]] = {
    "xdpgen": xdpgen("live", False),
    "xdpgen (AF_XDP sender)": xdpgen("xsk", False),
    "xdpgen with ports": xdpgen("live", True),
    "xdpfwd": xdpfwd,
    "xdpends": xdpends,
    "xsk.py": xsk_sockets,
    "netlink.py": netlink,
    "cable_probe.py": cable_probe,
}


def test_the_table_is_about_these_programs() -> None:
    assert set(documented()) == set(PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_runs_with_what_is_documented_and_with_nothing_less(netns: str, program: str) -> None:
    needed = documented()[program]
    works = PROGRAMS[program]
    assert works(netns, needed)
    for one in sorted(needed):
        time.sleep(0.05)  # an AF_XDP queue is free again some 30 ms after its socket was closed
        assert not works(netns, needed - {one}), f"{program} does not need {one}"
