# SPDX-License-Identifier: Apache-2.0
"""The VPP process of one repetition: its configuration, its sockets, its shared memory."""

import hashlib
import re
import time
from collections.abc import Callable
from typing import Any

from xdplab.forwarders.base import Dut
from xdplab.forwarders.process import how_it_ended, wait_until
from xdplab.forwarders.vpp_control import VppAway, VppControl
from xdplab.forwarders.vpp_program import rendered
from xdplab.hosts.kernel import thread_ids
from xdplab.model import PointFailed

_START_TIMEOUT_S = 20.0
#: Between bind(2), which makes a socket's file, and listen(2) nobody can connect.
_LISTEN_TIMEOUT_S = 5.0
#: Longest path of a Unix socket (sun_path of unix(7) has 108 bytes with its end).
_SOCKET_PATH_MAX = 107


class VppProcess:
    """A VPP that runs from `vpp/startup.conf.j2` in the run directory of `dut`."""

    def __init__(self, dut: Dut, program: str, cpus: list[int], variables: dict[str, Any]) -> None:
        """Start it; `wait` until it can be talked to.

        Args:
            dut: where.
            program: path of vpp.
            cpus: all that it may use.
            variables: of the template, besides those about the run directory.

        Raises:
            PointFailed: its sockets cannot be where the run directory is.
        """
        self._dut = dut
        self.api_socket = str(dut.rundir / "api.sock")
        self.stats_socket = str(dut.rundir / "stats.sock")
        if len(self.stats_socket) > _SOCKET_PATH_MAX:
            raise PointFailed(f"vpp: {dut.rundir}: too long for its sockets; set XDPLAB_STATE to a short path")
        # the same after a kill, so that what it left in shared memory is found
        self._prefix = "xdplab-" + hashlib.sha256(str(dut.rundir).encode()).hexdigest()[:8]
        config = str(dut.rundir / "startup.conf")
        text = rendered("startup.conf.j2", rundir=dut.rundir, prefix=self._prefix, **variables)
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
        wait_until(self._listens, _START_TIMEOUT_S, "vpp: its API socket")

    def connected(self, connect: Callable[[str, str], VppControl]) -> VppControl:
        """A connection to its sockets; one that is refused is tried again, for VPP may not listen yet.

        Raises:
            PointFailed: it ended, or still listened to nobody.
        """
        deadline = time.monotonic() + _LISTEN_TIMEOUT_S
        while True:
            try:
                return connect(self.api_socket, self.stats_socket)
            except VppAway:
                self._listens()  # raises when it ended
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._running.pid

    def ended(self) -> str | None:
        """None while it runs, else how it ended."""
        return how_it_ended("vpp", self._running)

    def threads(self, name: str) -> list[int]:
        """Ids of its threads whose name matches a regular expression."""
        return [tid for tid, each in thread_ids(self._dut.host, self.pid).items() if re.fullmatch(name, each)]

    def log_tail(self) -> tuple[str, ...]:
        """Its last lines."""
        return self._running.log_tail()

    def complaint(self, word: str) -> str:
        """The last line of its log that holds `word`, for what an error code does not say; empty without one."""
        lines = [line for line in self.log_tail() if word in line]
        return " ".join(lines[-1].split()) if lines else ""

    def stop(self) -> None:
        """End it and remove its shared memory; safe after a crash."""
        self._running.stop(5.0)
        self._remove_shared_memory()

    def _listens(self) -> bool:
        ended = self.ended()
        if ended:
            raise PointFailed(f"{ended}: {' | '.join(self.log_tail()[-2:])}")
        return self._dut.host.exists(self.api_socket) and self._dut.host.exists(self.stats_socket)

    def _remove_shared_memory(self) -> None:
        where = "/dev/shm"  # noqa: S108 - where VPP puts it
        self._dut.host.run(["find", where, "-maxdepth", "1", "-name", f"{self._prefix}-*", "-delete"])
