# SPDX-License-Identifier: Apache-2.0
"""What the interval of a ratio says of planted pairs, alone and in a table; `test_false_alarms.py` simulates."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, strategies as st

from xdplab.analysis.words import interval_spread, interval_text
from xdplab.model.digits import significant
from xdplab.stats.interval import (
    CLEAR,
    CONFIDENCE,
    DEPTH,
    MIN_PAIRS,
    Interval,
    clear_of,
    difference_interval,
    holm_corrected,
    ratio_interval,
)
from xdplab.stats.spread import Scatter, shared, usual

Pairs = list[tuple[float, float]]

#: Each above tenfold, and so unlike that t alone says 0.5 to 1,500 (suite ovs_comparison, Figure 2).
UNLIKE = [(0.396, 0.0360), (0.396, 0.0191), (0.396, 0.0085)]


def pairs(rng: np.random.Generator, count: int, ratio: float = 1.0, noise: float = 0.03) -> Pairs:
    a, b = np.exp(rng.normal(0, noise, size=(2, count)))
    return [(float(x) * ratio, float(y)) for x, y in zip(a, b, strict=True)]


def interval(data: Pairs, **options: float) -> Interval:
    found = ratio_interval(data, **options)
    assert found is not None
    return found


def bounds(found: Interval) -> tuple[float, float]:
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


@pytest.mark.parametrize("count", [3, 5, 8, 14, 30])
def test_a_level_that_goes_unseen_once_in_twenty_is_within_the_floor(count: int) -> None:
    share = 1 - 0.05 ** (1 / count)
    found = interval([(DEPTH ** (share * 0.99), 1.0)] * count)
    assert not found.differs
    assert found.p == 1
    assert interval([(DEPTH ** (share * 1.01), 1.0)] * count).differs
    assert found.floor == pytest.approx(DEPTH**share)


def test_the_floor_is_what_the_docs_say() -> None:
    floors = {count: interval([(1.0, 1.0)] * count).floor for count in (3, 5, 8, 14)}
    assert {count: f"{floor - 1:.0%}" for count, floor in floors.items()} == {3: "20%", 5: "14%", 8: "9%", 14: "6%"}


@pytest.mark.parametrize("count", [3, 8, 20, 300])
def test_values_that_the_measure_cannot_tell_apart_do_not_differ(count: int) -> None:
    assert not interval([(717.0, 716.0)] * count, resolution=1 / 512).differs
    assert not interval([(5.0, 5.0)] * count).differs
    assert interval_text(interval([(5.0, 5.0)] * count)).startswith("1 (")


def test_one_process_in_turns_has_no_floor_of_levels() -> None:
    small = [(1.02 + 0.001 * (i % 3), 1.0) for i in range(5)]
    assert not interval(small).differs
    alike = ratio_interval(small, depth=None)
    assert alike is not None
    assert alike.differs
    assert alike.floor == 1


def test_a_coarse_measure_is_the_floor() -> None:
    data = pairs(np.random.default_rng(1), 14, ratio=1.2, noise=0.01)
    assert interval(data, resolution=0.1).differs
    assert not interval(data, resolution=0.25).differs
    assert interval(data, resolution=0.25).floor == pytest.approx(1.25)


def test_pairs_that_are_all_far_apart_differ_where_t_says_nothing() -> None:
    found = interval(UNLIKE)
    assert found.p is not None
    assert found.p > 1 - CONFIDENCE
    assert found.clear
    assert found.differs
    assert found.least == pytest.approx(11)
    assert found.method == "each-pair"
    assert bounds(found) == pytest.approx((11, 0.396 / 0.0085))
    assert interval_text(found) == "22 (at least 11 times in each of 3 repetitions)"
    back = found.inverted()
    assert back.differs
    assert interval_text(back) == "0.0455 (at most 0.0909 times in each of 3 repetitions)"


@pytest.mark.parametrize(
    "data",
    [
        UNLIKE[:2],  # too few
        [*UNLIKE[:2], (0.396, 0.396 / (CLEAR * 0.99))],  # one pair less far apart
        [*UNLIKE[:2], (1.0, 11.0)],  # one the other way
    ],
)
def test_one_pair_that_is_not_clear_leaves_it_to_t(data: Pairs) -> None:
    found = interval(data)
    assert not found.clear
    assert not found.differs


def test_two_speeds_that_are_seen_are_the_depth_of_a_spell_unseen() -> None:
    slow = [(1.0, 0.4)] * 4 + [(1.0, 1.0)] * 4
    found = interval(slow)
    assert found.bimodal is not None
    assert (found.bimodal.low_count, found.depth) == (4, pytest.approx(2.5))
    assert found.floor == pytest.approx(2.5 ** (1 - 0.05 ** (1 / 8)))
    assert not found.differs
    # both meet it together: the ratio is steady, and what one side may have missed is as deep
    alike = [(1.15 * level, level) for level in (1.0, 0.4) for _ in range(4)]
    assert not interval(alike).differs
    assert interval([(1.15, 1.0)] * 8).differs


def test_a_table_says_how_far_its_comparisons_scatter() -> None:
    alone = [Scatter(0.01, 4)]
    assert shared(alone) == alone
    assert [each.freedom for each in shared(alone * 3)] == [6, 6, 6]  # a quarter of what the two others have
    alike = [Scatter(0.01 * (1 + number / 100), 4) for number in range(12)]
    assert all(each.freedom == 12 for each in shared(alike))  # as much as they may lend
    assert all(one.variance >= each.variance for one, each in zip(shared(alike), alike, strict=True))
    unlike = [Scatter(0.01 * 10.0**number, 4) for number in range(-4, 5)]
    assert all(each.freedom < 4.5 for each in shared(unlike))
    lucky = [Scatter(0.0005, 4), *alike]
    assert shared(lucky)[0].variance > 0.004
    assert [each.variance for each in shared(lucky)[1:]] == pytest.approx([each.variance for each in alike], rel=0.2)


@pytest.mark.parametrize("worth", [3, 6, 20])
def test_how_alike_planted_spreads_are_is_found(worth: int) -> None:
    rng = np.random.default_rng(worth)
    true = 2.0 * worth / rng.chisquare(worth, 4000)
    found = usual([Scatter(float(each), 4) for each in true * rng.chisquare(4, 4000) / 4])
    assert found == (pytest.approx(2.0, rel=0.05), pytest.approx(worth, rel=0.15))


def test_every_pair_must_be_farther_apart_in_a_table() -> None:
    assert [clear_of(3, 1), clear_of(20, 35)] == [CLEAR, CLEAR]
    assert [round(clear_of(pairs, 35), 2) for pairs in (3, 4, 5, 6)] == [4.91, 3.34, 2.55, 2.07]
    apart = interval([(3.0, 1.0), (2.6, 1.0), (30.0, 1.0), (300.0, 1.0), (3000.0, 1.0)])  # t knows nothing of them
    among = [interval([(1.0 + number / 1000, 1.0), (1.0, 1.1), (1.0, 1.0)]) for number in range(34)]
    found = holm_corrected([apart, *among])[0]
    assert found is not None
    assert (found.method, found.differs) == ("each-pair", True)
    nearer = holm_corrected([interval([(2.5, 1.0), (2.6, 1.0), (30.0, 1.0), (300.0, 1.0), (3000.0, 1.0)]), *among])[0]
    assert nearer is not None
    assert not nearer.differs


@pytest.mark.parametrize("count", range(1, MIN_PAIRS))
def test_too_few_pairs_have_no_interval(count: int) -> None:
    found = interval([(2.0, 1.0)] * count)
    assert (found.low, found.high, found.p, found.pairs, found.differs) == (None, None, None, count, False)
    assert found.ratio == pytest.approx(2)
    assert f"{MIN_PAIRS} are needed" in interval_text(found)


def test_pairs_that_are_not_positive_do_not_count() -> None:
    assert ratio_interval([]) is None
    assert ratio_interval([(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)]) is None
    assert interval([(2.0, 1.0)] * 4 + [(0.0, 1.0)]).pairs == 4


noisy = st.builds(
    lambda seed, count, ratio, noise: pairs(np.random.default_rng(seed), count, ratio, noise),
    st.integers(0, 10_000), st.integers(MIN_PAIRS, 20), st.floats(0.05, 20), st.sampled_from([0.001, 0.03, 0.5, 3]),
)  # fmt: skip


@given(noisy)
def test_swapping_the_sides_turns_the_interval_over(data: Pairs) -> None:
    there, back = interval(data), interval([(b, a) for a, b in data])
    assert (there.differs, there.method, there.clear) == (back.differs, back.method, back.clear)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert bounds(there) == pytest.approx(bounds(back.inverted()))
    assert (there.p, there.least) == pytest.approx((back.p, back.least), rel=1e-3)
    low, high = bounds(there)
    assert low <= there.ratio <= high


@given(noisy, st.floats(0.001, 1000))
def test_the_unit_does_not_matter(data: Pairs, unit: float) -> None:
    one, other = interval(data), interval([(a * unit, b * unit) for a, b in data])
    assert (one.ratio, *bounds(one)) == pytest.approx((other.ratio, *bounds(other)))
    here, there = difference_interval(data), difference_interval([(a * unit, b * unit) for a, b in data])
    assert here is not None
    assert there is not None
    assert (here.mean * unit, (here.low or 0) * unit) == pytest.approx((there.mean, there.low), rel=1e-6, abs=1e-9)


@given(noisy)
def test_p_and_bounds_and_text_say_the_same(data: Pairs) -> None:
    found = interval(data)
    assert found.p is not None
    assert found.differs == (found.p < 1 - CONFIDENCE or found.clear)
    low, high = bounds(found)
    assert found.differs == (low > 1 or high < 1)
    assert "e+" not in interval_text(found)
    assert len(interval_text(found)) < 80
    if found.method == "student-t" and "unsettled" not in interval_text(found):
        lower, upper = (float(word.replace(",", "")) for word in interval_spread(found).split(" to "))
        assert not found.differs or not lower <= 1 <= upper


def test_more_confidence_and_fewer_pairs_are_wider_intervals() -> None:
    data = pairs(np.random.default_rng(5), 8)
    wide, narrow = (bounds(interval(data, confidence=level)) for level in (0.99, 0.8))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    widths = [bounds(interval([(3.0, 1.0)] * count))[1] for count in range(3, 30)]
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("count", [3, 4, 5, 7, 11, 20])
def test_equal_pairs_have_the_floor_for_an_interval(count: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ratio in np.arange(1, 40) / 10:
            found = interval([(ratio * 3.1, 3.1)] * count)
            assert bounds(found) == pytest.approx((ratio / found.floor, ratio * found.floor))


def test_an_interval_that_says_nothing_says_so_in_words() -> None:
    wild = interval([(1.0, 1000.0), (1000.0, 1.0), (5.0, 1.0)])
    assert interval_text(wild) == "1.71 (unsettled by a factor of over 1,000)"
    assert math.isfinite(bounds(interval([(1e-9, 1e9), (1e9, 1e-9), (1.0, 1.0)]))[1])


def test_a_table_of_many_comparisons_has_one_chance_in_a_hundred() -> None:
    rng = np.random.default_rng(15)
    alone = corrected = 0
    families = 60
    for _ in range(families):
        family = [ratio_interval(pairs(rng, 8, noise=0.3)) for _ in range(56)]
        alone += any(each and each.differs for each in family)
        corrected += any(each and each.differs for each in holm_corrected(family))
    assert alone > 0.3 * families
    assert corrected <= 0.05 * families


def test_a_level_that_one_side_of_each_comparison_may_have_missed_is_corrected_for() -> None:
    rng = np.random.default_rng(11)
    share = 1.05 * (1 - 0.05 ** (1 / 8))  # the share at which a single comparison fails most often
    alone = corrected = 0
    for _ in range(60):
        level = DEPTH ** (share - (rng.random((20, 8)) < share))
        family = [ratio_interval([(float(value), 1.0) for value in study]) for study in level]
        alone += any(each and each.differs for each in family)
        corrected += any(each and each.differs for each in holm_corrected(family))
    assert alone > 20
    assert corrected <= 0.05 * 60


@given(st.lists(noisy, min_size=1, max_size=8))
def test_verdict_bounds_and_p_of_a_family_agree(family: list[Pairs]) -> None:
    before = [ratio_interval(data) for data in family]
    for alone, found in zip(before, holm_corrected(before), strict=True):
        assert alone is not None
        assert found is not None
        assert found.family == len(family)
        assert found.corrected_p is not None
        assert alone.p is not None
        assert found.p is not None
        assert found.corrected_p >= found.p
        assert (found.error or 0.0) >= (alone.error or 0.0) * (1 - 1e-9)
        assert found.differs == (found.corrected_p < 1 - CONFIDENCE or found.clear)
        assert alone.differs or not found.differs


def test_after_the_first_that_fails_none_differs() -> None:
    found = interval([(1.1, 1.0)] * 8)
    assert found.p is not None
    assert 0.005 < found.p < 0.01  # alone it would do, and as the last of two
    assert found.differs
    for each in holm_corrected([found, found]):
        assert each is not None
        assert (each.differs, each.corrected_p) == (False, pytest.approx(2 * found.p, rel=1e-5))


def test_a_family_leaves_out_what_has_no_interval() -> None:
    few, good = interval([(2.0, 1.0)]), interval([(2.0, 1.0)] * 5)
    assert holm_corrected([]) == []
    assert holm_corrected([None, few, good]) == [None, few, good.model_copy(update={"corrected_p": good.p})]
    with pytest.raises(ValueError, match="one confidence"):
        holm_corrected([good, interval([(2.0, 1.0)] * 5, confidence=0.9)])


def test_a_clear_difference_of_a_family_is_clearer() -> None:
    twice = [(2.2, 1.0), (5.0, 1.0), (30.0, 1.0)]
    assert interval(twice).differs
    assert [each and each.differs for each in holm_corrected([interval(twice), interval(UNLIKE)])] == [False, True]


@given(noisy)
def test_a_difference_is_reported_as_the_ratio_is(data: Pairs) -> None:
    near = [(1 + 0.3 * math.tanh(math.log(a)), 1 + 0.3 * math.tanh(math.log(b))) for a, b in data]
    ratio, found = interval(near), difference_interval(near)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert ratio.differs == (not found.low <= 0 <= found.high) or min(abs(found.low), abs(found.high)) < 0.05


def test_a_difference_is_no_finer_than_its_unit() -> None:
    steps = [(7.0, 6.0)] * 40
    found = difference_interval(steps, resolution=1.0, depth=None)
    assert found is not None
    assert (found.low, found.high, found.floor) == (0, 2, 1)
    finer = difference_interval(steps, resolution=0.5, depth=None)
    assert finer is not None
    assert finer.low
    assert finer.low > 0


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
