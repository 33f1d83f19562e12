# SPDX-License-Identifier: Apache-2.0
"""Repetitions in two groups are told; a spread is not."""

import random

import pytest
from hypothesis import given, strategies as st

from xdplab.stats.bimodal import bimodal


def test_a_machine_of_two_speeds_is_reported() -> None:
    # kpps of one forwarder in one run (l2fwd of afxdp-micro, 2026-11-21)
    found = bimodal([1142, 845, 925, 1146, 1115, 1153, 1162])
    assert found is not None
    assert (found.low_count, found.high_count) == (2, 5)
    assert found.text() == "884.1 (2 of 7 repetitions) and 1,143 (5)"
    assert found.apart == pytest.approx(1143 / 884.1, rel=1e-3)
    assert found.text(per=0.1) == "8,841 (2 of 7 repetitions) and 11,430 (5)"
    assert found.text(per=1000) == "0.8841 (2 of 7 repetitions) and 1.143 (5)"


@pytest.mark.parametrize(
    "values",
    [
        [],
        [5.0],
        [1.0, 1.0, 1.0, 1.0, 1.0, 2.0],  # a group of one value is a stray one
        [1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0],
        [1.0, 1.0, 1.0, 2.0, 2.0],  # too few
        [100.0, 100.0, 101.0, 105.0, 106.0, 106.0],  # less than a tenth apart
        [1.0, 1.2, 1.44, 1.73, 2.07, 2.49],  # no gap wider than the groups
        [3.0] * 8,
        [0.0, 0.0, 0.0, 1.0, 1.0, 1.0],
    ],
)
def test_all_else_is_one_level(values: list[float]) -> None:
    assert bimodal(values) is None


@given(st.lists(st.floats(1.0, 1.1), min_size=3, max_size=8), st.lists(st.floats(1.5, 1.6), min_size=3, max_size=8),
       st.randoms())  # fmt: skip
def test_any_order_of_two_groups_is_split_between_them(
    low: list[float], high: list[float], order: random.Random
) -> None:
    values = [*low, *high]
    order.shuffle(values)
    found = bimodal(values)
    assert found is not None
    assert (found.low_count, found.high_count) == (len(low), len(high))
    assert min(low) * 0.999 <= found.low <= max(low) * 1.001
    assert min(high) * 0.999 <= found.high <= max(high) * 1.001


def test_noise_of_one_machine_is_seldom_called_two() -> None:
    rng = random.Random(1)
    reported = sum(bimodal([rng.lognormvariate(0, 0.1) for _ in range(8)]) is not None for _ in range(2000))
    assert reported < 100  # one in twenty, of wide noise
