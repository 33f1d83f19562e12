#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""Faults of the series that a reading found, each tried on a build: none may be there.

    ovs/tests/faults.py --build "$(ovs/build | tail -1)"                  # in .venv; or some of them by name

`flush`: while frames of connections are executed in XDP, new connections become forbidden and those are flushed; no
frame of them may pass any more. `foreign`: nobody can replace the program of a port, and it goes with the
port, whatever the interface is called by then. `jumbo`: a port with `multi-buffer` passes jumbo frames next to one
without it in the same group of `shared-umem`. `headers`: a header longer than the headroom of a frame is pushed.
`user`: a daemon that gave up its privileges (`--user`) has AF_XDP ports, and flows in XDP. `tags`: frames whose VLAN
tag is beside them, as those of a VLAN interface behind a veth, meet the flow of their VLAN. `looks`: on Linux before
6.3, which does not tell of XDP features, nobody looks at devices that do not change. `crowd`: fast connections get the
places of slow ones in XDP. `order`: frames that a new flow overtakes when it gets to XDP are counted.
Exit code: 0, 1 if one is there, or 2 if it could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from frames import Wire, wait_readable
from lab import StormError, Switch, at_least, namespaces, ready, run, wait_for
from new_flows import Names, new_switch
from option_loss import XDPGEN, arrived, processors, sender_json, sent_by

#: From t1 to t0: an answer to the frames of `sender_json`, as scapy would make it.
MACS = bytes.fromhex("020000007701020000007702")
CONNECTIONS = 64
#: Connections for which XDP has room.
PLACES = 65_536
#: Frames that the kernel takes from a device at once.
AT_ONCE = 64
#: More frames than a link sends by itself.
FEW = 100
JUMBO_BYTES = 8000
VLAN, UNKNOWN_TYPE = 10, b"\x88\xb5"
#: What a VLAN interface does: the tag gets beside the frame, and stays there where the link has `txvlan`.
PUSH_TAG = f"""#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
SEC("tc") int push(struct __sk_buff *skb)
{{
    return bpf_skb_vlan_push(skb, bpf_htons(0x8100), {VLAN}) ? 2 : 0;
}}
char terms[] SEC("license") = "GPL";
"""
LOOK_S = 5
#: A request for this family becomes one for a family that is not there.
NO_NETDEV_FAMILY = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/socket.h>
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t (*real)(int, const struct msghdr *, int) = dlsym(RTLD_NEXT, "sendmsg");
    char *name = (char *) message->msg_iov->iov_base + 24;

    if (message->msg_iov->iov_len >= 31 && !memcmp(name, "netdev", 7)) {
        *name = '-';
    }
    return real(fd, message, flags);
}
"""
USER = "nobody"
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
    with new_switch(build, True, "priority=0,actions=drop") as (switch, names), sending(names, asked.pps, CONNECTIONS):
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
def sending(names: Names, pps: float, *connections: int, first: int = 20000) -> Iterator[None]:
    """Frames of connections, from t0 to t1, each so many of a UDP destination port of their own, from `first`."""
    given = json.loads(sender_json(names, pps / len(connections), processors()[0]))
    (stream,) = given["streams"]
    given["streams"] = [
        {**stream, "id": number, "udp_src": 10000, "udp_dst": first + number, "flows": flows}
        for number, flows in enumerate(connections)
    ]
    sender = subprocess.Popen([XDPGEN, "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        assert sender.stdin is not None
        sender.stdin.write(json.dumps(given).encode())
        sender.stdin.close()
        yield
    finally:
        sender.terminate()
        sender.wait()


def crowd(build: Path, asked: argparse.Namespace) -> str:
    """The share of frames of fast connections in XDP, when slow ones had taken all places."""
    slow = PLACES // 2 + 500
    with new_switch(build, True, "priority=0,actions=drop") as (switch, names):
        switch.ofctl("replace-flows", "-", stdin=rules("ct(commit,zone=5),output:2"))
        back, frame = Wire(names[2], "t1"), bytearray(answers()[0])
        frame[40:42] = bytes(2)  # no checksum

        def answer(source: int, count: int) -> None:
            for number in range(count):
                frame[34:38] = struct.pack("!HH", source, 10000 + number)
                back.send(frame)
                if not number % 16:
                    time.sleep(0.0005)

        def given() -> int:
            begun, ended = (
                int(switch.appctl("coverage/read-counter", f"conntrack_offload_{what}")) for what in ("begin", "end")
            )
            return begun - ended

        with sending(names, asked.pps / 2, slow, slow):
            time.sleep(2)
            deadline = time.monotonic() + 120
            while given() < PLACES - FEW and time.monotonic() < deadline:
                answer(20000, slow)
                answer(20001, slow)
        if (there := given()) < PLACES - FEW:
            raise StormError(f"crowd: {there} slow connections were given to XDP")
        with sending(names, asked.pps / 5, CONNECTIONS, first=20002):
            time.sleep(1)
            for _ in range(3):  # an answer may be lost
                answer(20002, CONNECTIONS)
                time.sleep(1)
            began = switch.offloaded("recirculated"), arrived(names)
            time.sleep(2)
            share = (switch.offloaded("recirculated") - began[0]) / (arrived(names) - began[1])
    return "" if share > 0.9 else f"{share:.0%} of the frames of fast connections met flows in XDP"


def program(namespace: str, link: str) -> int | None:
    """Number of the XDP program at a link."""
    shown = json.loads(run("ip", "-n", namespace, "-j", "link", "show", link))[0]
    found = shown.get("xdp", {}).get("prog", {}).get("id")
    return int(found) if found is not None else None


def compile_bpf(folder: Path, text: str) -> str:
    """Path of the object file of a BPF program."""
    source, compiled = folder / "program.c", str(folder / "program.o")
    source.write_text(text)
    run("clang", "-O2", "-target", "bpf", f"-I/usr/include/{os.uname().machine}-linux-gnu", "-c", str(source), "-o",
        compiled)  # fmt: skip
    return compiled


def foreign(build: Path, _asked: argparse.Namespace) -> str:
    """Who has the port's program."""
    with new_switch(build, False) as (switch, names), tempfile.TemporaryDirectory() as folder:
        compiled = compile_bpf(Path(folder), FOREIGN)
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


def tags(build: Path, _asked: argparse.Namespace) -> str:
    """Frames with a tag beside them that met the flow of their VLAN."""
    for offload in (False, True):
        flow = f"in_port=1,dl_vlan={VLAN},actions=strip_vlan,output:2"
        with new_switch(build, offload, flow) as (switch, names):
            run("ip", "netns", "exec", names[0], "ethtool", "-K", "t0", "txvlan", "on")
            compiled = compile_bpf(switch.folder, PUSH_TAG)
            run("tc", "-n", names[0], "qdisc", "add", "dev", "t0", "clsact")
            run("tc", "-n", names[0], "filter", "add", "dev", "t0", "egress", "bpf", "da", "obj", compiled, "sec", "tc")
            ends = [Wire(name, link) for name, link in ((names[0], "t0"), (names[2], "t1"))]
            sent, came = 256, 0
            for _ in range(sent):
                ends[0].send(MACS[6:] + MACS[:6] + UNKNOWN_TYPE + b"\x5a" * 50)
                time.sleep(0.002)
            deadline = time.monotonic() + 3
            while came < sent and time.monotonic() < deadline:
                wait_readable(ends[1:], 0.2)
                came += sum(frame[12:] == UNKNOWN_TYPE + b"\x5a" * 50 for frame in ends[1].receive())
            if came < sent:
                return f"{came} of {sent} frames met it, {'with' if offload else 'without'} flows in XDP"
            if offload and not switch.offloaded():
                raise StormError("tags: no frame met a flow in XDP")
    return ""


class UserSwitch(Switch):
    """Its daemon gives up what root may do."""

    def start_daemon(self) -> None:
        """Starts the daemon, to which its files belong."""
        self.options = ("--user", USER)
        for path in (self.folder, *self.folder.iterdir()):
            shutil.chown(path, USER)
        super().start_daemon()


class OldKernelSwitch(Switch):
    """Its daemon asks a kernel that has not heard of XDP features."""

    def environment(self) -> dict[str, str]:
        """With a library before the C library's."""
        library = self.folder / "old.so"
        if not library.exists():
            run("gcc", "-shared", "-fPIC", "-O2", "-o", str(library), "-x", "c", "-", stdin=NO_NETDEV_FAMILY)
        return {**super().environment(), "LD_PRELOAD": str(library)}


@contextmanager
def started(kind: type[Switch], build: Path) -> Iterator[tuple[Switch, Names]]:
    """A switch with flows in XDP; one that does not start raises StormError."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ovs-faults-")))
        names = stack.enter_context(namespaces(f"faults{os.getpid()}"))
        for end, link in ((names[0], "t0"), (names[2], "t1")):
            run("ip", "netns", "exec", end, "ethtool", "-K", link, "gro", "on")
        switch = kind(build, folder, names[1], settings=("other_config:hw-offload=true",))
        stack.callback(switch.stop)
        switch.start()
        yield switch, names


def user(build: Path, _asked: argparse.Namespace) -> str:
    """What its ports say."""
    try:
        with started(UserSwitch, build) as (switch, _names):
            for column in ("error", "status:xdp-mode", "status:xdp-flows", "status:xdp-flow-output"):
                found = switch.vsctl("--if-exists", "get", "interface", "d0", column).strip().strip('"')
                if found not in {"[]", "native", "on"}:
                    return f"{column} of the port is {found or 'not there'}"
    except StormError as error:
        return str(error)
    return ""


def looks(build: Path, _asked: argparse.Namespace) -> str:
    """Messages to the kernel while nothing changes."""
    with started(OldKernelSwitch, build) as (switch, names):
        time.sleep(3)
        sent = [0, 0]
        for number in range(2):
            sent[number] = int(switch.appctl("coverage/read-counter", "netlink_sent"))
            time.sleep(LOOK_S * (1 - number))
        # The MTU of a peer is looked at when it changes.
        run("ip", "-n", names[0], "link", "set", "t0", "mtu", "1400")
        wait_for(lambda: switch.show()["d0"]["xdp-flows"]["max_len"] < 1500, "the MTU of a peer is not noticed")
    few = sent[1] - sent[0] < LOOK_S
    return "" if few else f"{sent[1] - sent[0]} messages in {LOOK_S} s without a change"


def order(build: Path, asked: argparse.Namespace) -> str:
    """Frames of a new flow at overload that were overtaken."""
    with new_switch(build, True, "in_port=1,actions=output:2") as (switch, names):
        given = json.loads(sender_json(names, 1.0, processors()[0], seconds=0.5))
        given["streams"][0]["pps"] = None
        late = 0
        for _ in range(asked.times):
            switch.appctl("revalidator/purge")
            time.sleep(0.2)
            late += sent_by(json.dumps(given))["streams"][0]["out_of_order"]
        counted = switch.flows_in_xdp().get("overtaken")
    if counted is None:
        return f"{late} frames came late, and nothing counts them"
    return "" if late <= counted + AT_ONCE * asked.times else f"{late} frames came late, {counted} are counted"


FAULTS: dict[str, Callable[[Path, argparse.Namespace], str]] = {
    "flush": flush,
    "foreign": foreign,
    "jumbo": jumbo,
    "headers": headers,
    "crowd": crowd,
    "looks": looks,
    "order": order,
    "tags": tags,
    "user": user,
}


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"{', '.join(FAULTS)}; all without any")
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--times", type=at_least(1), default=10, help="flushes, or new flows")
    parser.add_argument("--pps", type=at_least(1.0), default=500_000.0, help="frames in a second while that is done")
    asked = parser.parse_args(argv)
    if unknown := set(asked.faults) - set(FAULTS):
        parser.error(f"{', '.join(sorted(unknown))}: unknown; there are {', '.join(FAULTS)}")
    if not ready("faults", (asked.build,), XDPGEN, "clang", "gcc", "ping", "tc"):
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
