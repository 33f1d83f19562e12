# SPDX-License-Identifier: Apache-2.0
"""What sleep does to a forwarder: frames after it, what Open vSwitch still knows of them, and what it logs."""

import contextlib
import os
import re
import socket
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from dev.recording import embedded_testbed
from xdplab.forwarders import Dut, Forwarder, make_forwarder
from xdplab.forwarders.ovs.forwarder import OvsForwarder
from xdplab.forwarders.work import UDP_DST, sides
from xdplab.hosts import NetnsHost
from xdplab.hosts.waiting import comes_true
from xdplab.model import ForwarderSpec, InputError, Path, Pipeline
from xdplab.runner import interruptible
from xdplab.testbed import Port
from xdplab.testbed.embedded import EmbeddedTestbed

_FRAMES, _APART_S, _WAIT_S = 20, 0.005, 0.5
_PORT = 40_000
#: Of `ovs-appctl`, and which lines are of our frames.
_KNOWN = {"flows": ("dpctl/dump-flows", "in_port"), "connections": ("dpctl/dump-conntrack", "^udp")}


def asleep(forwarder: str, pipeline: str, naps_s: Sequence[float], testbed_name: str) -> Iterator[str]:
    """Lines: of each nap the frames before and after it; of Open vSwitch what it knows and has logged.

    Raises:
        InputError: it cannot be started here.
    """
    testbed = EmbeddedTestbed(embedded_testbed("asleep", testbed_name))
    made = make_forwarder(ForwarderSpec.model_validate(forwarder))
    with interruptible(), contextlib.ExitStack() as stack:
        stack.callback(testbed.down)
        testbed.up()
        ends = testbed.ports["a0"], testbed.ports["c0"]
        dut = Dut(
            host=testbed.dut,
            ports=(testbed.ports["b0"], testbed.ports["b1"]),
            path=Path.THROUGH,
            layout=testbed.layout,
            rundir=testbed.folder_on(testbed.dut) / "dut",
            peers=ends,
            pipeline=Pipeline.model_validate({"kind": pipeline}),
        )
        if reason := made.unsupported(dut):
            raise InputError(f"{forwarder}: {reason}")
        dut.host.make_folder(dut.rundir)
        stack.callback(made.stop)
        made.start(dut)
        os.sched_setaffinity(0, {testbed.layout.tester_tx})
        stack.callback(testbed.freezer.thaw)
        sender, receiver = (stack.enter_context(_socket(port)) for port in ends)
        frame, answer = _frames(dut)
        ways = (sender, receiver, frame), (receiver, sender, answer)
        comes_true(lambda: None not in _sent(*ways[0]), made.silent_s)

        def looked() -> str:
            """An answer first: a connection that has expired lets none through."""
            return f"answer {_words(_sent(*ways[1], 1))}; {_words(_sent(*ways[0]))}{_known(made)}"

        for nap_s in naps_s:
            seen = _warnings(dut)
            yield f"awake: {looked()}"
            testbed.freezer.freeze()
            time.sleep(nap_s)
            testbed.freezer.thaw()
            yield f"after {nap_s:g} s asleep: {looked()}"
            yield from (f"  logged {count} times: {line}" for line, count in (_warnings(dut) - seen).items())


def _socket(port: Port) -> socket.socket:
    assert isinstance(port.host, NetnsHost)
    made = port.host.within(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    made.bind((port.ifname, 0x0003))
    return made


def _frames(dut: Dut) -> tuple[bytes, bytes]:
    """One from A to C, and its answer."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    found = []
    here, there = sides(dut)
    for source, target, sport, dport in ((here, there, _PORT, UDP_DST), (there, here, UDP_DST, _PORT)):
        ether = Ether(src=source.peer_mac, dst=source.mac if dut.pipeline.routed else target.peer_mac)
        ip = IP(src=source.station, dst=target.station)
        found.append(bytes(ether / ip / UDP(sport=sport, dport=dport) / bytes(30)))
    return found[0], found[1]


def _sent(sender: socket.socket, receiver: socket.socket, frame: bytes, count: int = _FRAMES) -> list[float | None]:
    """Microseconds until each frame came out; None: it did not."""
    found: list[float | None] = []
    receiver.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while receiver.recv(2048):
            pass
    receiver.settimeout(_WAIT_S)
    for _ in range(count):
        began_ns = time.monotonic_ns()
        sender.send(frame)
        try:
            while receiver.recv(2048)[-30:] != frame[-30:]:
                pass
            found.append((time.monotonic_ns() - began_ns) / 1e3)
        except TimeoutError:
            found.append(None)
        time.sleep(_APART_S)
    return found


def _words(found: Sequence[float | None]) -> str:
    """`lost` or microseconds of the first, and of the others."""
    first, *others = ("lost" if us is None else f"{us:.0f} µs" for us in found)
    if not others:
        return first
    came = [us for us in found[1:] if us is not None]
    return f"first {first}, then {statistics.median(came or [0]):.0f} µs, {others.count('lost')} lost"


def _known(forwarder: Forwarder[Any]) -> str:
    if not isinstance(forwarder, OvsForwarder):
        return ""
    found = []
    for what, (command, pattern) in _KNOWN.items():
        lines = [line for line in forwarder.instance.control(command).splitlines() if re.search(pattern, line)]
        packets = [int(each) for line in lines for each in re.findall(r"packets:(\d+)", line)]
        found.append(f"{len(lines)} {what}" + (f" (frames {packets})" if packets else ""))
    return "; " + ", ".join(found)


def _warnings(dut: Dut) -> Counter[str]:
    """Of all logs, without their times."""
    lines = (line for path in dut.rundir.glob("*.log") for line in path.read_text(encoding="utf-8").splitlines())
    return Counter(line.split("|", 2)[2] for line in lines if re.search(r"\|(WARN|ERR|EMER)\|", line))
