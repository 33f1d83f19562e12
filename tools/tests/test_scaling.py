# SPDX-License-Identifier: Apache-2.0
"""Network functions over cores: the matrix, what a machine must have, and how far a rate grows."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from lab import micro_records as micro

from xdplab import app
from xdplab.analysis import summarise
from xdplab.forwarders import Dut
from xdplab.model import CpuLayout, InputError, Path as Way, Pipeline
from xdplab.tools import project_root
from xdplab_applications.functions import Functions
from xdplab_applications.functions.nf import NfPoint, NfTraffic, XskFunctions
from xdplab_applications.functions.rows import Scaling, rows_of, scalings
from xdplab_applications.functions.spec import FunctionsSpec

STUDY = project_root() / "suites" / "studies" / "network-functions-scaling.yaml"


def study(**matrix: Any) -> dict[str, Any]:
    return micro.functions(**{"modes": ["xdp", "af_xdp-poll"], "cores": [1, 2, 4], "traffic": ["dropped"], **matrix})


def spec(**matrix: Any) -> FunctionsSpec:
    return FunctionsSpec.model_validate(study(**matrix)["method"])


def program(**matrix: Any) -> XskFunctions:
    """The AF_XDP application of the most cores."""
    return XskFunctions(spec(**matrix).points()[-1], "pass-through", 64)


def dut(cpus: int, driver: str, **layout: Any) -> Dut:
    host = SimpleNamespace(
        cpus=tuple(range(cpus)), runs_on=("", ""), run=lambda argv, **_: SimpleNamespace(stdout=f"driver: {driver}\n")
    )
    port = SimpleNamespace(ifname="b0")
    placed = CpuLayout(**{"tester_tx": 0, "forwarder": 1, **layout})
    return Dut(host, (port, port), Way.THROUGH, placed, Path("/nowhere"))  # type: ignore[arg-type]


def test_the_study_has_rings_ways_and_cores_of_the_publication() -> None:
    chosen = app.read_study(STUDY).method
    assert isinstance(chosen, FunctionsSpec)
    points = chosen.points()
    assert {point.rx_ring for point in points} == {512, 256}
    assert {point.ddio_ways for point in points} == {0, 2, 11}
    assert {point.cores for point in points} == {1, 2, 4, 6, 8, 12}
    assert len({point.title for point in points}) == len(points) == 2 * 4 * 2 * 3 * 6
    assert chosen.published is not None
    assert "11 ways" in chosen.published.finding


def test_a_point_sets_its_channels_and_ways() -> None:
    found = {point.title: point for point in spec(ddio_ways=[0, 11]).points()}
    plain = found["macswap, DDIO as it is, 4 cores, xdp"]
    assert plain.knobs == {"channels": 4}
    assert found["macswap, 11 DDIO ways, 1 cores, xdp"].knobs == {"ddio_ways": 11, "channels": 1}
    (alone,) = spec(cores=[1], modes=["xdp"]).points()
    assert (alone.knobs, alone.title) == ({}, "macswap, xdp")


@pytest.mark.parametrize(
    ("matrix", "words"), [({"cores": [0]}, "cores"), ({"cores": [17]}, "cores"), ({"ddio_ways": [12]}, "ddio_ways")]
)
def test_sizes_out_of_range_are_refused(matrix: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        spec(**matrix)


def test_a_setting_has_one_place() -> None:
    with pytest.raises(InputError, match="channels is set by the method's macswap, 1 cores, xdp as well"):
        micro.points_of({**study(), "knobs": {"channels": 2}})


def test_too_few_cpus_and_a_driver_that_spreads_nothing_are_reported() -> None:
    assert program().unsupported(dut(2, "ice")) == "4 cores: the tester leaves 1 of this machine's 2 CPUs"
    assert "veth gives all frames of a sender to one queue of b0" in str(program().unsupported(dut(8, "veth")))


@pytest.mark.parametrize(
    ("options", "workload", "why"),
    [
        ({}, "pass-through", None),
        ({"functions": ["router"], "mode": "af_xdp"}, "pass-through", None),
        ({"functions": ["macswap"]}, "pass-through", "nf does it with functions=router, not macswap"),
        ({"table_entries": 10**6, "flood_pps": 1}, "pass-through", "of its own: leave out flood_pps, table_entries"),
        ({}, "dropped", "frames pass through it, not so in traffic dropped"),
    ],
)
def test_pipeline_route_takes_nothing_that_it_would_ignore(
    options: dict[str, Any], workload: NfTraffic, why: str | None
) -> None:
    made = XskFunctions(NfPoint.model_validate(options), workload)
    reported = made.unsupported(replace(dut(8, "ice"), pipeline=Pipeline(kind="route", rules=10)))
    assert (
        reported is None if why is None else (reported or "").startswith("pipeline route:10: ") and why in str(reported)
    )


def test_each_core_has_a_queue_and_a_cpu_of_its_own() -> None:
    asked = program()._configuration(dut(8, "ice", tester_rx=2))
    assert (asked["queues"], asked["cpus"]) == (4, [1, 3, 4, 5])
    assert asked["nf"]["flows"] == 1000  # or a card would have one flow to spread
    one = program(cores=[1])._configuration(dut(8, "ice"))
    assert ("queues" in one, one["cpus"], one["nf"]["flows"]) == (False, [1], 1)


def test_a_queue_without_frames_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    made = program()
    received = [5, 9, 0, 2]
    sockets: list[dict[str, Any]] = [
        {"ifname": name, "queue": queue, "rx": rx} for queue, rx in enumerate(received) for name in ("b0", "b1")
    ]
    monkeypatch.setattr(made, "counters", lambda: {"sockets": sockets})
    assert made.idle_cores() == "4 cores: no frame came in at queue 2 of b0"
    for sock in sockets:
        sock["rx"] = sock["rx"] if sock["ifname"] == "b1" else 1
    assert made.idle_cores() is None


def found(rates: dict[int, float | None], noise: tuple[float, ...] = (1.0, 1.01, 0.99, 1.0), **more: Any) -> Scaling:
    chosen = study(modes=["xdp"], cores=sorted(rates))
    trials = []
    for place, (cores, mpps) in enumerate(rates.items()):
        at = micro.point(chosen, f"macswap, {cores} cores, xdp")
        for repetition in range(len(noise)):
            times = noise[(repetition + place) % len(noise)]
            status = {} if mpps else {"status": "unsupported", "reason": "no CPUs"}
            trials.append(micro.trial(at, mpps and mpps * times * 1e6, repetition=repetition, **{**more, **status}))
    method = Functions(spec(modes=["xdp"], cores=sorted(rates)))
    (only,) = scalings(rows_of(method, summarise(micro.run(chosen), trials)))
    return only


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ({1: 2.0, 2: 4.0, 4: 7.6}, "scales up to 4 cores: 3.62 to 3.99 times one core (99 % interval)"),
        ({1: 2.0, 2: 3.9, 4: 4.1}, "does not scale past 2 cores"),
        ({1: 2.0, 2: 1.9, 4: 9.0}, "does not scale past 1 core"),
        ({1: 2.0, 2: None}, "one number of cores was measured"),
        ({1: None, 2: None}, "not measured"),
        ({1: None, 2: 2.0, 4: 4.0}, "whether it scales past 2 cores is undecided: one core: it was not measured"),
        ({1: 2.0, 2: None, 4: 2.02}, "does not scale past 1 core"),  # across one that failed
        ({1: 2.0, 2: None, 4: 7.6}, "scales up to 4 cores: 3.67 to 3.93 times one core (99 % interval)"),
    ],
)
def test_how_far_it_scales_in_words(rates: dict[int, float | None], words: str) -> None:
    scaling = found(rates)
    assert scaling.sentence == words
    assert (scaling.title, [rung.number for rung in scaling.rungs]) == ("macswap, xdp", sorted(rates))
    assert {rung.row.point.reason for rung in scaling.rungs if rung.rate is None} <= {"no CPUs"}


def test_too_few_repetitions_and_too_unlike_ones_say_so() -> None:
    cannot = "whether it scales past 1 core is undecided: "
    few = "of the 3 rounds that an interval needs: raise --repetitions"
    assert found({1: 2.0, 2: 4.0}, noise=(1.0,)).sentence == f"{cannot}1 {few}"
    assert found({1: 2.0, 2: 4.0}, noise=(1.0,) * 2).sentence == f"{cannot}2 {few}"
    assert found({1: 2.0, 2: 2.9}, noise=(1.0, 1.02, 0.99)).sentence == (
        f"{cannot}too little to tell, ask for more repetitions"
    )


def of_each(by: dict[int, tuple[float, ...]], absent: dict[int, tuple[int, ...]]) -> Scaling:
    """Rates of each round; some were not measured."""
    chosen = study(modes=["xdp"], cores=sorted(by))
    trials = [
        micro.trial(micro.point(chosen, f"macswap, {cores} cores, xdp"), mpps * 1e6, repetition=number)
        for cores, rates in by.items()
        for number, mpps in enumerate(rates)
        if number not in absent.get(cores, ())
    ]
    method = Functions(spec(modes=["xdp"], cores=sorted(by)))
    (only,) = scalings(rows_of(method, summarise(micro.run(chosen), trials)))
    return only


def test_what_hinders_the_comparison_of_two_numbers_of_cores_is_said() -> None:
    """Each has three rounds of its own, together they have two."""
    undecided = "whether it scales past 1 core is undecided: 2 of the 3 rounds that an interval needs"
    assert of_each({1: (2.0,) * 4, 2: (4.0,) * 4}, {1: (3,), 2: (2,)}).sentence.startswith(undecided)


def test_a_number_that_was_not_found_is_not_said() -> None:
    """Each step has three rounds, four cores over one have one."""
    scaling = of_each({1: (2.0,) * 5, 2: (4.0,) * 5, 4: (8.0,) * 5}, {1: (3, 4), 4: (0, 1)})
    assert scaling.sentence == "scales up to 4 cores"


def test_what_the_tester_limited_says_nothing_of_scaling() -> None:
    words = "whether it scales past 1 core is undecided: "
    assert found({1: 2.0, 2: 2.1}, sent_pps=2.1e6).sentence == f"{words}the tester was the limit"


@given(st.floats(0.01, 50), st.lists(st.sampled_from([2, 4, 8, 16]), min_size=1, unique=True))
def test_what_grows_with_its_cores_scales_to_the_last(mpps: float, more: list[int]) -> None:
    scaling = found({cores: cores * mpps for cores in [1, *more]}, noise=(1.0, 1.01, 0.99, 1.0, 1.02))
    low, high = re.fullmatch(
        rf"scales up to {max(more)} cores: ([\d.]+) to ([\d.]+) times one core \(99 % interval\)", scaling.sentence
    ).groups()  # type: ignore[union-attr]
    assert float(low) < max(more) < float(high)


def test_rows_whose_cores_do_not_vary_are_no_scaling() -> None:
    assert scalings([]) == []
