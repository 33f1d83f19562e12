# SPDX-License-Identifier: Apache-2.0
"""No forwarder: A and C are the two ends of one veth pair, what every forwarder is read against."""

import json
from typing import Any, ClassVar

from xdplab.forwarders.base import Dut, NoOptions
from xdplab.forwarders.process import Instance, InstanceForwarder
from xdplab.model import PointFailed
from xdplab.testbed import Port


class VethPair(InstanceForwarder[NoOptions, Instance]):
    """The direct link of the embedded testbed, on which testers are calibrated. Nothing is started, nothing changed."""

    name: ClassVar[str] = "veth-pair"
    plain: ClassVar[str] = "veth pair without a switch"
    pipelines: ClassVar[tuple[str, ...]] = ()

    def unsupported(self, dut: Dut) -> str | None:
        """The embedded testbed: real hosts are connected by cables."""
        if not dut.peers or any(port.lasting for port in dut.peers):
            return f"{self.name}: only on the embedded testbed are A and C the two ends of one veth pair"
        return None

    def describe(self) -> str:
        return "No switch: A and C are the two ends of one veth pair. Forwarders are read against it."

    def start(self, dut: Dut) -> None:
        """Prove that it is one pair.

        Raises:
            PointFailed: there is something in between.
        """
        client, server = (_link(port) for port in dut.peers)
        if client != server[::-1]:
            names = " and ".join(port.ifname for port in dut.peers)
            raise PointFailed(f"{self.name}: {names} are not the two ends of one veth pair")
        self.instance = Instance(self.name, dut)

    def mode(self) -> dict[str, Any]:
        return {"label": "no switch"}


def _link(port: Port) -> tuple[Any, Any]:
    """Numbers of a port and of its other end, by ip-link(8); None where it has none."""
    (found,) = json.loads(port.host.run(["ip", "-json", "link", "show", "dev", port.ifname]).stdout)
    return found["ifindex"], found.get("link_index")
