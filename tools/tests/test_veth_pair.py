# SPDX-License-Identifier: Apache-2.0
"""Forwarder `veth-pair`: which ports A and C have, what is refused there, and that nothing is won by it."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lab.micro_records import record
from lab.records import LAYOUT, point, run_record

from xdplab.analysis.run import Run
from xdplab.forwarders import Dut, make_forwarder
from xdplab.forwarders.kernel.veth_pair import VethPair
from xdplab.model import ForwarderSpec, Path as FramePath, Pipeline, PointFailed, TestbedSpec, TrafficSpec, TrialRecord
from xdplab.runner import refusals
from xdplab.runner.ports import dut_of, ports_of, tester_ports_of
from xdplab.testbed import Port
from xdplab.testbed.fake import FakeTestbed
from xdplab_applications.applications.ends import Ends

PAIR, XDP, BRIDGE = (point(name) for name in ("veth-pair", "xdp", "linux-bridge"))


def port(role: str, index: int, other: int | None, **more: Any) -> Port:
    shown = json.dumps([{"ifindex": index, **({} if other is None else {"link_index": other})}])
    host: Any = SimpleNamespace(name=role, run=lambda argv: SimpleNamespace(stdout=shown))
    return Port(role, host, role, mac="", mtu=1500, **more)


def dut(*peers: Port) -> Dut:
    host: Any = SimpleNamespace(name="B")
    return Dut(host, (), FramePath.THROUGH, LAYOUT, Path("/x"), peers=peers)


def test_a_and_c_have_the_direct_link_and_b_has_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    testbed = FakeTestbed(TestbedSpec(name="t", kind="fake"))
    assert ports_of(testbed, PAIR) == ()
    assert [each.role for each in dut_of(testbed, PAIR, LAYOUT).peers] == ["d0", "d1"]
    assert [each.role for each in dut_of(testbed, XDP, LAYOUT).peers] == ["a0", "c0"]
    routed = PAIR.model_copy(update={"pipeline": Pipeline(kind="route", rules=10)})
    assert tester_ports_of(testbed, routed).routers == (testbed.ports["b0"].mac, testbed.ports["b1"].mac)
    monkeypatch.setattr(FakeTestbed, "direct_ports", lambda _: None)
    assert dut_of(testbed, PAIR, LAYOUT).peers == ()
    assert "only on the embedded testbed" in str(VethPair(VethPair.options_model()).unsupported(dut()))


@pytest.mark.parametrize(
    ("own_ends", "pipeline", "knobs", "lasting", "said"),
    [
        (True, Pipeline(), {"governor": "performance"}, False, None),
        (False, Pipeline(), {}, False, "A and C are connected directly, and method m sends to a forwarder"),
        (True, Pipeline(kind="containers", rules=2), {}, False, "nothing there does pipeline containers:2"),
        (True, Pipeline(), {"threaded_napi": 1}, False, "knob threaded_napi: it belongs to the forwarder's ports"),
        (True, Pipeline(), {}, True, "only on the embedded testbed"),
    ],
)
def test_what_only_a_forwarder_has_is_refused(
    own_ends: bool, pipeline: Pipeline, knobs: dict[str, Any], lasting: bool, said: str | None
) -> None:
    asked: Any = SimpleNamespace(knobs=knobs, pipeline=pipeline, traffic=TrafficSpec())
    method: Any = SimpleNamespace(name="m", own_ends=own_ends, at_interfaces=True, unsupported=lambda *_: None)
    settings: Any = SimpleNamespace(unsupported=lambda: None)
    there = dut(port("d0", 2, 3, lasting=lasting), port("d1", 3, 2, lasting=lasting))
    pair = make_forwarder(ForwarderSpec(name="veth-pair"))
    reason = refusals.refusal(asked, method, pair, settings, there, there.peers[0])
    assert reason is None if said is None else said in str(reason)


def test_what_is_switched_at_the_forwarders_ports_is_refused() -> None:
    client, server = port("d0", 2, 3), port("d1", 3, 2)
    assert Ends(client, server, (), ("checksum", "vlan")).why_not() is None
    assert "offloads gro: of the forwarder's ports" in str(Ends(client, server, (), ("checksum", "gro")).why_not())
    assert Ends(client, server, (client,), ("gro",)).why_not() is None


@pytest.mark.parametrize(
    ("ends", "one_pair"), [((2, 3, 3, 2), True), ((2, 9, 3, 2), False), ((2, None, 3, None), False)]
)
def test_both_ports_must_be_ends_of_one_pair(ends: tuple[int, int | None, int, int | None], one_pair: bool) -> None:
    pair, there = VethPair(VethPair.options_model()), dut(port("d0", *ends[:2]), port("d1", *ends[2:]))
    if one_pair:
        pair.start(there)
        assert pair.mode() == {"label": "no switch"}
        return
    with pytest.raises(PointFailed, match="d0 and d1 are not the two ends of one veth pair"):
        pair.start(there)


def test_who_is_ahead_is_said_of_forwarders() -> None:
    study = {"forwarders": ["veth-pair", "xdp", "linux-bridge"], "method": {"name": "applications"}, "repetitions": 5}
    bulk = [each.model_copy(update={"levels": {"workload": "bulk"}}) for each in (PAIR, XDP, BRIDGE)]

    def sentence(*mbps: float) -> str:
        trials = [goodput(at, number, value) for at, value in zip(bulk, mbps, strict=False) for number in range(5)]
        return Run(Path("nowhere"), run_record(*bulk, study=study), trials).answer.sentence

    assert sentence(9000, 2000, 1000).startswith("bulk: xdp is ahead with 2,000 Mbit/s")
    assert sentence(9000) == "xdplab names no winner: no forwarder was measured."


def goodput(at: Any, number: int, mbps: float) -> TrialRecord:
    value = mbps * (1 + number / 1000)
    return record(at, {"text": "", "goodput_mbps": value}, repetition=number)
