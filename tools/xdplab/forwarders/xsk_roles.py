# SPDX-License-Identifier: Apache-2.0
"""Programs with one port: `bpf/xsk` and testpmd as sink, source and reflector."""

import json
from typing import Any

from xdplab.forwarders.base import Dut
from xdplab.forwarders.testpmd import Testpmd, TestpmdOptions
from xdplab.forwarders.xdpsock import frames_redirected, why_not_counted
from xdplab.forwarders.xsk import XskForwarder, XskOptions
from xdplab.model import InputError
from xdplab.model.forwarder import Role

_FCS_BYTES = 4
_ROLES: dict[Role, str] = {"rxdrop": "sink", "txonly": "gen", "l2fwd": "reflect", "stages": "sink"}
_TESTPMD_MODES: dict[Role, str] = {"rxdrop": "rxonly", "txonly": "txonly", "l2fwd": "macswap"}


class XskRole(XskForwarder):
    """`bpf/xsk` with one port."""

    def __init__(self, options: XskOptions, workload: Role, frame_bytes: int) -> None:
        super().__init__(options)
        self._workload: Role = workload
        self._frame_bytes = frame_bytes

    def _configuration(self, dut: Dut) -> dict[str, Any]:
        asked = {**super()._configuration(dut), "role": _ROLES[self._workload], "trace": None}
        if self._workload == "l2fwd" and "touch" not in self.options.model_fields_set:
            asked.pop("touch")  # a reflector swaps addresses unless it is told otherwise
        if self._workload == "stages":
            asked["stages"] = True
        if self._workload == "txonly":
            port = dut.ports[0]
            asked["streams"] = [
                {"id": 0, "kind": "load", "tx_port": 0, "rx_port": 0, "pps": None, "frame_bytes": self._frame_bytes,
                 "src_mac": port.mac, "dst_mac": "02:00:00:00:00:01", "src_ip": "198.18.0.1", "dst_ip": "198.19.0.1"}
            ]  # fmt: skip
        return asked

    def counters(self) -> dict[str, Any]:
        """Without the histograms of `stages`, which are what is measured."""
        return {name: value for name, value in super().counters().items() if name != "stages"}

    def stages(self) -> dict[str, Any]:
        """What it tells of the frames' stages so far."""
        found: dict[str, Any] = super().counters()["stages"]
        return found

    def frames_received(self) -> int:
        """By its own count, up to now."""
        return int(sum(sock["rx"] for sock in self.counters()["sockets"]))


class TestpmdRole(Testpmd):
    """testpmd over net_af_xdp with one port."""

    __test__ = False

    def __init__(self, options: TestpmdOptions, workload: Role, frame_bytes: int) -> None:
        super().__init__(options)
        if workload not in _TESTPMD_MODES:
            raise InputError(f"forwarder {self.name}: it cannot do {workload}")
        self.forward_mode = _TESTPMD_MODES[workload]
        self.extra = [f"--txpkts={frame_bytes - _FCS_BYTES}"] if workload == "txonly" else []
        self._workload: Role = workload
        self._host: Any = None
        self._ifname = ""

    def supported(self, dut: Dut) -> str | None:
        """What it drops must be counted by the kernel."""
        return super().supported(dut) or why_not_counted(dut, self._workload)

    def start(self, dut: Dut) -> None:
        """As testpmd, and wait until its port is open: no frame that comes through proves it here."""
        self._host, self._ifname = dut.host, dut.ports[0].ifname
        super().start(dut)
        if self.options.port == "af_xdp":
            self._until_socket(dut, 20.0)

    def frames_received(self) -> int:
        """By the kernel's count of frames that XDP gave to its socket: testpmd prints its own only at the end."""
        return frames_redirected(self._host, self._ifname)


def frames_sent(dut: Dut) -> int:
    """Frames that left the port, by the kernel's count."""
    shown = dut.host.run(["ip", "-json", "-s", "link", "show", "dev", dut.ports[0].ifname]).stdout
    return int(json.loads(shown)[0]["stats64"]["tx"]["packets"])
