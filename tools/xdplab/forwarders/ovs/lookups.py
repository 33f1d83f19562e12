# SPDX-License-Identifier: Apache-2.0
"""Where the netdev datapath met frames, by its threads' own counters.

Up to 3.x `pmd-stats-show` has all threads; 4.0 has `pmd-perf-show` in its place. Both print some sums as means, which
are exact to their last digit since the last `pmd-stats-clear` only: so the counters are cleared where they are read,
and summed here. The time of upcalls is not read: it is counted with `pmd-perf-metrics` only, which costs frames.
"""

import re
from collections.abc import Callable

from xdplab.model.lookups import LOOKUPS, ThreadLookups

_SHOWS = ("dpif-netdev/pmd-stats-show", "dpif-netdev/pmd-perf-show")
_CLEAR = "dpif-netdev/pmd-stats-clear"
#: What the lines of both begin with, in small letters -> field of `ThreadLookups`.
_COUNTS = {
    "packets received": "frames", "rx packets": "frames", "packet recirculations": "recirculated",
    "phwol hits": "hardware", "simple match hits": "simple", "emc hits": "emc", "smc hits": "smc",
    "megaflow hits": "megaflow", "miss with success upcall": "upcalls", "upcalls": "upcalls",
    "miss with failed upcall": "lost", "lost upcalls": "lost", "processing cycles": "cycles",
    "idle cycles": "idle",
}  # fmt: skip
_THREAD = re.compile(r"^(?:pmd thread.* core_id (\d+)|main thread.*):$", re.MULTILINE)
_LINE = re.compile(r"^ +(?:- )?([A-Za-z. ]+?): *([\d.]+)(.*)$", re.MULTILINE)


class LookupCounts:
    """Of one daemon, since it was started: cleared there, summed here."""

    def __init__(self) -> None:
        self._show: str | None = None
        self._sums: dict[str, dict[str, float]] = {}

    def read(self, ask: Callable[[str], str]) -> dict[str, dict[str, dict[str, float]]]:
        """`LOOKUPS`: thread -> fields of `ThreadLookups` up to now, of threads that have had a frame.

        No thread of a daemon that has none of the commands.
        """
        if self._show is None:
            commands = set(ask("list-commands").split())
            self._show = next((show for show in _SHOWS if {show, _CLEAR} <= commands), "")
        told = threads_told(ask(self._show)) if self._show else {}
        if told:
            ask(_CLEAR)
        for thread, found in told.items():
            if found.frames:
                sums = self._sums.setdefault(thread, {})
                for key, value in found.model_dump(exclude_none=True).items():
                    sums[key] = round(sums.get(key, 0) + value, 3)
        return {LOOKUPS: {thread: dict(sums) for thread, sums in self._sums.items()}}


def threads_told(text: str) -> dict[str, ThreadLookups]:
    """`core 1`, or `main` -> what it counted, of either command."""
    _, *parts = _THREAD.split(text)
    return {f"core {core}" if core else "main": _counted(block) for core, block in zip(*[iter(parts)] * 2, strict=True)}


def _counted(block: str) -> ThreadLookups:
    lines = {label.lower(): (float(value), rest) for label, value, rest in _LINE.findall(block)}
    found = {field: lines[label][0] for label, field in _COUNTS.items() if label in lines}
    frames, hits = found.get("frames", 0.0), found.get("megaflow", 0.0)
    if "datapath passes" in lines:
        found["recirculated"] = lines["datapath passes"][0] - frames
    if mean := re.search(r"([\d.]+) subtbl lookups/hit", block):
        found["subtables"] = round(float(mean[1]) * hits)
    elif "avg. subtable lookups per megaflow hit" in lines:
        found["subtables"] = round(lines["avg. subtable lookups per megaflow hit"][0] * hits)
    if mean := re.search(r"([\d.]+) cycles/pkt", block):
        found["cycles"] = float(mean[1]) * frames
        found["idle"] = max(0.0, lines["used tsc cycles"][0] - found["cycles"])
    return ThreadLookups(**found)
