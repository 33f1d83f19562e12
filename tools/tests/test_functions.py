# SPDX-License-Identifier: Apache-2.0
"""Network functions: the matrix, what is refused, and how the order of the modes is compared with the published one."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st
from lab import micro_records as micro

from xdplab import app
from xdplab.analysis import summarise
from xdplab.model import InputError, Point, StudySpec, TrialRecord
from xdplab.model.published import NfMode
from xdplab.tools import project_root
from xdplab_applications.functions import Functions
from xdplab_applications.functions.nf import MODE_OPTIONS, NfPoint
from xdplab_applications.functions.rows import RankAgreement, kendall_tau, orders, rows_of
from xdplab_applications.functions.spec import FunctionsSpec

SUITES = project_root() / "suites"
STUDY = SUITES / "studies" / "network-functions.yaml"
MODES: list[NfMode] = ["xdp", "af_xdp", "af_xdp-poll", "combined"]


def study(published: dict[str, float] | None = None, **matrix: Any) -> dict[str, Any]:
    if published is not None:
        matrix["published"] = {"source": "them", "modes_mpps": {"dropped": {"macswap": published}}}
    return micro.functions(**{"modes": MODES, "traffic": ["dropped", "pass-through", "mixed"], **matrix})


def agreements(spec: dict[str, Any], trials: list[TrialRecord]) -> list[RankAgreement]:
    run = micro.run(spec)
    assert isinstance(run.study.method, FunctionsSpec)
    method = Functions(run.study.method)
    return orders(method.spec, rows_of(method, [each for each in summarise(run, trials) if each.repetitions]))


def points(spec: StudySpec) -> list[tuple[str, NfPoint]]:
    return [(str(p.levels["traffic"]), _function(p)) for p in app.prepare(spec).plan.points]


def _function(point: Point) -> NfPoint:
    return NfPoint.model_validate(point.forwarder.options)


def ranks(published: dict[str, float], ours: dict[str, list[float]], times: int = 4) -> Any:
    """Each of the values is measured so many times."""
    chosen = study(published)
    trials = [
        micro.trial(micro.point(chosen, f"macswap, {mode}", traffic="dropped"), mpps * 1e6, repetition=n)
        for mode, values in ours.items()
        for n, mpps in enumerate(values * times)
    ]
    (found,) = agreements(chosen, trials)
    return found


@pytest.mark.parametrize("suite", ["network_functions", "network_functions_colocation", "network_functions_scaling"])
def test_a_suite_has_a_row_for_each_function_and_mode(suite: str) -> None:
    text = (SUITES / f"{suite}.robot").read_text(encoding="utf-8")
    table = text.partition("*** Test Cases ***    FUNCTION    MODE\n")[2].partition("\n\n")[0].splitlines()
    rows = [tuple(re.split(r"\s{2,}", row)[1:]) for row in table if not row.startswith((" ", "Orders", "Who Is Ahead"))]
    chosen = app.read_study(STUDY.with_name(f"{suite.replace('_', '-')}.yaml"))
    wanted = {("+".join(function.functions), function.mode) for _, function in points(chosen)}
    assert len(rows) == len(set(rows))
    assert set(rows) == wanted


def test_the_studys_functions_and_sizes_have_their_published_names() -> None:
    chosen = app.read_study(STUDY, {"method.drop_percents": [0, 50, 100]})
    assert isinstance(chosen.method, FunctionsSpec)
    published = chosen.method.published
    assert published is not None
    groups = {(load, function.group) for load, function in points(chosen)}
    sized = app.read_study(STUDY, {"method.table_entries": [1, 1000, 1000000]})
    worked = app.read_study(STUDY, {"method.work_iterations": [1, 5, 9]})
    for more in (sized, worked):
        groups |= {(load, function.group) for load, function in points(more)}
    given_names = {(load, name) for load, names in published.modes_mpps.items() for name in names}
    # of local traffic macswap stands for the others
    assert {(load, name) for load, name in given_names if load != "local"} <= groups
    assert {name for load, name in given_names if load == "local"} == {"macswap"}


def test_sizes_that_change_nothing_are_measured_once() -> None:
    chosen = study(functions=["macswap", "firewall"], table_entries=[1, 10, 100], modes=["xdp"], traffic=["dropped"])
    assert [each.forwarder.title for each in micro.points_of(chosen)] == [
        "macswap, xdp", "firewall, 1 entries, xdp", "firewall, 10 entries, xdp", "firewall, 100 entries, xdp",
    ]  # fmt: skip


def test_a_chain_behind_a_firewall_has_mixed_traffic() -> None:
    chosen = study(functions=["firewall+load_balancer"], drop_percents=[0, 30], modes=["xdp", "combined"])
    assert [(each.levels["traffic"], each.forwarder.title) for each in micro.points_of(chosen)] == [
        ("mixed", f"firewall+load_balancer, {share} % dropped, {mode}") for mode in ("xdp", "combined")
        for share in (0, 30)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method.functions": ["switch"]}, "'switch' is none of"),
        ({"method.functions": []}, "method.functions"),
        ({"method.modes": ["dpdk"]}, "method.modes.0"),
        ({"method.table_entries": [0]}, "table_entries"),
        ({"method.table_entries": [1000001]}, "table_entries"),
        ({"method.work_iterations": [4097]}, "work_iterations"),
        ({"method.rx_rings": [500]}, "power of two"),
        ({"method.colour": 1}, "colour"),
        ({"knobs": {"colour": 1}}, "colour"),
        ({"knobs": {"ddio_ways": 99}}, "ddio_ways"),
        ({"method.ddio_ways": [2], "knobs": {"ddio_ways": 3}}, "knobs: ddio_ways is set by the method's router"),
    ],
)
def test_bad_studies_are_refused_with_one_line(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(STUDY.read_text(encoding="utf-8"))), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        app.prepare(app.read_study(path, change))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_each_mode_says_where_it_runs() -> None:
    assert {mode: options["place"] for mode, options in MODE_OPTIONS.items()} == {
        mode: mode.partition("-")[0] for mode in MODE_OPTIONS
    }


def test_the_same_order_is_one_and_the_reverse_minus_one() -> None:
    theirs = {"xdp": 21.44, "af_xdp": 13.23, "af_xdp-poll": 9.28, "combined": 24.10}
    same = ranks(theirs, {"combined": [60], "xdp": [20], "af_xdp": [7], "af_xdp-poll": [2]})
    assert (same.tau, same.differ, same.alike, same.undecided) == (1, (), (), ())
    assert len(same.agree) == 6
    assert same.published_order == ("combined", "xdp", "af_xdp", "af_xdp-poll")
    assert same.medians == ("combined 60", "xdp 20", "af_xdp 7", "af_xdp-poll 2")
    reverse = ranks(theirs, {"combined": [2], "xdp": [7], "af_xdp": [20], "af_xdp-poll": [60]})
    assert (reverse.tau, len(reverse.differ), reverse.agree) == (-1, 6, ())
    assert "the other way round: combined above xdp" in reverse.sentence


def test_what_differs_is_named_and_overlap_is_no_verdict() -> None:
    theirs = {"combined": 24.0, "xdp": 21.0, "af_xdp": 13.0, "af_xdp-bp": 14.0}
    found = ranks(theirs, {"xdp": [5, 6], "combined": [6.5, 4.0], "af_xdp": [27, 28], "af_xdp-poll": [1, 1]})
    assert (found.undecided, found.alike) == ((("combined", "xdp"),), ())
    assert found.differ == (("combined", "af_xdp"), ("xdp", "af_xdp"))
    assert found.agree == ()
    assert found.tau is None  # two of the three modes in common are not told apart: there is no order
    figures = {figure.mode: (figure.ours, figure.published) for figure in found.figures}
    assert figures["af_xdp-poll"] == (1, None)
    assert figures["af_xdp-bp"] == (None, 14.0)
    assert "too little to tell here: combined and xdp" in found.sentence


def test_only_an_interval_near_one_is_no_measurable_difference() -> None:
    theirs = {"combined": 24.0, "xdp": 21.0, "af_xdp": 13.0}
    found = ranks(theirs, {"combined": [4.0, 4.01], "xdp": [4.01, 4.0], "af_xdp": [3.0, 6.0]}, 5)
    assert found.alike == (("combined", "xdp"),)
    assert found.sentence == (
        "no measurable difference here: combined and xdp; too little to tell here: combined and af_xdp, xdp and af_xdp"
    )


def test_tau_by_medians_is_not_shown_next_to_rounds_that_say_the_opposite() -> None:
    """In the rounds that both have xdp is ahead; af_xdp alone was measured in more, on a faster machine."""
    chosen = study({"xdp": 10.0, "af_xdp": 5.0})
    rates = {"xdp": [2.0, 2.02, 1.98, 2.0, 2.01], "af_xdp": [1.0, 1.01, 0.99, 1.0, 1.0, *[4.0] * 6]}
    trials = [
        micro.trial(
            micro.point(chosen, f"macswap, {mode}", traffic="dropped"),
            mpps * 1e6,
            repetition=n,
        )
        for mode, values in rates.items()
        for n, mpps in enumerate(values)
    ]
    (found,) = agreements(chosen, trials)
    assert [figure.ours for figure in found.figures] == [2.0, 4.0]
    assert (found.tau, found.sentence) == (None, "as published: xdp above af_xdp")


def test_fewer_than_three_repetitions_agree_with_nothing() -> None:
    found = ranks({"xdp": 2.0, "af_xdp": 1.0, "combined": 0.5}, {"xdp": [50], "af_xdp": [4], "combined": [900]}, 2)
    assert (found.agree, found.differ, len(found.undecided)) == ((), (), 3)
    few = "2 of the 3 rounds that an interval needs: raise --repetitions"
    assert f"too little to tell here ({few}): xdp and af_xdp, xdp and combined, af_xdp and combined" in found.sentence
    assert ranks({"xdp": 2.0, "af_xdp": 1.0}, {"xdp": [50], "af_xdp": [4]}, 3).agree == (("xdp", "af_xdp"),)


def test_one_swapped_pair_of_four() -> None:
    """Five of six pairs: (5 - 1) / 6."""
    theirs = {"xdp": 4.0, "af_xdp": 3.0, "af_xdp-poll": 2.0, "combined": 1.0}
    found = ranks(theirs, {"xdp": [81], "af_xdp": [9], "af_xdp-poll": [27], "combined": [3]})
    assert found.tau == pytest.approx(4 / 6)
    assert found.differ == (("af_xdp", "af_xdp-poll"),)


def test_published_ties_are_no_pairs() -> None:
    theirs = {"xdp": 9.38, "combined": 2.56, "combined-bp": 2.56}
    found = ranks(theirs, {"xdp": [3], "combined": [2]})
    assert (found.agree, found.differ) == ((("xdp", "combined"),), ())


@pytest.mark.parametrize("theirs", [{}, {"combined-bp": 3.0}, {"xdp": 1.0}])
def test_too_little_in_common_has_no_tau(theirs: dict[str, float]) -> None:
    found = ranks(theirs, {"xdp": [3], "combined": [2]})
    assert found.tau is None
    assert found.sentence in ("nothing published to compare with", "fewer than two modes in common")


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=2, max_size=4))
def test_tau_counts_pairs(values: list[tuple[int, int]]) -> None:
    """Against the definition, where there are no ties; scaling changes nothing."""
    ours = dict(zip(MODES, (float(mine) for mine, _ in values), strict=False))
    theirs = dict(zip(MODES, (float(other) for _, other in values), strict=False))
    tau = kendall_tau(ours, theirs)
    assert tau == kendall_tau({mode: 7 * value for mode, value in ours.items()}, theirs)
    pairs = [(a, b) for n, a in enumerate(ours) for b in list(ours)[n + 1 :]]
    signs = [(ours[a] - ours[b]) * (theirs[a] - theirs[b]) for a, b in pairs]
    if all(signs):
        assert tau == pytest.approx(sum(1 if sign > 0 else -1 for sign in signs) / len(pairs))
