# SPDX-License-Identifier: Apache-2.0
"""From trial records to statements: merged distributions, one summary per point, ratios with intervals."""

from xdplab.analysis.agreement import agreements as agreements
from xdplab.analysis.answer import Answer as Answer, answer as answer
from xdplab.analysis.compare import (
    Comparison as Comparison,
    compare_points as compare_points,
    compare_runs as compare_runs,
    environment_difference as environment_difference,
    self_comparisons as self_comparisons,
)
from xdplab.analysis.distribution import Distribution as Distribution
from xdplab.analysis.stats import Interval as Interval, ratio_interval as ratio_interval
from xdplab.analysis.summary import PointSummary as PointSummary, summarise as summarise
from xdplab.analysis.trend import trends as trends
