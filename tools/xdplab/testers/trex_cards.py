# SPDX-License-Identifier: Apache-2.0
"""A TRex server that has the cards of A and C: started by its own script, with the configuration of the testbed file.

TRex's `t-rex-64` takes cards from the kernel itself, as that configuration says, and keeps them when it ends: they are
its cards before a run and after it.

It takes commands and publishes results on all addresses of its host (`tcp://*:4501` and `tcp://*:4500`, which no option
changes): while it runs, nobody but that host and this machine gets through to them.
"""

import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from xdplab.hosts import Conversation, Host, Running
from xdplab.hosts.waiting import comes_true
from xdplab.model import PointFailed, TestbedSpec, do_each
from xdplab.testbed import Testbed
from xdplab.testers.trex_server import ASYNC_PORT, SYNC_PORT, Server, listens

_SCRIPT, _TABLE = "t-rex-64", "xdplab_trex"
#: How long nft may take.
_FILTER_S = 5.0


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
    if host.run(["which", "nft"], check=False).returncode:
        return (
            f"{host.name}: TRex takes commands on all addresses (tcp://*:{SYNC_PORT}), and nft, which would keep "
            f"others from them, is not there: install nftables, or start TRex behind a filter of yours, "
            f"trex:server={address(testbed)}"
        )
    if listens(host):  # its script would end that one
        return f"{host.name}: a TRex server runs there; trex:server={address(testbed)} uses it"
    return None


def address(testbed: Testbed) -> str:
    """Where this machine reaches the host of a0."""
    spec = testbed.spec
    return spec.hosts[spec.ports["a0"].host].address


def filter_rules(client: str) -> str:
    """For `nft -i`: a table that goes with the process that has made it (`flags owner`).

    `client`: the address from which this machine reaches the host.
    """
    family = "ip" if ipaddress.ip_address(client.partition("%")[0]).version == 4 else "ip6"
    ports = f"tcp dport {{ {ASYNC_PORT}, {SYNC_PORT} }}"
    return "; ".join(
        [
            f"add table inet {_TABLE} {{ flags owner; }}",
            f"add chain inet {_TABLE} input {{ type filter hook input priority -10; policy accept; }}",
            f'add rule inet {_TABLE} input {ports} iifname "lo" accept',
            f"add rule inet {_TABLE} input {ports} {family} saddr {client.partition('%')[0]} accept",
            f"add rule inet {_TABLE} input {ports} drop",
        ]
    )


class CardsServer(Server):
    """A server on the host of a0, which ends with the connection to it, and whose cards stay its own.

    Its configuration says where its threads run, and they spin: they are not watched.
    """

    #: It takes memory in huge pages and brings links up.
    start_timeout_s: ClassVar[float] = 90.0
    #: It gives its memory back, and stops its cards.
    grace_s: ClassVar[float] = 10.0

    def __init__(
        self, host: Host, spec: TestbedSpec, folder: Path, *, histograms: bool = True, software: bool = False
    ) -> None:
        """Nothing runs before `start`. `folder`: on the host, for its log. `software`: no filter of cards is used."""
        super().__init__(host, histograms=histograms)
        self._options += ["--software"] if software else []
        assert spec.trex is not None  # or it would have been refused
        self._spec = spec.trex
        self._log = folder / "trex-server.log"
        self._filter: Conversation | None = None

    def start(self, folder: Path, well: Callable[[], str | None]) -> None:
        """Behind a filter.

        Raises:
            PointFailed: also where the filter is not in force; the server is not started then.
        """
        self._filter = self.host.converse(["nft", "-i"], log=self._log.with_name("trex-filter.log"))
        try:
            self._filter.send(filter_rules(self.host.reached_by.split()[0]))
            if not comes_true(self._is_filtered, _FILTER_S):
                said = " | ".join(self._filter.log_tail(3)) or "nothing"
                raise PointFailed(f"trex: {self.host.name}: nft does not keep others from its ports; it said: {said}")
            super().start(folder, well)
        except BaseException:
            self.stop()
            raise

    def _is_filtered(self) -> bool:
        shown = self.host.run(["nft", "list", "table", "inet", _TABLE], check=False)
        return shown.returncode == 0 and "drop" in shown.stdout

    def stop(self) -> None:
        found, self._filter = self._filter, None
        do_each("trex", super().stop, *([found.stop] if found else []))

    def _begin(self, folder: Path) -> Running:
        script = f"{self._spec.folder}/{_SCRIPT}"
        argv = ["env", "--chdir", self._spec.folder, script, "-i", "--stl", "--cfg", self._spec.config, *self._options]
        return self.host.start(argv, log=self._log)

    def _listens(self) -> bool:
        return listens(self.host)
