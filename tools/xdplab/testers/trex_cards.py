# SPDX-License-Identifier: Apache-2.0
"""A TRex server that has the cards of A and C: started by its own script, with the configuration of the testbed file.

TRex's `t-rex-64` takes cards from the kernel itself, as that configuration says, and keeps them when it ends: they are
its cards before a run and after it.
"""

from pathlib import Path
from typing import ClassVar

from xdplab.hosts import Host, Running
from xdplab.model import TestbedSpec
from xdplab.testbed import Testbed
from xdplab.testers.trex_server import Server, listens

_SCRIPT = "t-rex-64"


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


class CardsServer(Server):
    """A server on the host of a0, which ends with the connection to it, and whose cards stay its own.

    Its configuration says where its threads run, and they spin: they are not watched.
    """

    #: It takes memory in huge pages and brings links up.
    start_timeout_s: ClassVar[float] = 90.0
    #: It gives its memory back, and stops its cards.
    grace_s: ClassVar[float] = 10.0

    def __init__(self, host: Host, spec: TestbedSpec, folder: Path, *, histograms: bool = True) -> None:
        """Nothing runs before `start`. `folder`: on the host, for its log."""
        super().__init__(host, histograms=histograms)
        assert spec.trex is not None  # or it would have been refused
        self._spec = spec.trex
        self._log = folder / "trex-server.log"

    def _begin(self, folder: Path) -> Running:
        script = f"{self._spec.folder}/{_SCRIPT}"
        argv = ["env", "--chdir", self._spec.folder, script, "-i", "--stl", "--cfg", self._spec.config, *self._options]
        return self.host.start(argv, log=self._log)

    def _listens(self) -> bool:
        return listens(self.host)
