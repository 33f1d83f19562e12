# SPDX-License-Identifier: Apache-2.0
"""Where the netdev datapath met frames, by its threads' own counters.

Up to 3.x `pmd-stats-show` has all threads; 4.0 has `pmd-perf-show` in its place. Both print some sums as means, which
are exact to their last digit since the last `pmd-stats-clear` only: so the counters are cleared where they are read,
and summed here. The time of upcalls is not read: it is counted with `pmd-perf-metrics` only, which costs frames.
"""

import re
import time
from collections.abc import Callable

from xdplab.model import PointFailed
from xdplab.model.lookups import LOOKUPS, ThreadLookups

_SHOWS = ("dpif-netdev/pmd-stats-show", "dpif-netdev/pmd-perf-show")
_CLEAR = "dpif-netdev/pmd-stats-clear"
#: What lines begin with, in small letters -> field of `ThreadLookups`: of `pmd-stats-show`, of `pmd-perf-show`.
_STATS = {
    "packets received": "frames", "packet recirculations": "recirculated", "phwol hits": "hardware",
    "simple match hits": "simple", "emc hits": "emc", "smc hits": "smc", "megaflow hits": "megaflow",
    "avg. subtable lookups per megaflow hit": "", "miss with success upcall": "upcalls",
    "miss with failed upcall": "lost",
}  # fmt: skip
_PERF = {
    "rx packets": "frames", "datapath passes": "", "phwol hits": "hardware", "simple match hits": "simple",
    "emc hits": "emc", "smc hits": "smc", "megaflow hits": "megaflow", "upcalls": "upcalls", "lost upcalls": "lost",
}  # fmt: skip
#: Of threads that poll, where they had a frame.
_CYCLES = {"idle cycles": "idle", "processing cycles": "cycles"}
_PERF_CYCLES = {"used tsc cycles": ""}
_NOT_READ = {
    "avg. datapath passes per packet", "mfex opt hits", "avg. packets per output batch", "avg cycles per packet",
    "avg processing cycles per packet", "iterations", "idle iterations", "busy iterations", "sleep iterations",
    "sleep time (us)", "tx packets", "tx batches",
}  # fmt: skip
_KNOWN = {*_STATS, *_PERF, *_CYCLES, *_PERF_CYCLES, *_NOT_READ}
_JUST_CLEARED = "Measurement duration: 0.000 s"
#: How often it is looked for another, and the pause before.
_LOOKS, _LOOK_S = 5, 0.002
_THREAD = re.compile(r"(?:pmd thread.* core_id (\d+)|main thread.*):")
_LINE = re.compile(r" +(?:- )?([A-Za-z. ()]+?): *(\d[\d.]*)(?: +(\(.*\)))?")
#: Above each thread of `pmd-perf-show`.
_ABOVE = re.compile(r"Time: [\d:.]+|Measurement duration: [\d.]+ s|\s*")


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
        threads = parse_threads(self._shown(ask)) if self._show else {}
        if threads:
            ask(_CLEAR)
        for thread, found in threads.items():
            if found.frames:
                sums = self._sums.setdefault(thread, {})
                for key, value in found.model_dump(exclude_none=True).items():
                    sums[key] = round(sums.get(key, 0) + value, 3)
        return {LOOKUPS: {thread: dict(sums) for thread, sums in self._sums.items()}}

    def _shown(self, ask: Callable[[str], str]) -> str:
        """`pmd-perf-show` leaves out a thread in the millisecond in which it has cleared its counters."""
        for _ in range(_LOOKS):
            text = ask(self._show or "")
            if _JUST_CLEARED not in text:
                break
            time.sleep(_LOOK_S)
        return text


def parse_threads(text: str) -> dict[str, ThreadLookups]:
    """`core 1`, or `main` -> what it counted, of either command.

    Raises:
        PointFailed: a line is not understood, or a thread that had frames lacks one.
    """
    blocks: dict[str, dict[str, tuple[float, str]]] = {}
    thread = ""
    for line in text.splitlines():
        if named := _THREAD.fullmatch(line):
            thread = f"core {named[1]}" if named[1] else "main"
            blocks[thread] = {}
        elif (read := _LINE.fullmatch(line)) and thread and (label := read[1].lower()) in _KNOWN:
            blocks[thread][label] = float(read[2]), read[3] or ""
        elif not _ABOVE.fullmatch(line):
            raise PointFailed(f"Open vSwitch: counters of its threads: line not understood: {line.strip()!r}")
    return {thread: _counted(thread, lines) for thread, lines in blocks.items()}


def _counted(thread: str, lines: dict[str, tuple[float, str]]) -> ThreadLookups:
    if not lines:  # just cleared
        return ThreadLookups()
    perf = "rx packets" in lines
    fields = {**_PERF, **_PERF_CYCLES} if perf else {**_STATS, **_CYCLES}
    frames, _ = lines.get("rx packets", lines.get("packets received", (None, "")))
    lacking = [label for label in fields if label not in lines and (thread != "main" or "cycles" not in label)]
    if frames is None or (frames and lacking):
        raise PointFailed(f"Open vSwitch: counters of its threads: {thread} has no {lacking[0]!r}")
    if not frames:
        return ThreadLookups()
    found = {field: lines[label][0] for label, field in fields.items() if field and label in lines}
    if perf:
        found["recirculated"] = lines["datapath passes"][0] - frames
        found["subtables"] = round(_mean(lines, "megaflow hits", "subtbl lookups/hit") * found["megaflow"])
        if thread != "main":
            found["cycles"] = _mean(lines, "rx packets", "cycles/pkt") * frames
            found["idle"] = max(0.0, lines["used tsc cycles"][0] - found["cycles"])
    else:
        found["subtables"] = round(lines["avg. subtable lookups per megaflow hit"][0] * found["megaflow"])
    return ThreadLookups(**found)


def _mean(lines: dict[str, tuple[float, str]], label: str, what: str) -> float:
    mean = re.search(rf"([\d.]+) {what}", lines[label][1])
    if mean is None:
        raise PointFailed(f"Open vSwitch: counters of its threads: no {what} in {label}: {lines[label][1]!r}")
    return float(mean[1])
