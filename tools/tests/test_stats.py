# SPDX-License-Identifier: Apache-2.0
"""The interval of a ratio keeps its promise on five and eight pairs; the plain percentile bootstrap does not."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdplab.analysis import CONFIDENCE, ratio_interval

ROUNDS = 400


def pairs(rng: np.random.Generator, count: int, ratio: float = 1.0, noise: float = 0.03) -> list[tuple[float, float]]:
    a, b = np.exp(rng.normal(0, noise, size=(2, count)))
    return [(float(x) * ratio, float(y)) for x, y in zip(a, b, strict=True)]


def percentile_bootstrap(data: list[tuple[float, float]], rng: np.random.Generator) -> tuple[float, float]:
    logs = np.log([a / b for a, b in data])
    means = logs[rng.integers(0, len(logs), size=(2000, len(logs)))].mean(axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.exp(np.quantile(means, [tail, 1 - tail]))
    return float(low), float(high)


@pytest.mark.parametrize("count", [5, 8])
def test_the_same_thing_twice_is_rarely_called_different(count: int) -> None:
    rng = np.random.default_rng(count)
    drawn = [pairs(rng, count) for _ in range(ROUNDS)]
    ours = sum(found.differs for found in map(ratio_interval, drawn) if found) / ROUNDS
    plain = sum(not low <= 1 <= high for low, high in (percentile_bootstrap(data, rng) for data in drawn)) / ROUNDS
    assert ours <= 0.03
    assert plain > ours
    assert plain > 2 * (1 - CONFIDENCE)


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(
            5,
            marks=pytest.mark.xfail(
                strict=True,
                reason="at n=5 the interval rests on resamples of the two closest pairs: a 1.3 ratio with 3 % noise is "
                "found in two runs of three; Student's t on the log ratios always finds it, at 1 to 2.5 % false alarms",
            ),
        ),
        8,
    ],
)
def test_a_clear_difference_is_found(count: int) -> None:
    rng = np.random.default_rng(100 + count)
    found = [ratio_interval(pairs(rng, count, ratio=1.3)) for _ in range(60)]
    assert sum(each is not None and each.differs and each.ratio > 1 for each in found) >= 55
    assert all(each and 1.2 < each.ratio < 1.4 for each in found)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_fewer_than_five_pairs_have_no_interval(count: int) -> None:
    found = ratio_interval([(2.0, 1.0)] * count)
    assert found
    assert (found.low, found.high, found.pairs, found.differs) == (None, None, count, False)
    assert found.ratio == pytest.approx(2)
    assert "5 are needed" in found.text()


def test_pairs_that_are_not_positive_do_not_count() -> None:
    assert ratio_interval([]) is None
    assert ratio_interval([(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)]) is None
    found = ratio_interval([(2.0, 1.0)] * 4 + [(0.0, 1.0)])
    assert found
    assert found.pairs == 4


@given(seed=st.integers(0, 10_000), count=st.integers(5, 6))
def test_swapping_the_sides_turns_the_interval_over(seed: int, count: int) -> None:
    data = pairs(np.random.default_rng(seed), count, ratio=1.1)
    there, back = ratio_interval(data), ratio_interval([(b, a) for a, b in data])
    assert there
    assert back
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.low is not None
    assert there.high is not None
    assert there.low < there.ratio < there.high
    assert (there.low, there.high) == pytest.approx((1 / (back.high or 0), 1 / (back.low or 0)))


@pytest.mark.xfail(
    strict=True,
    reason="ratio_interval: two pairs of five that are nearly equal make t statistics without bound: OverflowError",
)
def test_two_pairs_that_are_nearly_equal_do_not_break_the_interval() -> None:
    found = ratio_interval([(1.0, 1.0), (2.7, 1.0), (1.65, 1.0), (2.1, 1.0), (1.00001, 1.0)])
    assert found
    assert found.low is not None
    assert found.low > 1e-3


@given(unit=st.floats(0.001, 1000), seed=st.integers(0, 1000))
def test_the_unit_does_not_matter(unit: float, seed: int) -> None:
    data = pairs(np.random.default_rng(seed), 5, ratio=1.1)
    one, other = ratio_interval(data), ratio_interval([(a * unit, b * unit) for a, b in data])
    assert one
    assert other
    assert (one.ratio, one.low, one.high) == pytest.approx((other.ratio, other.low, other.high))


@pytest.mark.xfail(
    strict=True,
    reason="ratio_interval: equal pairs whose spread is rounding only leave nothing for np.quantile: IndexError",
)
def test_equal_pairs_give_a_point_for_an_interval() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ratio in np.arange(1, 40) / 10:
            for count in range(5, 11):
                found = ratio_interval([(ratio * 3.1, 3.1)] * count)
                assert found
                assert (found.low, found.high) == pytest.approx((ratio, ratio))
