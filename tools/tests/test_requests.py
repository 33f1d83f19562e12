# SPDX-License-Identifier: Apache-2.0
"""Payloads of the user's (`traffic.request`): where they are sent, and where they cannot be."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from lab.studies import a_testbed, study

from xdplab.measure import make_method
from xdplab.methods.counting import first_frames
from xdplab.model import InputError, Path, StreamSpec, StudySpec, TestbedSpec, TrafficSpec, TrialResult, TrialSpec
from xdplab.model.study import Names, unusual
from xdplab.runner import make_plan
from xdplab.runner.plan import Plan
from xdplab.runner.ports import _until_through, tester_ports_of
from xdplab.testbed import FakeTestbed
from xdplab.testers import make_tester
from xdplab.testers.packets import headers_of
from xdplab.testers.stream_json import NewFlows

#: 40 bytes behind the identity: frames of 104 bytes.
REQUEST = "{id}" + "0a" * 40
ASKED: dict[str, Any] = {
    "tester": "xdpgen", "testbed": "embedded", "path": "hairpin", "forwarders": ["xsk"],
    "traffic": {"request": REQUEST},
}  # fmt: skip


def planned(**changes: Any) -> Plan:
    asked = study(**{**ASKED, **changes})
    return make_plan(asked, a_testbed("embedded"), make_tester(asked.tester))


def test_frames_have_the_size_that_the_request_gives_them() -> None:
    (point,) = planned().points
    assert (point.traffic.frame_bytes, point.traffic.smallest) == (104, 104)
    sizes = [each.traffic.frame_bytes for each in planned(loads=[{}, {"ip": 6}, {"request": "{id}00"}]).points]
    assert sizes == [104, 124, 65]


def test_a_run_that_is_resumed_reads_every_key_of_its_study() -> None:
    asked = study(**{**ASKED, "traffic": {}, "loads": [{"request": REQUEST}, {"request": REQUEST, "ip": 6}]})
    again = StudySpec.model_validate_json(asked.model_dump_json(by_alias=True))
    plan = make_plan(again, a_testbed("embedded"), make_tester("xdpgen"))
    assert [each.traffic.frame_bytes for each in plan.points] == [104, 124]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"frame_bytes": [64, 128]}, "frame_bytes: frames have the size of traffic.request"),
        ({"frame_bytes": [104], "traffic": {}, "loads": [{"request": REQUEST}]}, "frames have the size of"),
        ({"tester": "xsk"}, "traffic.request: tester xsk sends none; xdpgen does"),
        ({"method": {"name": "stages", "rates_pps": [1000]}}, "traffic.request: method stages sends none; latency, "),
        ({"path": "through", "pipeline": "vlan"}, "traffic.request: pipeline vlan: "),
        ({"path": "reflect"}, "traffic.request: path reflect: "),
        ({"path": "through"}, "traffic.request: path through: "),
    ],
)
def test_requests_that_cannot_be_sent_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        planned(**changes)


def test_the_tester_s_program_is_given_it() -> None:
    ports = FakeTestbed(TestbedSpec(name="t", kind="fake")).tester_ports(Path.HAIRPIN)
    traffic = TrafficSpec(request="00 01{id}ff", answer_at=9, udp_port=53)
    (one,) = NewFlows().objects(
        TrialSpec(
            streams=(StreamSpec(kind="load", pps=1.0, frame_bytes=traffic.smallest, **traffic.headers),),  # type: ignore[arg-type]
            duration_s=1.0,
        ),
        ports,
    )
    assert {key: one[key] for key in ("request", "trailer_at", "answer_at", "udp_dst", "frame_bytes")} == {
        "request": "0001" + "00" * 18 + "ff",
        "trailer_at": 2,
        "answer_at": 9,
        "udp_dst": 53,
        "frame_bytes": 42 + 21 + 4,
    }


def test_it_is_addressed_to_the_port_that_answers() -> None:
    testbed = FakeTestbed(TestbedSpec(name="t", kind="fake"))
    for asked, mac in ((ASKED, "b0"), ({**ASKED, "traffic": {}}, "a0")):
        (point,) = make_plan(study(**asked), a_testbed("embedded"), make_tester("xdpgen")).points
        ports = tester_ports_of(testbed, point)
        stream = StreamSpec(kind="load", pps=1.0, frame_bytes=104, **point.traffic.headers)  # type: ignore[arg-type]
        assert headers_of(stream, ports).dst_mac == testbed.ports[mac].mac


def test_texts_have_its_length_and_a_digest() -> None:
    one, other = planned(loads=[{}, {"request": REQUEST[:-2] + "0b"}]).points
    assert unusual(one.traffic)["request"] == "58 bytes 85201acb"
    assert unusual(one.traffic)["request"] != unusual(other.traffic)["request"]
    names = Names([one, other])
    assert names.of(one) != names.of(other)
    assert "0a0a" not in names.of(one)


class Sent(Exception):
    """The first trial: what is measured with it is of no interest."""


def test_a_program_of_the_user_s_is_looked_at_and_proven_with_it() -> None:
    """A server answers nothing else, and would be waited for in vain."""
    (point,) = planned(method={"name": "micro", "workloads": ["rxdrop"]}).points
    asked: list[str | None] = []

    def send(trial: TrialSpec) -> TrialResult:
        asked.extend(each.request for each in trial.streams)
        raise Sent

    program: Any = SimpleNamespace(silent_s=1.0, crashed=lambda: None, ineffective=lambda: "idle", frames_received=int)
    session: Any = SimpleNamespace(point=point, forwarder=program, send=send, measure_by=lambda _, count: count())
    method = make_method(study(method={"name": "micro", "workloads": ["rxdrop"]}).method)
    ready: Any = SimpleNamespace(**{**vars(program), "ineffective": lambda: None})
    for step in (
        partial(_until_through, point, program, send),
        partial(first_frames, session),
        partial(method.prove, SimpleNamespace(**{**vars(session), "forwarder": ready})),
        partial(method.measure, session, point.traffic),
    ):
        with pytest.raises(Sent):
            step()
    assert asked == [REQUEST] * 4
