# SPDX-License-Identifier: Apache-2.0
"""How changes are made: rules as OpenFlow has them, and what must be there for a queue."""

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import xdplab_changes
from xdplab.forwarders.changes import Change, Step
from xdplab.forwarders.ovs import openflow
from xdplab.forwarders.ovs.changes import no_further_queue
from xdplab.measure.method import MethodResult
from xdplab.model import PointFailed, TrialResult, TrialSpec, XdplabError

CHANGES: dict[str, Any] = {"name": "changes"}


@pytest.mark.parametrize(
    ("queues", "why"), [(2, None), (1, "port b0 has 1 receive queue; `queues` of the testbed file adds some")]
)
def test_a_queue_is_added_where_the_port_has_one_more_in_its_namespace(queues: int, why: str | None) -> None:
    """Files below /sys are those of this process's namespace: what is in use is asked of ethtool."""
    reported = SimpleNamespace(stdout=f"RX:\t8\nCurrent hardware settings:\nRX:\t{queues}\nCombined:\tn/a\n")
    host = SimpleNamespace(run=lambda argv, check: reported)
    dut: Any = SimpleNamespace(host=host, ports=[SimpleNamespace(ifname="b0")])
    assert no_further_queue(dut, 1) == (why and f"change queue-added: {why}")


def test_rules_in_openflow_are_what_the_specification_says() -> None:
    (hello, rule, barrier) = split(openflow.rule_changes("add", [0x64400001], cookie=5, priority=9, bundle=False))
    assert (hello[1], rule[1], barrier) == (0, 14, openflow.END[:1] + b"\x14" + openflow.END[2:])
    assert len(rule) == 8 + 40 + 24
    assert struct.unpack_from(">Q8xBB4xH", rule, 8) == (5, 0, 0, 9)
    assert rule[48:66] == bytes.fromhex("0001 0012 80000a02 0800 80001804 64400001")
    whole = split(openflow.rule_changes("delete", [1, 2], cookie=5, priority=9, bundle=True))
    assert [message[1] for message in whole] == [0, 33, 34, 34, 33, 20]
    assert whole[2][16:18] == b"\x06\x0e"
    assert whole[2][16 + 25] == 4  # OFPFC_DELETE_STRICT


def test_how_many_rules_there_are_is_read_and_a_refusal_is_reported() -> None:
    def reply(kind: int, body: bytes) -> bytes:
        return struct.pack(">BBHIHHI", 6, 19, 16 + len(body), 2, kind, 0, 0) + body

    def rules(number: int, packets: int) -> bytes:
        return reply(
            2, struct.pack(">HHIQIQII", 0, 36, 0x80020A08, 99, 0x80020808, packets, 0x80020604, number) + bytes(4)
        )

    meter = struct.pack(">IH6xIQQII", 1, 40, 2, 77, 0, 0, 0)
    both = rules(1234, 7) + rules(0, 0) + reply(9, meter + meter) + openflow.END
    assert openflow.rule_counts(both) == openflow.RuleCounts([(1234, 7), (0, 0)], 154)
    assert openflow.rules_there(lambda _: rules(5, 0) + openflow.END) == 5
    refused = struct.pack(">BBHIHH", 6, 1, 12, 2, 5, 1) + openflow.END
    with pytest.raises(XdplabError, match="the bridge refuses it: type 5, code 1"):
        openflow.rule_counts(refused)
    for reported in (openflow.END, rules(5, 0)[:30] + openflow.END):
        with pytest.raises(XdplabError, match="cannot be understood"):
            openflow.rule_counts(reported)


def test_rules_are_asked_for_by_their_cookie_and_all_together() -> None:
    _, mine, every, meters, _ = split(openflow.ask_rules(5, None))
    assert [struct.unpack_from(">H", each, 8) for each in (mine, every, meters)] == [(2,), (2,), (9,)]
    assert [struct.unpack_from(">QQ", each, 32) for each in (mine, every)] == [(5, 2**64 - 1), (0, 0)]


def split(data: bytes) -> list[bytes]:
    found = []
    while data:
        length = int.from_bytes(data[2:4], "big")
        found.append(data[:length])
        data = data[length:]
    return found


class Late:
    """A session in which a change takes so long, and the traffic begins so late, in each trial after another."""

    dut = SimpleNamespace(ports=[SimpleNamespace(simulated=False)])
    client = SimpleNamespace(host=None)
    name, changes = "late", ("port-added",)

    def __init__(self, takes_s: list[float], late_s: list[float]) -> None:
        self.takes_s, self.late_s = takes_s, late_s
        self.forwarder = self
        self.undone = self.journaled = 0

    def cannot_change(self, kind: str, dut: Any) -> None:
        """It can."""

    def change(self, kind: str, count: int) -> Change:
        """It tells how long it took, and is read back."""
        takes_s = self.takes_s.pop(0)

        def act() -> float:
            xdplab_changes.time.sleep(takes_s)
            return 0.25

        return Change([Step("added", count, act, lambda: "")], self.undo)

    def undo(self) -> None:
        self.undone += 1

    def send(self, spec: TrialSpec) -> TrialResult:
        began_s = xdplab_changes.time.monotonic() + self.late_s.pop(0)
        xdplab_changes.time.sleep(spec.duration_s)
        detail = {"started_ns": round(began_s * 1e9)}
        return TrialResult(tester="x", sender="x", elapsed_s=spec.duration_s, streams=(), detail=detail)

    def measure_by(self, asked: TrialSpec, count: Callable[[], MethodResult], clause: str) -> MethodResult:
        found = count()
        self.journaled += 1
        self.figures = found.figures
        return found


def test_a_change_that_is_slower_than_the_traffic_fails_and_is_not_tried_until_it_is_quick() -> None:
    """Or its figures were of the best of three."""
    session: Any = Late([1.2, 0.01, 0.01], [0.0] * 3)
    with pytest.raises(
        PointFailed, match=r"the change took .* s and ended after the traffic: raise method\.duration_s"
    ):
        xdplab_changes.with_change(session, TrialSpec(streams=(), duration_s=0.6), "port-added", 1)
    assert (session.undone, session.journaled) == (1, 0)


@pytest.mark.slow
def test_a_trial_whose_traffic_began_behind_the_change_is_taken_again_and_not_journaled() -> None:
    asked = TrialSpec(streams=(), duration_s=0.5)
    session: Any = Late([0.0] * 3, [100.0] * 3)
    with pytest.raises(PointFailed, match="the change began before the measured traffic"):
        xdplab_changes.with_change(session, asked, "port-added", 1)
    assert (session.undone, session.journaled) == (3, 0)
    session = Late([0.0] * 2, [100.0, -100.0])
    with pytest.raises(PointFailed, match="ended after the traffic"):
        xdplab_changes.with_change(session, asked, "port-added", 1)
    session = Late([0.0] * 2, [100.0, 0.0])
    xdplab_changes.with_change(session, asked.model_copy(update={"duration_s": 3.0}), "port-added", 1)
    assert (session.undone, session.journaled) == (2, 1)
    assert session.figures.journaled()["steps"] == {"added": {"count": 1, "s": 0.25}}


def test_a_round_that_would_end_behind_the_traffic_is_not_begun() -> None:
    assert xdplab_changes._fits(1.0, 0.0, 2, 1.6)
    assert not xdplab_changes._fits(1.0, 0.0, 1, 1.6)
