# SPDX-License-Identifier: Apache-2.0
"""Names of the points of a study, each different from the others."""

import hashlib
from collections.abc import Iterable
from typing import Any

from xdplab.model.study import Point
from xdplab.model.traffic import TrafficSpec

#: Keys of a profile that have a text of their own.
RATES = ("frame_bytes", "probe_pps", "load_pps", "load_share", "load_of_line", "line_rate_bps")


def unusual(traffic: TrafficSpec, *but: str) -> dict[str, Any]:
    """What of a profile is not the default; its request by length and digest."""
    found = traffic.model_dump(mode="json", exclude_defaults=True, exclude=set(but))
    if traffic.request is not None:
        digest = hashlib.sha256(traffic.request.encode()).hexdigest()[:8]
        found["request"] = f"{len(traffic.request_hex) // 2} bytes {digest}"
    return found


class Names:
    """A name for each of several points: its title, and each of its settings that is not the same in all of them."""

    def __init__(self, points: Iterable[Point]) -> None:
        seen: dict[str, set[str]] = {}
        for point in points:
            for name, value in _settings(point).items():
                seen.setdefault(name, set()).add(str(value))
        self._varying = frozenset(name for name, values in seen.items() if len(values) > 1)

    def of(self, point: Point) -> str:
        """One line."""
        settings = [f"{name}={value}" for name, value in _settings(point).items() if name in self._varying]
        return ", ".join([point.title, *settings])


def _settings(point: Point) -> dict[str, object]:
    """What of a point its title may not tell: a label hides options."""
    traffic = point.traffic
    load = f"{traffic.load_share:.0%}" if traffic.load_share else traffic.stated_load_pps
    sent = {
        "pipeline": str(point.pipeline),
        "path": point.path.value,
        "bytes": traffic.frame_bytes,
        "probes": traffic.probes_text,
        "load": load,
        **traffic.model_dump(mode="json", exclude=set(RATES)),
        **unusual(traffic, *RATES),
    }
    return {**(point.forwarder.options if point.forwarder.label else {}), **point.knobs, **sent}
