# SPDX-License-Identifier: Apache-2.0
"""The sentence of a socket study: who is ahead, what limits, or why that cannot be said; the same everywhere."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from lab.command import Done
from lab.socket_records import STUDY, staged, store, trial
from robot.api import SkipExecution

from xdplab.analysis.socket_answer import SocketAnswer, socket_answer
from xdplab.analysis.sockets import socket_rows
from xdplab.model.sockets import SocketStudy, SocketTrial
from xdplab.robot.sockets import SocketLibrary

TWO = {"cases": [{"title": "one"}, {"title": "two"}, {"title": "three"}], "workloads": ["rxdrop", "l2fwd", "stages"]}


def rates(of: Mapping[str, Sequence[float]], **more: Any) -> list[SocketTrial]:
    """Repetitions of cases, in Mpps."""
    return [
        trial(value * 1e6, case=case, repetition=n, **more)
        for case, values in of.items()
        for n, value in enumerate(values)
    ]


def told(trials: Sequence[SocketTrial], study: dict[str, Any] | None = None) -> SocketAnswer:
    return socket_answer(socket_rows(SocketStudy.model_validate({**STUDY, **(study or TWO)}), trials))


def test_who_is_ahead_is_told_with_the_ratio_to_the_next() -> None:
    found = told(rates({"one": [2.0, 2.1, 1.9, 2.0], "two": [4.0, 3.8, 4.2, 4.0], "three": [1, 1, 1, 1]}))
    assert found.said
    assert found.sentence == (
        "rxdrop: two is ahead with 4 Mpps, 2 times as much as one, the next (1.81 times where their repetitions "
        "are closest)."
    )


def test_overlapping_repetitions_are_not_told_apart() -> None:
    found = told(rates({"one": [2.0, 2.1, 1.9, 3.9], "two": [4.0, 3.8, 4.2, 4.0], "three": [1, 1, 1, 1]}))
    assert found == SocketAnswer(sentence="rxdrop: two (4 Mpps) and one (2.05 Mpps) cannot be told apart.", said=True)


@pytest.mark.parametrize(("count", "times"), [(1, "1 repetition"), (3, "3 repetitions")])
def test_fewer_than_four_repetitions_name_nobody(count: int, times: str) -> None:
    found = told(rates({"one": [1.0] * count, "two": [12_000.0] * 5}))
    words = f"Who is ahead cannot be said: too few: {times} of a case, 4 are needed."
    assert found == SocketAnswer(sentence=words, said=False)


def test_who_took_all_that_was_sent_is_not_put_behind() -> None:
    limited = rates({"one": [0.645, 0.644, 0.646, 0.645]}, sent_pps=0.645e6)
    free = rates({"two": [2.0, 2.1, 1.9, 2.0]}, sent_pps=2.8e6)
    found = told([*limited, *free])
    assert found.sentence == (
        "rxdrop: who is ahead cannot be said: one (0.645 Mpps) took all that the tester sent, so the tester was the "
        "limit."
    )
    assert not found.said
    fastest = told([*rates({"one": [3.0] * 4}, sent_pps=3.01e6), *free])
    assert fastest.sentence.startswith("rxdrop: one is ahead with 3 Mpps, the tester's limit, at least 1.5 times")


def test_failed_and_disturbed_cells_are_named_and_rank_nowhere() -> None:
    disturbed = rates({"one": [9.0] * 4}, status="disturbed")
    clean = rates({"two": [2.0] * 4, "three": [1.0] * 4})
    failed = trial(None, workload="l2fwd", case="two", status="failed", reason="it fell over")
    found = told([*disturbed, *clean, failed])
    assert found.sentence == (
        "rxdrop: two is ahead with 2 Mpps, 2 times as much as three, the next (2 times where their "
        "repetitions are closest). Failed: l2fwd: two. Disturbed in most repetitions: rxdrop: one."
    )
    busy = told(rates({"one": [9.0] * 4, "two": [2.0] * 4}, status="disturbed"))
    assert not busy.said
    assert busy.sentence.startswith("Who is ahead cannot be said: every case was disturbed in most repetitions")
    assert told([*disturbed, *rates({"two": [2.0] * 4})]).sentence.startswith(
        "rxdrop: who is ahead cannot be said: the machine was disturbed."
    )


def test_workloads_and_rates_are_told_for_themselves_and_less_latency_is_ahead() -> None:
    stages = [
        staged([us * 1000] * 5, case=case, repetition=n, rate_pps=rate)
        for case, us in (("one", 20), ("two", 30))
        for rate in (128.0, 5000.0)
        for n in range(4)
    ]
    found = told([*stages, *rates({"one": [1.0] * 4}), *rates({"two": [1.0] * 4}, workload="l2fwd")])
    assert found.sentence == " ".join(
        f"stages at {rate} frames per second: one is ahead with 20 µs, p50, 1.5 times as fast as two, the next "
        "(1.5 times where their repetitions are closest)."
        for rate in ("128", "5,000")
    )


def test_modes_are_compared_within_a_function_only() -> None:
    study = {
        "workloads": ["dropped"],
        "cases": [],
        "network_functions": {"functions": ["router", "macswap"], "modes": ["xdp", "af_xdp"]},
    }
    mpps = {"router, xdp": 2.0, "router, af_xdp": 1.0, "macswap, xdp": 30.0, "macswap, af_xdp": 40.0}
    found = told(rates({case: [value] * 4 for case, value in mpps.items()}, workload="dropped"), study)
    assert "dropped: of router xdp is ahead with 2 Mpps, 2 times as much as af_xdp" in found.sentence
    assert "; of macswap af_xdp is ahead with 40 Mpps, 1.33 times as much as xdp" in found.sentence


def test_one_case_and_none() -> None:
    assert told(rates({"one": [1.0] * 4})).sentence == (
        "Who is ahead cannot be said: no two cases of one workload were measured."
    )
    assert told([trial(None, status="unsupported", reason="no")]).sentence == "Nothing was measured."


@pytest.mark.parametrize("count", [2, 4])
def test_it_is_the_same_on_the_console_in_the_report_and_for_robot(
    count: int, cli: Callable[..., Done], results: Path
) -> None:
    trials = rates({"one": [11_300.0] * count, "two": [0.01] * count})
    folder = store(results, trials, TWO)
    sentence = told(trials).sentence
    out = cli("show").out
    assert sentence in out
    assert "e+" not in out
    assert cli("report").code == 0
    assert f'<p class="answer">{sentence}</p>' in folder.report.read_text(encoding="utf-8")
    library = SocketLibrary()
    library._rows = socket_rows(SocketStudy.model_validate({**STUDY, **TWO}), trials)
    if count < 4:
        with pytest.raises(SkipExecution, match=sentence):
            library.who_is_ahead_is_said()
    else:
        assert library.who_is_ahead_is_said() == sentence
        assert "1,130,000 times" in sentence
