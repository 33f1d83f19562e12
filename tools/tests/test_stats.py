# SPDX-License-Identifier: Apache-2.0
"""The interval of a ratio keeps its promise on few pairs and on many; the plain percentile bootstrap does not."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdplab.analysis import CONFIDENCE, ratio_interval
from xdplab.analysis.stats import BOOTSTRAP_FROM_PAIRS, MIN_PAIRS

Pairs = list[tuple[float, float]]


def pairs(rng: np.random.Generator, count: int, ratio: float = 1.0, noise: float = 0.03) -> Pairs:
    a, b = np.exp(rng.normal(0, noise, size=(2, count)))
    return [(float(x) * ratio, float(y)) for x, y in zip(a, b, strict=True)]


def plainly_differs(data: Pairs, rng: np.random.Generator) -> bool:
    """Whether the plain percentile bootstrap leaves out 1."""
    logs = np.log([a / b for a, b in data])
    means = logs[rng.integers(0, len(logs), size=(1000, len(logs)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return bool(not low <= 0 <= high)


@pytest.mark.parametrize(("count", "rounds"), [(MIN_PAIRS, 1000), (5, 1000), (8, 1000), (BOOTSTRAP_FROM_PAIRS, 250)])
def test_the_same_thing_twice_is_rarely_called_different(count: int, rounds: int) -> None:
    rng = np.random.default_rng(count)
    drawn = [pairs(rng, count) for _ in range(rounds)]
    ours = sum(found.differs for found in map(ratio_interval, drawn) if found) / rounds
    assert ours <= 0.03
    plain = sum(plainly_differs(data, rng) for data in drawn[:250]) / 250
    assert plain > ours
    assert count == BOOTSTRAP_FROM_PAIRS or plain > 3 * (1 - CONFIDENCE)


@pytest.mark.parametrize("count", [5, 8, BOOTSTRAP_FROM_PAIRS])
def test_a_clear_difference_is_found(count: int) -> None:
    rng = np.random.default_rng(100 + count)
    found = [ratio_interval(pairs(rng, count, ratio=1.3)) for _ in range(60)]
    assert sum(each is not None and each.differs and each.ratio > 1 for each in found) >= 57
    assert all(each and 1.2 < each.ratio < 1.4 for each in found)


@pytest.mark.parametrize("count", range(1, MIN_PAIRS))
def test_too_few_pairs_have_no_interval(count: int) -> None:
    found = ratio_interval([(2.0, 1.0)] * count)
    assert found
    assert (found.low, found.high, found.pairs, found.differs) == (None, None, count, False)
    assert found.ratio == pytest.approx(2)
    assert f"{MIN_PAIRS} are needed" in found.text()


def test_pairs_that_are_not_positive_do_not_count() -> None:
    assert ratio_interval([]) is None
    assert ratio_interval([(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)]) is None
    found = ratio_interval([(2.0, 1.0)] * 4 + [(0.0, 1.0)])
    assert found
    assert found.pairs == 4


@given(seed=st.integers(0, 10_000), count=st.integers(MIN_PAIRS, BOOTSTRAP_FROM_PAIRS - 1))
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


@given(unit=st.floats(0.001, 1000), seed=st.integers(0, 1000))
def test_the_unit_does_not_matter(unit: float, seed: int) -> None:
    data = pairs(np.random.default_rng(seed), 5, ratio=1.1)
    one, other = ratio_interval(data), ratio_interval([(a * unit, b * unit) for a, b in data])
    assert one
    assert other
    assert (one.ratio, one.low, one.high) == pytest.approx((other.ratio, other.low, other.high))


def test_more_confidence_is_a_wider_interval() -> None:
    data = pairs(np.random.default_rng(5), 8)
    wide, narrow = ratio_interval(data, 0.99), ratio_interval(data, 0.8)
    assert wide
    assert narrow
    assert (wide.low or 9) < (narrow.low or 0) < (narrow.high or 9) < (wide.high or 0)


def test_two_pairs_that_are_nearly_equal_do_not_break_the_interval() -> None:
    found = ratio_interval([(1.0, 1.0), (2.7, 1.0), (1.65, 1.0), (2.1, 1.0), (1.00001, 1.0)])
    assert found
    assert found.low is not None
    assert found.low > 0.1


@pytest.mark.parametrize("count", [3, 4, 5, 7, 11, BOOTSTRAP_FROM_PAIRS, 20])
def test_equal_pairs_give_a_point_for_an_interval(count: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ratio in np.arange(1, 40) / 10:
            found = ratio_interval([(ratio * 3.1, 3.1)] * count)
            assert found
            assert (found.low, found.high) == pytest.approx((ratio, ratio))
