# SPDX-License-Identifier: Apache-2.0
"""Busy polling needs a NAPI id, which up to Linux 6.12 comes with the first frame: it is looked for after traffic."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lab import ovs_host
from lab.answering import answering
from lab.ovs_host import ALL_KEYS, CONFIG, OvsHost
from lab.records import result, stream

from xdplab.forwarders import Dut
from xdplab.forwarders.options import SocketOptions
from xdplab.forwarders.ovs.readback import busy_polling
from xdplab.forwarders.xsk.forwarder import XskForwarder, XskOptions
from xdplab.hosts import LocalHost
from xdplab.measure import make_method
from xdplab.model import CpuLayout, Path as Way, StudySpec, Unsupported, validated
from xdplab.testers.xsk import XskTester

NAPI = 8253


def sock(napi: int) -> dict[str, Any]:
    return {"ifname": "p0", "queue": 0, "zero_copy": False, "napi_id": napi, "busy_poll_active": napi > 0}


class Machine(LocalHost):
    """bpf/xsk is a program that is ready without a NAPI id, and counts with `napi`."""

    def __init__(self, napi: int) -> None:
        super().__init__()
        ready = {"event": "ready", "ports": [{"ifname": "p0", "xdp_mode": "native"}], "sockets": [sock(0)]}
        self._lines = [json.dumps(ready), json.dumps({"event": "counters", "sockets": [sock(napi)]})]

    def start(self, argv: Any, **more: Any) -> Any:
        more["stdin"] = None
        return super().start(answering(*self._lines), **more)


@pytest.fixture
def forwarder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr("xdplab.hosts.bpf.bpf_program", lambda name: Path("/bin/true"))
    made = XskForwarder(XskOptions(busy_poll_us=20))

    def start(napi: int) -> XskForwarder:
        made.start(Dut(Machine(napi), (), Way.HAIRPIN, CpuLayout(tester_tx=0, forwarder=0), tmp_path))
        return made

    yield start
    made.stop()


def test_an_id_that_came_with_the_first_frame_is_seen(forwarder: Any) -> None:
    running = forwarder(NAPI)
    assert running.ineffective() is None
    (reported,) = running.mode()["application"]["sockets"]
    assert (reported["napi_id"], reported["busy_poll_active"], reported["queue"]) == (NAPI, True, 0)


def test_no_id_after_traffic_is_unsupported_with_the_reason(forwarder: Any) -> None:
    assert "reports no NAPI id for these sockets, also after traffic" in forwarder(0).ineffective()


@pytest.mark.parametrize("napi", [0, NAPI])
def test_the_tester_is_judged_by_its_last_line(tmp_path: Path, napi: int) -> None:
    answer = tmp_path / "xsk-tester.json"
    lines = [{"event": "ready", "sockets": [sock(0)]}, {"event": "done", "sockets": [sock(napi)]}]
    answer.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    tester = XskTester(SocketOptions(busy_poll_us=20))
    reported = tester._read(LocalHost(), SimpleNamespace(poll=lambda: 0), answer)  # type: ignore[arg-type]
    assert (tester.options.not_in_force(reported["sockets"]) is None) == (napi > 0)


@pytest.mark.parametrize(
    ("workload", "asked"), [("rxdrop", [1000]), ("stages", [])]  # of stages every frame is measured
)  # fmt: skip
@pytest.mark.parametrize("brings", [True, False])
def test_a_micro_benchmark_sends_some_frames_first(workload: Any, asked: list[int], brings: bool) -> None:
    sent: list[float | None] = []

    def send(spec: Any) -> Any:
        sent.append(spec.streams[0].pps)
        return result(stream([1000] * 7, sent=7))

    name = "stages" if workload == "stages" else "micro"
    method = make_method(
        validated(StudySpec, {"name": "s", "forwarders": ["xsk"], "method": {"name": name}}, "").method
    )
    program = SimpleNamespace(
        ineffective=lambda: None if sent and brings else "no id",
        silent_s=5.0, crashed=lambda: None, frames_received=lambda: len(sent),
    )  # fmt: skip
    point = SimpleNamespace(traffic=SimpleNamespace(smallest=64, headers={}), levels={"workload": workload})
    session: Any = SimpleNamespace(forwarder=program, send=send, point=point)
    if asked and not brings:
        with pytest.raises(Unsupported, match="no id"):
            method.prove(session)
    else:
        method.prove(session)
    assert sent == (asked * 2 if brings else asked)  # after them it is waited for some that it counts


#: What the patched 3.1.0 shows of a port, shortened; its status column is as old as the link's last change.
SHOWN = '{"b0": {"queues": [{"napi-id": %d}, null]}, "b1": {"queues": [{"napi-id": %d}, {"napi-id": 8254}]}}'
OLD_STATUS = '["busy-poll-active","false"],["napi-id","0"]'


@pytest.mark.parametrize(("napis", "active"), [((8253, 8255), True), ((8253, 0), False), ((0, 0), False)])
def test_ovs_is_asked_for_the_id_of_now(napis: tuple[int, int], active: bool, tmp_path: Path) -> None:
    host = OvsHost(ALL_KEYS)
    config = f"{CONFIG}, busy-poll=20, prefer-busy-poll=true"
    host.configs, host.status = {"b0": config, "b1": config}, {"b0": OLD_STATUS, "b1": OLD_STATUS}
    host.show = SHOWN % napis
    made = ovs_host.forwarder("ovs-afxdp:busy_poll_us=20")
    made.start(ovs_host.dut_maker(tmp_path)(host))
    assert (made.ineffective() is None) == active
    assert made.mode()["ovs"]["b1"]["napi-id"] == f"{napis[1]},8254"


@pytest.mark.parametrize("reported", [{"busy-poll": "0", "prefer-busy-poll": "true"}, {"busy-poll": "20"}])
def test_a_port_that_is_not_to_poll_does_not(reported: dict[str, str]) -> None:
    assert busy_polling(reported, {"queues": [{"napi-id": NAPI}]})["busy-poll-active"] == "false"
    assert busy_polling(reported, {}) == {}
