# SPDX-License-Identifier: Apache-2.0
"""Whether a forwarder let go of each frame once, as it came: what the tester counted in all of its trials.

A forwarder shares memory with the kernel, and a frame's buffer has one owner at a time. Who forgets that sends a buffer
twice, sends one that somebody else is writing to, or one that was left over from before it was started.
"""

from collections.abc import Sequence

from xdplab.model import TrialRecord
from xdplab.model.digits import counted


def ownership_faults(trials: Sequence[TrialRecord]) -> tuple[str, ...]:
    """What follows the forwarder's name in a sentence; a single frame is a fault, however disturbed the trial was."""
    streams = [stream for trial in trials if trial.result for stream in trial.result.streams]
    twice = sum(stream.duplicated for stream in streams)
    damaged = sum(stream.damaged or 0 for stream in streams)
    earlier = sum(trial.result.earlier for trial in trials if trial.result and trial.from_before_start)
    return tuple(
        said
        for count, said in (
            (twice, f"delivered {counted(twice, 'frame')} twice"),
            (damaged, f"delivered {counted(damaged, 'frame')} damaged"),
            (earlier, f"delivered {counted(earlier, 'frame')} of earlier trials, from before it was started"),
        )
        if count
    )
