# SPDX-License-Identifier: Apache-2.0
"""Frames at a host's interfaces: single ones, sent and taken in; those of each queue; what became of them; cables."""

import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from xdplab.hosts.base import Conversation, Host, Running
from xdplab.hosts.bpf import built, why_not_built
from xdplab.hosts.ssh import SshHost
from xdplab.hosts.waiting import said_something
from xdplab.model import MissingProgram, PointFailed, XdplabError

_PROBE = Path(__file__).with_name("frame_probe.py")
_START_S = 5.0


class FrameProbe:
    """Sends frames by an interface and tells of those that come in there and hold a mark."""

    def __init__(self, host: Host, ifname: str, mark: bytes, log: Path) -> None:
        """Args: where it is, what its frames hold, and where it complains.

        Raises:
            PointFailed: it does not start.
        """
        argv = [host.python, "-I", "-S", host.program(_PROBE), ifname, mark.hex()]
        self._ifname = ifname
        self._process: Conversation = host.converse(argv, log=log)
        if self._line(_START_S) != "ready":
            self.stop()
            raise PointFailed(f"no probe at {ifname}: {' | '.join(self._process.log_tail(2))}")

    def send(self, frame: bytes) -> None:
        self._process.send(frame.hex())

    def receive(self, timeout_s: float) -> bytes | None:
        """The next frame; None: none came in that time.

        Raises:
            PointFailed: the probe has ended.
        """
        line = self._line(timeout_s)
        return bytes.fromhex(line) if line else None

    def stop(self) -> None:
        self._process.stop()

    def _line(self, timeout_s: float) -> str | None:
        try:
            return self._process.receive(timeout_s)
        except EOFError:
            raise PointFailed(f"the probe at {self._ifname} ended: {self._process.log_tail(2)}") from None


# What becomes of frames at ports, by the kernel's tracepoints: `bpf/xdpends` while it runs.

_READY_S, _ANSWER_S = 5.0, 10.0


@dataclass
class XdpEnds:
    """What it has counted, once it is over."""

    #: Each with `kind`, `ifname`, `frames` and what belongs to the kind (bpf/ends/ends.h).
    ends: list[dict[str, Any]] = field(default_factory=list)
    #: Interface -> `runs` of its XDP program, and `maps`.
    ports: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Why nothing is known.
    unknown: str = ""

    def of(self, kind: str, ifname: str) -> list[dict[str, Any]]:
        return [each for each in self.ends if each["kind"] == kind and each["ifname"] == ifname]


@contextmanager
def watched(host: Host, ifnames: Sequence[str], folder: Path) -> Iterator[XdpEnds]:
    """Count meanwhile; what it tells is filled in at the end."""
    found = XdpEnds()
    found.unknown = why_not_built("xdpends", host) or ""
    if found.unknown or not ifnames:
        yield found
        return
    host.make_folder(folder)
    output = folder / "xdpends.out"
    running = host.start([built("xdpends", host), *ifnames], log=folder / "xdpends.log", stdout=output)
    try:
        if not said_something(host, output, running, _READY_S):
            found.unknown = " | ".join(running.log_tail(1)) or "xdpends is not ready"
        yield found
    finally:
        running.stop(_ANSWER_S)
    if not found.unknown:
        counted = json.loads(host.read(str(output)).splitlines()[-1])
        found.ends, found.ports = counted["ends"], {port["ifname"]: port for port in counted["ports"]}


# Frames of each queue of an interface, by what its driver counts (`ethtool -S`).

Way = Literal["rx", "tx"]
#: Way -> queue -> frames.
QueueFrames = Mapping[Way, Mapping[int, int]]
#: `rx_queue_0_packets` (igb, ixgbe, ice, veth), `rx-0.packets` (i40e), `rx0_packets` (mlx5, and virtio_net of newer
#: kernels); `queue_0_rx_cnt` (ena), `[0]: rx_ucast_packets` (bnxt).
_NAMES = (
    re.compile(r"(?P<way>rx|tx)(?:_queue_|-|q#?)?(?P<queue>\d+)[._](?P<what>\w+)"),
    re.compile(r"(?:queue_|rvec_|q|\[)(?P<queue>\d+)(?:\]: |_)(?P<way>rx|tx)_(?P<what>\w+)"),
)
#: What is counted in frames, whatever became of them: mlx5 counts those that XDP takes under other names than the rest.
_FRAMES = re.compile(r"packet|pkt|cnt$|xmit$|redirect|xdp_drop")


def driver_counters(host: Host, ifname: str) -> dict[str, int]:
    """Name -> value of what the driver counts; nothing where it counts nothing by itself."""
    try:
        shown = host.run(["ethtool", "-S", ifname], check=False).stdout
    except MissingProgram:
        return {}
    return {name: int(value) for name, value in re.findall(r"^\s+(\S.*?):\s+(\d+)$", shown, re.MULTILINE)}


def by_queue(counters: Mapping[str, int]) -> dict[Way, dict[int, int]]:
    """Frames of each queue; a way that the driver does not count is left out. Of several counters, the largest."""
    found: dict[Way, dict[int, int]] = {}
    for name, value in counters.items():
        match = next(filter(None, (pattern.fullmatch(name) for pattern in _NAMES)), None)
        if match and _FRAMES.search(match["what"]):
            of_way = found.setdefault("rx" if match["way"] == "rx" else "tx", {})
            queue = int(match["queue"])
            of_way[queue] = max(of_way.get(queue, 0), value)
    return found


def moved(before: QueueFrames, after: QueueFrames) -> dict[Way, dict[int, int]]:
    """What queues have counted in between, without those that have counted nothing."""
    return {
        way: {queue: more for queue, now in queues.items() if (more := now - before.get(way, {}).get(queue, 0))}
        for way, queues in after.items()
    }


# Which interface reaches which: each sends a frame with its own text, and all listen.

_CABLE_PROBE = Path(__file__).with_name("cable_probe.py")
#: After the last frame was sent: a slow host takes seconds for each program that sends.
_LISTEN_S = 3.0
#: Of a listener whose controller is gone.
_AT_MOST_S = 300
_CABLE_START_S = 10.0
Label = TypeVar("Label")


def probe_cables(ends: Mapping[Label, tuple[SshHost, str]]) -> dict[Label, set[Label]]:
    """Label of each end (a host and an interface that is up) -> the labels of those that heard it.

    Raises:
        XdplabError: a listener does not start, or a frame cannot be sent.
    """
    hosts = {host.name: host for host, _ in ends.values()}
    with ExitStack() as stack:
        listeners = {name: _listen(host, [ifname for at, ifname in ends.values() if at is host], stack)
                     for name, host in hosts.items()}  # fmt: skip
        for name, (output, process) in listeners.items():
            if not said_something(hosts[name], output, process, _CABLE_START_S):
                report = " | ".join(process.log_tail(2))
                raise XdplabError(f"{name}: cables: a listener does not start: {report or 'no message'}")
        tag = secrets.token_hex(4)
        labels = list(ends)
        for number, label in enumerate(labels):
            host, ifname = ends[label]
            host.run([host.python, "-I", "-S", host.program(_CABLE_PROBE), "send", f"{tag}-{number}", ifname])
        heard: dict[Label, set[Label]] = {label: set() for label in labels}
        time.sleep(_LISTEN_S)
        for name, (output, process) in listeners.items():
            process.stop()
            for line in hosts[name].read(str(output)).splitlines()[1:]:
                report = json.loads(line)
                sent, _, number = report["word"].partition("-")
                if sent == tag and number.isdecimal() and int(number) < len(labels):
                    on = (hosts[name], report["on"])
                    heard[labels[int(number)]].update(label for label, end in ends.items() if end == on)
    return heard


def _listen(host: SshHost, ifnames: list[str], stack: ExitStack) -> tuple[Path, Running]:
    host.make_folder(host.folder)
    output = host.folder / "cables.out"
    argv = [host.python, "-I", "-S", host.program(_CABLE_PROBE), "listen", str(_AT_MOST_S), *ifnames]
    process = host.start(argv, log=host.folder / "cables.log", stdout=output)
    stack.callback(process.stop)
    return output, process
