# SPDX-License-Identifier: Apache-2.0
"""The study's second part as a study file: two configurations of each group again, under load.

First at the rate of the delay study's equation (bandwidth x smallest latency / bits of a frame), which has one frame on
the way at a time and none waiting; then without an interval: as fast as the forwarder forwards or, of pings in a closed
loop, the next as soon as the last is back.
"""

from typing import Any

from xdplab.api import TESTER, InputError, Point, RunRecord, make_tester, same_level
from xdplab_delays.analyse import DelayAnalysis

PER_GROUP = 2
#: Of a closed loop: more than any path carries.
_ENDLESS_PPS = 100e6


def under_load(run: RunRecord, found: DelayAnalysis, bandwidth_bps: float | None = None) -> dict[str, Any]:
    """The study file as a mapping.

    Args:
        run: the sweep.
        found: its analysis.
        bandwidth_bps: of the medium; default: the `line_rate_bps` of the study's traffic.

    Raises:
        InputError: no bandwidth is known, or the sweep was of mixed sizes.
    """
    study = run.study
    bandwidth = bandwidth_bps or study.traffic.line_rate_bps
    if bandwidth is None:
        raise InputError("under load: the equation needs the bandwidth of the medium: --bandwidth-bps")
    frame_bytes = run.points[found.sweep.configurations[0].point_id].traffic.frame_bytes
    if isinstance(frame_bytes, str):
        raise InputError(f"under load: the equation needs one frame size, the sweep was of {frame_bytes}")
    smallest_s = min(row.statistics.min_us for row in found.sweep.configurations) / 1e6
    rate_pps = bandwidth * smallest_s / (8 * frame_bytes)
    chosen = [
        row
        for group in found.groups.clusters
        for row in [r for r in found.sweep.configurations if found.groups.labels.get(r.point_id) == group.number][
            :PER_GROUP
        ]
    ]
    no_interval = {"probe_pps": _ENDLESS_PPS} if make_tester(study.tester).closed_loop else {"load_share": 1.0}
    written: dict[str, Any] = study.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    return {
        **written,
        "schema": 1,
        "name": f"{study.name[:20]}-under-load",
        "title": f"{study.title or study.name}: {PER_GROUP} configurations of each group under load",
        "design": {"kind": "list", "points": [_point(run, run.points[row.point_id]) for row in chosen]},
        "constraints": [],
        "loads": [{"probe_pps": round(rate_pps, 3)}, no_interval],
    }


def _point(run: RunRecord, point: Point) -> dict[str, Any]:
    """A configuration as the design lists it: the study's forwarder, the swept options, the knobs."""
    options = point.forwarder.options
    base = next(
        each
        for each in run.study.forwarders
        if each.name == point.forwarder.name
        and all(key in options and same_level(options[key], value) for key, value in each.options.items())
    )
    swept = {f"{base.name}.{key}": value for key, value in options.items() if key not in base.options}
    tester = {f"{TESTER}.{key}": value for key, value in point.tester_options.items()}
    return {"forwarder": base.title, **swept, **tester, **point.knobs}
