# SPDX-License-Identifier: Apache-2.0
"""Bencher's metric format, which follows benchmarks over time."""


def metric(value: float, low: float | None, high: float | None) -> dict[str, float]:
    """A value with the bounds that are known."""
    ends = {"lower_value": low, "upper_value": high}
    return {"value": value, **{name: end for name, end in ends.items() if end is not None}}
