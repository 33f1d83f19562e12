# SPDX-License-Identifier: Apache-2.0
"""From trial records to statements: merged distributions, one summary per point, ratios with intervals."""

from xdplab.analysis.agreement import agreements
from xdplab.analysis.answer import Answer, answer
from xdplab.analysis.compare import Comparison, compare_points, compare_runs, environment_difference, self_comparisons
from xdplab.analysis.distribution import Distribution
from xdplab.analysis.stats import Interval, ratio_interval
from xdplab.analysis.summary import PointSummary, summarise
from xdplab.analysis.trend import trends
