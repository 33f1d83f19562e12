# SPDX-License-Identifier: Apache-2.0
"""Under simulated noise of real machines equal things are seldom called different, and what is there is found."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from lab import studies
from lab.command import Done

from dev.bench_turns import (
    DESIGNS,
    POINTS,
    RATIOS,
    SHAPES,
    Design,
    Row,
    Shape,
    alone,
    bench_turns,
    holm_levels,
    in_turns,
    plain_interval,
)
from xdplab import app
from xdplab.measure import make_method
from xdplab.stats import holm_corrected, ratio_interval

FINE, IN_TURNS, OF_PIPELINES = (design for design in DESIGNS if design.side_by_side)
ALONE = [design for design in DESIGNS if design.rule is alone]
UNSEEN = "1 side slow 1/5 of starts *"


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], Row]:
    found = bench_turns(400, designs=DESIGNS)
    return {(row.shape, row.design): row for row in found}


def shapes_but(names: Sequence[str]) -> list[Shape]:
    return [shape for shape in SHAPES if shape.equal and shape.name not in names]


@pytest.mark.parametrize("shape", shapes_but([UNSEEN, "the same, 3 %, turns 6 % *"]), ids=lambda one: one.name)
def test_at_most_one_table_of_twenty_calls_equal_points_different(
    shape: Shape, rows: dict[tuple[str, str], Row]
) -> None:
    own = {design.name: rows[shape.name, design.name] for design in DESIGNS}
    assert {name: row.false_tables for name, row in own.items() if row.false_tables > 0.05} == {}


def test_no_t_sees_slow_starts_that_did_not_come(rows: dict[tuple[str, str], Row]) -> None:
    """The chance that none of seven starts was slow is 21 %; of thirteen it is 5 %."""
    assert rows[UNSEEN, IN_TURNS.name].false_tables == pytest.approx(0.8**7, abs=0.06)
    assert rows[UNSEEN, FINE.name].false_tables == pytest.approx(0.8**13, abs=0.04)


def test_designs_are_those_of_the_studies() -> None:
    made = {(design.rounds, design.turns) for design in (FINE, OF_PIPELINES)}
    studied = [app.read_study(app.find_study(name)) for name in ("latency", "pipelines")]
    assert {(study.repetitions, make_method(study.method).turns) for study in studied} == made


def test_turns_find_what_trials_apart_do_not(rows: dict[tuple[str, str], Row]) -> None:
    at = RATIOS.index(1.25)
    for name in ("step of 25 % within the run", "machine slow 1/5 of the time", "CPU burner for 2/5 of the run"):
        side_by_side, apart = (rows[name, design.name].found[at] for design in (IN_TURNS, ALONE[-1]))
        assert side_by_side > 0.75 > 0.2 + apart or side_by_side > 0.99 > 0.15 + apart, name


@pytest.mark.parametrize("shape", SHAPES, ids=lambda one: one.name)
def test_equal_points_are_equal_in_the_median_of_turns_in_the_mean_over_starts(shape: Shape) -> None:
    rng = np.random.default_rng(1)
    design = Design("long", 60, 101, in_turns, side_by_side=True)
    logs = np.median(shape.draw(rng, design.times(rng, 40)), axis=-1)
    apart = (logs[:, :, 0] - logs[:, :, 1]).mean(axis=1)
    within = 4 * apart.std(ddof=1) / math.sqrt(len(apart)) + 0.005
    assert (abs(apart.mean()) < within) == shape.equal


def test_the_times_of_turns() -> None:
    """Side by side, the five take turns one after another; alone, each has all of its own in a row."""
    rng = np.random.default_rng(1)
    together = IN_TURNS.times(rng, 1)[0]
    assert (together[:, :, 1:].min(axis=1) > together[:, :, :-1].max(axis=1)).all()
    apart = ALONE[0].times(rng, 1)[0]
    assert (np.diff(np.sort(apart.reshape(-1, apart.shape[2])[:, 0])) > 0).all()
    first, last = np.sort(apart[:, :, 0], axis=1), np.sort(apart[:, :, -1], axis=1)
    assert (first[:, 1:] > last[:, :-1]).all()
    for times in (together, apart):
        assert times.shape[1] == POINTS
        assert 0 < times.min() < times.max() < 1


def test_the_interval_is_students_and_not_narrower_than_the_resolution() -> None:
    found = plain_interval(np.array([0.1, 0.2, 0.3, 0.4]))
    half = 5.8409 * 0.129099 / 2  # t with 3 degrees at 99 %, standard deviation
    assert (found.low, found.high) == (pytest.approx(0.25 - half, abs=1e-4), pytest.approx(0.25 + half, abs=1e-4))
    assert found.p == pytest.approx(0.03047, abs=1e-4)
    alike = plain_interval(np.full(5, 0.02), resolution=0.03)
    assert (alike.low, alike.p) == (pytest.approx(0.02 - math.log(1.03)), 1)


def test_it_judges_as_the_package_does() -> None:
    logs = np.random.default_rng(1).normal(0.05, 0.1, (6, 5, 7))
    levels = holm_levels(plain_interval(logs, 0.02).p)
    made = plain_interval(logs, 0.02, levels)
    for study in range(len(logs)):
        found = holm_corrected([ratio_interval(np.exp(each).tolist(), resolution=0.02) for each in logs[study]])
        assert [math.log(one.low) for one in found if one and one.low] == pytest.approx(list(made.low[study]))


def test_the_command_prints_a_line_for_each_shape_and_the_rows_as_json(cli: Callable[..., Done]) -> None:
    table = cli("dev", "false-alarms", "--simulated", 10).out.splitlines()
    assert all(line.startswith(shape.name) for line, shape in zip(table[1:], SHAPES, strict=False))
    assert max(map(len, table)) <= 100
    found = cli("dev", "false-alarms", "--simulated", 10, "--json").json()
    assert len(found) == len(SHAPES) * len(DESIGNS)
    assert set(found[0]) == set(Row.model_fields)


def test_the_command_counts_in_a_run_what_is_called_different(cli: Callable[..., Done], tmp_path: Path) -> None:
    cli("run", studies.study_file(tmp_path, repetitions=7))  # two forwarders, one of three times the latency
    counted = cli("dev", "false-alarms", "--group", 3)
    assert counted.code == 0
    assert counted.out.splitlines()[0].startswith("p50_us: 2 of 2 comparisons of 3 rounds called different")
    found = cli("dev", "false-alarms", "--group", 3, "--json").json()
    assert [len(found[metric]) for metric in ("p50_us", "p99_us")] == [2, 2]
    assert all(each["interval"]["rounds"] == 3 and each["interval"]["low"] for each in found["p50_us"])
