# SPDX-License-Identifier: Apache-2.0
"""Run and trial records made by hand, for everything that reads them."""

from collections.abc import Iterable, Sequence
from typing import Any

from xdplab.forwarders import make_forwarder, plain_name
from xdplab.measure import RepetitionFigures
from xdplab.model import (
    CpuLayout,
    Environment,
    ForwarderSpec,
    LatencySummary,
    Path,
    Point,
    RunRecord,
    StreamResult,
    StudySpec,
    TestbedSpec,
    TrafficSpec,
    TrialRecord,
    TrialResult,
)
from xdplab.model.histogram import histogram_of

LAYOUT = CpuLayout(tester_tx=0, forwarder=1, housekeeping=(0,))


def encoded(values_ns: Iterable[int]) -> str:
    """Values as the base64 histogram of a record."""
    histogram = histogram_of()
    for value in values_ns:
        histogram.record_value(value)
    return str(histogram.encode().decode())


def latency(values_ns: Sequence[int]) -> LatencySummary:
    """A latency summary of these values."""
    return LatencySummary(
        count=len(values_ns),
        min_ns=min(values_ns),
        max_ns=max(values_ns),
        mean_ns=sum(values_ns) / len(values_ns),
        hdr=encoded(values_ns),
    )


def stream(values_ns: Sequence[int] = (), *, sent: int | None = None, **fields: Any) -> StreamResult:
    """A latency stream of one second in which `values_ns` came through."""
    frames = len(values_ns) if sent is None else sent
    given: dict[str, Any] = {
        "kind": "latency",
        "frame_bytes": 64,
        "offered_pps": float(frames),
        "intended": frames,
        "sent": frames,
        "received": len(values_ns),
        "lost": frames - len(values_ns),
        "achieved_pps": float(frames),
        "rx_pps": float(len(values_ns)),
        "latency": latency(values_ns) if values_ns else None,
    }
    return StreamResult(**{**given, **fields})


def result(*streams: StreamResult, **fields: Any) -> TrialResult:
    return TrialResult(**{"tester": "fake", "sender": "fake", "elapsed_s": 1.0, "streams": streams, **fields})


def point(title: str = "fake", **traffic: Any) -> Point:
    """A point of the forwarder `name` or `name:option=value`."""
    spec = ForwarderSpec.model_validate(title)
    return Point(forwarder=spec, path=Path.THROUGH, knobs={}, traffic=TrafficSpec(**traffic))


def trial(
    at: Point,
    repetition: int = 0,
    values_ns: Sequence[int] = (1000,),
    *,
    sent: int | None = None,
    **fields: Any,
) -> TrialRecord:
    """A trial; `status` "failed" and "unsupported" have no result."""
    status = fields.pop("status", "ok")
    has_result = status == "ok"
    given: dict[str, Any] = {
        "point_id": at.id,
        "repetition": repetition,
        "status": status,
        "started": "2026-01-02T03:04:05.678+00:00",
        "offered_pps": float(sent or len(values_ns)) if has_result else None,
        "result": result(stream(values_ns, sent=sent)) if has_result else None,
        "mode": {"label": "simulated"} if has_result else {},
    }
    return TrialRecord(**{**given, **fields})


def environment(**changes: Any) -> Environment:
    given: dict[str, Any] = {
        "kernel": "6.18.0",
        "cmdline": "quiet",
        "cpu_model": "Some CPU",
        "topology": {"cpus": 2, "hypervisor": True},
        "governor": "no cpufreq",
        "mitigations": {"spectre_v2": "Vulnerable"},
        "memory_kib": 1,
        "ports": {},
        "sysctls": {"net.core.busy_poll": "0"},
        "versions": {"xdplab": "0.1.0"},
        "git_revision": "0123456789ab",
    }
    return Environment(**{**given, **changes})


def run_record(*points: Point, study: dict[str, Any] | None = None, **fields: Any) -> RunRecord:
    """The head of a run over these points."""
    spec = {"name": "fake-study", "testbed": "fake", "tester": "fake", "forwarders": ["fake"], **(study or {})}
    given: dict[str, Any] = {
        "run_id": "fake-study-1",
        "started": "2026-01-02T03:04:05+00:00",
        "study": StudySpec.model_validate(spec),
        "testbed": TestbedSpec(name="fake", kind="fake"),
        "layout": LAYOUT,
        "rx_program": "none",
        "rx_reason": "the only one",
        "points": {each.id: each for each in points},
        "plain_names": {each.forwarder.title: plain_name(each.forwarder) for each in points},
        "pipelines": {each.forwarder.title: make_forwarder(each.forwarder).pipelines for each in points},
        "unsupported": {},
        "calibration": None,
        "environment": environment(),
    }
    return RunRecord(**{**given, **fields})


def each_figure(one: RepetitionFigures, what: str) -> dict[str, Any]:
    """Key -> `value`, `doubt`, `limited_by` ... of the figures of a repetition, without empty ones."""
    return {key: getattr(found, what) for key, found in one.figures.items() if getattr(found, what) != ""}
