# SPDX-License-Identifier: Apache-2.0
"""What is undecided says how many more rounds would decide it, and a run can go on until they have."""

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from lab import studies
from lab.command import Done

from xdplab import app
from xdplab.measure.comparison import Comparison
from xdplab.stats import Interval, ratio_interval


def compared(interval: Interval | None) -> Comparison:
    return Comparison(
        point="a", reference="b", point_id="a", reference_id="b", metric="p50_us", sense="exact", interval=interval,
        rounds=interval.rounds if interval else 0,
    )  # fmt: skip


def drawn(centre: float, spread: float, rounds: int, seed: int) -> list[float]:
    chance = random.Random(seed)
    return [math.exp(math.log(centre) + chance.gauss(0, spread)) for _ in range(rounds)]


@pytest.mark.parametrize(("centre", "spread"), [(1.2, 0.15), (1.0, 0.12), (1.5, 0.5)])
def test_about_as_many_rounds_decide_it_as_are_said(centre: float, spread: float) -> None:
    """Of twenty studies that said how many more, half or more are decided with twice as many."""
    said = decided = 0
    for seed in range(40):
        ratios = drawn(centre, spread, 400, seed)
        first = compared(ratio_interval(ratios[:6]))
        if (more := first.more_rounds) is None:
            continue
        said += 1
        decided += compared(ratio_interval(ratios[: 6 + 2 * more])).decided
    assert said >= 10
    assert 2 * decided >= said


def test_what_is_known_or_without_a_scatter_says_no_number() -> None:
    assert compared(ratio_interval([2.0, 2.1, 1.9, 2.0])).more_rounds is None
    assert compared(ratio_interval([1.2, 1.3])).more_rounds is None
    assert compared(None).more_rounds is None
    assert compared(ratio_interval([1.0, 9.0, 0.1, 5.0, 0.2])).more_rounds is None  # no number of rounds is advice
    hindered = compared(ratio_interval([1.2, 0.9, 1.3, 1.1])).model_copy(update={"blockers": ("no",)})
    assert hindered.more_rounds is None


def test_a_run_ends_with_the_first_look_that_decides(cli: Callable[..., Done], tmp_path: Path, results: Path) -> None:
    """Three times the latency is decided by three rounds."""
    file = studies.study_file(tmp_path, repetitions=3)
    done = cli("run", file, "--until-decided")
    assert done.code == 0, done.err
    assert studies.only_run(results).load().study.repetitions == 3


def test_a_run_that_stays_undecided_takes_four_times_the_rounds(
    cli: Callable[..., Done], tmp_path: Path, results: Path
) -> None:
    """Equal forwarders whose latency differs by a factor from trial to trial."""
    noisy = "fake:latency_jitter_ratio=0.8"
    file = studies.study_file(tmp_path, repetitions=3, forwarders=[noisy, f"{noisy},seed=7"])
    done = cli("run", file, "--until-decided")
    assert done.code == 0, done.err
    record = studies.only_run(results).load()
    assert record.study.repetitions == 12
    assert "too little to tell" in done.out
    assert app.looks_of(record.study.model_copy(update={"repetitions": 3})) == [3, 6, 9, 12]
