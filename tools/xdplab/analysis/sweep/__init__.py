# SPDX-License-Identifier: Apache-2.0
"""Which settings matter: statistics per configuration, effects, what to change.

scipy.stats takes a second to import and is imported by the functions that need it.
"""

from xdplab.analysis.sweep.analyse import (
    SweepAnalysis as SweepAnalysis,
    analyse_sweep as analyse_sweep,
    is_sweep as is_sweep,
    sweep_sentence as sweep_sentence,
)
from xdplab.analysis.sweep.effects import Importance as Importance
from xdplab.analysis.sweep.table import (
    Configuration as Configuration,
    Factor as Factor,
    Statistics as Statistics,
    Table as Table,
)
