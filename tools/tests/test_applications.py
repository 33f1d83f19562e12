# SPDX-License-Identifier: Apache-2.0
"""Method `applications` without traffic: what a study may ask, what programs print, which cure is named."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lab import studies
from lab.records import latency

from xdplab.hosts.kernel import CpuUse
from xdplab.measure import make_method
from xdplab.model import InputError, PointFailed, Unsupported
from xdplab_applications.applications import (
    Applications,
    ApplicationsSpec,
    busy_cpus,
    diagnosis,
    ends as ends_module,
    price_of,
)
from xdplab_applications.applications.diagnosis import Tried, diagnose, unavailable_offloads
from xdplab_applications.applications.ends import Ends, TcpCounts
from xdplab_applications.applications.programs import Broken, Outcome, iperf3_outcome
from xdplab_applications.applications.spec import Workload, features_of

IPERF3 = Path(__file__).with_name("data") / "iperf3-bidir.json"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workloads": ["sing"]}, "'sing' is none of bulk"),
        ({"workloads": ["bulk:0"]}, "give 1 to 100 connections"),
        ({"workloads": ["udp:2"]}, "give 1 to 1 connections"),
        ({"offloads": ["checksum+wings"]}, "'wings' is not none, default, or some of checksum"),
        ({"offloads": ["vlan+vlan"]}, "has one of them twice"),
        ({"mtus": [20]}, "greater than or equal to 68"),
        ({"vlan": 4095}, "less than or equal to 4094"),
    ],
)
def test_what_cannot_be_asked_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        studies.study(method={"name": "applications", **given})


def test_a_level_has_only_what_differs() -> None:
    one = ApplicationsSpec(name="applications", workloads=("bulk", "requests:16"))
    assert list(one.levels()) == [{"workload": "bulk"}, {"workload": "requests:16"}]
    many = ApplicationsSpec(
        name="applications", workloads=("bulk", "udp"), directions=("both", "forward"), offloads=("none", "vlan"),
        mtus=(1500,),
    )  # fmt: skip
    found = list(many.levels())
    assert len(found) == 2 * 2 + 2  # datagrams have one direction
    assert {many.setting(each, "mtu") for each in found} == {1500}
    assert [each["direction"] for each in found if each["workload"] == "udp"] == ["forward"] * 2
    assert str(Workload.of("requests:16")) == "requests, 16 connections"


def test_offload_vlan_has_a_tag_and_others_only_where_the_study_has_one() -> None:
    untagged, tagged = (ApplicationsSpec(name="applications", vlan=vlan) for vlan in (None, 7))
    assert {untagged.tag(features_of(each)) for each in ("none", "checksum", "gro")} == {None}
    assert {untagged.tag(features_of(each)) for each in ("vlan", "checksum+vlan")} == {10}
    assert {tagged.tag(features_of(each)) for each in ("none", "gro", "vlan")} == {7}


def test_default_offloads_are_those_that_the_other_end_leaves_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a veth has them when it is made: one that is switched off is named and refuses nothing."""
    on = {"a0": {"tx-checksumming": "on"}, "c0": {"tx-checksumming": "on", "tcp-segmentation-offload": "on"}}
    monkeypatch.setattr(ends_module, "port_offloads", lambda _, ifname: on[ifname])
    monkeypatch.setattr(diagnosis, "is_veth", lambda host, _: host == "veth")
    a0, c0 = (SimpleNamespace(host="veth", ifname=ifname) for ifname in on)
    ports = (SimpleNamespace(role="b0"), SimpleNamespace(role="b1"))
    asked = Ends(a0, c0, ports, features_of("default"), best_effort=True)  # type: ignore[arg-type]
    asked.verify()
    assert asked.without_unavailable().offloads == ("checksum",)
    said = "segmentation offload (TSO) stays off at a0: "
    program = f"{said}the XDP program in native mode at the other end switches it off"
    driver = f"{said}the driver does not switch it on"
    assert unavailable_offloads(asked, ["b0", "b1"]) == program
    assert {unavailable_offloads(asked, native) for native in ([], ["b1"])} == {driver}
    a0.host = "a card"
    assert unavailable_offloads(asked, ["b0"]) == driver
    with pytest.raises(Unsupported, match="tcp-segmentation-offload stays off at a0"):
        replace(asked, best_effort=False).verify()
    on["a0"]["tcp-segmentation-offload"] = "on"
    assert not unavailable_offloads(asked, ["b0"])
    assert asked.without_unavailable() == asked


def test_a_pipeline_that_routes_is_refused() -> None:
    study = studies.study(method={"name": "applications"}, pipeline="route:10")
    with pytest.raises(InputError, match="method applications has A and C in one network"):
        make_method(study.method).check(study)


def test_iperf3_is_read_both_ways() -> None:
    report = json.loads(IPERF3.read_text(encoding="utf-8"))
    found = iperf3_outcome(report)
    assert found.goodput_mbps == pytest.approx(11103.65 + 10317.75, abs=0.1)
    for broken, said in (({"error": "no route"}, "no route"), ({"end": {"sum_received": {}}}, "'seconds'")):
        with pytest.raises(Broken, match=said):
            iperf3_outcome(broken)


def test_a_price_is_of_what_came_through() -> None:
    assert price_of(Outcome(elapsed_s=1, goodput_mbps=2000), 1.5) == {"cpu_s_per_gbit": 0.75}
    assert price_of(Outcome(elapsed_s=1, requests_per_s=50_000), 1.5) == {"cpu_us_per_request": 30}
    assert price_of(Outcome(elapsed_s=1, requests_per_s=50_000), None) == {}
    assert price_of(Outcome(elapsed_s=1, goodput_mbps=0.0, latency=latency([5])), 1.0) == {}


class Played:
    """Programs at ends whose settings break or slow TCP."""

    def __init__(self, breaks: set[str], slows: set[str] = frozenset(), **set_to: Any) -> None:  # type: ignore[assignment]
        self.breaks, self.slows = breaks, slows
        self.offloads = features_of(set_to.get("offloads", "none"))
        self.mtu = set_to.get("mtu", 1500)
        self.ends: Any = self
        self.now: tuple[set[str], int] = ({*self.offloads}, self.mtu)

    class client:  # noqa: N801 - as `Ends` has it
        ifname = "a0"

    def set_offloads(self, wanted: tuple[str, ...]) -> None:
        self.now = ({*wanted}, self.now[1])

    def set_mtu(self, mtu: int) -> None:
        self.now = (self.now[0], mtu)

    def off(self, feature: str) -> str:
        return f"switch {feature} off"

    def tried(self, duration_s: float) -> Tried:
        on = self.now[0] | ({"mtu"} if self.now[1] > 1500 else set())
        broken = "nothing came through" if on & self.breaks else ""
        mbps = 0.0 if broken else 10.0 if on & self.slows else 1000.0
        return Tried(mbps, broken, TcpCounts(100, 3 if broken else 0, 2 if "checksum" in on & self.breaks else 0))


@pytest.mark.parametrize(
    ("breaks", "slows", "set_to", "said"),
    [
        (
            {"checksum"},
            (),
            {"offloads": "checksum"},
            "checksum offload breaks TCP: nothing came through (2 segments arrived",
        ),
        ({"checksum"}, (), {"offloads": "checksum+segmentation"}, "checksum offload and segmentation offload (TSO)"),
        ((), {"segmentation"}, {"offloads": "checksum+segmentation"}, "segmentation offload (TSO) slows TCP: only 10"),
        ({"vlan"}, (), {"offloads": "checksum+vlan"}, "VLAN offload breaks TCP"),
        ({"mtu"}, (), {"mtu": 3000}, "an MTU of 3000 above the forwarder's 1500 breaks TCP"),
        ((), {"gro"}, {"offloads": "gro"}, "generic receive offload (GRO) at the forwarder's ports slows TCP"),
        ({"vlan", "mtu"}, (), {"offloads": "vlan", "mtu": 3000}, "VLAN offload combined with an MTU of 3000"),
        (
            {"mtu"},
            {"gro"},
            {"offloads": "gro", "mtu": 3000},
            "generic receive offload (GRO) at the forwarder's ports combined with an MTU of 3000",
        ),
        ({"mtu"}, {"gro"}, {"offloads": "vlan", "mtu": 3000}, "an MTU of 3000 above the forwarder's 1500 breaks TCP"),
        ((), (), {"offloads": "checksum+segmentation+vlan+gro", "mtu": 3000}, None),
    ],
)
def test_the_setting_that_breaks_or_slows_tcp_is_named(
    monkeypatch: pytest.MonkeyPatch, breaks: set[str], slows: set[str], set_to: dict[str, Any], said: str | None
) -> None:
    played = Played({*breaks}, {*slows}, **set_to)
    monkeypatch.setattr(diagnosis, "_try", Played.tried)
    found = diagnose(played, 1500, "native copy")  # type: ignore[arg-type]
    assert played.now == ({*played.offloads}, played.mtu)  # everything is as it was
    if said is None:
        assert found is None
        return
    assert found is not None
    assert found.text.startswith(said)
    assert found.text.endswith("fixes it: 1,000 Mbit/s with it")
    assert found.breaks == bool(breaks)


@pytest.mark.parametrize("first_is_silent", [True, False])
def test_what_comes_through_in_one_of_two_tries_is_slow_and_not_broken(
    monkeypatch: pytest.MonkeyPatch, first_is_silent: bool
) -> None:
    played, as_set = Played(set(), {"gro"}, offloads="gro"), []

    def tried(played: Played, duration_s: float) -> Tried:
        if not played.now[0]:
            return played.tried(duration_s)
        as_set.append(played.tried(duration_s))
        silent = first_is_silent == (len(as_set) == 1)
        return Tried(0.0, "not a byte of bulk", as_set[-1].counts) if silent else as_set[-1]

    monkeypatch.setattr(diagnosis, "_try", tried)
    found = diagnose(played, 1500, "native copy")  # type: ignore[arg-type]
    assert found is not None
    assert not found.breaks
    assert "slows TCP: only 10 Mbit/s" in found.text


def test_one_slow_try_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = iter([10.0, 1000.0, 1000.0, 1000.0])
    monkeypatch.setattr(diagnosis, "_try", lambda *_: Tried(next(tries), "", TcpCounts(9, 0, 0)))
    assert diagnose(Played(set(), offloads="gro"), 1500, "native copy") is None  # type: ignore[arg-type]


def test_one_silent_try_that_no_setting_explains_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = iter(["not every connection was made", ""])
    monkeypatch.setattr(diagnosis, "_try", lambda *_: Tried(0.0, next(tries), TcpCounts(9, 4, 0)))
    assert diagnose(Played(set()), 1500, "native copy") is None  # type: ignore[arg-type]
    assert next(tries, None) is None  # it was tried again


def test_what_no_setting_explains_fails_the_point(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played({"checksum", "itself"}, offloads="checksum")
    monkeypatch.setattr(diagnosis, "_try", lambda *_: Tried(0.0, "nothing came through", TcpCounts(9, 4, 0)))
    with pytest.raises(PointFailed, match=r"nothing came through; 4 segments retransmitted; XDP is in generic mode"):
        diagnose(played, 1500, "generic copy")  # type: ignore[arg-type]


def test_busy_cpus_are_those_that_were_neither_idle_nor_taken() -> None:
    before = {cpu: CpuUse(softirq_ns=0, steal_ns=0, away_ns=10**9) for cpu in (0, 1, 2)}
    after = {
        cpu: CpuUse(softirq_ns=0, steal_ns=0, away_ns=10**9 + away_ns)
        for cpu, away_ns in ((0, 0), (1, 10**9 // 2), (2, 3 * 10**9))
    }
    assert busy_cpus(before, after, 1.0) == pytest.approx(1.5)


def test_a_goal_is_asked_of_one_workload() -> None:
    method = Applications(ApplicationsSpec(name="applications"))
    points: list[Any] = [type("P", (), {"levels": {"workload": text}}) for text in method.spec.workloads]
    asked = {
        figure.key: [point.levels["workload"] for point in method.goal_points(figure, points)]
        for figure in method.figures
        if figure.goal
    }
    assert asked == {"goodput_mbps": ["bulk"], "p50_us": ["requests"], "p99_us": ["requests"]}
