# SPDX-License-Identifier: Apache-2.0
"""Which settings matter: statistics per configuration, outliers, groups, rules, importance, what to change.

scikit-learn and scipy.stats take a second to import and are imported by the functions that need them.
"""

from xdplab.analysis.sweep.analyse import (
    SHOWN,
    SweepAnalysis,
    analyse_sweep,
    is_sweep,
    sweep_sentence,
)
from xdplab.analysis.sweep.importance import Importance
from xdplab.analysis.sweep.table import Configuration, Factor, Statistics, Table
