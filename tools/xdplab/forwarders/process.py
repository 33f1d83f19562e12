# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition, reading what a process tells, saying how it ended: for all forwarders that are programs."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from xdplab.forwarders.base import Dut, Forwarder, OptionsT
from xdplab.hosts import Host, Running
from xdplab.hosts.kernel import xdp_attachment, xsk_sockets
from xdplab.model import PointFailed

POLL_S = 0.005


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Poll `condition` until it holds: after a millisecond, then ever later, up to every `POLL_S`.

    Raises:
        PointFailed: it does not hold after `timeout_s`; `what` says for what was waited.
    """
    deadline = time.monotonic() + timeout_s
    pause_s = 0.001  # most of what is waited for takes less than `POLL_S`, and is asked often
    while not condition():
        if time.monotonic() > deadline:
            raise PointFailed(f"{what}: not after {timeout_s:g} s")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, POLL_S)


def how_it_ended(name: str, process: Running) -> str | None:
    """None while it runs, else a sentence."""
    code = process.poll()
    if code is None:
        return None
    if code < 0:
        return f"{name} was ended by signal {signal.Signals(-code).name}"
    return f"{name} ended with exit code {code}"


def json_lines(host: Host, output: Path) -> list[dict[str, Any]]:
    """The objects that a program has written so far, one a line; half a last line is left for the next look."""
    found = []
    for line in host.read(str(output)).splitlines() if host.exists(output) else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


class Program(Forwarder[OptionsT]):
    """A forwarder that is one process, which its `start` puts into `_running`."""

    #: What says how it ended.
    program: ClassVar[str]
    #: How long it may take to end.
    grace_s: ClassVar[float] = 3.0

    def __init__(self, options: OptionsT) -> None:
        super().__init__(options)
        self._running: Running | None = None

    def stop(self) -> None:
        """SIGTERM: it takes back what it has attached."""
        if self._running is not None:
            self._running.stop(self.grace_s)
            self._running = None

    def crashed(self) -> str | None:
        """Whether it ended."""
        return how_it_ended(self.program, self._running) if self._running else None

    def pids(self) -> tuple[int, ...]:
        """The one process."""
        return (self._running.pid,) if self._running else ()

    def log_tail(self) -> tuple[str, ...]:
        """Its last lines."""
        return self._running.log_tail() if self._running else ()

    def _until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Waits for a condition.

        Raises:
            PointFailed: it ended, or the condition does not hold after `timeout_s`.
        """

        def holds() -> bool:
            ended = self.crashed()
            if ended:
                raise PointFailed(f"{self.name}: {ended}: {' | '.join(self.log_tail()[-2:])}")
            return condition()

        wait_until(holds, timeout_s, f"{self.name}: {what}")

    def _until_socket(self, dut: Dut, timeout_s: float) -> None:
        """Until the port has its XDP program and the process a socket there, where no frame that comes proves it."""
        ifname = dut.ports[0].ifname
        self._until(
            lambda: (
                xdp_attachment(dut.host, ifname) is not None and any(xsk_sockets(dut.host, pid) for pid in self.pids())
            ),
            timeout_s,
            f"an AF_XDP socket on {ifname}",
        )
