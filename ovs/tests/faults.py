#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""Faults of the series that a reading found, each tried on a build: none may be there.

    ovs/tests/faults.py --build "$(ovs/build | tail -1)"                  # in .venv; or some of them by name

`flush`: while frames of connections are executed in XDP, new connections become forbidden and those are flushed; no
frame of them may pass any more. `foreign`: nobody can replace the program of a port, and it goes with the
port, whatever the interface is called by then. `jumbo`: a port with `multi-buffer` passes jumbo frames next to one
without it in the same group of `shared-umem`. `headers`: a header longer than the headroom of a frame is pushed.
Exit code: 0, 1 if one is there, or 2 if it could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from frames import Wire, wait_readable
from lab import StormError, Switch, at_least, namespaces, ready, run, wait_for
from new_flows import new_switch
from option_loss import XDPGEN, arrived, processors, sender_json

#: From t1 to t0: an answer to the frames of `sender_json`, as scapy would make it.
MACS = bytes.fromhex("020000007701020000007702")
CONNECTIONS = 64
#: More frames than a link sends by itself.
FEW = 100
JUMBO_BYTES = 8000
#: Metadata of 240 bytes, so that with the headers around it more is pushed than the headroom of 256 bytes.
LONG_HEADER = f"encap(nsh(md_type=2,tlv(0x1000,10,0x{'5a' * 120}),tlv(0x1000,11,0x{'5a' * 112}))),encap(ethernet)"
FOREIGN = """#include <linux/bpf.h>
__attribute__((section("xdp"), used)) int foreign(struct xdp_md *context) { return XDP_PASS; }
char terms[] __attribute__((section("license"), used)) = "GPL";
"""


def answers() -> list[bytes]:
    """A UDP frame of each connection, the other way."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    head = Ether(MACS + b"\x08\x00") / IP(src="10.77.0.2", dst="10.77.0.1")
    return [bytes(head / UDP(sport=20000, dport=10000 + number) / bytes(18)) for number in range(CONNECTIONS)]


def rules(new: str) -> str:
    """Frames of established connections pass; with those of new ones is done what `new` says."""
    return "\n".join(
        (
            "priority=10,ip,ct_state=-trk,actions=ct(table=1,zone=5)",
            "priority=0,actions=drop",
            f"table=1,in_port=1,ct_state=+trk+new,ip,actions={new}",
            "table=1,in_port=1,ct_state=+trk+est,ip,actions=output:2",
            "table=1,in_port=2,ct_state=+trk+est,ip,actions=output:1",
            "table=1,priority=0,actions=drop",
        )
    )


def flush(build: Path, asked: argparse.Namespace) -> str:
    """What passed after flushes."""
    allowed, passed, in_xdp = "ct(commit,zone=5),output:2", 0, 0
    with new_switch(build, True, "priority=0,actions=drop") as (switch, names), sending(names, asked.pps):
        back, frames = Wire(names[2], "t1"), answers()
        for _ in range(asked.times):
            switch.ofctl("replace-flows", "-", stdin=rules(allowed))
            time.sleep(0.1)
            for frame in 2 * frames:
                back.send(frame)
                time.sleep(0.001)
            before, deadline = switch.offloaded("recirculated"), time.monotonic() + 2
            while switch.offloaded("recirculated") == before and time.monotonic() < deadline:
                time.sleep(0.05)
            in_xdp += switch.offloaded("recirculated") > before
            switch.ofctl("replace-flows", "-", stdin=rules("drop"))
            switch.appctl("dpctl/flush-conntrack")
            time.sleep(0.5)
            count = arrived(names)
            time.sleep(0.3)
            passed += arrived(names) > count + FEW and "dport=20000" not in switch.appctl("dpctl/dump-conntrack")
    if in_xdp < asked.times / 2:
        raise StormError(f"flush: frames of connections were executed in XDP {in_xdp} of {asked.times} times only")
    return f"frames of flushed connections passed {passed} of {asked.times} times" if passed else ""


@contextmanager
def sending(names: tuple[str, str, str], pps: float) -> Iterator[None]:
    """Frames of all connections, from t0 to t1."""
    given = json.loads(sender_json(names, pps, processors()[0]))
    given["streams"][0] |= {"udp_src": 10000, "udp_dst": 20000, "flows": CONNECTIONS}
    sender = subprocess.Popen([XDPGEN, "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        assert sender.stdin is not None
        sender.stdin.write(json.dumps(given).encode())
        sender.stdin.close()
        yield
    finally:
        sender.terminate()
        sender.wait()


def program(namespace: str, link: str) -> int | None:
    """Number of the XDP program at a link."""
    shown = json.loads(run("ip", "-n", namespace, "-j", "link", "show", link))[0]
    found = shown.get("xdp", {}).get("prog", {}).get("id")
    return int(found) if found is not None else None


def foreign(build: Path, _asked: argparse.Namespace) -> str:
    """Who has the port's program."""
    with new_switch(build, False) as (switch, names), tempfile.TemporaryDirectory() as folder:
        source, compiled = Path(folder, "foreign.c"), str(Path(folder, "foreign.o"))
        source.write_text(FOREIGN)
        run("clang", "-O2", "-target", "bpf", f"-I/usr/include/{os.uname().machine}-linux-gnu", "-c", str(source), "-o",
            compiled)  # fmt: skip
        own = program(names[1], "d0")
        run("ip", "-n", names[1], "-force", "link", "set", "d0", "xdpdrv", "obj", compiled, "sec", "xdp", check=False)
        if program(names[1], "d0") != own:
            return "the program of a port in use was replaced"
        for argv in (("d1", "down"), ("d1", "name", "other")):
            run("ip", "-n", names[1], "link", "set", *argv)
        switch.vsctl("del-port", "d1")
        try:
            wait_for(lambda: program(names[1], "other") is None, "", 5.0)
        except StormError:
            return "the program of a port whose interface was renamed is still attached"
    return ""


def jumbo(build: Path, _asked: argparse.Namespace) -> str:
    """Pings that came back."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ovs-jumbo-")))
        names = stack.enter_context(namespaces(f"jumbo{os.getpid()}"))
        for name, link in ((names[0], "t0"), (names[2], "t1"), (names[1], "d0"), (names[1], "d1")):
            run("ip", "-n", name, "link", "set", link, "mtu", "9000")
        switch = Switch(build, folder, names[1], ports=())
        stack.callback(switch.stop)
        switch.start()
        for port, more in (("d0", ()), ("d1", ("options:multi-buffer=true",))):
            switch.vsctl("add-port", "br0", port, "--", "set", "interface", port, "type=afxdp", "options:n_rxq=4",
                         "options:shared-umem=group", *more)  # fmt: skip
        switch.ofctl("del-flows")
        switch.ofctl("add-flow", "actions=normal")
        run("ip", "-n", names[1], "addr", "add", "10.77.0.9/24", "dev", "br0")
        for argv in (("mtu", "9000"), ("up",)):
            run("ip", "-n", names[1], "link", "set", "br0", *argv)
        time.sleep(1)
        ping = ("ip", "netns", "exec", names[2], "ping", "-c", "5", "-i", "0.2", "-W", "1", "-M", "do", "-s")
        came = {size: run(*ping, str(size), "10.77.0.9", check=False).count("bytes from") for size in (64, JUMBO_BYTES)}
    if came[64] < 4:
        raise StormError(f"jumbo: {came[64]} of 5 short pings came back")
    return "" if came[JUMBO_BYTES] >= 4 else f"{came[JUMBO_BYTES]} of 5 pings of {JUMBO_BYTES} bytes came back"


def headers(build: Path, _asked: argparse.Namespace) -> str:
    """Frames with it that came."""
    with new_switch(build, False, f"in_port=1,actions={LONG_HEADER},output:2") as (switch, names):
        switch.vsctl("set", "interface", "d0", "options:umem-headroom=0")
        ends = [Wire(name, link) for name, link in ((names[0], "t0"), (names[2], "t1"))]
        sent, came = 64, 0
        for number in range(sent):
            ends[0].send(MACS[6:] + MACS[:6] + b"\x08\x00" + bytes(46) + bytes([number]))
            time.sleep(0.005)
        deadline = time.monotonic() + 3
        while came < sent and switch.alive() and time.monotonic() < deadline:
            wait_readable(ends[1:], 0.2)
            came += sum(b"\x5a" * 120 in frame for frame in ends[1].receive())
        if not switch.alive():
            return "the daemon ended"
    return "" if came >= sent else f"{came} of {sent} frames came"  # the link sends some of its own


FAULTS: dict[str, Callable[[Path, argparse.Namespace], str]] = {
    "flush": flush,
    "foreign": foreign,
    "jumbo": jumbo,
    "headers": headers,
}


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"{', '.join(FAULTS)}; all without any")
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--times", type=at_least(1), default=10, help="flushes")
    parser.add_argument("--pps", type=at_least(1.0), default=500_000.0, help="frames in a second while that is done")
    asked = parser.parse_args(argv)
    if unknown := set(asked.faults) - set(FAULTS):
        parser.error(f"{', '.join(sorted(unknown))}: unknown; there are {', '.join(FAULTS)}")
    if not ready("faults", (asked.build,), XDPGEN, "clang", "ping"):
        return 2
    there = 0
    for name in asked.faults or FAULTS:
        try:
            found = FAULTS[name](asked.build.resolve(), asked)
        except (StormError, OSError, subprocess.TimeoutExpired) as error:
            sys.stderr.write(f"faults: {name}: {error}\n")
            return 2
        print(f"{name}: {found or 'not there'}", flush=True)
        there += bool(found)
    return int(there > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
