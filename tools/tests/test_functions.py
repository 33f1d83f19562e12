# SPDX-License-Identifier: Apache-2.0
"""Network functions: the matrix, what is refused, and how the order of the modes is compared with the published one."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from xdplab import app
from xdplab.analysis.ranks import kendall_tau, rank_agreements
from xdplab.analysis.sockets import socket_rows
from xdplab.cli.sockets import rank_table
from xdplab.model import InputError
from xdplab.model.functions import MODE_OPTIONS, NfMode
from xdplab.model.sockets import SocketStudy, SocketTrial
from xdplab.runner.cells import cells
from xdplab.tools import project_root

SUITES = project_root() / "suites"
STUDY = SUITES / "studies" / "sockets" / "network-functions.yaml"
MODES: list[NfMode] = ["xdp", "af_xdp", "af_xdp-poll", "combined"]


def study(published: dict[str, float] | None = None, **matrix: Any) -> SocketStudy:
    given: dict[str, Any] = {"schema": 1, "name": "s", "workloads": ["dropped", "pass-through", "mixed"]}
    given["network_functions"] = {"functions": ["macswap"], "modes": MODES, **matrix}
    if published is not None:
        given["published"] = {"source": "them", "modes_mpps": {"dropped": {"macswap": published}}}
    return SocketStudy.model_validate(given)


def trial(case: str, pps: float | None, **more: Any) -> SocketTrial:
    mode = {"xdp": {"b0": {"mode": "native"}}, "xsk": []}
    fields = {"workload": "dropped", "case": case, "repetition": 0, "status": "ok", "started": "now", "pps": pps}
    return SocketTrial.model_validate({**fields, "mode": mode, **more})


def ranks(published: dict[str, float], ours: dict[str, list[float]], times: int = 4) -> Any:
    """Each of the values is measured so many times."""
    chosen = study(published)
    trials = [trial(f"macswap, {mode}", mpps * 1e6) for mode, values in ours.items() for mpps in values * times]
    (found,) = rank_agreements(chosen, socket_rows(chosen, trials))
    return found


@pytest.mark.parametrize("suite", ["network_functions", "network_functions_colocation", "network_functions_scaling"])
def test_a_suite_has_a_row_for_each_function_and_mode(suite: str) -> None:
    text = (SUITES / f"{suite}.robot").read_text(encoding="utf-8")
    table = text.partition("*** Test Cases ***    FUNCTION    MODE\n")[2].partition("\n\n")[0].splitlines()
    rows = [tuple(re.split(r"\s{2,}", row)[1:]) for row in table if not row.startswith((" ", "Orders", "Who Is Ahead"))]
    chosen = app.read_socket_study(STUDY.with_name(f"{suite.replace('_', '-')}.yaml"))
    wanted = {("+".join(p.functions), p.mode) for p in (case.function for case in chosen.all_cases()) if p}
    assert len(rows) == len(set(rows))
    assert set(rows) == wanted


def test_the_studys_functions_and_sizes_have_their_published_names() -> None:
    chosen = app.read_socket_study(STUDY, {"network_functions.drop_percents": [0, 50, 100]})
    assert chosen.published is not None
    groups = {(cell.workload, cell.case.function.group) for cell in cells(chosen) if cell.case.function}
    sized = app.read_socket_study(STUDY, {"network_functions.table_entries": [1, 1000, 1000000]})
    worked = app.read_socket_study(STUDY, {"network_functions.work_iterations": [1, 5, 9]})
    for more in (sized, worked):
        groups |= {(cell.workload, cell.case.function.group) for cell in cells(more) if cell.case.function}
    given_names = {(load, name) for load, names in chosen.published.modes_mpps.items() for name in names}
    # of local traffic macswap stands for the others
    assert {(load, name) for load, name in given_names if load != "local"} <= groups
    assert {name for load, name in given_names if load == "local"} == {"macswap"}


def test_sizes_that_change_nothing_are_measured_once() -> None:
    chosen = study(functions=["macswap", "firewall"], table_entries=[1, 10, 100], modes=["xdp"])
    assert [case.title for case in chosen.all_cases() if "dropped" in case.workloads] == [
        "macswap, xdp", "firewall, 1 entries, xdp", "firewall, 10 entries, xdp", "firewall, 100 entries, xdp",
    ]  # fmt: skip


def test_a_chain_behind_a_firewall_has_mixed_traffic() -> None:
    chosen = study(functions=["firewall+load_balancer"], drop_percents=[0, 30], modes=["xdp", "combined"])
    assert [(cell.workload, cell.case.title) for cell in cells(chosen)] == [
        ("mixed", f"firewall+load_balancer, {share} % dropped, {mode}") for mode in ("xdp", "combined")
        for share in (0, 30)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"network_functions.functions": ["switch"]}, "'switch' is none of"),
        ({"network_functions.functions": []}, "network_functions.functions"),
        ({"network_functions.modes": ["dpdk"]}, "network_functions.modes.0"),
        ({"network_functions.table_entries": [0]}, "table_entries"),
        ({"network_functions.table_entries": [1000001]}, "table_entries"),
        ({"network_functions.work_iterations": [4097]}, "work_iterations"),
        ({"network_functions.rx_rings": [500]}, "power of two"),
        ({"network_functions.colour": 1}, "colour"),
        ({"knobs": {"colour": 1}}, "colour"),
        ({"knobs": {"ddio_ways": 99}}, "ddio_ways"),
        ({"network_functions": None}, "cases"),
        ({"cases": [{"title": "x", "program": "nf"}]}, "network_functions"),
        ({"cases": [{"title": "x"}]}, "give the case workloads"),
    ],
)
def test_bad_studies_are_refused_with_one_line(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(STUDY.read_text(encoding="utf-8"))), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        app.read_socket_study(path, change)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_each_mode_says_where_it_runs() -> None:
    assert {mode: options["place"] for mode, options in MODE_OPTIONS.items()} == {
        mode: mode.partition("-")[0] for mode in MODE_OPTIONS
    }


def test_the_same_order_is_one_and_the_reverse_minus_one() -> None:
    theirs = {"xdp": 21.44, "af_xdp": 13.23, "af_xdp-poll": 9.28, "combined": 24.10}
    same = ranks(theirs, {"combined": [6], "xdp": [5], "af_xdp": [4], "af_xdp-poll": [3]})
    assert (same.tau, same.differ, same.unclear) == (1, (), ())
    assert len(same.agree) == 6
    assert same.order == same.published_order == ("combined", "xdp", "af_xdp", "af_xdp-poll")
    reverse = ranks(theirs, {"combined": [3], "xdp": [4], "af_xdp": [5], "af_xdp-poll": [6]})
    assert (reverse.tau, len(reverse.differ), reverse.agree) == (-1, 6, ())
    assert "the other way round: combined above xdp" in reverse.sentence


def test_what_differs_is_named_and_overlap_is_no_verdict() -> None:
    theirs = {"combined": 24.0, "xdp": 21.0, "af_xdp": 13.0, "af_xdp-bp": 14.0}
    found = ranks(theirs, {"xdp": [5, 6], "combined": [4.0, 5.5], "af_xdp": [7, 8], "af_xdp-poll": [1, 1]})
    assert found.unclear == (("combined", "xdp"),)
    assert found.differ == (("combined", "af_xdp"), ("xdp", "af_xdp"))
    assert found.agree == ()
    # three modes in common: combined 4.75, xdp 5.5, af_xdp 7.5 against 24, 21, 13
    assert found.tau == -1
    figures = {figure.mode: (figure.ours, figure.published) for figure in found.figures}
    assert figures["af_xdp-poll"] == (1, None)
    assert figures["af_xdp-bp"] == (None, 14.0)
    assert "not told apart here: combined and xdp" in found.sentence
    assert "af_xdp > xdp > combined > af_xdp-poll" in rank_table([found])


def test_disturbed_repetitions_agree_with_nothing() -> None:
    chosen = study({"xdp": 2.0, "af_xdp": 1.0})
    trials = [
        trial(f"macswap, {mode}", mpps * 1e6, status="disturbed" if mode == "xdp" else "ok")
        for mode, mpps in (("xdp", 5), ("af_xdp", 4))
        for _ in range(4)
    ]
    (found,) = rank_agreements(chosen, socket_rows(chosen, trials))
    assert (found.agree, found.unclear) == ((), (("xdp", "af_xdp"),))


@pytest.mark.parametrize("times", [1, 3])
def test_fewer_than_four_repetitions_agree_with_nothing(times: int) -> None:
    """Three each of two that are the same do not overlap in one study of ten."""
    found = ranks({"xdp": 2.0, "af_xdp": 1.0, "combined": 0.5}, {"xdp": [5], "af_xdp": [4], "combined": [9]}, times)
    assert (found.agree, found.differ, len(found.unclear)) == ((), (), 3)
    assert f"not told apart here ({times} repetitions, 4 are needed): xdp and af_xdp" in found.sentence
    assert ranks({"xdp": 2.0, "af_xdp": 1.0}, {"xdp": [5], "af_xdp": [4]}, 4).agree == (("xdp", "af_xdp"),)


def test_one_swapped_pair_of_four() -> None:
    """Five of six pairs: (5 - 1) / 6."""
    theirs = {"xdp": 4.0, "af_xdp": 3.0, "af_xdp-poll": 2.0, "combined": 1.0}
    found = ranks(theirs, {"xdp": [40], "af_xdp": [20], "af_xdp-poll": [30], "combined": [10]})
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
