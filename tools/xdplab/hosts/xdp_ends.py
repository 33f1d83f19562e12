# SPDX-License-Identifier: Apache-2.0
"""What becomes of frames at ports, by the kernel's tracepoints: `bpf/xdpends` while it runs."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdplab.hosts.base import Host
from xdplab.hosts.bpf import built, why_not_built
from xdplab.hosts.waiting import said_something

_READY_S, _ANSWER_S = 5.0, 10.0


@dataclass
class XdpEnds:
    """What it has counted, once it is over."""

    #: Each with `kind`, `ifname`, `frames` and what belongs to the kind (bpf/ends/ends.h).
    ends: list[dict[str, Any]] = field(default_factory=list)
    #: Interface -> `runs` of its XDP program, and `maps`.
    ports: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Why nothing is known.
    unknown: str = ""

    def of(self, kind: str, ifname: str) -> list[dict[str, Any]]:
        return [each for each in self.ends if each["kind"] == kind and each["ifname"] == ifname]


@contextmanager
def watched(host: Host, ifnames: Sequence[str], folder: Path) -> Iterator[XdpEnds]:
    """Count meanwhile; what it tells is filled in at the end."""
    found = XdpEnds()
    found.unknown = why_not_built("xdpends", host) or ""
    if found.unknown or not ifnames:
        yield found
        return
    host.make_folder(folder)
    output = folder / "xdpends.out"
    running = host.start([built("xdpends", host), *ifnames], log=folder / "xdpends.log", stdout=output)
    try:
        if not said_something(host, output, running, _READY_S):
            found.unknown = " | ".join(running.log_tail(1)) or "xdpends is not ready"
        yield found
    finally:
        running.stop(_ANSWER_S)
    if not found.unknown:
        told = json.loads(host.read(str(output)).splitlines()[-1])
        found.ends, found.ports = told["ends"], {port["ifname"]: port for port in told["ports"]}
