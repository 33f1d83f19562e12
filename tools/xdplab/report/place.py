# SPDX-License-Identifier: Apache-2.0
"""Where a run was measured, in the words of its own record: on one machine or several, on network cards or not."""

import re
from typing import NamedTuple

from xdplab.model import RunRecord
from xdplab.model.run import LAB_IN_A_BOX

_VIRTUAL = ("veth", "tun", "dummy", "netdevsim")


class Place(NamedTuple):
    """Of one run."""

    run: RunRecord

    @property
    def drivers(self) -> dict[str, list[str]]:
        """Driver of the data path's ports -> those ports; empty where there is no interface."""
        found: dict[str, list[str]] = {}
        for role, facts in sorted(self.run.environment.ports.items()):
            parts = re.search(r"^driver: (\S+)", str(facts.get("ethtool -i", "")), re.MULTILINE)
            found.setdefault(parts.group(1) if parts else "unknown driver", []).append(role)
        return found

    @property
    def virtual(self) -> bool:
        """No network card is on the path."""
        return self.run.testbed.kind != "hosts" or (bool(self.drivers) and {*self.drivers} <= {*_VIRTUAL})

    @property
    def emulated(self) -> bool:
        """On the guests of `make lab`."""
        return self.run.environment.machine == LAB_IN_A_BOX

    @property
    def where(self) -> str:
        spec = self.run.testbed
        if spec.kind != "hosts":
            return "on one machine" if spec.kind == "embedded" else "simulated"
        if self.emulated:
            return "on emulated machines"
        names = list(dict.fromkeys(spec.ports[role].host for role in sorted(spec.ports)))
        return f"on host {names[0]}" if len(names) == 1 else f"on hosts {', '.join(names[:-1])} and {names[-1]}"

    @property
    def caveat(self) -> str:
        if self.run.testbed.kind == "fake":
            return "simulated: figures of no machine"
        if self.emulated:
            return f"emulated ({LAB_IN_A_BOX}): figures of QEMU, not of machines or network cards"
        if self.virtual:
            return "veth pairs: figures of this machine, not of a network card"
        if not self.drivers:
            return "figures of these machines; what their ports are was not recorded"
        parts = [f"{driver} ({', '.join(roles)})" for driver, roles in self.drivers.items()]
        return f"figures of these network cards and machines: {'; '.join(parts)}"

    @property
    def inline(self) -> str:
        """What a NAPI means that the layout calls so."""
        if self.run.testbed.kind == "fake":
            return "nothing runs on a core, because the testbed is simulated"
        if self.virtual:
            return (
                "on veth a frame's receive half runs on the core that sent it, so the tester's core pays for the "
                "forwarder's receive NAPI, and the forwarder's core for the tester's receiver"
            )
        return "a card's receive NAPI runs where its interrupt does"

    @property
    def line_rate(self) -> str:
        if self.run.testbed.kind == "fake":
            return "A simulated link has no line rate"
        return "veth has no line rate" if self.virtual else "The speed of the ports is not known"

    @property
    def beside(self) -> str:
        """What others measured on, for the published figures next to ours."""
        return "Another machine and a network card" if self.virtual else "Another machine and another network card"
