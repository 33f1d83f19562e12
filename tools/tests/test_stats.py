# SPDX-License-Identifier: Apache-2.0
"""What the interval of a ratio says of planted rounds, alone and in a table; `test_false_alarms.py` simulates."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, strategies as st

from xdplab.analysis.words import interval_spread, interval_text
from xdplab.model.digits import significant
from xdplab.stats import (
    CONFIDENCE,
    MIN_ROUNDS,
    Interval,
    apart_interval,
    at_confidence,
    difference_interval,
    geometric_interval,
    holm_corrected,
    ratio_interval,
)


def ratios(rng: np.random.Generator, count: int, ratio: float = 1.0, noise: float = 0.03) -> list[float]:
    """Of rounds whose two sides scatter so."""
    a, b = np.exp(rng.normal(0, noise, size=(2, count)))
    return [float(x / y) * ratio for x, y in zip(a, b, strict=True)]


def interval(data: list[float], **options: float) -> Interval:
    found = ratio_interval(data, **options)
    assert found is not None
    return found


def bounds(found: Interval) -> tuple[float, float]:
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def test_the_interval_is_students_t_on_the_logarithms() -> None:
    """By a table of t: 4.604 is the two-sided 99 % quantile of 4 degrees of freedom, 9.925 that of 2."""
    logs = [0.1, 0.2, 0.3, 0.4, 0.5]
    half = 4.604 * math.sqrt(0.025) / math.sqrt(5)
    found = interval([math.exp(each) for each in logs])
    assert found.ratio == pytest.approx(math.exp(0.3))
    assert bounds(found) == pytest.approx((math.exp(0.3 - half), math.exp(0.3 + half)), rel=1e-3)
    assert not found.differs
    assert found.p == pytest.approx(0.0132, rel=0.01)  # of t = 4.243
    three = interval([math.exp(each) for each in (0.2, 0.3, 0.4)])
    assert math.log(bounds(three)[1]) == pytest.approx(0.3 + 9.925 * 0.1 / math.sqrt(3), rel=1e-3)
    narrow = interval([math.exp(each) for each in logs], confidence=0.95)
    assert math.log(bounds(narrow)[0]) == pytest.approx(0.3 - 2.776 * math.sqrt(0.005), rel=1e-3)
    assert narrow.differs


@pytest.mark.parametrize("count", [3, 8, 20, 300])
def test_values_that_the_measure_cannot_tell_apart_do_not_differ(count: int) -> None:
    assert not interval([717 / 716] * count, resolution=1 / 512).differs
    assert interval([717 / 716] * count, resolution=1 / 1024).differs
    assert interval([717 / 716] * count, resolution=1 / 512).p == 1
    assert not interval([1.0] * count).differs
    assert interval_text(interval([1.0] * count)).startswith("1 (")


def test_a_coarse_measure_is_the_least_half_width() -> None:
    data = ratios(np.random.default_rng(1), 14, ratio=1.2, noise=0.01)
    assert interval(data, resolution=0.1).differs
    assert not interval(data, resolution=0.25).differs
    found = interval(data, resolution=0.25)
    assert bounds(found) == pytest.approx((found.ratio / 1.25, found.ratio * 1.25))


@pytest.mark.parametrize("count", range(1, MIN_ROUNDS))
def test_too_few_rounds_have_no_interval(count: int) -> None:
    found = interval([2.0] * count)
    assert (found.low, found.high, found.p, found.rounds, found.differs) == (None, None, None, count, False)
    assert found.ratio == pytest.approx(2)
    assert f"{MIN_ROUNDS} are needed" in interval_text(found)
    assert found.rounds_until_known(0.1) is None


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_round_without_a_ratio_is_not_left_out(value: float) -> None:
    assert ratio_interval([]) is None
    assert ratio_interval([2.0, 2.0, 2.0, value]) is None


noisy = st.builds(
    lambda seed, count, ratio, noise: ratios(np.random.default_rng(seed), count, ratio, noise),
    st.integers(0, 10_000), st.integers(MIN_ROUNDS, 20), st.floats(0.05, 20), st.sampled_from([0.001, 0.03, 0.5, 3]),
)  # fmt: skip


@given(noisy)
def test_swapping_the_sides_turns_the_interval_over(data: list[float]) -> None:
    there, back = interval(data), interval([1 / each for each in data])
    assert there.differs == back.differs
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert bounds(there) == pytest.approx(bounds(back.inverted()))
    assert there.p == pytest.approx(back.p, rel=1e-3)
    low, high = bounds(there)
    assert low <= there.ratio <= high


@given(noisy, st.floats(0.001, 1000))
def test_the_unit_of_a_difference_does_not_matter(data: list[float], unit: float) -> None:
    pairs = [(each, 1.0) for each in data]
    here, there = difference_interval(pairs), difference_interval([(a * unit, b * unit) for a, b in pairs])
    assert here is not None
    assert there is not None
    assert (here.mean * unit, (here.low or 0) * unit) == pytest.approx((there.mean, there.low), rel=1e-6, abs=1e-9)


@given(noisy, st.sampled_from([0.0, 0.01, 0.2]))
def test_p_and_bounds_and_text_say_the_same(data: list[float], resolution: float) -> None:
    found = interval(data, resolution=resolution)
    assert found.p is not None
    assert found.differs == (found.p < 1 - CONFIDENCE)
    low, high = bounds(found)
    assert found.differs == (low > 1 or high < 1)
    assert "e+" not in interval_text(found)
    assert len(interval_text(found)) < 80
    if "unsettled" not in interval_text(found):
        lower, upper = (float(word.replace(",", "")) for word in interval_spread(found).split(" to "))
        assert not found.differs or not lower <= 1 <= upper


def test_more_confidence_and_fewer_rounds_are_wider_intervals() -> None:
    data = ratios(np.random.default_rng(5), 8)
    wide, narrow = (bounds(interval(data, confidence=level)) for level in (0.99, 0.8))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    widths = [bounds(interval([2.9, 3.0, 3.1] * count))[1] for count in range(1, 9)]
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("count", [3, 4, 5, 7, 11, 20])
def test_equal_rounds_have_the_resolution_for_an_interval(count: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ratio in np.arange(1, 40) / 10:
            found = interval([float(ratio)] * count, resolution=0.05)
            assert bounds(found) == pytest.approx((ratio / 1.05, ratio * 1.05))
            assert bounds(interval([float(ratio)] * count)) == pytest.approx((ratio, ratio))


def test_an_interval_that_says_nothing_says_so_in_words() -> None:
    wild = interval([0.001, 1000.0, 5.0])
    assert interval_text(wild) == "1.71 (unsettled by a factor of over 1,000)"
    assert math.isfinite(bounds(interval([1e-18, 1e18, 1.0]))[1])


def test_how_many_more_rounds_would_decide_it_does() -> None:
    """Planted scatter, repeated so often: the interval then leaves out 1, or lies within the margin, and not before."""

    def of(ratio: float, times: int) -> list[float]:
        return [ratio * each for each in (0.9, 1.0, 1.0 / 0.9)] * times

    apart = interval(of(1.2, 1))
    assert not apart.differs
    more = apart.rounds_until_known(0.1)
    assert more is not None
    first = next(times for times in range(2, 20) if interval(of(1.2, times)).differs)
    assert abs(more + 3 - 3 * first) <= 3
    alike = interval(of(1.0, 1))
    more = alike.rounds_until_known(0.1)
    assert more is not None
    first = next(times for times in range(2, 20) if bounds(interval(of(1.0, times)))[1] < 1.1)
    assert abs(more + 3 - 3 * first) <= 3
    assert alike.rounds_until_known(0.5) < more  # type: ignore[operator]
    assert interval(of(1.1, 1), resolution=0.2).rounds_until_known(0.1) is None  # no number of rounds resolves it


def test_runs_apart_are_compared_by_the_scatter_of_both() -> None:
    above, below = [2.0, 2.2, 2.0 / 1.1], [1.0, 1.1, 1 / 1.1]
    found = apart_interval(above, below, resolution=0.0)
    assert found is not None
    assert found.ratio == pytest.approx(2)
    half = 9.925 * math.sqrt(2) * math.log(1.1) / math.sqrt(3)
    assert math.log(bounds(found)[1] / 2) == pytest.approx(half, rel=1e-3)
    steady = apart_interval([2.0] * 3, [1.0] * 5, resolution=0.5)
    assert steady is not None
    assert (steady.rounds, *bounds(steady)) == pytest.approx((3, 2 / 1.5, 3))
    few = apart_interval([2.0] * 9, [1.0] * 2, resolution=0.5)
    assert few is not None
    assert (few.rounds, few.low, few.differs) == (2, None, False)
    assert apart_interval([], [1.0], resolution=0.5) is None


def test_a_geometric_mean_has_an_interval_from_three_values_on() -> None:
    assert geometric_interval([100.0] * 3, 0.01) == pytest.approx((100 / 1.01, 101))
    assert geometric_interval([100.0] * 2) is None
    assert geometric_interval([100.0, 100.0, 0.0]) is None


def test_a_table_of_many_comparisons_has_one_chance_in_a_hundred() -> None:
    rng = np.random.default_rng(15)
    alone = corrected = 0
    families = 60
    for _ in range(families):
        family = [ratio_interval(ratios(rng, 8, noise=0.3)) for _ in range(56)]
        alone += any(each and each.differs for each in family)
        corrected += any(each and each.differs for each in holm_corrected(family))
    assert alone > 0.3 * families
    assert corrected <= 0.05 * families


@given(st.lists(noisy, min_size=1, max_size=8))
def test_verdict_bounds_and_p_of_a_family_agree(family: list[list[float]]) -> None:
    before = [ratio_interval(data) for data in family]
    for alone, found in zip(before, holm_corrected(before), strict=True):
        assert alone is not None
        assert found is not None
        assert found.family == len(family)
        assert found.corrected_p is not None
        assert found.p is not None
        assert found.corrected_p >= found.p == alone.p
        assert found.error == alone.error
        assert found.differs == (found.corrected_p < 1 - CONFIDENCE)
        assert alone.differs or not found.differs


def test_after_the_first_that_fails_none_differs() -> None:
    found = interval([math.exp(0.1 * each) for each in (1.0, 1.9, 3.1, 4.0, 4.9)], confidence=0.98)
    assert found.p is not None
    assert 0.01 < found.p < 0.02  # alone it would do, and as the last of two
    assert found.differs
    for each in holm_corrected([found, found]):
        assert each is not None
        assert (each.differs, each.corrected_p) == (False, pytest.approx(2 * found.p, rel=1e-5))


def test_a_family_leaves_out_what_has_no_interval() -> None:
    few, good = interval([2.0]), interval([2.0, 2.1, 2.0, 2.0, 1.9])
    assert holm_corrected([]) == []
    assert holm_corrected([None, few, good]) == [None, few, good.model_copy(update={"corrected_p": good.p})]
    with pytest.raises(ValueError, match="one confidence"):
        holm_corrected([good, interval([2.0] * 5, confidence=0.9)])


@given(noisy)
def test_a_difference_is_reported_as_the_ratio_is(data: list[float]) -> None:
    near = [1 + 0.3 * math.tanh(math.log(each)) for each in data]
    ratio, found = interval(near), difference_interval([(each, 1.0) for each in near])
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert ratio.differs == (not found.low <= 0 <= found.high) or min(abs(found.low), abs(found.high)) < 0.05


def test_a_difference_is_no_finer_than_its_unit() -> None:
    steps = [(7.0, 6.0)] * 40
    found = difference_interval(steps, resolution=1.0)
    assert found is not None
    assert (found.low, found.high) == (0, 2)
    finer = difference_interval(steps, resolution=0.5)
    assert finer is not None
    assert (finer.low, finer.high) == (0.5, 1.5)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (11_349.0, "11,300"), (0.0076, "0.0076"), (1.43, "1.43"), (0.0, "0"), (1.0, "1"),
        (0.99999, "1"), (123_456.0, "123,000"), (1e6, "1,000,000"), (1.5e-7, "0.00000015"), (-12.34, "-12.3"),
    ],
)  # fmt: skip
def test_a_number_is_what_a_person_reads(value: float, text: str) -> None:
    assert significant(value) == text


def test_more_digits_where_asked() -> None:
    assert significant(1056.4, 4) == "1,056"


def test_another_confidence_changes_the_bounds_alone() -> None:
    ratios = [1.0, 1.1, 0.95, 1.05, 1.02]
    found = ratio_interval(ratios)
    assert found is not None
    assert at_confidence(found, 0.985) == ratio_interval(ratios, 0.985)
    few = ratio_interval(ratios[:2])
    assert few is not None
    assert at_confidence(few, 0.985).low is None
