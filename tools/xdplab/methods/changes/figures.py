# SPDX-License-Identifier: Apache-2.0
"""What a trial with a change says."""

from xdplab.analysis.figures import RepetitionFigures
from xdplab.methods.figure import Figure
from xdplab.model import TrialRecord

INSTALLED = Figure(
    key="installed_per_s", name="rules installed", unit="rules/s", better="more", verb="installs", main=True
)
REMOVED = Figure(key="removed_per_s", name="rules removed", unit="rules/s", better="more", verb="removes")
GAP = Figure(
    key="gap_us", name="longest gap", unit="ms", per=1e3, said_unit="ms", said_per=1e3, better="less", main=True
)
FIGURES = (INSTALLED, REMOVED, GAP)
#: Values that are compared with nothing, for they may be 0.
LOST, BLOCKED, TOOK, NEW = "lost_frames", "blocked_us", "change_us", "new_flows_per_s"
#: A gap of which the sender's own stall is this share says more of the machine.
_OWN_SHARE = 0.5
_OF_RULES = ("rules", "rule-stream")


def repetition_figures(trial: TrialRecord) -> RepetitionFigures:
    """Times of a restart without what the suite itself put between its stop and its start."""
    result, figures = trial.result, trial.figures
    assert result is not None
    rounds = int(figures.get("rounds", 1))
    own_us = (result.restart_own_ns or 0) / 1e3
    interval_us = 1e6 * max((1 / stream.achieved_pps for stream in result.streams if stream.achieved_pps), default=0.0)
    # while the sender stood still, nobody can say what the forwarder did
    unseen_us = max(interval_us, result.longest_gap_ns / 1e3)
    gap_us = max(((stream.longest_gap_ns or 0) / 1e3 for stream in result.streams), default=0.0)
    back = all(stream.received and not stream.trailing_lost for stream in result.streams)
    values: dict[str, float | None] = {LOST: result.lost}
    doubts = {}
    if trial.clause == "new-flows":
        values[NEW] = result.received / result.elapsed_s
    elif result.lost == 0:
        values[GAP.key] = unseen_us
        values[BLOCKED] = 0.0
    elif not back or gap_us < own_us:
        values[GAP.key] = None
        doubts[GAP.key] = "no frame came through behind the change" if not back else "frames came through meanwhile"
    else:
        values[GAP.key] = gap_us - own_us
        values[BLOCKED] = max(0.0, 1e6 * result.lost * result.elapsed_s / result.sent / rounds - own_us)
        if result.longest_gap_ns / 1e3 > _OWN_SHARE * gap_us:
            doubts[GAP.key] = f"the tester itself sent nothing for {result.longest_gap_ns / 1e6:.3g} ms"
    steps = figures.get("steps", {})
    if steps:
        values[TOOK] = 1e6 * sum(each["s"] for each in steps.values()) / rounds
    for figure, name in ((INSTALLED, "installed"), (REMOVED, "removed")) if trial.clause in _OF_RULES else ():
        values[figure.key] = steps[name]["count"] / steps[name]["s"] if steps[name]["s"] else None
    gap = values.get(GAP.key)
    return RepetitionFigures(
        repetition=trial.repetition,
        disturbed=trial.status == "disturbed",
        values=values,
        # frames that all came tell that a gap is shorter than the longest time between two that were sent
        limited_by={GAP.key: "below-minimum"} if gap and result.lost == 0 else {},
        resolution={GAP.key: unseen_us / gap} if gap else {},
        doubts=doubts,
        loss_ratio=0.0,
        achieved_pps=0.0,
        forwarded_pps=0.0,
    )
