# SPDX-License-Identifier: Apache-2.0
"""Two cards back to back, frames between them, and what the kernel tells of them."""

import contextlib
import json
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdplab.forwarders import Dut
from xdplab.forwarders.xsk.forwarder import XskOptions, XskRole
from xdplab.hosts import LocalHost
from xdplab.hosts.waiting import wait_until
from xdplab.knobs import KnobContext
from xdplab.model import CpuLayout, Path as Way, validated
from xdplab.model.design import Scalar
from xdplab.runner.settings import Settings
from xdplab.testbed import Port, TestbedLock
from xdplab.tools import bpf_program

HOST = LocalHost("guest")
LAYOUT = CpuLayout(tester_tx=0, forwarder=1)
CPUS = (0, 1)
#: Frames of one exchange, and their rate: what software emulation carries without loss many times over.
FRAMES, PPS = 400, 1000.0
#: A card is deaf while it is set up for a socket: igb's link is down 0.2 to 0.4 s, longer when this machine is busy.
_WARMUP_S = {"igb": (1.0, 3.0), "virtio_net": (0.2, 1.0)}
#: igb's ring has 256 descriptors, virtio_net's 1024; memory costs time here.
_RINGS = {"igb": 1024, "virtio_net": 2048}
#: From closing a zero-copy socket until the driver has its queue back.
SETTLE_S = 0.3


@dataclass(frozen=True)
class Pair:
    """Cards of one driver that face each other."""

    name: str
    driver: str
    left: Port
    right: Port

    @property
    def ports(self) -> tuple[Port, Port]:
        """Both."""
        return self.left, self.right

    @property
    def context(self) -> KnobContext:
        """For knobs of both ends: what one end forgets looks like a dead wire."""
        return context(self.ports)

    @property
    def dut(self) -> Dut:
        """The left card as the port of a forwarder."""
        folder = Path(tempfile.mkdtemp(prefix="dut-"))
        return Dut(HOST, (self.left,), Way.HAIRPIN, LAYOUT, folder)


def context(ports: tuple[Port, ...]) -> KnobContext:
    """For knobs of some cards; a setting that restarts igb takes a second for each."""
    return KnobContext(HOST, ports, LAYOUT, CPUS)


def pair(name: str, driver: str, first: int = 0) -> Pair:
    """igb0 and igb1, virt0 and virt1 ..."""
    left, right = (_port(f"{name}{number}", f"b{number - first}") for number in (first, first + 1))
    return Pair(name, driver, left, right)


def _port(ifname: str, role: str) -> Port:
    mac = HOST.read(f"/sys/class/net/{ifname}/address")
    return Port(role=role, host=HOST, ifname=ifname, mac=mac, mtu=1500, lasting=True)


@dataclass(frozen=True)
class Exchange:
    """Frames from left to right, and what xsk and the kernel said of the sockets."""

    ready: dict[str, Any]
    done: dict[str, Any]

    @property
    def sent(self) -> int:
        """Frames of the trial."""
        return sum(int(stream["sent"]) for stream in self.done["streams"])

    @property
    def received(self) -> list[int]:
        """Of them, each once, by frame size."""
        return [int(stream["received"]) for stream in self.done["streams"]]

    @property
    def flags(self) -> set[bool]:
        """Zero-copy, as the sockets have it."""
        return {bool(sock["zero_copy"]) for sock in self.ready["sockets"]}

    @property
    def sound(self) -> bool:
        """All came once, in order, and no chunk of memory was lost."""
        keys = ("lost", "duplicated", "out_of_order")
        wrong = [stream[key] for stream in self.done["streams"] for key in keys if stream[key]]
        chunks = {umem["lost"] for umem in self.done["umems"]}
        return self.sent >= FRAMES * 0.9 and not wrong and chunks == {0}


def exchange(
    cards: Pair, sizes: Sequence[int] = (64,), options: Mapping[str, Any] | None = None, warmup_s: float = 1.5
) -> Exchange:
    """Send `FRAMES` frames of each size (with FCS) from left to right: `bpf/xsk`, role `probe`, with these options."""
    asked = {
        "role": "probe", "ports": [{"ifname": port.ifname} for port in cards.ports],
        "streams": [_stream(cards, size, id=number) for number, size in enumerate(sizes)],
        "duration_s": FRAMES / PPS, "warmup_s": warmup_s, "drain_s": 0.2, "max_burst": 1_000_000, "cpus": [0],
        "audit": True, **dict.fromkeys(("rx_ring", "tx_ring", "fill_ring", "completion_ring"), _RINGS[cards.driver]),
        **(options or {}),
    }  # fmt: skip
    done = HOST.run([str(bpf_program("xsk")), "-"], stdin=json.dumps(asked), timeout_s=25.0)
    first, *_, last = done.stdout.splitlines()
    time.sleep(SETTLE_S)
    return Exchange(json.loads(first), json.loads(last))


def sound_exchange(cards: Pair, sizes: Sequence[int] = (64,), **options: Any) -> Exchange:
    """The same where nothing may be lost: repeated, with a longer warm-up, while the link has not been up in time."""
    for warmup_s in _WARMUP_S[cards.driver]:
        got = exchange(cards, sizes, options, warmup_s)
        if got.sound:
            break
    assert got.sound, got.done
    return got


def by_xdpgen(cards: Pair, **stream: Any) -> dict[str, Any]:
    """Frames that xdpgen's live sender gives to the left card on the last CPU: its one result.

    The left card has the receiver's program as well: igb and virtio_net send nothing for XDP without one.
    """
    asked = {
        "ports": [{"ifname": port.ifname, "tx_cpu": CPUS[-1]} for port in cards.ports],
        "streams": [_stream(cards, 64, id=0, **stream)],
        "warmup_s": _WARMUP_S[cards.driver][1], "duration_s": FRAMES / PPS, "drain_s": 0.3,
        "max_burst": 1_000_000, "progress": False,
    }  # fmt: skip
    done = HOST.run([str(bpf_program("xdpgen")), "-"], stdin=json.dumps(asked), check=False, timeout_s=25.0)
    assert done.stdout, done.complaint
    time.sleep(SETTLE_S)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def refusal(cards: Pair, **options: Any) -> str:
    """What xsk says when it does not start."""
    asked = {"role": "sink", "ports": [{"ifname": cards.left.ifname}], "duration_s": 0.1, **options}
    done = HOST.run([str(bpf_program("xsk")), "-"], stdin=json.dumps(asked), check=False, timeout_s=25.0)
    assert done.returncode == 2, done
    return done.complaint


#: Far from each other, for addresses that are near have hashes that are near.
_SENDERS = [f"10.{(number * 89) % 256}.{(number * 151) % 256}.{number * 13 + 1}" for number in range(16)]


def received_by_queue(cards: Pair, queues: int) -> list[int]:
    """Frames that sockets of the right card got, queue by queue; they come from 16 addresses."""
    sink = {"role": "sink", "ports": [{"ifname": cards.right.ifname}], "queues": queues, "cpus": [1], "wait": "poll"}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "sink")
        process = HOST.start(
            [str(bpf_program("xsk")), "-"], stdin=json.dumps(sink), stdout=output, log=Path(folder, "log")
        )
        try:
            wait_until(lambda: output.read_text(encoding="utf-8").endswith("\n"), 10.0, "xsk: its ready line")
            streams = [_stream(cards, 64, id=number, src_ip=address, pps=100.0, rx_port=0)
                       for number, address in enumerate(_SENDERS)]  # fmt: skip
            asked = {"role": "probe", "ports": [{"ifname": cards.left.ifname}], "streams": streams, "duration_s": 0.5,
                     "warmup_s": _WARMUP_S[cards.driver][1], "max_burst": 1_000_000, "cpus": [0]}  # fmt: skip
            HOST.run([str(bpf_program("xsk")), "-"], stdin=json.dumps(asked), timeout_s=25.0)
        finally:
            process.signal(signal.SIGTERM)
            process.wait(5.0)
            process.stop()
        done = json.loads(output.read_text(encoding="utf-8").splitlines()[-1])
    time.sleep(SETTLE_S)
    return [sock["rx"] for sock in sorted(done["sockets"], key=lambda sock: int(sock["queue"]))]


def _stream(cards: Pair, frame_bytes: int, **more: Any) -> dict[str, Any]:
    return {
        "kind": "latency", "tx_port": 0, "rx_port": 1, "pps": PPS, "frame_bytes": frame_bytes,
        "src_mac": cards.left.mac, "dst_mac": cards.right.mac, "src_ip": "198.18.0.1", "dst_ip": "198.19.0.1", **more,
    }  # fmt: skip


@contextlib.contextmanager
def forwarder(cards: Pair, **options: Any) -> Iterator[tuple[XskRole, Dut]]:
    """The suite's forwarder `xsk` on the left card, reflecting."""
    made = XskRole(validated(XskOptions, options, "options"), "l2fwd", 64)
    dut = cards.dut
    try:
        made.start(dut)
        yield made, dut
    finally:
        made.stop()
        time.sleep(SETTLE_S)


@contextlib.contextmanager
def applied(context: KnobContext, **wanted: Scalar) -> Iterator[Settings]:
    """Knobs as a run sets them: asked whether supported, applied, verified, and put back with that verified too."""
    lock = TestbedLock(f"nic-{'-'.join(wanted).replace('_', '-')}")  # one may be within another
    lock.acquire()
    settings = Settings(lock, context, wanted)
    try:
        assert settings.unsupported() is None
        try:
            settings.apply()
            yield settings
        finally:
            settings.restore()
        assert lock.state().get("settings") == {}
    finally:
        lock.forget_unchanged()
        lock.release()


class Calls:
    """How often functions of the kernel ran, by probes of ftrace: what no flag can claim."""

    _TRACING = Path("/sys/kernel/tracing")

    def __init__(self, *functions: str) -> None:
        self._functions = functions
        self.counts: dict[str, int] = {}

    def __enter__(self) -> "Calls":
        (self._TRACING / "kprobe_events").write_text(
            "".join(f"p:nic/{name} {name}\n" for name in self._functions), encoding="ascii"
        )
        (self._TRACING / "events/nic/enable").write_text("1", encoding="ascii")
        return self

    def __exit__(self, *_: object) -> None:
        for line in (self._TRACING / "kprobe_profile").read_text(encoding="ascii").splitlines():
            name, hits, missed = line.split()
            self.counts[name] = int(hits) + int(missed)
        (self._TRACING / "events/nic/enable").write_text("0", encoding="ascii")
        (self._TRACING / "kprobe_events").write_text("", encoding="ascii")


_SHOWN = ("-g", "-c", "-l", "-x", "-k", "-a", "--show-priv-flags")
_FILES = ("threaded", "napi_defer_hard_irqs", "gro_flush_timeout", "mtu", "tx_queue_len", "flags")


def state(ports: Sequence[Port]) -> dict[str, str]:
    """All settings of these ports in ethtool's and sysfs's words, and what XDP program they carry."""
    found = {}
    for port in ports:
        for flag in _SHOWN:
            found[f"{port.ifname} ethtool {flag}"] = HOST.run(["ethtool", flag, port.ifname], check=False).stdout
        for file in _FILES:
            found[f"{port.ifname} {file}"] = HOST.read(f"/sys/class/net/{port.ifname}/{file}")
        found[f"{port.ifname} XDP"] = str(HOST.xdp(port.ifname))
    return found


def changes(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str, str]]:
    """What differs between two states."""
    return {key: (before[key], after[key]) for key in before if before[key] != after[key]}
