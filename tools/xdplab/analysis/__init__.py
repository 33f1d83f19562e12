# SPDX-License-Identifier: Apache-2.0
"""From trial records to statements: merged distributions, one summary per point, ratios with intervals."""

from xdplab.analysis.agreement import Agreement, agreements
from xdplab.analysis.answer import Answer, answer
from xdplab.analysis.compare import Comparison, compare_points, compare_runs, environment_difference, self_comparisons
from xdplab.analysis.distribution import Distribution
from xdplab.analysis.stats import CONFIDENCE, Interval, ratio_interval
from xdplab.analysis.summary import PointSummary, summarise
from xdplab.analysis.trend import Trend, trends

__all__ = [
    "CONFIDENCE",
    "Agreement",
    "Answer",
    "Comparison",
    "Distribution",
    "Interval",
    "PointSummary",
    "Trend",
    "agreements",
    "answer",
    "compare_points",
    "compare_runs",
    "environment_difference",
    "ratio_interval",
    "self_comparisons",
    "summarise",
    "trends",
]
