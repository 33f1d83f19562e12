# SPDX-License-Identifier: Apache-2.0
"""The VPP of one repetition: its process with configuration, sockets and shared memory, and the connection to it."""

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from xdplab.forwarders.base import Dut
from xdplab.forwarders.process import NODES, Instance
from xdplab.forwarders.vpp.control import VppAway, VppControl
from xdplab.hosts import Host
from xdplab.hosts.kernel import thread_ids
from xdplab.hosts.waiting import how_it_ended
from xdplab.model import InputError, NotThere, PointFailed, Unsupported, do_each
from xdplab.testbed.state import remove_shared_memory, shared_memory_prefix
from xdplab.tools import project_root

_START_TIMEOUT_S = 20.0
#: Between bind(2), which makes a socket's file, and listen(2) nobody can connect.
_LISTEN_TIMEOUT_S = 5.0
#: Longest path of a Unix socket (sun_path of unix(7) has 108 bytes with its end).
_SOCKET_PATH_MAX = 107


@dataclass(frozen=True)
class Interface:
    """A port inside VPP."""

    ifname: str
    index: int
    name: str


class Vpp(Instance):
    """A VPP that runs from `vpp/startup.conf.j2` in the run directory of `dut`, from its start until `stop`."""

    def __init__(
        self,
        dut: Dut,
        program: str,
        cpus: list[int],
        variables: dict[str, Any],
        detach: Callable[[VppControl, Interface], None],
    ) -> None:
        """Start it; `wait` until it can be talked to, then `connect`.

        Args:
            dut: where.
            program: path of vpp.
            cpus: all that it may use.
            variables: of the template, besides those about the run directory.
            detach: removes an interface, so that nothing stays on its port.

        Raises:
            PointFailed: its sockets cannot be where the run directory is.
        """
        super().__init__("vpp", dut)
        self.interfaces: list[Interface] = []
        self.nodes = NodeCounts()
        self._control: VppControl | None = None
        self._detach = detach
        self.api_socket = str(dut.rundir / "api.sock")
        self.stats_socket = str(dut.rundir / "stats.sock")
        self.link_log = dut.rundir / "link.log"
        if len(self.stats_socket) > _SOCKET_PATH_MAX:
            raise PointFailed(
                f"vpp: {dut.rundir}: too long for its sockets; set XDPLAB_STATE to a short path, or `folder` of that "
                "host in the testbed file"
            )
        config = str(dut.rundir / "startup.conf")
        text = rendered("startup.conf.j2", rundir=dut.rundir, prefix=shared_memory_prefix(dut.rundir), **variables)
        dut.host.write(config, text + "\n")
        self._remove_shared_memory()
        self._running = dut.host.start(
            [program, "-c", config],
            log=dut.rundir / "vpp.log",
            cpus=cpus,
            # without a libxdp dispatcher the port's program is the only one, as with every other forwarder
            env={"LIBXDP_SKIP_DISPATCHER": "1", "RUNTIME_DIRECTORY": str(dut.rundir)},
        )

    def wait(self) -> None:
        """Until its sockets are there.

        Raises:
            PointFailed: it ended, or they did not appear.
        """
        exists = self.dut.host.exists
        self.until(lambda: exists(self.api_socket) and exists(self.stats_socket), _START_TIMEOUT_S, "its API socket")

    def connect(self, connect: Callable[[str, str], VppControl]) -> None:
        """Connect to its sockets; where that is refused it is tried again: VPP may not listen yet.

        Raises:
            PointFailed: it ended, or still listened to nobody.
        """
        deadline = time.monotonic() + _LISTEN_TIMEOUT_S
        while True:
            try:
                self._control = connect(self.api_socket, self.stats_socket)
                return
            except VppAway:
                self.check_alive()
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.02)

    @property
    def control(self) -> VppControl:
        """The connection.

        Raises:
            PointFailed: there is none yet.
        """
        if self._control is None:
            raise PointFailed("vpp: not connected")
        return self._control

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._running.pid,)

    def ended(self) -> str | None:
        """None while it runs, else how it ended."""
        return how_it_ended("vpp", self._running)

    def threads(self, name: str) -> dict[int, int]:
        """Thread -> process of its threads whose name matches a regular expression."""
        pid = self._running.pid
        return {tid: pid for tid, each in thread_ids(self.dut.host, pid).items() if re.fullmatch(name, each)}

    def row(self, index: int) -> dict[str, Any]:
        """Its own row of an interface.

        Raises:
            PointFailed: it has none.
        """
        rows = self.control.dump("sw_interface_dump", sw_if_index=index)
        found = [row for row in rows if row["sw_if_index"] == index]
        if not found:
            raise PointFailed(f"vpp: it made interface {index} and does not know it")
        return found[0]

    def queues(self, interface: Interface) -> list[dict[str, Any]]:
        """Where each receive queue of an interface is received, and how."""
        return self.control.dump("sw_interface_rx_placement_dump", sw_if_index=interface.index)

    def log_tail(self) -> tuple[str, ...]:
        return self._running.log_tail()

    def complaint(self, word: str) -> str:
        """The last line of its log that holds `word`, for what an error code does not say; empty without one."""
        lines = [line for line in self.log_tail() if word in line]
        return " ".join(lines[-1].split()) if lines else ""

    def stop(self) -> None:
        """Interfaces first, so that XDP programs go with them, then the process, then its shared memory."""
        process = partial(self._running.stop, 5.0)
        if self._control is None:
            do_each(self.name, process, self._remove_shared_memory)
        else:
            leave_ports = partial(self._leave_ports, self._control)
            do_each(self.name, leave_ports, self._control.close, process, self._remove_shared_memory)

    def _leave_ports(self, control: VppControl) -> None:
        if self.ended() is None:
            with suppress(PointFailed, Unsupported):  # the run takes off and verifies what it leaves on the ports
                for interface in self.interfaces:
                    self._detach(control, interface)

    def _remove_shared_memory(self) -> None:
        remove_shared_memory(self.dut.host, self.dut.rundir)


# Where VPP is, which version it is without starting it, and its configuration files.

#: The oldest version whose API and plugins these forwarders know.
OLDEST = (25, 6)
#: The first that answers to --version; an older one would take it for its configuration.
_SAYS_VERSION = (26, 2)


def find_vpp(host: Host, option: str, package: str) -> tuple[str | None, str]:
    """Path of the program, or None and how to get it. A folder is a prefix: where `make install` put `bin/vpp`.

    Raises:
        InputError: it is named, and not there.
    """
    named = option or os.environ.get("XDPLAB_VPP", "")
    asked = named or "vpp"
    for each in (asked, f"{asked}/bin/vpp") if "/" in asked else (asked,):
        done = host.run(["which", each], check=False)
        if done.returncode == 0:
            return done.stdout.strip(), ""
    if named:
        by = f"option vpp={named}" if option else f"XDPLAB_VPP={named}"
        raise NotThere(f"{by}: {host.name} has no such program, and no bin/vpp in such a folder: correct it")
    return None, (
        f"VPP is optional and not installed: no program on PATH; install FD.io's Debian packages vpp and {package} "
        f"({OLDEST[0]}.{OLDEST[1]:02} or later), or name the program or its prefix by vpp=PATH or XDPLAB_VPP"
    )


def numbers(version: str) -> tuple[int, int]:
    """`26.10-rc0~374-gb575ec2c` -> (26, 10); (0, 0) when it does not begin with two numbers."""
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def installed_version(host: Host, program: str) -> str:
    """As `--version` says it, or the version of the libvlib that an older one is linked with."""
    linked = re.search(r"libvlib\.so\.(\d+\.\d+\S*)", host.run(["ldd", program], check=False).stdout)
    if linked is None:
        return "unknown"
    if numbers(linked.group(1)) < _SAYS_VERSION:
        return linked.group(1)
    said = re.search(r"vpp v(\S+)", host.run([program, "--version"], check=False, timeout_s=10).stdout)
    return said.group(1) if said else linked.group(1)


#: Those that `vpp/startup.conf.j2` writes; the last only for `vpp-dpdk`.
_SECTIONS = ("unix", "socksvr", "statseg", "api-segment", "memory", "buffers", "cpu", "plugins", "dpdk")


def rendered(name: str, raw: Mapping[str, str] | None = None, **variables: object) -> str:
    """A template of the folder `vpp/`, filled in; without blank lines.

    `raw`: section -> words, which come behind ours in a section that it writes, else in one of their own.

    Raises:
        InputError: the folder is not there.
    """
    folder = project_root() / "vpp"
    if not (folder / name).is_file():
        raise InputError(f"{folder / name}: not found; install xdplab again")
    environment = Environment(
        loader=FileSystemLoader(folder), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - configuration files, not HTML
    )  # fmt: skip
    lines = (
        environment.get_template(name)
        .render(raw=defaultdict(str, raw or {}), sections=_SECTIONS, **variables)
        .splitlines()
    )
    return "\n".join(line.rstrip() for line in lines if line.strip())


# What the nodes of VPP's graph cost, by `show runtime`.
#
# VPP prints clocks as a mean of three digits since the last `clear runtime`: so they are cleared where they are read,
# and summed here. The statistics segment has whole sums, but takes them once in 10 s, from threads that go on
# meanwhile.
#
# A node that polls ports is called without a frame to fetch as well, and its clocks are of all calls (`dispatch_node`
# of vlib/main.c, VPP 26.10). How many fetched frames is seen by the nodes behind it, which are called with frames only:
# once for each port and 256 frames of a call. What a call takes that fetches nothing is seen between trials.

_SHOW, _CLEAR = "show runtime", "clear runtime"
_THREAD = re.compile(r"Thread \d+ (\S+) .*")
#: What stands around the nodes of a thread, next to its head of columns.
_BESIDE = re.compile(r"-+|Time [\d.]+, .*| +vector rates in .*|\s*")
_HEAD = ["Name", "State", "Calls", "Vectors", "Suspends", "Packet-Clocks", "Vectors/Call"]
#: Name and state, both cut to their columns; calls, vectors, suspends, clocks of one of them, vectors of a call: `.19`.
_NODE = re.compile(r"(\S.{29})(.{12}) *(\d+) +(\d+) +\d+ +(\d\S*) +[.\d]\S*")
#: Of the thread of a VPP without workers, which has no head then.
_ALONE = "vpp_main"
#: States of nodes that fetch frames; `active` is one that is handed them, all others are processes.
_FETCHES, _HANDED = ("polling", "interrupt wa", "disabled"), "active"
#: Frames of each call up to which all calls tell what an empty one takes.
_FEW = 0.001
#: Share of empty calls up to which it does not matter what they took.
_HARDLY_ANY = 0.1


@dataclass(frozen=True)
class Node:
    """A line of `show runtime`."""

    name: str
    fetches: bool
    calls: int
    vectors: int
    clocks: float


class NodeCounts:
    """Of one VPP, since it was started: cleared there, summed here."""

    def __init__(self) -> None:
        self._sums: dict[str, dict[str, dict[str, float]]] = {}
        #: Thread and node -> clocks of a call that fetched nothing.
        self._empty_call: dict[tuple[str, str], float] = {}
        self._unknown: set[tuple[str, str]] = set()

    def read(self, ask: Callable[[str], str]) -> dict[str, dict[str, Any]]:
        """`NODES`: thread -> node -> fields of `NodeWork` up to now, of nodes that have had a frame."""
        threads = parse_nodes(ask(_SHOW))
        ask(_CLEAR)
        for thread, nodes in threads.items():
            with_frames = max((node.calls for node in nodes if not node.fetches and node.vectors), default=0)
            for node in nodes:
                self._add(thread, node, with_frames)
        return {NODES: {thread: {name: dict(sums) for name, sums in own.items()} for thread, own in self._sums.items()}}

    def _add(self, thread: str, node: Node, with_frames: int) -> None:
        name = node.name
        if node.fetches and node.calls and node.vectors <= _FEW * node.calls:
            self._empty_call[thread, name] = node.clocks / node.calls
        if not node.vectors:
            return
        empty = max(0, node.calls - with_frames) if node.fetches else 0
        found = {
            "calls": node.calls,
            "empty": empty,
            "vectors": node.vectors,
            "received": node.vectors if node.fetches else 0,
            "clocks": node.clocks,
            "idle": self._idle(thread, node, empty),
        }
        sums = self._sums.setdefault(thread, {}).setdefault(name, {})
        for key, value in found.items():
            sums[key] = round(sums.get(key, 0) + value, 3)
        if (thread, name) in self._unknown:
            del sums["idle"]

    def _idle(self, thread: str, node: Node, empty: int) -> float:
        """Clocks of empty calls; where they are many and nobody has seen what one takes, that is noted."""
        took = self._empty_call.get((thread, node.name))
        if took is not None:
            return min(node.clocks, empty * took)
        if empty > _HARDLY_ANY * node.calls:
            self._unknown.add((thread, node.name))
        return 0.0


def parse_nodes(text: str) -> dict[str, list[Node]]:
    """Thread -> its nodes, of `show runtime`; names that are the same in 30 letters may be several.

    Raises:
        PointFailed: a line is not understood, or nodes come without their head.
    """
    found: dict[str, list[Node]] = {}
    thread, with_head = _ALONE, False
    for line in text.splitlines():
        if named := _THREAD.fullmatch(line):
            thread, with_head = named[1], False
        elif line.split() == _HEAD:
            found[thread], with_head = [], True
        elif not _BESIDE.fullmatch(line):
            if not with_head:
                raise PointFailed(f"VPP: {_SHOW}: no head of columns before {line.strip()!r}")
            found[thread] += _node(line)
    if not found:
        raise PointFailed(f"VPP: {_SHOW}: no thread in {text.strip()!r}")
    return found


def _node(line: str) -> list[Node]:
    """A process is none: it has no frames."""
    if not (read := _NODE.fullmatch(line.rstrip())):
        raise PointFailed(f"VPP: {_SHOW}: line not understood: {line.strip()!r}")
    name, state, calls, vectors = read[1].strip(), read[2].strip(), int(read[3]), int(read[4])
    if state in (_HANDED, *_FETCHES):
        return [Node(name, state != _HANDED, calls, vectors, float(read[5]) * (vectors or calls))]
    if vectors:
        raise PointFailed(f"VPP: {_SHOW}: state of a node with frames not understood: {line.strip()!r}")
    return []
