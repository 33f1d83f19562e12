# SPDX-License-Identifier: Apache-2.0
"""From trial records to statements: a summary of each point, comparisons, and their words."""

from xdplab.analysis.answers.answer import agreements as agreements, answer as answer
from xdplab.analysis.compare import compare_points as compare_points
from xdplab.analysis.summary import summarise as summarise
