# SPDX-License-Identifier: Apache-2.0
"""Finding TRex on this machine, and a TRex server of our own on the tester's two ports.

The server program is started directly. TRex's `t-rex-64` script around it binds network cards, reserves hugepages and
ends other servers; none of that is wanted on Linux interfaces, where TRex works over AF_PACKET without hugepages.
"""

import contextlib
import json
import os
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from xdplab.hosts import Conversation, Host, LocalHost, Running
from xdplab.hosts.kernel import text_of, thread_ids
from xdplab.hosts.waiting import how_it_ended, last_words, stopped, wait_until
from xdplab.model import CpuLayout, InputError, NotThere, PointFailed, Unsupported, XdplabError
from xdplab.testbed import Port
from xdplab.tools import project_root

Mode = Literal["auto", "low-end", "dedicated"]
SYNC_PORT, ASYNC_PORT = 4501, 4500
HOW_TO_GET = (
    "TRex is not on this machine; unpack a release of it (trex-tgn.cisco.com) and set XDPLAB_TREX to its folder, or "
    "put its t-rex-64 on PATH"
)
_PROGRAMS = ("_t-rex-64", "_t-rex-64-o")
_LIBRARIES = "automation/trex_control_plane/interactive"
_RING_FRAMES = 4096
#: A server that nobody types at, without the parts for other clients and without a report each second.
_ALONE = ("--no-scapy-server", "--no-termio", "--no-key", "--iom", "0")
_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp


@dataclass(frozen=True)
class Installation:
    """A TRex release that was found."""

    folder: Path
    program: Path
    libraries: Path


def find(setting: str = "") -> Installation | None:
    """TRex in the folder of a tester option; else in that of XDPLAB_TREX; else where PATH has it.

    Raises:
        InputError: a folder is named, and TRex is not there.
    """
    named = setting or os.environ.get("XDPLAB_TREX", "")
    on_path = shutil.which("t-rex-64")
    if not named and on_path is None:
        return None
    root = Path(named).resolve() if named else Path(str(on_path)).resolve().parent
    for program in _PROGRAMS:
        if os.access(root / program, os.X_OK) and (root / _LIBRARIES / "trex").is_dir():
            return Installation(root, root / program, root / _LIBRARIES)
    if not named:
        return None
    by = "tester trex: path" if setting else "XDPLAB_TREX"
    raise NotThere(f"{by}={named}: no TRex release there: t-rex-64 and its client library are missing")


def choose_cpus(layout: CpuLayout, mode: Mode) -> tuple[int, ...]:
    """CPUs for master, receive and transmit thread, or the one CPU of the low-end mode.

    Dedicated threads spin; they need two housekeeping CPUs next to the tester's own.

    Raises:
        Unsupported: `mode` asks for them, and there are fewer.
    """
    reason = why_not_dedicated(layout, mode)
    if reason:
        raise Unsupported(f"trex: {reason}")
    spare = _spare(layout)
    return (layout.tester_tx,) if mode == "low-end" or len(spare) < 2 else (spare[0], spare[1], layout.tester_tx)


def why_not_dedicated(layout: CpuLayout, mode: Mode) -> str | None:
    """None, or why threads that spin, which `mode` asks for, have no CPUs here."""
    spare = len(_spare(layout))
    if mode != "dedicated" or spare >= 2:
        return None
    return (
        f"mode=dedicated: two housekeeping CPUs next to those of tester and forwarder are needed, and there "
        f"{'is one' if spare else 'is none'}; leave mode out, or use a machine with four CPUs"
    )


def _spare(layout: CpuLayout) -> list[int]:
    return [cpu for cpu in layout.housekeeping if cpu not in (layout.tester_tx, layout.forwarder, layout.dut_napi)]


def configuration(
    ports: tuple[Port, Port], cpus: tuple[int, ...], prefix: str, raw: Mapping[str, str] | None = None
) -> str:
    """TRex's configuration file for two Linux interfaces; `raw`: more keys of it, as `rx_desc` or `memory.mbuf_64`.

    Raises:
        Unsupported: one of them is there already, or is below one that is not a mapping.
    """
    slot_bytes = 2048 if max(port.mtu for port in ports) <= 1900 else 4096  # and headers of the ring and of Ethernet
    environment = Environment(
        loader=FileSystemLoader(project_root() / "trex"),
        undefined=StrictUndefined,
        trim_blocks=True,
        autoescape=False,  # noqa: S701 - YAML, with names of our own making
    )
    text = environment.get_template("trex_cfg.yaml.j2").render(
        ports=ports, cpus=cpus, prefix=prefix, slot_bytes=slot_bytes, block_bytes=16 * 4096, ring_frames=_RING_FRAMES
    )
    return _with_raw(text, raw) if raw else text


def _with_raw(text: str, raw: Mapping[str, str]) -> str:
    whole = yaml.safe_load(text)
    for name, value in raw.items():
        *above, key = name.split(".")
        place = whole[0]
        for each in above:
            place = place.setdefault(each, {}) if isinstance(place, dict) else None
        if not isinstance(place, dict) or key in place:
            raise Unsupported(f"trex: raw.config.{name}: xdplab's configuration has it already, or what is above it")
        place[key] = yaml.safe_load(value)
    return str(yaml.safe_dump(whole, sort_keys=False))


def listens(host: Host, connections: str = "/proc/net/tcp") -> bool:
    """Whether a TRex server listens on a host; `connections`: of the namespace that is asked about."""
    fields = [line.split() for line in text_of(host, connections).splitlines()[1:]]
    return any(each[3] == _LISTEN and int(each[1].rpartition(":")[2], 16) == SYNC_PORT for each in fields)


class Server(ABC):
    """A TRex server from `start` to `stop`."""

    start_timeout_s: ClassVar[float]
    #: How long it may take to end.
    grace_s: ClassVar[float] = 3.0
    #: Of its threads, where they are chosen here.
    cpus: tuple[int, ...] = ()

    def __init__(self, host: Host, *, histograms: bool) -> None:
        #: Where it runs.
        self.host = host
        self._options = [*(("--hdrh", "--latency-diag") if histograms else ()), *_ALONE]
        self._process: Running | None = None
        #: From its start until it listened, in s.
        self.start_s = 0.0

    @abstractmethod
    def _begin(self, folder: Path) -> Running: ...

    @abstractmethod
    def _listens(self) -> bool: ...

    def start(self, folder: Path, well: Callable[[], str | None]) -> None:
        """Start it and wait until it listens. `folder` takes what it writes on this machine.

        Raises:
            PointFailed: it ended, or did not listen in time.
        """
        began = time.monotonic()
        self._process = process = self._begin(folder)

        def ready() -> bool:
            if why := self.ended() or well():
                raise PointFailed(why)
            return self._listens()

        try:
            wait_until(ready, self.start_timeout_s, "it does not listen")
        except PointFailed as exc:
            said = last_words(process.log_tail(), 3) or "nothing"
            held = stopped(self.host, [process.pid]) if process.poll() is None else None
            self.stop()
            raise PointFailed(f"trex: the server did not start: {held or exc}; it said: {said}") from None
        self.start_s = time.monotonic() - began

    def why_silent(self) -> str | None:
        """None, or how it ended with its last words, or that it is stopped."""
        if self._process is None:
            return self.ended()
        ended = self.ended()
        if ended:
            return f"{ended}: {last_words(self._process.log_tail(), 3) or 'it said nothing'}"
        return stopped(self.host, [self._process.pid])

    def ended(self) -> str | None:
        """How it ended, or None while it runs."""
        return how_it_ended("trex server", self._process) if self._process is not None else "trex server: not started"

    def threads(self) -> dict[int, str]:
        """Its threads, by number, where they are watched."""
        return {}

    @property
    def pid(self) -> int:
        """Its process; 0 when it does not run."""
        return self._process.pid if self._process is not None else 0

    def signal(self, number: int) -> None:
        if self._process is not None:
            self._process.signal(number)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(self.grace_s)
            self._process = None


class TrexServer(Server):
    """A server in the namespace that holds both tester ports."""

    start_timeout_s: ClassVar[float] = 40.0

    def __init__(
        self,
        installation: Installation,
        ports: tuple[Port, Port],
        layout: CpuLayout,
        mode: Mode,
        histograms: bool,
        raw: Mapping[str, str],
    ) -> None:
        super().__init__(ports[0].host, histograms=histograms)
        self._raw = raw
        self._installation = installation
        self._ports = ports
        self.cpus = choose_cpus(layout, mode)
        self._runtime: Path | None = None

    def _begin(self, folder: Path) -> Running:
        prefix = f"xdplab-{folder.name}"  # the same in each run on a testbed, which removes what a killed one left
        self._runtime = Path("/run/dpdk") / prefix
        shutil.rmtree(self._runtime, ignore_errors=True)
        config = folder / "trex_cfg.yaml"
        config.write_text(configuration(self._ports, self.cpus, prefix, self._raw), encoding="utf-8")
        self.host.run(["ip", "link", "set", "lo", "up"])  # the client talks to it over loopback of its namespace
        there = self._installation.folder
        return self.host.start(
            [
                *("env", "--chdir", str(there), str(self._installation.program)),
                *("-i", "--stl", "--cfg", str(config), "-c", "1", *self._options, "--no-watchdog"),
            ],
            log=folder / "server.log",
            cpus=sorted(set(self.cpus)),
            env={"LD_LIBRARY_PATH": f"{there}:{there}/so/{os.uname().machine}"},
        )

    def _listens(self) -> bool:
        return listens(self.host, f"/proc/{self.pid}/net/tcp")

    def start(self, folder: Path, well: Callable[[], str | None]) -> None:
        """And have the low-end scheduler sleep precisely: 50 µs of timer slack would be added to each of its sleeps."""
        super().start(folder, well)
        for thread in self.threads() if len(self.cpus) == 1 else ():
            with contextlib.suppress(OSError):
                Path(f"/proc/{thread}/timerslack_ns").write_text("1", encoding="ascii")

    def threads(self) -> dict[int, str]:
        return thread_ids(self.host, self.pid) if self.pid else {}

    def stop(self) -> None:
        """End it, and remove the files DPDK keeps of it."""
        super().stop()
        if self._runtime is not None:
            shutil.rmtree(self._runtime, ignore_errors=True)


# Our end of the bridge to TRex (`trex/bridge/bridge.py`): a request, its reply, and no third thing.
#
# The bridge is a process of its own because TRex's client library brings its own scapy, zmq and yaml.

PROTOCOL = 1
_HELLO_TIMEOUT_S = 30.0
#: What ends the run, because no point can be measured, rather than the point.
_FATAL = {
    "version": "use server and client of one TRex release",
    "owned": "end the other TRex user's session, or use other ports",
    "histogram": "",
}


def bridge_command(libraries: Path, record: Path | None = None) -> list[str]:
    """How the bridge is started: by our Python, without our packages."""
    program = str(project_root() / "trex" / "bridge" / "bridge.py")
    return [sys.executable, "-s", program, str(libraries), *(["--record", str(record)] if record else [])]


class Bridge:
    """A conversation with the bridge."""

    def __init__(self, host: LocalHost, command: Sequence[str], log: Path) -> None:
        self._process: Conversation = host.converse(command, log=log)
        self._requests = 0
        said = self.ask("hello", timeout_s=_HELLO_TIMEOUT_S)
        if said.get("protocol") != PROTOCOL:
            self.stop()
            raise XdplabError(f"trex: the bridge speaks protocol {said.get('protocol')}, {PROTOCOL} is expected")

    def ask(
        self, op: str, *, timeout_s: float, well: Callable[[], str | None] = lambda: None, **request: Any
    ) -> dict[str, Any]:
        """The reply to a request. `well` is asked about twice a second, and ends the wait with the sentence it has.

        Raises:
            PointFailed: TRex refused, is gone, or did not answer in time.
            InputError: nothing can be measured with this server.
        """
        self._requests += 1
        number = self._requests
        self._process.send(json.dumps({"id": number, "op": op, **request}))
        deadline = time.monotonic() + timeout_s
        while True:
            reply = self._reply()
            if reply is not None and reply.get("id") in (number, None):
                return _checked(op, reply)
            ended = well()
            if ended:
                self._process.send(json.dumps({"id": 0, "op": "stop"}))
                raise PointFailed(ended)
            if time.monotonic() > deadline:
                raise PointFailed(f"trex: no reply to {op} within {timeout_s:.0f} s")

    def signal(self, number: int) -> None:
        self._process.signal(number)

    def stop(self) -> None:
        """Close its input; it gives the ports back and ends."""
        self._process.stop()

    def _reply(self) -> dict[str, Any] | None:
        try:
            line = self._process.receive(0.5)
        except EOFError:
            self._process.wait(1.0)
            said = " | ".join(self._process.log_tail(1)) or "no message"
            raise PointFailed(f"trex: the bridge ended: {said}") from None
        if line is None:
            return None
        reply = json.loads(line)
        assert isinstance(reply, dict)
        return reply


def _checked(op: str, reply: dict[str, Any]) -> dict[str, Any]:
    if "ok" in reply:
        assert isinstance(reply["ok"], dict)
        return reply["ok"]
    kind, text = reply.get("kind", "client"), f"trex: {op}: {reply.get('error')}"
    if kind in _FATAL:
        raise InputError("; ".join(filter(None, (text, _FATAL[kind]))))
    raise PointFailed(text)
