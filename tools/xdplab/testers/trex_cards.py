# SPDX-License-Identifier: Apache-2.0
"""A TRex server that has the cards of A and C: started by its own script, with the configuration of the testbed file.

TRex's `t-rex-64` takes cards from the kernel itself, as that configuration says, and keeps them when it ends: they are
its cards before a run and after it.
"""

import time
from collections.abc import Callable
from pathlib import Path

from xdplab.hosts import Host, Running
from xdplab.hosts.waiting import how_it_ended, wait_until
from xdplab.model import PointFailed, TestbedSpec
from xdplab.testbed import Testbed
from xdplab.testers.trex_server import listens

_SCRIPT = "t-rex-64"
#: It takes memory in huge pages and brings links up.
_START_TIMEOUT_S = 90.0
#: It gives its memory back, and stops its cards.
_END_S = 10.0


def why_not_startable(testbed: Testbed) -> str | None:
    """None, or why the TRex of the testbed file cannot be started on the host of a0."""
    host, given = testbed.tester_host, testbed.spec.trex
    if given is None:
        return (
            "A and C have cards of TRex, and nothing says how it is started; name one that runs, trex:server=ADDRESS, "
            "or give the testbed file trex: with folder and config"
        )
    for path in (f"{given.folder}/{_SCRIPT}", given.config):
        if not host.exists(path):
            return f"{host.name}: {path} of the testbed file's trex is not there"
    if listens(host):  # its script would end that one
        return f"{host.name}: a TRex server runs there; trex:server={address(testbed)} uses it"
    return None


def address(testbed: Testbed) -> str:
    """Where this machine reaches the host of a0."""
    spec = testbed.spec
    return spec.hosts[spec.ports["a0"].host].address


class CardsServer:
    """A server on the host of a0, which ends with the connection to it."""

    #: Its configuration says where its threads run, and they spin.
    cpus: tuple[int, ...] = ()
    pid = 0

    def __init__(self, host: Host, spec: TestbedSpec, folder: Path, *, histograms: bool = True) -> None:
        """Nothing runs before `start`. `folder`: on the host, for its log."""
        assert spec.trex is not None  # or it would have been refused
        self.host = host
        self._spec = spec.trex
        self._log = folder / "trex-server.log"
        self._histograms = ["--hdrh", "--latency-diag"] if histograms else []
        self._process: Running | None = None
        #: From its start until it listened, in s.
        self.start_s = 0.0

    def start(self, folder: Path, well: Callable[[], str | None]) -> None:
        """Start it and wait until it listens. `folder` of this machine is not needed.

        Raises:
            PointFailed: it ended, or did not listen in time.
        """
        script = f"{self._spec.folder}/{_SCRIPT}"
        self._process = process = self.host.start(
            [
                *("env", "--chdir", self._spec.folder, script, "-i", "--stl", "--cfg", self._spec.config),
                *self._histograms,
                *("--no-scapy-server", "--no-termio", "--no-key", "--iom", "0"),
            ],
            log=self._log,
        )

        def ready() -> bool:
            if why := self.ended() or well():
                raise PointFailed(f"{why}; it said: {' | '.join(process.log_tail(3)) or 'nothing'}")
            return listens(self.host)

        began = time.monotonic()
        try:
            wait_until(ready, _START_TIMEOUT_S, "a TRex server that listens")
        except PointFailed as exc:
            self.stop()
            raise PointFailed(f"trex: the server did not start: {exc}") from None
        self.start_s = time.monotonic() - began

    def ended(self) -> str | None:
        """How it ended, or None while it runs."""
        return how_it_ended("trex server", self._process) if self._process is not None else "trex server: not started"

    def threads(self) -> dict[int, str]:
        """None that are watched: they have their CPUs for themselves."""
        return {}

    def stop(self) -> None:
        """End it; its cards stay its own."""
        if self._process is not None:
            self._process.stop(_END_S)
            self._process = None
