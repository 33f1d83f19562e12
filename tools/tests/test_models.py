# SPDX-License-Identifier: Apache-2.0
"""The words of a study file: what is accepted survives a round trip, what is not is refused in one line."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from lab import studies
from lab.records import point
from pydantic import ValidationError

from xdplab.methods.latency import LatencySpec
from xdplab.model import CpuLayout, ForwarderSpec, InputError, Path, Point, StudySpec, TrafficSpec
from xdplab.model.base import one_line
from xdplab.testbed import usable_cpus


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        (
            {"repetition": 3},
            "repetition",
            "unknown key; did you mean 'repetitions'? (known here: answer, ",
        ),
        ({"traffic": {"framebytes": 64}}, "traffic.framebytes", "unknown key"),
        ({"schema": 2}, "schema", "Input should be 1 (got 2)"),
        ({"name": "Über study"}, "name", "'Über study'"),
        ({"name": "../etc"}, "name", "'../etc'"),
        ({"forwarders": []}, "forwarders", "at least 1 item"),
        ({"forwarders": [None]}, "forwarders.0", "got None"),
        ({"forwarders": ["fake:capacity_pps"]}, "forwarders.0", "'capacity_pps' of forwarder 'fake' is not option=val"),
        ({"repetitions": 0}, "repetitions", "greater than or equal to 1 (got 0)"),
        ({"repetitions": "many"}, "repetitions", "valid integer"),
        ({"traffic": {"probe_pps": 0}}, "traffic.probe_pps", "greater than 0 (got 0)"),
        ({"traffic": {"probe_pps": float("nan")}}, "traffic.probe_pps", "(got nan)"),
        ({"traffic": {"vlan": 4095}}, "traffic.vlan", "(got 4095)"),
        ({"traffic": {"ip": 5}}, "traffic.ip", "4 or 6 (got 5)"),
        ({"traffic": {"load_pps": 1, "load_share": 0.5}}, "traffic", "exclude each other"),
        ({"traffic": 7}, "traffic", "(got 7)"),
        ({"path": "around"}, "path", "'through', 'hairpin' or 'reflect'"),
        ({"knobs": [1]}, "knobs", "(got [1])"),
        ({"method": {"name": "guess"}}, "method", "'latency'"),
        ({"answer": ["fake"]}, "answer", "two forwarders are expected, or null for none (got ['fake'])"),
        ({"answer": []}, "answer", "two forwarders are expected, or null for none (got [])"),
        ({"repetitions": True}, "repetitions", "a number is expected, not true or false"),
        ({"method": {"name": "latency", "duration_s": True}}, "method.duration_s", "a number is expected"),
        ({"traffic": {"flows": 55_537}}, "traffic", "55,537 are more than 1 x 1 addresses have, 55,536 ports each"),
        ({"traffic": {"flows": 100_001, "src_addresses": 9}}, "traffic.flows", "less than or equal to 100000"),
        ({"traffic": {"flow_choice": "random"}}, "traffic.flow_choice", "'round-robin', 'uniform' or 'zipf'"),
        (
            {"traffic": {"flow_choice": "uniform", "zipf_exponent": 1}},
            "traffic",
            "zipf_exponent needs flow_choice: zipf",
        ),
        ({"traffic": {"flow_seed": 7}}, "traffic", "round-robin draws nothing"),
        ({"traffic": {"request": "00{id}0"}}, "traffic.request", "pairs of hex digits with one {id}"),
        ({"traffic": {"request": "00{id}{id}"}}, "traffic.request", "pairs of hex digits with one {id}"),
        ({"traffic": {"request": "00" * 239 + "{id}"}}, "traffic.request", "257 bytes"),
        ({"traffic": {"request": "{id}", "frame_bytes": 128}}, "traffic", "frames with this request have 64 bytes"),
        ({"traffic": {"request": "{id}", "vlan": 3}}, "traffic", "leave vlan out"),
        ({"traffic": {"answer_at": 3}}, "traffic", "answer_at and udp_port need request"),
        ({"traffic": {"udp_port": 53}}, "traffic", "answer_at and udp_port need request"),
        (
            {"traffic": {"rule_match": "all", "src_addresses": 2}},
            "traffic",
            "leave src_addresses and dst_addresses out",
        ),
        ({"traffic": {"departures": "burst:1"}}, "traffic.departures", "burst:1"),
        ({"traffic": {"pcp": 1}}, "traffic", "need a tag: give vlan"),
        ({"traffic": {"dscp": 64}}, "traffic.dscp", "(got 64)"),
        ({"traffic": {"flows": True}}, "traffic.flows", "a number is expected"),
        ({"max_loss_ratio": 1.1}, "max_loss_ratio", "(got 1.1)"),
    ],
)
def test_a_bad_study_is_refused_in_one_line_with_key_and_value(changes: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        studies.study(**changes)
    message = str(caught.value)
    assert message.startswith(f"study: {key}: ")
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"traffic": {"frame_bytes": 63}}, "traffic.frame_bytes"),
        ({"traffic": {"frame_bytes": 9725}}, "traffic.frame_bytes"),
        ({"frame_bytes": [64, 9999]}, "frame_bytes.1"),
        ({"method": {"name": "latency", "duration_s": 0.01}}, "method.duration_s"),
    ],
)
def test_a_key_in_a_message_is_one_of_the_file(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as caught:
        studies.study(**changes)
    assert str(caught.value).startswith(f"study: {key}: ")


def test_a_method_without_a_name_is_latency() -> None:
    assert studies.study(method={"duration_s": 3}).method == LatencySpec(duration_s=3)


def test_a_missing_key_is_named() -> None:
    from xdplab.model import validated

    with pytest.raises(InputError, match=r"^file: forwarders: Field required"):
        validated(StudySpec, {"name": "x"}, "file")


def test_models_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        studies.study().traffic.frame_bytes = 128  # type: ignore[misc]


def test_one_value_may_stand_for_a_list() -> None:
    spec = studies.study(path="hairpin", forwarders="fake", frame_bytes=128, knobs={"threaded_napi": 1})
    assert spec.path == (Path.HAIRPIN,)
    assert [each.name for each in spec.forwarders] == ["fake"]
    assert (spec.frame_bytes, spec.knobs) == ((128,), {"threaded_napi": (1,)})


_NAME = st.from_regex(r"[a-z][a-z0-9_-]{0,12}", fullmatch=True)
_VALUE = st.text(st.characters(codec="utf-8", exclude_characters=",", exclude_categories=["Cc", "Cs"]), max_size=12)
_SCALAR = st.one_of(
    st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), _VALUE
)


@given(name=_NAME, options=st.dictionaries(_NAME, _VALUE, max_size=4))
def test_title_of_a_forwarder_parses_back_to_it(name: str, options: dict[str, str]) -> None:
    spec = ForwarderSpec(name=name, options=options)
    assert ForwarderSpec.model_validate(spec.title) == spec


@given(label=st.text(min_size=1, max_size=20))
def test_a_label_is_the_title(label: str) -> None:
    assert ForwarderSpec(name="fake", options={"seed": 1}, label=label).title == one_line(label)


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(InputError, match="twice"):
        studies.study(forwarders=["fake:seed=1,seed=2"])


_TRAFFIC = st.builds(
    TrafficSpec,
    frame_bytes=st.integers(64, 9724),
    probe_pps=st.floats(1, 1e6),
    load_pps=st.none() | st.floats(1, 1e9),
    vlan=st.none() | st.integers(1, 4094),
    ip=st.sampled_from([4, 6]),
    bidirectional=st.booleans(),
)
_FORWARDER = st.builds(
    ForwarderSpec, name=_NAME, options=st.dictionaries(_NAME, _SCALAR, max_size=3), label=st.text(max_size=9)
)
_POINT = st.builds(
    Point,
    forwarder=_FORWARDER,
    path=st.sampled_from(Path),
    knobs=st.dictionaries(_NAME, _SCALAR, max_size=3),
    traffic=_TRAFFIC,
)


@given(at=_POINT)
def test_a_point_keeps_its_identity_through_a_file(at: Point) -> None:
    read = Point.model_validate_json(at.model_dump_json())
    assert read == at
    assert read.id == at.id


def test_points_that_differ_in_anything_have_different_ids() -> None:
    ids = {
        point("fake").id,
        point("fake:seed=1").id,
        point("fake", vlan=1).id,
        point("fake").model_copy(update={"path": Path.HAIRPIN}).id,
        point("fake").model_copy(update={"knobs": {"threaded_napi": 0}}).id,
        point("fake").model_copy(update={"knobs": {"threaded_napi": 1}}).id,
    }
    assert len(ids) == 6


@given(forwarders=st.lists(_FORWARDER, min_size=1, max_size=3), traffic=_TRAFFIC, seed=st.integers(0, 2**40))
def test_an_accepted_study_survives_run_json(forwarders: list[ForwarderSpec], traffic: TrafficSpec, seed: int) -> None:
    spec = StudySpec(name="x", forwarders=tuple(forwarders), traffic=traffic, seed=seed)
    assert StudySpec.model_validate_json(spec.model_dump_json(by_alias=True)) == spec


@pytest.mark.parametrize(
    "changes",
    [
        {"forwarders": [{"name": "a", "options": {"b": float("inf")}}]},
    ],
)
def test_infinity_is_refused_or_survives(changes: dict[str, Any]) -> None:
    try:
        spec = studies.study(**changes)
    except InputError:
        return
    assert StudySpec.model_validate_json(spec.model_dump_json(by_alias=True)) == spec


def test_one_way_and_round_trip_have_names_of_their_own() -> None:
    assert {path: path.quantity for path in Path} == {
        Path.THROUGH: "one-way",
        Path.HAIRPIN: "round trip",
        Path.REFLECT: "round trip",
    }


def test_a_layout_says_in_words_who_pays() -> None:
    assert CpuLayout(tester_tx=0, forwarder=1).describe() == "tx 0 · napi inline · forwarder 1 · rx inline"
    assert (
        CpuLayout(tester_tx=0, forwarder=1, dut_napi=2, tester_rx=3).describe() == "tx 0 · napi 2 · forwarder 1 · rx 3"
    )


@pytest.mark.parametrize(
    ("cpus", "words"), [([0], "two are needed"), ([], "two are needed"), ([0, 4096], r"\[4096\] not available")]
)
def test_cpus_that_are_not_there_are_refused(cpus: list[int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        usable_cpus(studies.a_testbed("embedded", cpus=cpus))


def test_a_cpu_named_twice_is_one_cpu() -> None:
    with pytest.raises(InputError):
        usable_cpus(studies.a_testbed("embedded", cpus=[0, 0]))
