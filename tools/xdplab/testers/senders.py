# SPDX-License-Identifier: Apache-2.0
"""A load that several CPUs send in parallel: its parts, each a stream with sequences of its own, and their sum."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdplab.model import FlowFigures, StreamResult, StreamSpec, TrialSpec
from xdplab.testers.calibrate import merged


@dataclass(frozen=True)
class Part:
    """What one CPU sends of a stream."""

    #: Number of the stream in the trial.
    of: int
    stream: StreamSpec
    cpu: int
    #: Of its flows, among those of the whole stream.
    first_flow: int = 0


def parts_of(trial: TrialSpec, cpus: Sequence[int]) -> list[Part]:
    """Loads in as many parts as there are CPUs; what is time-stamped is sent by the first."""
    found = []
    for index, stream in enumerate(trial.streams):
        several = cpus if stream.kind == "load" else cpus[:1]
        found += _split(index, stream, several[: stream.count or None])
    return found


def _split(index: int, stream: StreamSpec, cpus: Sequence[int]) -> list[Part]:
    """Equal rates. Frames leave in turns, or of a burst at once.

    Flows in turns are divided where that gives equal parts; each part has all of others, which are drawn again.
    """
    count = len(cpus)
    kind, _, burst = stream.departures.partition(":")
    divided = stream.flow_choice == "round-robin" and not stream.flows % count
    found, first_flow = [], 0
    for number, cpu in enumerate(cpus):
        turn_ns = number * 1e9 / stream.pps if stream.pps and kind != "burst" else 0.0
        flows = stream.flows // count if divided else stream.flows
        update: dict[str, Any] = {
            "pps": stream.pps / count if stream.pps else None,
            "count": stream.count // count + (number < stream.count % count),
            "start_ns": stream.start_ns + round(turn_ns),
            "flows": flows,
        }
        if kind == "burst":
            update["departures"] = f"burst:{int(burst) // count}" if int(burst) > count else "paced"
        found.append(Part(index, stream.model_copy(update=update), cpu, first_flow))
        first_flow += flows if divided else 0
    return found


def merge_parts(asked: StreamSpec, parts: Sequence[StreamResult]) -> StreamResult:
    """What became of a stream; gaps are those of the part that has the longest."""
    if len(parts) == 1:
        return parts[0]
    names = (
        "intended", "sent", "skipped", "received", "lost", "duplicated", "out_of_order", "achieved_pps", "rx_pps",
        "trailing_lost", "beyond_window",
    )  # fmt: skip
    sums = {name: sum(getattr(part, name) for part in parts) for name in names}
    known = {name: [getattr(part, name) for part in parts] for name in ("tx_drops", "on_schedule", "damaged")}
    gaps = [part.longest_gap_ns for part in parts]
    lost = [(part.last_lost + 1) / part.numbered for part in parts if part.last_lost is not None and part.numbered]
    return parts[0].model_copy(
        update={
            **sums,
            **{name: None if None in each else sum(each) for name, each in known.items()},
            "offered_pps": asked.pps,
            "lateness": merged([part.lateness for part in parts if part.lateness]),
            # as far into the whole as into its part
            "last_lost": round(max(lost) * sum(part.numbered for part in parts)) - 1 if lost else None,
            "longest_gap_ns": None if None in gaps else max(filter(None, gaps), default=0),
            "flow_figures": _flows(asked, [part.flow_figures for part in parts if part.flow_figures]),
        }
    )


def _flows(asked: StreamSpec, parts: Sequence[FlowFigures]) -> FlowFigures | None:
    """Divided flows one behind another; of drawn ones the sums. A load has no latencies."""
    if not parts:
        return None
    if sum(len(part.sent) for part in parts) == asked.flows:
        return FlowFigures(**{k: [x for part in parts for x in getattr(part, k)] for k in FlowFigures.model_fields})
    columns = {
        name: tuple(sum(each) for each in zip(*(getattr(part, name) for part in parts), strict=True))
        for name in ("sent", "received", "lost")
    }
    return parts[0].model_copy(update=columns)
