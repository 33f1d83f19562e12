# SPDX-License-Identifier: Apache-2.0
"""A device that xdplab did not start: a switch, a firewall, a production host between the tester's ports.

It is named in the study with what is known of it. Nothing on it is read or set, and no process of it is watched.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from xdplab.forwarders.base import Dut
from xdplab.forwarders.process import Instance, InstanceForwarder
from xdplab.hosts import Host
from xdplab.model import Model
from xdplab.model.testbed import Mac


class ExternalOptions(Model):
    """What is known of the device; xdplab cannot ask it."""

    #: Its name, as rows have it.
    device: str = Field(min_length=1, max_length=80)
    #: What is known of it, for the report: model, version, configuration, who set it up.
    known: str = Field(min_length=1, max_length=400)
    #: Of a device that routes: its addresses next to A and to C, to which frames are sent. None: it is a switch.
    mac_a: Mac | None = None
    mac_c: Mac | None = None


class External(InstanceForwarder[ExternalOptions, Instance]):
    """Whatever stands between a0 and c0 of a testbed file that has no b0 and b1."""

    name: ClassVar[str] = "external"
    options_model: ClassVar[type[Model]] = ExternalOptions
    external: ClassVar[bool] = True
    cannot: ClassVar[Mapping[str, str]] = {"reset": "xdplab did not start this device, and does not restart it"}

    def __init__(self, options: ExternalOptions) -> None:
        super().__init__(options)
        if options.mac_a and options.mac_c:
            self.routers = (options.mac_a, options.mac_c)

    def in_words(self) -> tuple[str, frozenset[str]]:
        return self.options.device, frozenset(ExternalOptions.model_fields)

    def describe(self) -> str:
        return (
            f"A device that xdplab did not start, and of which it reads and sets nothing: {self.options.device}. "
            f"What is said of it: {self.options.known}."
        )

    def unsupported(self, dut: Dut) -> str | None:
        """A device that routes has an address on each side."""
        if (self.options.mac_a is None) != (self.options.mac_c is None):
            return f"{self.name}: mac_a and mac_c belong together: a device that routes has an address on each side"
        return None

    def start(self, dut: Dut) -> None:
        self.instance = Instance(self.name, dut)

    def mode(self) -> dict[str, Any]:
        return {"label": "external"}

    def versions(self, host: Host) -> Mapping[str, str]:
        return {self.options.device: self.options.known}
