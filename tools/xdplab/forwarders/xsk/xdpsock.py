# SPDX-License-Identifier: Apache-2.0
"""xdpsock of the bpf-examples project, with which the source documents measured: one port, where it is installed."""

import operator
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from xdplab.forwarders.base import Dut, Forwarder
from xdplab.forwarders.options import Key, arguments
from xdplab.forwarders.process import InstanceForwarder, Process, by_hash
from xdplab.hosts import Host
from xdplab.hosts.kernel import is_veth
from xdplab.model import InputError, Model, NamesProgram, NotThere, PointFailed
from xdplab.model.study import OnePortRole

_ROLES: dict[OnePortRole, str] = {"rxdrop": "--rxdrop", "txonly": "--txonly", "l2fwd": "--l2fwd"}


class XdpsockOptions(Model):
    """Of xdpsock, where they are comparable with those of `bpf/xsk`."""

    #: The program (default: XDPLAB_XDPSOCK, or the one on PATH).
    path: Annotated[str, NamesProgram()] = ""
    batch: Annotated[int, Field(ge=1, le=2048), Key("argument", ("batch-size",))] = 64
    need_wakeup: Annotated[bool, Key("argument", ("no-need-wakeup",), value=operator.not_)] = True
    #: With its own 20 us and the batch as budget.
    busy_poll: Annotated[bool, Key("argument", ("busy-poll",))] = False
    #: Sleep in poll() without work.
    poll: Annotated[bool, Key("argument", ("poll",))] = False

    @property
    def program(self) -> Path | None:
        found = shutil.which(self.path or os.environ.get("XDPLAB_XDPSOCK") or "xdpsock")
        return Path(found) if found else None


class XdpsockRole(InstanceForwarder[XdpsockOptions, Process]):
    """`xdpsock --rxdrop`, `--txonly` or `--l2fwd` at queue 0; zero-copy where the driver has it."""

    name: ClassVar[str] = "xdpsock"
    options_model: ClassVar[type[Model]] = XdpsockOptions

    def __init__(self, options: XdpsockOptions, workload: OnePortRole = "l2fwd", frame_bytes: int = 64) -> None:
        super().__init__(options)
        if workload not in _ROLES:
            raise InputError(f"forwarder {self.name}: it cannot do {workload}")
        self._workload: OnePortRole = workload
        self._frame_bytes = frame_bytes

    def in_role(self, role: OnePortRole, frame_bytes: int) -> Forwarder[Any]:
        """Those that it has an option for."""
        return XdpsockRole(self.options, role, frame_bytes)

    def unsupported(self, dut: Dut) -> str | None:
        """It comes from no package registry, and has one port.

        Raises:
            NotThere: the program that is named is missing.
        """
        if self.options.program is None:
            path, setting = self.options.path, os.environ.get("XDPLAB_XDPSOCK")
            if path or setting:
                named = f"path={path}" if path else f"XDPLAB_XDPSOCK={setting}"
                raise NotThere(f"xdpsock: {named}: no such program, or not executable; correct the path")
        if not dut.hairpin:
            return "xdpsock: it has one port: path hairpin"
        if self.options.program is None:
            return "xdpsock: it is not on PATH; build it from the bpf-examples project, or set XDPLAB_XDPSOCK"
        return why_not_counted(dut, self._workload)

    def start(self, dut: Dut) -> None:
        """On the forwarder's CPU; it is ready when the port has its program and its socket."""
        program = self.options.program
        if program is None:
            raise PointFailed("xdpsock: its program is no longer there")
        port = [f"--interface={dut.ports[0].ifname}", "--queue=0", "--xdp-native", "--quiet"]
        options = [*arguments(self.options), f"--tx-pkt-size={self._frame_bytes}"]
        running = dut.host.start(
            [dut.host.program(program), _ROLES[self._workload], *port, *options],
            log=dut.rundir / "xdpsock.log",
            cpus=[dut.layout.forwarder],
            env={"LIBXDP_SKIP_DISPATCHER": "1"},
        )
        self.instance = Process(self.name, "xdpsock", dut, running)
        self.instance.until_socket(10.0)

    def forwarding_threads(self) -> dict[int, int]:
        return {pid: pid for pid in self.pids()}

    def frames_received(self) -> int:
        """By the kernel's count of frames that XDP gave to its socket."""
        return frames_redirected(self.instance.dut)

    def versions(self, host: Host) -> Mapping[str, str]:
        """It tells none: the hash of the file."""
        program = self.options.program
        return {"xdpsock": by_hash(program) if program else "not installed"}


def why_not_counted(dut: Dut, workload: OnePortRole) -> str | None:
    """None, or why frames that such a program drops cannot be counted: it prints its own for people only."""
    ifname = dut.ports[0].ifname
    if workload != "rxdrop" or is_veth(dut.host, ifname):
        return None
    return f"rxdrop: only veth is known to count what XDP gave to a socket; {ifname} has another driver"


def frames_redirected(dut: Dut) -> int:
    """Frames that the XDP program of a DUT's only port, a veth, redirected, into sockets too."""
    shown = dut.host.run(["ethtool", "-S", dut.ports[0].ifname]).stdout
    return sum(int(count) for count in re.findall(r"rx_queue_\d+_xdp_redirect: (\d+)", shown))
