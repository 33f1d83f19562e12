# SPDX-License-Identifier: Apache-2.0
"""System calls and copied bytes per frame, from the counters that our patches add to OVS's AF_XDP ports."""

import itertools
import re
from collections.abc import Iterable
from statistics import median

from xdplab.model import Model, TrialRecord

_COUNTERS = {"send_calls": "tx_kick", "receive_calls": "rx_wakeup", "copied_bytes": "tx_copy_bytes"}


class PerFrame(Model):
    """Medians over the repetitions, for each frame that was sent on."""

    send_calls: float
    receive_calls: float
    copied_bytes: float


def per_frame(trials: Iterable[TrialRecord]) -> PerFrame | None:
    """From the first to the last trial of each repetition; None when the ports have no such counters."""
    ratios: dict[str, list[float]] = {name: [] for name in _COUNTERS}
    measured = sorted((t for t in trials if t.result), key=lambda t: (t.repetition, t.trial, t.attempt))
    for _, repetition in itertools.groupby(measured, key=lambda trial: trial.repetition):
        seen = [_totals(trial.counters) for trial in repetition]
        first, last = seen[0], seen[-1]
        frames = last.get("frames", 0) - first.get("frames", 0)
        if frames <= 0 or not _COUNTERS.keys() <= last.keys():
            continue
        for name in _COUNTERS:
            ratios[name].append((last[name] - first[name]) / frames)
    if not all(ratios.values()):
        return None
    return PerFrame(**{name: median(values) for name, values in ratios.items()})


def _totals(counters: dict[str, object]) -> dict[str, int]:
    """Sums over ports and queues."""
    totals: dict[str, int] = {}
    for port in counters.values():
        for key, value in port.items() if isinstance(port, dict) else ():
            for name, counter in (("frames", "tx_pkts"), *_COUNTERS.items()):
                if re.fullmatch(rf"(xsk_queue_\d+_)?{counter}", key):
                    totals[name] = totals.get(name, 0) + int(value)
    return totals
