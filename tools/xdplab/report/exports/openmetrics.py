# SPDX-License-Identifier: Apache-2.0
"""OpenMetrics 1.0 text, for Prometheus and what reads its form: units in names, in its base units (s, not µs)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from xdplab.analysis.tables.export import ExportRow, split_key
from xdplab.measure.point import PointSummary
from xdplab.model import RunRecord

#: Labels that tell a row from all others.
_LABELS = (
    *("run_id", "study", "testbed", "tester", "method", "point_id", "forwarder", "levels", "part", "mode", "path"),
    *("quantity", "pipeline", "frame_bytes", "knobs"),
)
_STATES = ("ok", "partial", "failed", "unsupported", "not measured")
_COUNTS = {
    "repetitions": "Repetitions that were measured.",
}


class _Families:
    """What is written, family by family: samples of one stand together."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}

    def add(
        self, name: str, kind: str, help_text: str, labels: Mapping[str, str], value: float, unit: str = ""
    ) -> None:
        head = [
            f"# TYPE {name} {kind}",
            f"# UNIT {name} {unit}" if unit else "",
            f"# HELP {name} {_escaped(help_text)}",
        ]
        sample = f"{name}_info" if kind == "info" else name
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        self._found.setdefault(name, [*filter(None, head)]).append(f"{sample}{{{inside}}} {value!r}")

    def text(self) -> str:
        lines = [line for family in self._found.values() for line in family]
        return "\n".join([*lines, "# EOF"]) + "\n"


def openmetrics_of(run: RunRecord, points: Sequence[PointSummary], rows: Iterable[ExportRow]) -> bytes:
    """A gauge for each figure, and for the lowest and highest repetition behind it; counts and states of each point.

    Label `bound` says of a figure that is none by itself: `at least`, `below`. Label `doubtful`: the report says why.
    """
    out = _Families()
    for row in rows:
        labels = {key: str(getattr(row, key)) for key in _LABELS}
        labels |= {"bound": _bound(row), "doubtful": "yes" if row.doubts or row.machine_tail else "no"}
        stem, unit = split_key(row.figure)
        stem = stem or "rate"
        for end, value in (("", row.value), ("_low", row.low), ("_high", row.high), ("_below", row.below)):
            if value is not None:
                name = _name(f"{stem}{end}", unit.base if unit else "")
                help_text = f"{row.name}{_ENDS[end]}{f', in {unit.base}' if unit else ''}"
                out.add(
                    name, "gauge", help_text, labels, value * (unit.scale if unit else 1.0), unit.base if unit else ""
                )
    for point in points:
        labels = {"run_id": run.run_id, "study": run.study.name, "point_id": point.point_id}
        labels |= {"forwarder": point.forwarder, "path": point.path, "frame_bytes": str(point.frame_bytes)}
        for key, help_text in _COUNTS.items():
            out.add(f"xdplab_{key}", "gauge", help_text, labels, getattr(point, key))
        for state in _STATES:
            help_text = "What became of the point."
            out.add(
                "xdplab_status", "stateset", help_text, {**labels, "xdplab_status": state}, int(point.status == state)
            )
    environment = run.environment
    known = {"run_id": run.run_id, "study": run.study.name, "testbed": run.testbed.name}
    facts = {"method": run.study.method.name, "kernel": environment.kernel, "cpu_model": environment.cpu_model}
    facts |= {"governor": environment.governor, "git_revision": environment.git_revision}
    out.add("xdplab_run", "info", "Where and by what a run was made.", {**known, **facts}, 1)
    began = datetime.fromisoformat(run.started).timestamp()
    out.add("xdplab_run_started_seconds", "gauge", "Unix time at which a run began.", known, began, "seconds")
    return out.text().encode()


_ENDS = {"": "", "_low": ": lowest repetition", "_high": ": highest repetition", "_below": ": what it is below"}


def _bound(row: ExportRow) -> str:
    return "at least" if row.at_least else "below" if row.below is not None else "none"


def _name(stem: str, unit: str) -> str:
    """`xdplab_p50_seconds`."""
    return "_".join(filter(None, ["xdplab", re.sub(r"\W+", "_", stem, flags=re.ASCII).strip("_"), unit]))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
