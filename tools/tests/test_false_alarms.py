# SPDX-License-Identifier: Apache-2.0
"""Under simulated noise of real machines equal things are seldom called different, and what is there is found."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lab import studies
from lab.command import Done
from scipy.special import stdtrit

from dev.bench_intervals import PAIRS, SHAPES, Row, Shape, bench_intervals
from dev.bench_tables import NOISE, bench_tables
from xdplab.stats.interval import ratio_interval


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, int], Row]:
    return {(row.shape, row.pairs): row for row in bench_intervals(200, pairs=(3, 5, 8, 14, 20))}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_equal_sides_are_called_different_in_one_study_of_twenty_at_most(
    shape: Shape, rows: dict[tuple[str, int], Row]
) -> None:
    assert {count: row.alarms for (name, count), row in rows.items() if name == shape.name and row.alarms > 0.05} == {}


@pytest.mark.parametrize("count", [3, 5, 8])
def test_t_alone_believes_what_few_repetitions_have_seen(count: int) -> None:
    slow = next(shape for shape in SHAPES if shape.name.startswith("one side"))
    ours, theirs = slow.draw(np.random.default_rng(count), (1000, count))
    logs = ours - theirs
    errors = logs.std(axis=1, ddof=1) / math.sqrt(count)
    differs = np.abs(logs.mean(axis=1)) > stdtrit(count - 1, 0.995) * errors
    assert differs.mean() > 0.1


def test_the_shapes_have_equal_means() -> None:
    for shape in SHAPES:
        ours, theirs = shape.draw(np.random.default_rng(1), (4000, 20))
        difference = (ours - theirs).mean(axis=1)
        assert abs(difference.mean()) < 4 * difference.std() / math.sqrt(4000), shape.name


def test_a_factor_of_two_is_found_from_three_pairs_and_a_tenth_from_fourteen(rows: dict[tuple[str, int], Row]) -> None:
    for name in ("noise of 1 %", "noise of 3 %", "drift of 30 % over the run", "ties: noise of 0.5 % read to 3 %"):
        assert rows[name, 3].found_double == 1
        assert rows[name, 14].found_tenth >= 0.95
        assert rows[name, 5].found_tenth <= 0.05  # no firmer than five pairs
    assert rows["one side a quarter slower in a fifth of its repetitions", 5].found_double >= 0.95
    assert rows["bimodal, 0.72 apart, each half of the time", 8].found_double >= 0.95
    assert rows["noise of 10 %", 5].found_double >= 0.95


def test_a_table_of_five_repetitions_finds_a_factor_of_two_and_no_difference_between_equals() -> None:
    kinds = ("noise of 10 %", "noise of 20 %", "two speeds 0.72 apart, all rows", "each row its own, about 10 %")
    found = {row.noise: row for row in bench_tables(20, pairs=(5,), noise={name: NOISE[name] for name in kinds})}
    assert {name: row.false_tables for name, row in found.items() if row.false_tables > 0.05} == {}
    least = dict(zip(kinds, (0.95, 0.55, 0.7, 0.6), strict=True))
    assert {name: row.found_double for name, row in found.items() if row.found_double < least[name]} == {}


def test_one_process_in_turns_needs_no_floor_for_levels_that_meet_both_sides() -> None:
    shape = next(shape for shape in SHAPES if shape.name.startswith("bimodal"))
    for count in (5, 8, 14):
        ours, theirs = (np.exp(side).tolist() for side in shape.draw(np.random.default_rng(count), (300, count)))
        found = [ratio_interval(list(zip(a, b, strict=True)), depth=None) for a, b in zip(ours, theirs, strict=True)]
        assert sum(each is not None and each.differs for each in found) <= 0.05 * 300


def test_the_command_prints_a_line_for_each_shape_and_the_rows_as_json(cli: Callable[..., Done]) -> None:
    table = cli("dev", "false-alarms", "--simulated", 10)
    assert all(line.startswith(shape.name) for line, shape in zip(table.out.splitlines()[1:], SHAPES, strict=True))
    rows = cli("dev", "false-alarms", "--simulated", 10, "--json").json()
    assert len(rows) == len(SHAPES) * len(PAIRS)
    assert set(rows[0]) == {"shape", "pairs", "studies", "alarms", "found_tenth", "found_double"}


def test_the_command_counts_in_a_run_what_is_called_different(cli: Callable[..., Done], tmp_path: Path) -> None:
    cli("run", studies.study_file(tmp_path, repetitions=7))  # two forwarders, one of three times the latency
    counted = cli("dev", "false-alarms", "--group", 3)
    assert counted.code == 0
    assert counted.out.splitlines()[0].startswith("p50_us: 2 of 2 comparisons of 3 pairs called different")
    found = cli("dev", "false-alarms", "--group", 3, "--json").json()
    assert [len(found[metric]) for metric in ("p50_us", "p99_us")] == [2, 2]
    assert all(each["interval"]["pairs"] == 3 and each["interval"]["low"] for each in found["p50_us"])
