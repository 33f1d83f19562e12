# SPDX-License-Identifier: Apache-2.0
"""The order of repetitions: every point once per repetition, random, and the same for the same seed."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st
from lab import studies

from xdplab.model import InputError, TrialRecord
from xdplab.runner import Plan, make_plan
from xdplab.runner.environment import completed
from xdplab.runner.turns import instances_of
from xdplab.testers import make_tester


def plan(tester: str = "fake", kind: str = "fake", mtu: int = 1500, **changes: Any) -> Plan:
    return make_plan(studies.study(**changes), studies.a_testbed(kind, mtu=mtu), make_tester(tester))


def order(found: Plan) -> list[tuple[str, int]]:
    return [(repetition.point.id, repetition.number) for repetition in found.order]


_SEVERAL = [f"fake:seed={n}" for n in range(6)]


@given(
    forwarders=st.integers(1, 5),
    repetitions=st.integers(1, 6),
    sizes=st.sets(st.integers(64, 1518), min_size=1, max_size=3),
    seed=st.integers(0, 2**32),
)
def test_every_point_is_there_once_per_repetition(
    forwarders: int, repetitions: int, sizes: set[int], seed: int
) -> None:
    found = plan(
        forwarders=_SEVERAL[:forwarders], repetitions=repetitions, frame_bytes=sorted(sizes), seed=seed,
        path=["through", "hairpin"],
    )  # fmt: skip
    assert len(found.points) == forwarders * len(sizes) * 2
    expected = {(point.id, repetition): 1 for point in found.points for repetition in range(repetitions)}
    assert Counter(order(found)) == expected
    assert [repetition.number for repetition in found.order] == sorted(repetition.number for repetition in found.order)


@given(seed=st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_order(seed: int) -> None:
    first, again = (plan(forwarders=_SEVERAL, repetitions=3, seed=seed) for _ in range(2))
    assert order(first) == order(again)


def test_another_seed_and_another_repetition_give_another_order() -> None:
    found = {tuple(order(plan(forwarders=_SEVERAL, repetitions=1, seed=seed))) for seed in range(5)}
    assert len(found) > 1
    ids = [point_id for point_id, _ in order(plan(forwarders=_SEVERAL, repetitions=5))]
    assert len({tuple(ids[start : start + 6]) for start in range(0, 30, 6)}) > 1


def test_more_repetitions_keep_the_order_of_the_first() -> None:
    few, many = (plan(forwarders=_SEVERAL, repetitions=n) for n in (2, 5))
    assert order(many)[: len(few.order)] == order(few)


@pytest.mark.parametrize(
    "changes", [{"forwarders": ["fake", "fake"]}, {"frame_bytes": [64, 64]}, {"knobs": {"threaded_napi": [0, "0"]}}]
)
def test_a_point_given_twice_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="a point occurs twice"):
        plan(**changes)


def test_labels_tell_equal_forwarders_apart() -> None:
    assert len(plan(forwarders=[{"name": "fake", "label": "A"}, {"name": "fake", "label": "B"}]).points) == 2


@pytest.mark.parametrize(
    ("traffic", "smallest", "largest"),
    [
        ({}, 64, 1518),
        ({"vlan": 7}, 68, 1522),
        ({"ip": 6}, 84, 1518),
        ({"ip": 6, "vlan": 7}, 88, 1522),
    ],
)
def test_only_frames_that_carry_the_trailer_and_fit_the_mtu_are_planned(
    traffic: dict[str, Any], smallest: int, largest: int
) -> None:
    # headers, 18 bytes of trailer and the FCS below; MTU, Ethernet header, tag and FCS above
    for size in (smallest, largest):
        assert plan("xdpgen", "embedded", forwarders="xdp", traffic={**traffic, "frame_bytes": size}).points
    for size in (smallest - 1, largest + 1):
        with pytest.raises(InputError, match="frame_bytes"):
            plan("xdpgen", "embedded", forwarders="xdp", traffic={**traffic, "frame_bytes": size})


def test_an_mtu_of_the_testbed_raises_the_limit() -> None:
    assert plan(mtu=3498, frame_bytes=3516).points
    with pytest.raises(InputError, match="2000 does not fit"):
        plan(frame_bytes=2000)


@pytest.mark.parametrize("path", ["hairpin", "reflect"])
def test_bidirectional_traffic_needs_a_path_with_two_ends(path: str) -> None:
    with pytest.raises(InputError, match="bidirectional"):
        plan(path=path, traffic={"bidirectional": True})


@pytest.mark.parametrize(
    "changes", [{"traffic": {"load_pps": 5}}, {"traffic": {"frame_bytes": "imix"}}, {"method": {"name": "throughput"}}]
)
def test_a_closed_loop_has_no_load_beside_it(changes: dict[str, Any]) -> None:
    assert plan("xsk-ping", "embedded", forwarders="xsk", path="hairpin").points
    with pytest.raises(InputError, match="xsk-ping: it sends one batch at a time"):
        plan("xsk-ping", "embedded", forwarders="xsk", path="hairpin", **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"forwarders": "nothing"}, "forwarder 'nothing'"),
        ({"forwarders": "fake:colour=red"}, "colour"),
        ({"knobs": {"nothing": 1}}, "knob 'nothing'"),
        ({"knobs": {"threaded_napi": "on"}}, "knob threaded_napi"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_changed(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan(**changes)


@pytest.mark.parametrize("changes", [{"forwarders": "linux-bridge"}, {"forwarders": "fake", "tester": "xdpgen"}])
def test_nothing_real_runs_on_the_fake_testbed(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="fake"):
        plan(changes.pop("tester", "fake"), **changes)


def test_redirecting_forwarders_want_another_receive_program() -> None:
    asked = ["xdp", "ovs-afxdp:flow_offload=true", "ovs-afxdp"]
    made = plan("xdpgen", "embedded", forwarders=asked)
    assert {point.forwarder.title: made.method.forwarder(point).redirects for point in made.points} == dict(
        zip(asked, (True, True, False), strict=True)
    )
    tester = make_tester("xdpgen")
    assert (tester.choose_rx(True).program, tester.choose_rx(False).program) == ("xdp", "tc")


def test_traffic_seconds_count_every_repetition() -> None:
    found = plan(repetitions=4, method={"name": "latency", "duration_s": 2.0, "warmup_s": 0.5, "drain_s": 0.4})
    assert found.traffic_seconds() == pytest.approx(2 * 4 * 2.5)  # a trial without loss waits for nothing
    light = plan(repetitions=4, method={"name": "latency", "duration_s": 2.0, "warmup_s": 0.5, "light_pps": 1000})
    assert light.traffic_seconds() == pytest.approx(2 * 4 * (2.5 + 1.5))
    with_rate = plan(
        repetitions=1, forwarders="fake", traffic={"load_share": 0.5}, method={"name": "latency", "duration_s": 2.0}
    )
    assert (
        with_rate.traffic_seconds()
        > plan(repetitions=1, forwarders="fake", method={"name": "latency", "duration_s": 2.0}).traffic_seconds()
    )


STARTS = {"name": "latency", "turns": 2, "instances": 3}


def test_a_repetition_is_over_when_each_of_its_starts_is() -> None:
    found = plan("xdpgen", "embedded", forwarders=["linux-bridge"], method=STARTS)
    assert found.instances == 3
    assert found.traffic_seconds() == 3 * sum(found.method.trial_seconds(found.points[0].traffic)) * len(found.order)
    point = found.points[0].id
    ends = [
        TrialRecord(point_id=point, repetition=number, purpose="end", status="ok", started="2026-11-28T00:00:00+00:00")
        for number in (0, 0, 0, 1, 1)
    ]
    assert completed(ends, found) == {(point, 0)}


def test_a_forwarder_is_started_once_where_it_cannot_stand_beside_itself() -> None:
    assert plan(method=STARTS).instances == 1
    of_machine = plan("xdpgen", "embedded", method=STARTS, forwarders=["linux-bridge"], knobs={"hugepages_2m": [8]})
    assert of_machine.instances == 3
    assert {instances_of(of_machine, point) for point in of_machine.points} == {1}
    with pytest.raises(InputError, match=r"method\.instances: 3: only with method\.turns"):
        plan(method={**STARTS, "turns": 0})
