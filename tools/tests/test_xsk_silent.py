# SPDX-License-Identifier: Apache-2.0
"""Zero-copy sockets that would carry nothing although every call succeeded; on real drivers: `make nic-test`."""

import json
from pathlib import Path
from typing import Any

import pytest

from xdplab.forwarders import Dut
from xdplab.forwarders.xsk.forwarder import XskForwarder, XskOptions
from xdplab.hosts import LocalHost
from xdplab.model import CpuLayout, Path as Way, Unsupported

BUSY: dict[str, Any] = {"busy_poll_us": 20, "prefer_busy_poll": True}


class Machine(LocalHost):
    """bpf/xsk is a program that prints the ready line and waits; the probe of NAPIs is `napis`."""

    def __init__(self, folder: Path, ready: dict[str, Any], napis: dict[str, int | None]) -> None:
        super().__init__()
        self._ready, self._napis = folder / "ready", napis
        self._ready.write_text(json.dumps(ready) + "\n")

    def start(self, argv: Any, **more: Any) -> Any:
        more["stdin"] = None
        return super().start(["sh", "-c", 'cat "$0"; exec sleep 20', str(self._ready)], **more)

    def queue_napis(self, ifname: str, queue: int) -> dict[str, int | None]:
        assert (ifname, queue) == ("p0", 0)
        return self._napis


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("xdplab.hosts.bpf.bpf_program", lambda name: Path("/bin/true"))

    def run(napis: dict[str, int | None], mode: str = "native", zero_copy: bool = True, **options: Any) -> None:
        sock = {"ifname": "p0", "queue": 0, "zero_copy": zero_copy, "busy_poll_active": bool(options)}
        ready = {"event": "ready", "ports": [{"ifname": "p0", "xdp_mode": mode}], "sockets": [sock], "threads": []}
        dut = Dut(Machine(tmp_path, ready, napis), (), Way.HAIRPIN, CpuLayout(tester_tx=0, forwarder=0), tmp_path)
        made = XskForwarder(XskOptions(**options))
        try:
            made.start(dut)
        finally:
            made.stop()

    return run


@pytest.mark.parametrize("napis", [{"rx": 8193, "tx": 8195}, {"rx": 8193, "tx": None}])
def test_busy_polling_of_a_queue_with_two_napis_is_unsupported(start: Any, napis: dict[str, int | None]) -> None:
    with pytest.raises(Unsupported, match=r"prefer_busy_poll: on p0 queue 0 .* NAPIs of their own .* more channels"):
        start(napis, **BUSY)


@pytest.mark.parametrize(
    ("napis", "more"),
    [
        ({"rx": 8193, "tx": 8193}, BUSY),
        ({"rx": None, "tx": None}, BUSY),  # an older kernel does not tell: nothing is claimed
        ({"rx": 8193, "tx": 8195}, {**BUSY, "zero_copy": False}),
        ({"rx": 8193, "tx": 8195}, {"busy_poll_us": 20}),
        ({"rx": 8193, "tx": 8195}, {}),
    ],
)
def test_what_carries_frames_is_left_alone(start: Any, napis: dict[str, int | None], more: dict[str, Any]) -> None:
    start(napis, **more)


def test_a_flag_under_a_generic_program_is_no_proof(start: Any) -> None:
    with pytest.raises(Unsupported, match="p0: its socket has the zero-copy flag, but the XDP program is generic"):
        start({"rx": 1, "tx": 1}, mode="generic")


@pytest.mark.root
def test_this_kernel_is_asked_for_the_napis_of_a_queue() -> None:
    assert set(LocalHost().queue_napis("lo", 0)) == {"rx", "tx"}
