#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""What frames cost that meet several flows: out of a VXLAN tunnel, tracked, or both, with flows in XDP and without.

    ovs/tests/cloud_rate.py --build "$(ovs/build | tail -1)"    # in .venv

Two daemons, one with `hw-offload`, each between veth pairs in namespaces of its own. `bpf/xdpgen` sends 64-byte frames
of one UDP connection as fast as it can; an XDP program on its way puts them into the tunnel, or only passes them on.
`plain` meets one flow, `tunnel` two, `tracked` two with a look for the connection between them, `both` three. With
offload each frame that arrives must have been forwarded in XDP, and have met as many flows there. The CPU that sends
does XDP's work as well, so its rates are at least what they would be; without, a PMD thread does it on another one.
Frames that arrived per second, in turns and in random order; medians and ranges. Exit code: 0, or 2 if it could not
run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from diff_packets import TUNNEL_IP, TUNNEL_MAC, UDP, VXLAN, checksum
from frames import inside
from lab import QUEUES, StormError, Switch, at_least, measured, ready, run, wait_for
from new_flows import Names, new_switch
from offload_queues import SLEEP
from option_loss import XDPGEN, processors, sender_json, sent_by, spread

CASES = ("plain", "tunnel", "tracked", "both")
PEER, VNI, INNER = "10.9.0.2", 5, 60
TUNNEL_PORT = 101
#: Passes frames on, with what they have in front in the tunnel.
PROGRAM = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
static const unsigned char header[] = { HEADER };
SEC("xdp") int pass_on(struct xdp_md *ctx)
{
	unsigned char *data, *end;

	if (sizeof(header) > 1) {
		if (bpf_xdp_adjust_head(ctx, -(int)sizeof(header)))
			return XDP_ABORTED;
		data = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
		if (data + sizeof(header) > end)
			return XDP_ABORTED;
		__builtin_memcpy(data, header, sizeof(header));
	}
	return bpf_redirect(TARGET, 0);
}
char LICENSE[] SEC("license") = "Dual BSD/GPL";
"""


@dataclass(frozen=True)
class Side:
    """A daemon, the namespaces around it, and whether it has flows in XDP."""

    switch: Switch
    names: Names
    offload: bool


def tunnel_header() -> bytes:
    """Ethernet, IPv4, UDP and VXLAN (RFC 7348) of frames of INNER bytes."""
    udp = struct.pack("!HHHH", 50000, VXLAN, 16 + INNER, 0) + struct.pack("!II", 0x08000000, VNI << 8)
    ip = struct.pack("!BBHIBBH", 0x45, 0, 20 + len(udp) + INNER, 0, 64, UDP, 0)
    ip += IPv4Address(PEER).packed + IPv4Address(TUNNEL_IP).packed
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    return TUNNEL_MAC + bytes([2, 0, 0, 0, 0x99, 2]) + b"\x08\0" + ip + udp


def flows(case: str) -> list[str]:
    """The OpenFlow rules of a case."""
    source = TUNNEL_PORT if case in ("tunnel", "both") else 1
    rules = ["priority=0,actions=drop"]
    if source == TUNNEL_PORT:
        rules.append(f"in_port=1,udp,nw_dst={TUNNEL_IP},tp_dst={VXLAN},actions=LOCAL")
    if case in ("plain", "tunnel"):
        return [*rules, f"in_port={source},udp,actions=output:2"]
    return [
        *rules,
        f"in_port={source},udp,ct_state=-trk,actions=ct(table=1,zone=5)",
        "in_port=2,udp,ct_state=-trk,actions=ct(table=1,zone=5)",
        f"table=1,in_port={source},udp,ct_state=+trk+new,actions=ct(commit,zone=5),output:2",
        f"table=1,in_port={source},udp,ct_state=+trk+est,actions=output:2",
        "table=1,in_port=2,actions=drop",
    ]


@contextmanager
def new_side(build: Path, offload: bool) -> Iterator[Side]:
    """A new daemon, with the sender's link in front of its first port, and the end of a tunnel."""
    with new_switch(build, offload, far_queues=QUEUES) as (switch, names):
        run("ip", "-n", names[0], "link", "add", "s0", "type", "veth", "peer", "name", "s1")
        for link in ("s0", "s1"):
            run("ip", "-n", names[0], "link", "set", link, "up")
        mac = f"other-config:hwaddr={TUNNEL_MAC.hex(':')}"
        switch.vsctl("set", "Open_vSwitch", ".", SLEEP, "--", "set", "Bridge", "br0", mac)
        run("ip", "-n", names[1], "addr", "add", f"{TUNNEL_IP}/32", "dev", "br0")
        run("ip", "-n", names[1], "link", "set", "br0", "arp", "off", "up")
        switch.vsctl("add-port", "br0", "v0", "--", "set", "interface", "v0", "type=vxlan", "options:remote_ip=flow",
                     "options:key=flow", f"ofport_request={TUNNEL_PORT}")  # fmt: skip
        wait_for(lambda: "vxlan_sys" in switch.appctl("tnl/ports/show"), "the tunnel does not listen")
        yield Side(switch, names, offload)


def attach(side: Side, case: str) -> None:
    """The program on the sender's way."""
    (link,) = json.loads(run("ip", "-n", side.names[0], "-j", "link", "show", "t0"))
    header = tunnel_header() if case in ("tunnel", "both") else b"\0"
    source, built = side.switch.folder / "pass_on.bpf.c", side.switch.folder / "pass_on.bpf.o"
    source.write_text(PROGRAM)
    run("clang", "-O2", "-g", "-target", "bpf", f"-I/usr/include/{os.uname().machine}-linux-gnu",
        f"-DTARGET={link['ifindex']}", f"-DHEADER={','.join(map(str, header))}",
        "-c", str(source), "-o", str(built))  # fmt: skip
    run("ip", "-n", side.names[0], "link", "set", "s1", "xdpdrv", "off")
    run("ip", "-n", side.names[0], "link", "set", "s1", "xdpdrv", "object", str(built), "section", "xdp")


def send(side: Side, seconds: float, pps: float | None) -> tuple[int, float]:
    """Frames that arrived, and in how many seconds they were sent; without `pps` as fast as it goes."""
    asked = json.loads(sender_json(side.names, pps or 1.0, processors()[0], seconds=seconds))
    asked["ports"][0]["ifname"], asked["ports"][1]["rx"] = "s0", "xdp"
    asked["streams"][0]["pps"] = pps
    reported = sent_by(json.dumps(asked))
    (stream,) = reported["streams"]
    return stream["sent"] - stream["lost"], reported["elapsed_s"]


def answer(side: Side) -> None:
    """A frame of the other direction for the connection that is tracked."""
    found = re.search(
        r"udp,orig=\(src=([\d.]+),dst=([\d.]+),sport=(\d+),dport=(\d+)\)", side.switch.appctl("dpctl/dump-conntrack")
    )
    if found is None:
        raise StormError("no connection is tracked")
    udp = struct.pack("!HHHH", int(found[4]), int(found[3]), 26, 0) + bytes(18)
    ip = struct.pack("!BBHIBBH", 0x45, 0, 46, 0, 64, UDP, 0) + IPv4Address(found[2]).packed
    ip += IPv4Address(found[1]).packed
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    with inside(side.names[2]), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as wire:
        wire.bind(("t1", 0))
        wire.send(bytes.fromhex("020000007701020000007702") + b"\x08\0" + ip + udp)


def rate(side: Side, case: str, seconds: float) -> float:
    """Frames of a case that arrive per second."""
    side.switch.appctl("dpctl/flush-conntrack")
    side.switch.ofctl("replace-flows", "-", stdin="\n".join(flows(case)) + "\n")
    side.switch.appctl("revalidator/purge")
    attach(side, case)
    send(side, 0.1, 1000)
    if case in ("tracked", "both"):
        answer(side)
        send(side, 0.1, 1000)
    which = "packets" if case == "plain" else "recirculated"
    before = side.switch.offloaded(which)
    arrived, elapsed_s = send(side, seconds, None)
    met = side.switch.offloaded(which) - before
    if not arrived or (met < arrived if side.offload else met):
        shown = side.switch.appctl("dpctl/dump-flows", "-m")
        raise StormError(f"{case}: {arrived} frames arrived, {met} met their flows in XDP\n{shown}")
    return arrived / elapsed_s


def measure(asked: argparse.Namespace) -> None:
    """All repetitions, and their table."""
    order = random.Random(asked.seed)  # noqa: S311 (an order)
    found: dict[tuple[str, bool], list[float]] = {(case, offload): [] for case in CASES for offload in (False, True)}
    with new_side(asked.build, False) as without, new_side(asked.build, True) as with_it:
        sides = {False: without, True: with_it}
        for number in range(asked.repetitions):
            for case, offload in order.sample(list(found), len(found)):
                found[case, offload].append(rate(sides[offload], case, asked.seconds))
            print(f"{number + 1} of {asked.repetitions} repetitions", file=sys.stderr, flush=True)
    print(f"{'Mpps':12}{'without':>26}{'flows in XDP':>26}{'times':>26}")
    for case in CASES:
        old, new = ([each / 1e6 for each in found[case, offload]] for offload in (False, True))
        times = [b / a for a, b in zip(old, new, strict=True)]
        print(f"{case:12}{spread(old, '.3f'):>26}{spread(new, '.3f'):>26}{spread(times, '.2f'):>26}")


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--seconds", type=at_least(0.1), default=0.5, help="of a rate")
    parser.add_argument("--repetitions", type=at_least(1), default=9)
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    asked = parser.parse_args(argv)
    if not ready("cloud_rate", (asked.build,), XDPGEN, "clang"):
        return 2
    return measured("cloud_rate", lambda: measure(asked))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
