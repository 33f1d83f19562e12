# SPDX-License-Identifier: Apache-2.0
"""What share of a trial the machine may have disturbed."""

from xdplab.measure.distribution import timed
from xdplab.model import TrialRecord
from xdplab.stats.contamination import contaminated_share


def disturbed_share(trial: TrialRecord) -> float | None:
    """0 of an undisturbed trial; None of a disturbed one whose tester does not say when its frames left late."""
    if trial.status != "disturbed":
        return 0.0
    found = trial.disturbance
    if found is None or any(stream.lateness is None for stream in timed(trial)):
        return None
    steal = max(found.steal_share.values(), default=0.0)
    # what was judged to be disturbed is not clean, whatever the clocks say: then nobody knows how much
    return contaminated_share(found.stalled_share, steal, found.run_delay_share) or None
