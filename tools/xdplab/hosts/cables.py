# SPDX-License-Identifier: Apache-2.0
"""Which interface reaches which: each sends a frame with its own text, and all listen."""

import json
import secrets
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from xdplab.hosts.base import Running
from xdplab.hosts.ssh import SshHost
from xdplab.hosts.waiting import said_something
from xdplab.model import XdplabError

_PROBE = Path(__file__).with_name("cable_probe.py")
#: After the last frame was sent: a slow host takes seconds for each program that sends.
_LISTEN_S = 3.0
#: Of a listener whose controller is gone.
_AT_MOST_S = 300
_START_S = 10.0
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
            if not said_something(hosts[name], output, process, _START_S):
                report = " | ".join(process.log_tail(2))
                raise XdplabError(f"{name}: cables: a listener does not start: {report or 'no message'}")
        tag = secrets.token_hex(4)
        labels = list(ends)
        for number, label in enumerate(labels):
            host, ifname = ends[label]
            host.run([host.python, "-I", "-S", host.program(_PROBE), "send", f"{tag}-{number}", ifname])
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
    argv = [host.python, "-I", "-S", host.program(_PROBE), "listen", str(_AT_MOST_S), *ifnames]
    process = host.start(argv, log=host.folder / "cables.log", stdout=output)
    stack.callback(process.stop)
    return output, process
