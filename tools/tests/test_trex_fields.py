# SPDX-License-Identifier: Apache-2.0
"""Flows as TRex makes them: its fields, counted as its engine counts them, have the addresses of our own tester."""

import importlib.util
import itertools
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from lab.frames import decode, of_flow

from xdplab.model import StreamSpec, TrafficSpec
from xdplab.testbed import RuleAddresses, TesterPorts
from xdplab.testers.packets import Headers, build, headers_of
from xdplab.testers.trex import Trex
from xdplab.testers.trex_streams import fields_of
from xdplab.testers.xdpgen import Xdpgen, XdpgenOptions

STREAMS = Path(__file__).parents[2] / "trex" / "profiles" / "streams.py"


def ports(rules: int = 3) -> TesterPorts:
    end: Any = SimpleNamespace(mac="02:00:00:00:00:01", address="", host=None, in_kernel=False)
    met = RuleAddresses("source", rules, "10.0.4.0", 1024)
    return TesterPorts(end, end, rules=(met, met))


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`trex/profiles/streams.py` with a library of TRex that writes down how it is called."""

    class Library(ModuleType):
        def __getattr__(self, name: str) -> Any:
            return lambda *args, **more: SimpleNamespace(kind=name, args=args, **more)

    for name in ("trex", "trex.stl", "trex.stl.api"):
        monkeypatch.setitem(sys.modules, name, Library(name))
    spec = importlib.util.spec_from_file_location("streams_of_trex", STREAMS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def described(stream: StreamSpec, headers: Headers) -> dict[str, Any]:
    frame = build(headers, stream.frame_bytes, udp_checksum=False).hex()
    reported = {"frame": frame, "flows": stream.flows, "flow_offset": headers.flow_offset, "kind": "load", "pg_id": 1}
    return {**reported, "pps": 1.0, "count": 0, "delay_us": 0.0, **fields_of(headers, stream)}


def program_of(profile: ModuleType, stream: StreamSpec, headers: Headers) -> list[Any]:
    program: list[Any] = profile.make_stream(described(stream, headers)).packet.vm.args[0]
    return program


def frames(program: list[Any], frame: bytes, count: int) -> list[bytes]:
    """What the engine makes: the next variable steps when one wraps; then they are written, and the sum is mended."""
    variables = {each.args[0]: each for each in program if each.kind == "STLVmFlowVar"}
    values = [
        list(getattr(each, "value_list", None) or range(each.min_value, each.max_value + 1))
        for each in variables.values()
    ]
    for each, following in itertools.zip_longest(variables.values(), [*variables][1:]):
        assert getattr(each, "next_var", None) == following
    made = []
    for turns in itertools.islice(itertools.product(*reversed(values)), count):
        now, changed = dict(zip(variables, reversed(turns), strict=True)), bytearray(frame)
        for step in program:
            if step.kind == "STLVmWrFlowVar":
                size = variables[step.fv_name].size
                changed[step.pkt_offset : step.pkt_offset + size] = now[step.fv_name].to_bytes(size, "big")
        made.append(bytes(changed))
    return made


@pytest.mark.parametrize(
    "flows",
    [
        {"flows": 5},
        {"flows": 12, "src_addresses": 2, "dst_addresses": 3},
        {"flows": 6, "dst_addresses": 3, "ip": 6, "vlan": 5, "outer_vlan": 6},
        {"flows": 6, "rule_match": "all"},
        {"flows": 3, "rule_match": "all", "vlan": 5},
    ],
    ids=str,
)
def test_fields_that_take_turns_make_the_flows_of_our_own_tester(profile: ModuleType, flows: dict[str, Any]) -> None:
    stream = StreamSpec(kind="load", pps=1.0, frame_bytes=128, **flows)
    headers = headers_of(stream, ports())
    program = program_of(profile, stream, headers)
    made = frames(program, build(headers, 128, udp_checksum=False), stream.flows)
    assert [decode(frame).headers for frame in made] == [of_flow(headers, flow) for flow in range(stream.flows)]
    mended = [step.offset for step in program if step.kind == "STLVmFixIpv4"]
    assert mended == ([headers.flow_offset - 20] if len(headers_fields(headers)) and stream.ip == 4 else [])


def headers_fields(headers: Headers) -> list[int]:
    return [each.count for each in (headers.sources, headers.targets) if each.count > 1]


def test_drawn_fields_have_seeds_of_their_own(profile: ModuleType) -> None:
    stream = StreamSpec(
        kind="load", pps=1.0, frame_bytes=64, flows=100, src_addresses=2, flow_choice="uniform", flow_seed=65_535
    )
    program = program_of(profile, stream, headers_of(stream, ports()))
    drawn = [each for each in program if each.kind == "STLVmFlowVarRepeatableRandom"]
    assert [(each.args[0], each.seed) for each in drawn] == [("sources", 65_535), ("flow", 0)]
    assert (drawn[1].min_value, drawn[1].max_value) == (10_000, 10_049)
    behind = fields_of(headers_of(stream, ports()), stream, place=1)["seed"]
    assert not {behind + field for field in range(3)} & {each.seed for each in drawn}  # nor those of another stream
    assert [each.pkt_cast_size for each in program if each.kind == "STLVmWrMaskFlowVar"] == [4, 2]


@pytest.mark.parametrize(
    ("flows", "why"),
    [
        ({"flows": 100, "flow_choice": "zipf"}, "equal probability only"),
        ({"flows": 100, "rule_match": "all"}, "100 is no multiple of 1 x 3"),
        ({"flows": 9, "rule_match": "all", "flow_choice": "uniform"}, "numbers in a row only"),
        ({"flows": 9, "rule_match": "all", "flow_choice": "round-robin"}, None),
        ({"flows": 100_000, "src_addresses": 2}, None),
        ({"src_addresses": 2}, None),
        ({"departures": "burst:9"}, "burst:9: what xdplab asks of TRex is paced"),
    ],
)
def test_what_trex_cannot_send_is_unsupported_with_the_reason(flows: dict[str, Any], why: str | None) -> None:
    found = Trex().supports_traffic(TrafficSpec(**flows), ports())
    assert found == why if why is None else why in str(found)


def test_figures_of_100_000_flows_are_refused_before_traffic() -> None:
    asked = TrafficSpec(flows=10_001)
    reason = Xdpgen(XdpgenOptions(flow_figures=True)).supports_traffic(asked, ports())
    assert reason == "flow_figures=true: of 10,000 flows at the most, and this traffic has 10,001"
    assert Xdpgen().supports_traffic(asked, ports()) is None
