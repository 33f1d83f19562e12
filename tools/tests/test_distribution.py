# SPDX-License-Identifier: Apache-2.0
"""Merged histograms against numpy on the raw values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.records import encoded

from xdplab.analysis import Distribution

VALUES = st.lists(st.integers(1, 10_000_000_000), min_size=1, max_size=60)
#: Three significant digits: a value is off by less than a thousandth.
TOLERANCE = 0.002


@given(values=VALUES, percent=st.sampled_from([0.0, 25.0, 50.0, 75.0, 90.0, 100.0]))
def test_percentiles_agree_with_numpy(values: list[int], percent: float) -> None:
    found = Distribution.merged([encoded(values)]).percentile_us(percent)
    expected = np.percentile(values, percent, method="inverted_cdf") / 1000
    assert found == pytest.approx(expected, rel=TOLERANCE, abs=0.001)


@settings(max_examples=12)
@given(parts=st.lists(VALUES, min_size=1, max_size=4))
def test_a_merge_equals_the_histogram_of_all_values(parts: list[list[int]]) -> None:
    merged = Distribution.merged([encoded(part) for part in parts])
    whole = Distribution.merged([encoded([value for part in parts for value in part])])
    assert merged.count == sum(map(len, parts))
    assert np.array_equal(merged.values_ns, whole.values_ns)
    assert np.array_equal(merged.counts, whole.counts)


@pytest.mark.parametrize("seed", range(3))
def test_tail_percentiles_of_many_values_agree_with_numpy(seed: int) -> None:
    values = np.random.default_rng(seed).lognormal(8, 1, size=20_011).astype(np.int64) + 1
    found = Distribution.merged([encoded(values.tolist())])
    for percent in (50, 90, 99, 99.9, 99.99, 99.999):
        expected = np.percentile(values, percent, method="inverted_cdf") / 1000
        assert found.percentile_us(percent) == pytest.approx(expected, rel=TOLERANCE), percent


def test_p999_of_a_thousand_values_is_the_999th() -> None:
    assert Distribution.merged([encoded(range(1, 1001))]).percentile_us(99.9) == pytest.approx(0.999)


def test_nothing_merged_has_no_percentile() -> None:
    empty = Distribution.merged([])
    assert empty.count == 0
    assert empty.percentile_us(50) is None


@given(values=VALUES)
def test_exceedance_falls_from_the_smallest_value_to_nothing(values: list[int]) -> None:
    latency, above = Distribution.merged([encoded(values)]).exceedance()
    assert np.all(np.diff(latency) > 0)
    assert np.all(np.diff(above) < 0)
    assert above[-1] == pytest.approx(0, abs=1e-9)
    assert above[0] == pytest.approx(np.mean(np.array(values) > latency[0] * 1000), abs=1e-9)


@given(values=VALUES)
def test_density_is_finite_and_integrates_to_about_one(values: list[int]) -> None:
    latency, density = Distribution.merged([encoded(values)]).density(2048)
    assert np.all(np.isfinite(density))
    area = (
        np.trapezoid(density, np.log10(latency)) if hasattr(np, "trapezoid") else np.trapz(density, np.log10(latency))
    )
    assert 0.5 < area < 1.05
