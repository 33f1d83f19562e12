# SPDX-License-Identifier: Apache-2.0
"""The VPP of one repetition: its process with configuration, sockets and shared memory, and the connection to it."""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from xdplab.forwarders.base import Dut
from xdplab.forwarders.process import Instance
from xdplab.forwarders.vpp.control import VppAway, VppControl
from xdplab.forwarders.vpp.program import rendered
from xdplab.forwarders.vpp.runtime import NodeCounts
from xdplab.hosts import shared_memory
from xdplab.hosts.kernel import thread_ids
from xdplab.hosts.waiting import how_it_ended
from xdplab.model import PointFailed, Unsupported, do_each

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
        text = rendered("startup.conf.j2", rundir=dut.rundir, prefix=shared_memory.prefix(dut.rundir), **variables)
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
        shared_memory.remove(self.dut.host, self.dut.rundir)
