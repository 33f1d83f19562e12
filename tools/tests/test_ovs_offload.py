# SPDX-License-Identifier: Apache-2.0
"""The offload of flows to XDP in the OVS forwarder: what it is told, where it is unsupported, and what proves it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab.ovs_host import ALL_KEYS, OFFLOAD, STOCK_KEYS, OvsHost, dut_maker, forwarder

from xdplab import app
from xdplab.forwarders.base import make_forwarder, mode_name
from xdplab.forwarders.ovs.builds import PATCHED, how_to_make
from xdplab.forwarders.ovs.options import OvsAfxdpOptions, OvsKey
from xdplab.forwarders.ovs.pipelines import rules
from xdplab.hosts import LocalHost
from xdplab.model import (
    ForwarderSpec,
    InputError,
    Path as Way,
    Pipeline,
    Point,
    StreamSpec,
    TrafficSpec,
    TrialSpec,
    Unsupported,
)
from xdplab.runner.proof import prove
from xdplab.testbed import Port
from xdplab.testbed.base import ports_of_path
from xdplab.testers.packets import headers_of
from xdplab.tools import project_root

SIZES = "flow_offload=true,flow_entries=1024,flow_masks=8"


def started(host: OvsHost, tmp_path: Path, text: str = "flow_offload=true") -> Any:
    made = forwarder(f"ovs-afxdp:{text}")
    made.start(dut_maker(tmp_path)(host))
    return made


def test_its_options_have_their_keys_and_their_series() -> None:
    table = {
        field: key
        for field, info in OvsAfxdpOptions.model_fields.items()
        for key in info.metadata
        if isinstance(key, OvsKey) and key.patch == "offload-Add-provider-for-XDP"
    }
    assert {field: key.names for field, key in table.items()} == {field: (key,) for field, (key, _) in OFFLOAD.items()}


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("flow_offload=true", PATCHED),
        ("flow_offload=false", PATCHED),
        ("flow_offload=true,build=stock", "stock"),
        ("n_rxq=1", "stock"),
    ],
)
def test_who_asks_for_the_offload_names_no_build(text: str, build: str) -> None:
    made = forwarder(f"ovs-afxdp:{text}")
    assert made.options.build == build


def test_a_study_may_write_it_as_a_mapping_under_the_same_title() -> None:
    spec = ForwarderSpec.model_validate({"name": "ovs-afxdp", "options": {"flow_offload": True}})
    assert spec.title == "ovs-afxdp:flow_offload=true"
    assert make_forwarder(spec).options.build == PATCHED


def test_where_its_build_is_missing_the_reason_is_the_command_that_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDPLAB_CACHE", str(tmp_path))
    program = f"{tmp_path}/ovs/{PATCHED}/ovs-vswitchd"
    reason = forwarder("ovs-afxdp:flow_offload=true").unsupported(dut_maker(tmp_path)(OvsHost(absent=[program])))
    assert reason == f"OVS build '{PATCHED}': {program} is not there; `{how_to_make(PATCHED)}` makes it"


@pytest.mark.parametrize(
    "text", ["flow_masks=8", "flow_offload=false,flow_entries=1024", "flow_offload=true,flow_masks=65"]
)
def test_sizes_belong_to_the_offload(text: str) -> None:
    with pytest.raises(InputError, match="flow_masks"):
        forwarder(f"ovs-afxdp:{text}")


def test_the_daemon_gets_the_switch_and_the_ports_get_the_sizes(tmp_path: Path) -> None:
    host = OvsHost(ALL_KEYS)
    made = started(host, tmp_path, SIZES)
    (settings,) = host.rows("Open_vSwitch")
    assert ["hw-offload", "true"] in settings["other_config"][1]
    columns = made.interface(0, dut_maker(tmp_path)(host))[1]
    assert {"options:xdp-flow-entries=1024", "options:xdp-flow-masks=8"} <= set(columns)
    assert not [column for column in columns if "hw-offload" in column]
    assert "the sender's" in made.describe()
    assert forwarder("ovs-afxdp").describe() == ""


@pytest.mark.parametrize("value", ["true", "false"])
def test_a_build_that_knows_only_other_offloads_is_unsupported(value: str, tmp_path: Path) -> None:
    """Every Open vSwitch has `hw-offload`, for tc and DPDK: it would be taken without a word."""
    made = forwarder(f"ovs-afxdp:build=stock,flow_offload={value}")
    assert made.unsupported(dut_maker(tmp_path)(OvsHost(STOCK_KEYS))) == (
        f"flow_offload={value}: OVS build 'stock' (Open vSwitch 3.1.0) has no xdp-flow-entries; "
        "patch offload-Add-provider-for-XDP of ovs/ brings it"
    )
    assert forwarder(f"ovs-afxdp:flow_offload={value}").unsupported(dut_maker(tmp_path)(OvsHost(ALL_KEYS))) is None


@pytest.mark.parametrize(
    ("asked", "frames", "words"),
    [
        ("true", {"b0": 18, "b1": 19}, None),
        ("true", {"b0": 9, "b1": 0}, "true is not in force: 0 frames of b1 met an offloaded flow; xdp-flows is off: x"),
        ("false", {"b0": 0, "b1": 0}, None),
        ("false", {"b0": 3, "b1": 0}, "false is not in force: 3 frames of b0 met an offloaded flow"),
    ],
)  # fmt: skip
def test_frames_that_met_offloaded_flows_prove_it(
    asked: str, frames: dict[str, int], words: str | None, tmp_path: Path
) -> None:
    host = OvsHost(ALL_KEYS)
    host.offloaded = frames
    host.status["b1"] = '["xdp-flows","off: x"]'
    found = started(host, tmp_path, f"flow_offload={asked}").ineffective()
    assert found == (None if words is None else f"flow_offload={words}")


def test_actions_that_the_offload_refuses_are_its_reason(tmp_path: Path) -> None:
    host = OvsHost(ALL_KEYS)
    host.status["b0"] = '["xdp-flows","on"],["xdp-flow-output","off: no peer"]'
    made = started(host, tmp_path)
    seen = "flow_offload=true is not in force: 0 frames of b0 met an offloaded flow"
    assert made.ineffective() == f"{seen}; xdp-flow-output is off: no peer"
    host.refused = ("action ct", "several outputs")
    assert made.ineffective() == f"{seen}; refused: action ct, several outputs; xdp-flow-output is off: no peer"


@pytest.mark.parametrize(("kind", "effective"), [("cross", False), ("vlan", True)])
def test_where_frames_begin_on_one_side_only_its_port_must_have_met_flows(
    kind: str, effective: bool, tmp_path: Path
) -> None:
    host = OvsHost(ALL_KEYS)
    host.offloaded = {"b0": 9, "b1": 0}
    made = started(host, tmp_path)
    made.instance.dut = replace(made.instance.dut, pipeline=Pipeline.model_validate({"kind": kind}))
    assert (made.ineffective() is None) == effective


@pytest.mark.parametrize(("asked", "name"), [("true", "native copy + XDP flows"), ("false", "native copy")])
def test_the_mode_tells_of_flows_in_xdp_what_the_ports_counted(asked: str, name: str, tmp_path: Path) -> None:
    host = OvsHost(ALL_KEYS)
    host.offloaded = {"b0": 18, "b1": 0}
    reported = started(host, tmp_path, f"flow_offload={asked}").mode()
    assert reported.get("xdp_flows") == ({"b0": 18, "b1": 0} if asked == "true" else None)
    seen = {"xdp": {"b0": {"mode": "native"}}, "xsk": [{"zero_copy": False}]}
    assert mode_name({**reported, **seen}) == name
    assert mode_name({**reported, **seen, "xdp_flows": {"b0": 0}}) == "native copy"


def test_how_many_flows_there_are_is_no_count_that_grows(tmp_path: Path) -> None:
    host = OvsHost(ALL_KEYS)
    host.offloaded = {"b0": 18, "b1": 19}
    made = started(host, tmp_path)
    assert made.counters()["b1"]["xdp_flow_n_flows"] == 2
    assert made.monotonic(made.counters())["b1"].keys() >= {"xdp_flow_packets", "xdp_flow_misses", "rx_pkts"}
    assert "xdp_flow_n_flows" not in made.monotonic(made.counters())["b1"]


def test_nobody_looks_for_it_unless_it_was_asked_for(tmp_path: Path) -> None:
    host = OvsHost()
    host.offloaded = {"b0": 5, "b1": 5}
    assert started(host, tmp_path, "n_rxq=1").ineffective() is None


class Stream:
    direction = "forward"
    received = 20


class Sent:
    streams = (Stream(),)


@pytest.mark.parametrize(("needed", "passes"), [(1, True), (3, True), (5, True), (6, False)])
def test_the_proof_sends_again_before_it_says_that_an_option_is_not_in_force(needed: int, passes: bool) -> None:
    """The first frames make a flow, and only later ones can meet it; a slow machine takes seconds to notice."""
    sent: list[TrialSpec] = []

    def send(spec: TrialSpec) -> Any:
        sent.append(spec)
        return Sent()

    class Late:
        name = "late"
        silent_s = 5.0

        def ineffective(self) -> str | None:
            return None if len(sent) >= needed else "nothing yet"

    point: Any = type("P", (), {"traffic": TrafficSpec(), "path": Way.HAIRPIN})()
    late: Any = Late()
    unasked: Any = None
    if passes:
        prove(point, late, send, dut=unasked, tester=unasked, lasting=False)
        assert len(sent) == needed
        assert (sent[-1].duration_s >= 3) == (needed == 5)
    else:
        with pytest.raises(Unsupported, match="nothing yet"):
            prove(point, late, send, dut=unasked, tester=unasked, lasting=False)


def rule_lines(text: str, *names: str) -> list[str]:
    return rules(names[0], names[-1], forwarder(text).options)


def test_without_a_word_there_is_one_rule_for_each_port() -> None:
    assert rule_lines("ovs-afxdp", "b0", "b1") == ["in_port=b0,actions=output:b1"]
    assert rule_lines("ovs-afxdp", "b0") == ["in_port=b0,actions=in_port"]


@pytest.mark.parametrize("masks", [1, 8, 64])
def test_flows_are_spread_over_as_many_masks_as_asked_for(masks: int) -> None:
    *each, rest = rule_lines(f"ovs-afxdp:rules=flows,rule_masks={masks}", "b0", "b1")
    assert rest == "priority=0,in_port=b0,actions=output:b1"
    actions = [rule.partition("actions=")[2] for rule in each]
    assert len(set(actions)) == masks
    assert {actions.count(action) for action in actions} == {64 // masks}
    own = ("IP_SRC", "IP_DST", "UDP_SRC")  # what a tester's flows differ in
    assert all(field in action and action.endswith("output:b1") for action in actions for field in own)
    assert {rule.partition("tp_src=")[2].partition(",")[0] for rule in each} == {f"{n:#x}/0x3f" for n in range(64)}


def test_the_first_flows_of_a_tester_can_be_offloaded_and_the_others_miss() -> None:
    *each, rest = rule_lines("ovs-afxdp:rules=misses,rule_masks=8", "b0", "b1")
    assert rest == "priority=0,in_port=b0,actions=output(port=b1,max_len=65535)"
    port = Port("a0", LocalHost(), "a0", "02:00:00:00:00:01", 1500)
    ports = ports_of_path({"a0": port, "c0": port}, Way.THROUGH)
    first = headers_of(StreamSpec(kind="load", pps=1, frame_bytes=64), ports).udp_src
    assert [rule.partition("tp_src=")[2].partition(",")[0] for rule in each] == [
        f"{(first + number) & 0x3FF:#x}/0x3ff" for number in range(8)
    ]
    assert len({rule.partition("actions=")[2] for rule in each}) == 8


@pytest.mark.parametrize("text", ["rule_masks=8", "rules=flows,rule_masks=3", "rules=flows,rule_masks=128"])
def test_masks_are_a_power_of_two_and_of_rules_that_have_some(text: str) -> None:
    with pytest.raises(InputError, match="rule_masks"):
        forwarder(f"ovs-afxdp:{text}")


def _of_ovs(point: Point) -> bool:
    return point.forwarder.name == "ovs-afxdp"


@pytest.mark.parametrize(
    "study", [*(f"ovs-offload-{name}" for name in ("flows", "latency", "masks", "misses")), "ovs-offload"]
)
def test_the_studies_are_bounded_in_time(study: str) -> None:
    """Minutes of traffic; half of the time of a run is for daemons that start and stop."""
    made = app.prepare(app.read_study(project_root() / "suites" / "studies" / f"{study}.yaml")).plan
    assert made.traffic_seconds() < 6 * 60
    builds = {point.title: made.method.forwarder(point).options.build for point in made.points if _of_ovs(point)}
    assert set(builds.values()) == {PATCHED}
