# SPDX-License-Identifier: Apache-2.0
"""Which settings matter: statistics per configuration, outliers, groups, rules, importance, what to change.

scikit-learn and scipy.stats take a second to import and are imported by the functions that need them.
"""

from xdplab.analysis.sweep.analyse import (
    MIN_CONFIGURATIONS,
    SHOWN,
    SweepAnalysis,
    analyse_sweep,
    is_sweep,
    sweep_sentence,
)
from xdplab.analysis.sweep.anova import Anova, Effect
from xdplab.analysis.sweep.changes import Advice, Change
from xdplab.analysis.sweep.clusters import Candidate, Cluster, Clustering
from xdplab.analysis.sweep.importance import Importance
from xdplab.analysis.sweep.outliers import Outlier
from xdplab.analysis.sweep.rules import Rule, RuleSet
from xdplab.analysis.sweep.table import Configuration, Factor, Statistics, Table

__all__ = [
    "MIN_CONFIGURATIONS",
    "SHOWN",
    "Advice",
    "Anova",
    "Candidate",
    "Change",
    "Cluster",
    "Clustering",
    "Configuration",
    "Effect",
    "Factor",
    "Importance",
    "Outlier",
    "Rule",
    "RuleSet",
    "Statistics",
    "SweepAnalysis",
    "Table",
    "analyse_sweep",
    "is_sweep",
    "sweep_sentence",
]
