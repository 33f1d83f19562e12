# SPDX-License-Identifier: Apache-2.0
"""Which settings matter: statistics per configuration, outliers, groups, rules, importance, what to change.

scikit-learn and scipy.stats take a second to import and are imported by the functions that need them.
"""

from xdplab.analysis.sweep.analyse import (
    SHOWN as SHOWN,
    SweepAnalysis as SweepAnalysis,
    analyse_sweep as analyse_sweep,
    is_sweep as is_sweep,
    sweep_sentence as sweep_sentence,
)
from xdplab.analysis.sweep.importance import Importance as Importance
from xdplab.analysis.sweep.table import (
    Configuration as Configuration,
    Factor as Factor,
    Statistics as Statistics,
    Table as Table,
)
