# SPDX-License-Identifier: Apache-2.0
"""CPU time per million frames of a trial, as figures of its repetition."""

import math

from xdplab.measure.datapath import datapath_stats
from xdplab.measure.figure import CPU, CPU_IDLE
from xdplab.measure.measured import Measured
from xdplab.model import TrialRecord


def cpu_figures(trial: TrialRecord) -> dict[str, Measured]:
    """Key of a figure -> what is known of it; {} where nobody looked."""
    used = trial.cpu
    if used is None:
        return {}
    if used.doubt:
        return {CPU.key: Measured(value=None, low=0.0, high=math.inf, doubt=used.doubt)}
    found = {CPU.key: Measured(value=used.s_per_mframes, resolution=used.resolution)}
    met = datapath_stats([trial])
    if met is not None and met.busy_share is not None and used.polling_s:
        idle_s = (1 - met.busy_share) * used.polling_s
        found[CPU_IDLE.key] = Measured(value=idle_s / used.frames * 1e6, resolution=used.resolution)
    return found
