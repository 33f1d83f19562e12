# SPDX-License-Identifier: Apache-2.0
"""The trex tester with the bridge that answers from a recorded exchange: all of ours runs, TRex does not."""

import json
import sys
from pathlib import Path
from typing import Any

from xdplab.hosts import LocalHost
from xdplab.model import CpuLayout, TrialSpec
from xdplab.testbed import Port, TesterPorts
from xdplab.testers import TesterContext
from xdplab.testers.trex import Trex
from xdplab.testers.trex_server import Bridge
from xdplab.tools import project_root

RECORDS = Path(__file__).parents[1] / "data" / "trex"


class ReplayedTrex(Trex):
    """Asks the record what it would ask the server."""

    def __init__(self, record: Path) -> None:
        super().__init__()
        self._record = record

    def start(self, context: TesterContext, ports: tuple[Port, Port], folder: Path) -> tuple[Bridge, str]:
        program = project_root() / "trex" / "bridge" / "bridge.py"
        command = [sys.executable, "-s", str(program), "--replay", str(self._record)]
        return Bridge(LocalHost(), command, folder / "bridge.log"), "127.0.0.1"


def about(record: Path) -> dict[str, Any]:
    """What a record says of itself, in its first line."""
    reported = json.loads(record.read_text(encoding="utf-8").splitlines()[0])["about"]
    assert isinstance(reported, dict)
    return reported


def replayed(record: Path, workdir: Path) -> tuple[ReplayedTrex, TesterContext, TrialSpec]:
    """The tester, the ports and the trial of a record."""
    reported = about(record)
    host = LocalHost()
    first, last = (Port(port["role"], host, port["role"], port["mac"], 1500) for port in reported["ports"])
    layout = CpuLayout(tester_tx=0, forwarder=1)
    context = TesterContext(TesterPorts(first, last), layout, ReplayedTrex.rx_programs[0], workdir)
    return ReplayedTrex(record), context, TrialSpec.model_validate(reported["trial"])
