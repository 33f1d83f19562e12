# SPDX-License-Identifier: Apache-2.0
"""`dev bench-report`: what a report of very many trials takes, on copies of a stored run's points."""

import itertools
import json
import lzma
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xdplab.model import Model, Point, RunRecord
from xdplab.results import new_run
from xdplab.tools import project_root

_STORED = project_root() / "tools" / "tests" / "data" / "main-job"


class Cost(Model):
    """Of `xdplab report`, in a process of its own."""

    points: int
    trials: int
    journal_mib: float
    report_mib: float
    seconds: float
    #: Largest resident set.
    peak_mib: float


def bench_report(points: int, trials: int) -> Cost:
    """Write a run of so many points and trials, and draw its report."""
    with tempfile.TemporaryDirectory(prefix="xdplab-bench-") as place:
        run = new_run(Path(place), "bench")
        record, lines = _copies(points, trials)
        run.head(record)
        with (run.path / "trials.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(lines)
        began = time.monotonic()
        argv = [sys.executable, "-c", "from xdplab.cli import main; main()", "report", str(run.path)]
        pid = os.posix_spawn(sys.executable, argv, os.environ)
        _, status, usage = os.wait4(pid, 0)
        if status:
            raise SystemExit(f"xdplab report: exit status {status}")
        return Cost(
            points=points,
            trials=trials,
            journal_mib=_mib(run.path / "trials.jsonl"),
            report_mib=_mib(run.report),
            seconds=time.monotonic() - began,
            peak_mib=usage.ru_maxrss / 1024,
        )


def _copies(points: int, trials: int) -> tuple[RunRecord, Iterator[str]]:
    """The stored run's head with as many points, which differ in their number of flows, and lines of its journal."""
    stored = RunRecord.model_validate_json((_STORED / "run.json").read_text(encoding="utf-8"))
    by_point: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with lzma.open(_STORED / "trials.jsonl.xz", "rt", encoding="utf-8") as file:
        for line in file:
            by_point[(trial := json.loads(line))["point_id"]].append(trial)
    copies: dict[str, Point] = {}
    original: dict[str, str] = {}
    for number, point in enumerate(itertools.islice(itertools.cycle(stored.points.values()), points)):
        traffic = point.traffic.model_copy(update={"flows": 1 + number // len(stored.points)})
        copy = point.model_copy(update={"traffic": traffic})
        copies[copy.id], original[copy.id] = copy, point.id

    def lines() -> Iterator[str]:
        for number, point_id in enumerate(copies):
            own = by_point[original[point_id]]
            rounds = 1 + max(trial["repetition"] for trial in own)
            for at in range(trials // points + (number < trials % points)):
                trial = own[at % len(own)]
                repetition = trial["repetition"] + rounds * (at // len(own))
                yield json.dumps({**trial, "point_id": point_id, "repetition": repetition}) + "\n"

    return stored.model_copy(update={"points": copies, "unsupported": {}}), lines()


def _mib(path: Path) -> float:
    return path.stat().st_size / (1 << 20)
