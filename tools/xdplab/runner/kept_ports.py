# SPDX-License-Identifier: Apache-2.0
"""Ports are given back as they were found: read before somebody's programs start, and compared after these have ended.

What differs is put back and named. `testbed/port_settings.py` says what a port is.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from xdplab.hosts import Host
from xdplab.hosts.kernel import has_carrier
from xdplab.hosts.waiting import comes_true, run_parallel
from xdplab.model import LinkLost, Steps, XdplabError, plain
from xdplab.testbed import Port, port_settings

_CARRIER_S = 15.0


class KeptPorts:
    """Those of one forwarder, or of the testers."""

    def __init__(self) -> None:
        self._was: dict[tuple[Host, str], tuple[Port, dict[str, Any]]] = {}
        #: What was seen to have changed, also where the connection was lost before it was put back.
        self._seen: dict[tuple[Host, str], dict[str, str]] = {}
        #: Sentences on what was changed, and put back.
        self.changed: list[str] = []

    def look(self, ports: Iterable[Port]) -> None:
        """Read those that are not known yet, a few milliseconds for each."""
        new = [port for port in ports if port.in_kernel and (port.host, port.ifname) not in self._was]
        if new:
            found = run_parallel(*(partial(port.host.read_port, port.ifname) for port in new))
            self._was |= {(port.host, port.ifname): (port, was) for port, was in zip(new, found, strict=True)}

    def put_back(self, who: str) -> None:
        """What `who` has changed, whose programs have ended; called again after an error it goes on.

        Raises:
            XdplabError: what could not be; what can be is.
        """
        steps = Steps()
        for key, (port, was) in list(self._was.items()):
            with steps.step(port.role):
                self._put_back_one(who, port, was)
                del self._was[key]
        steps.raise_failed()

    def _put_back_one(self, who: str, port: Port, was: dict[str, Any]) -> None:
        key = (port.host, port.ifname)
        seen = self._seen.setdefault(key, {})
        try:
            seen.update(port_settings.changed(port.host, port.ifname, was))
            if seen:
                port_settings.put_back(port.host, port.ifname, was)
                if was.get("up"):  # a card's link may take seconds; without it the next proof says so
                    comes_true(partial(has_carrier, port.host, port.ifname), _CARRIER_S, 0.1)
        except LinkLost:
            raise
        except XdplabError as exc:
            raise XdplabError(plain("; ".join([*_sentences(who, port, seen), f"{port.role}: {exc}"]))) from exc
        self.changed += [plain(f"{sentence}; put back") for sentence in _sentences(who, port, seen)]
        del self._seen[key]


def _sentences(who: str, port: Port, seen: Mapping[str, str]) -> list[str]:
    return [f"{who} changed {setting} of {port.role}: {change}" for setting, change in seen.items()]
