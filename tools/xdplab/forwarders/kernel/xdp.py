# SPDX-License-Identifier: Apache-2.0
"""XDP_REDIRECT between two ports, by `bpf/xdpfwd`."""

import signal
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from xdplab.forwarders.base import Counting, Dut
from xdplab.forwarders.process import EventProcess, InstanceForwarder, built, why_not_built
from xdplab.hosts import Host
from xdplab.model import Model


class XdpOptions(Model):
    """Where the XDP program is attached."""

    mode: Literal["native", "generic"] = "native"


class XdpForwarder(InstanceForwarder[XdpOptions, EventProcess], Counting):
    """`bpf/xdpfwd`: redirect between the ports by a devmap; XDP_TX on `hairpin`."""

    name: ClassVar[str] = "xdp"
    options_model: ClassVar[type[Model]] = XdpOptions
    redirects: bool = True

    def supported(self, dut: Dut) -> str | None:
        """The program must be built."""
        return why_not_built("xdpfwd")

    def start(self, dut: Dut) -> None:
        """Attach and wait for the ready line."""
        names = [f"--if{index}={port.ifname}" for index, port in enumerate(dut.ports)]
        flags = ["--hairpin"] if dut.hairpin else []
        output = dut.rundir / "xdpfwd.out"
        running = dut.host.start(
            [built("xdpfwd", dut.host), *names, f"--mode={self.options.mode}", *flags],
            log=dut.rundir / "xdpfwd.log",
            stdout=output,
            cpus=dut.layout.housekeeping,
        )
        self.instance = EventProcess(self.name, "xdpfwd", dut, running, output)
        self.instance.until_ready(5.0)

    def pids(self) -> tuple[int, ...]:
        """Its frames are forwarded in softirqs, and not by the loader."""
        return ()

    def counters(self) -> dict[str, Any]:
        """Port -> frames that came in (`rx`), that it sent on to the other port, and that this one did not take."""
        answer = self.instance.ask(signal.SIGUSR1, 1.0, "its counters")
        by_port = {name: values for name, values in answer.items() if isinstance(values, list)}
        roles = [port.role for port in self.instance.dut.ports]
        return {role: {name: values[i] for name, values in by_port.items()} for i, role in enumerate(roles)}

    def why_silent(self) -> str:
        """It says so when a port drops all that it is given."""
        self.counters()
        return "".join(f": {line}" for line in self.log_tail()[-1:])

    def versions(self, host: Host) -> Mapping[str, str]:
        """The project's own program."""
        return {"xdpfwd": "not built" if why_not_built("xdpfwd") else "built"}
