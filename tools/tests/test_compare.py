# SPDX-License-Identifier: Apache-2.0
"""Two runs side by side: shared points, their ratio, and what differs in the environment."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab.claims import ratio
from lab.command import Done
from lab.records import environment, point, run_record, trial

from xdplab.analysis import compare_points, summarise
from xdplab.analysis.runs import compare_runs, environment_difference
from xdplab.analysis.words import verdict
from xdplab.cli.tables import comparison_table
from xdplab.results import RunFolder, new_run

A, B, C = point("fake:seed=1"), point("fake:seed=2"), point("fake:seed=3")
NOISE = (1.0, 1.013, 0.991, 1.021, 0.984)


def trials(at: Any, us: float, seed: int = 0) -> list[Any]:
    return [trial(at, n, [int(us * 1000 * NOISE[(n * 2 + seed) % 5])] * 5) for n in range(5)]


def test_only_rounds_that_both_have_count() -> None:
    one, other = summarise(
        run_record(A, B), [trial(A, n, [1000]) for n in (0, 1, 2)] + [trial(B, n, [3000]) for n in (1, 2, 3)]
    )
    found = compare_points(one, other)
    assert found
    assert ratio(found).rounds == 2
    assert ratio(found).ratio == pytest.approx(3, rel=0.002)
    assert verdict(found) == "undecided: 2 of the 3 rounds that an interval needs: raise --repetitions"
    lone, away = summarise(run_record(A, B), [trial(A, 0), trial(B, 1)])
    assert compare_points(lone, away) is None


def test_a_comparison_says_who_is_faster() -> None:
    one, other = summarise(run_record(A, B), [*trials(A, 10), *trials(B, 30, seed=1)])
    for pair in ((one, other), (other, one)):
        found = compare_points(*pair)
        assert found
        assert verdict(found) == "fake:seed=1 is faster"


def test_runs_are_compared_in_the_points_they_share() -> None:
    first = summarise(run_record(A, B), [*trials(A, 10), *trials(B, 10)])
    second = summarise(run_record(B, C), [*trials(B, 5, seed=1), *trials(C, 5)])
    ((before, after, metrics),) = compare_runs(first, second)
    assert (before.point_id, after.point_id) == (B.id, B.id)
    assert ratio(metrics["p50_us"]).ratio == pytest.approx(2, rel=0.01)


def test_loss_stands_next_to_the_verdict_of_two_runs() -> None:
    """The later run, which lost 40 % of its frames, was "faster", and nothing else was said."""
    first = summarise(run_record(A), trials(A, 30))
    second = summarise(run_record(A), [trial(A, n, [10_000] * 3, sent=5) for n in range(5)])
    table = comparison_table("one", "two", compare_runs(first, second), {}, "s")
    assert "fake:seed=1 (after) lost 40 %, counted as infinitely late" in table


def test_rows_of_two_frame_sizes_have_two_names() -> None:
    small, large = point(), point(frame_bytes=1500)
    run = [*trials(small, 10), *trials(large, 10)]
    first, second = (summarise(run_record(small, large), run) for _ in range(2))
    table = comparison_table("one", "two", compare_runs(first, second), {}, "s")
    assert "fake, 64-byte frames " in table
    assert "fake, 1500-byte frames " in table


def test_only_what_differs_between_environments_is_reported() -> None:
    port = {"ifname": "a0-12ab", "mac": "02:00", "ethtool -k": "Features for a0-12ab:\ntx: on", "mtu": "1500"}
    moved = {"ifname": "a0-34cd", "mac": "02:01", "ethtool -k": "Features for a0-34cd:\ntx: off", "mtu": "1500"}
    first = run_record(A, environment=environment(ports={"a0": port}, sysctls={"x": "1", "gone": "1"}))
    second = run_record(A, environment=environment(ports={"a0": moved}, sysctls={"x": "2", "new": "1"}, kernel="6.19"))
    found = environment_difference(first, second)
    assert set(found) == {"kernel", "ports.a0.ethtool -k", "sysctls.x", "sysctls.gone", "sysctls.new"}
    assert found["kernel"] == ("6.18.0", "6.19")
    assert found["sysctls.gone"] == ("1", None)


def test_names_of_interfaces_are_no_difference() -> None:
    first, second = (
        run_record(
            A, environment=environment(ports={"a0": {"ifname": f"a0-{tag}", "ethtool -g": f"Ring a0-{tag}:\nRX: 1"}})
        )
        for tag in ("12ab", "34cd")
    )
    assert environment_difference(first, second) == {}


def test_an_offload_is_a_difference() -> None:
    first, second = (
        run_record(A, environment=environment(ports={"a0": {"ifname": f"a0-{tag}", "ethtool -k": reported}}))
        for tag, reported in (("12ab", "Features for a0-12ab:\ntx-checksumming: on"),
                          ("34cd", "Features for a0-34cd:\ntx-checksumming: off"))
    )  # fmt: skip
    assert set(environment_difference(first, second)) == {"ports.a0.ethtool -k"}


def store(results: Path, us: float, **fields: Any) -> RunFolder:
    made = new_run(results, "fake-study")
    made.head(run_record(A, run_id=made.name, **fields))
    for record in trials(A, us, seed=int(us) % 2):
        made.append(record)
    return made


def test_compare_on_the_command_line(cli: Callable[..., Done], results: Path) -> None:
    first, second = store(results, 10), store(results, 5, environment=environment(kernel="6.19.0"))
    reported = cli("compare", first.name, second.name, "--json").json()
    (found,) = reported["comparisons"]
    assert reported["trend"] == []  # two runs are none
    assert (found["reference"], found["run"]) == (first.name, second.name)
    assert found["environment"] == {"kernel": ["6.18.0", "6.19.0"]}
    assert found["points"][0]["p50_us"]["interval"]["ratio"] == pytest.approx(2, rel=0.01)
    text = cli("compare", first.path, second.path).out
    assert "kernel: 6.18.0 -> 6.19.0" in text
    assert "faster" in text
    assert "environment: the same" in cli("compare", first.name, first.name).out


def test_a_step_in_a_series_of_runs_is_found_with_what_changed(cli: Callable[..., Done], results: Path) -> None:
    kernels = ["6.18.0"] * 5 + ["6.19.0"] * 3  # of fewer runs any order may be chance
    runs = [
        store(results, 5 if kernel == "6.18.0" else 10, environment=environment(kernel=kernel),
              started=f"2026-11-{day:02}T00:00:00+00:00")
        for day, kernel in enumerate(kernels, 1)
    ]  # fmt: skip
    names = [run.name for run in runs]
    reported = cli("compare", *reversed(names), "--json").json()  # their times count, not the order they are given in
    (p50,) = (each for each in reported["trend"] if each["metric"] == "p50_us")
    before, after = p50["stretches"]
    assert (before["first"], before["last"], before["runs"], before["change"]) == (names[0], names[4], 5, "first")
    assert (after["first"], after["last"], after["runs"], after["change"]) == (names[5], names[7], 3, "worse")
    assert after["mean"] == pytest.approx(2 * before["mean"], rel=0.02)
    assert after["environment"] == {"kernel": ["6.18.0", "6.19.0"]}
    text = cli("compare", *names).out
    assert f"p50_us worse from {names[5]} on: environment differs: kernel: 6.18.0 -> 6.19.0" in text


def test_a_series_without_a_step_is_one_level(cli: Callable[..., Done], results: Path) -> None:
    names = [store(results, us).name for us in (10, 11, 10, 11)]
    reported = cli("compare", *names, "--json").json()
    assert [len(each["stretches"]) for each in reported["trend"] if each["metric"] == "p50_us"] == [1]


def test_compare_needs_two_runs(cli: Callable[..., Done], results: Path) -> None:
    first = store(results, 10)
    cli("compare", first.name).refused("give two runs")
    cli("compare", first.name, "yesterday").refused("run 'yesterday'")
