# SPDX-License-Identifier: Apache-2.0
"""What xdpgen and xsk, the programs of `bpf/`, have in common: the object of a stream, and what they tell of it."""

import math
from typing import Any

from xdplab.model import FlowFigures, LatencySummary, StreamResult, StreamSpec, TrialSpec
from xdplab.testbed import TesterPorts
from xdplab.testers.packets import Headers, headers_of

#: A gap between two looks at the schedule that counts as a stall of the machine.
STALL_NS = 100_000
#: A delay that a stream makes good by frames that leave at once; what a longer one cost is skipped.
_CATCH_UP_NS = 300_000


def max_burst(trial: TrialSpec) -> int:
    """Frames that may leave at once after a delay.

    At least 32 (a forwarder's batch), and at most 200: a veth ring holds 256.
    """
    fastest = max((stream.pps or 0.0 for stream in trial.streams), default=0.0)
    return min(200, max(32, round(fastest * _CATCH_UP_NS / 1e9)))


class NewFlows:
    """Where streams of new flows go on from one trial to the next."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def objects(self, trial: TrialSpec, ports: TesterPorts) -> list[dict[str, Any]]:
        """The streams of a trial as the programs' configuration has them."""
        stages = (trial.warmup_s, trial.duration_s)
        return [
            {**_stream_object(index, stream, ports), **self._new(stream, ports, stages)}
            for index, stream in enumerate(trial.streams)
        ]

    def _new(self, stream: StreamSpec, ports: TesterPorts, stages: tuple[float, float]) -> dict[str, Any]:
        """Those behind the last that were sent; from the first new one on where too few are left."""
        if not stream.new_flows:
            return {}
        first, left = stream.flows, stream.flows_left(headers_of(stream, ports).pairs)
        arrivals = sum(math.ceil((stream.pps or 0.0) * seconds) for seconds in stages)
        begin = self._next.get(stream.direction, 0)
        begin = begin if begin + arrivals <= left else 0
        self._next[stream.direction] = begin + arrivals
        return {"flow_choice": "new", "first_flow": first + begin, "flows": left - begin}


def _stream_object(index: int, stream: StreamSpec, ports: TesterPorts) -> dict[str, Any]:
    """A stream as the programs' configuration has it; ports are named by index."""
    far = 0 if ports.last is ports.first else 1
    tx_port, rx_port = (0, far) if stream.direction == "forward" else (far, 0)
    headers = headers_of(stream, ports)
    return {
        "id": index,
        "kind": stream.kind,
        "tx_port": tx_port,
        "rx_port": rx_port,
        "pps": stream.pps,
        "count": stream.count,
        "start_ns": stream.start_ns,
        "frame_bytes": stream.frame_bytes,
        "src_mac": headers.src_mac,
        "dst_mac": headers.dst_mac,
        "vlan": headers.vlan,
        "ip": headers.ip,
        "src_ip": headers.src_ip,
        "dst_ip": headers.dst_ip,
        "udp_src": headers.udp_src,
        "udp_dst": headers.udp_dst,
        "flows": stream.flows,
        **_beside(stream, headers, ports),
    }


def _beside(stream: StreamSpec, headers: Headers, ports: TesterPorts) -> dict[str, Any]:
    """What few streams have: a program that was built before it knew of these still serves all others."""
    kind, _, burst = stream.departures.partition(":")
    asked = {
        "added_bytes": (ports.added_bytes, 0),
        "departures": ("paced" if burst else kind, "paced"),
        "burst": (int(burst or 1), 1),
        "outer_vlan": (headers.outer_vlan, None),
        "pcp": (headers.pcp, 0),
        "dei": (headers.dei, False),
        "dscp": (headers.dscp, 0),
        "src_addresses": (headers.sources.count, 1),
        "src_next": (headers.sources.next, None),
        "src_step": (headers.sources.step, 1),
        "dst_addresses": (headers.targets.count, 1),
        "dst_next": (headers.targets.next, None),
        "dst_step": (headers.targets.step, 1),
        "flow_choice": (stream.flow_choice, "round-robin"),
        "zipf_exponent": (1.0 if stream.zipf_exponent is None else stream.zipf_exponent, 1.0),
        "flow_seed": (stream.flow_seed, 1),
        "request": (stream.request_hex, ""),
        "trailer_at": (stream.request_at, None),
        "answer_at": (stream.answer_at, None),
    }
    return {name: value for name, (value, default) in asked.items() if value != default}


def stream_result(asked: StreamSpec, report: dict[str, Any]) -> StreamResult:
    """What a program reported of one stream."""
    lateness = report["lateness"]
    return StreamResult(
        kind=asked.kind,
        direction=asked.direction,
        new_flows=asked.new_flows,
        frame_bytes=report["frame_bytes"],
        offered_pps=report["offered_pps"],
        intended=report["intended"],
        sent=report["sent"],
        skipped=report["skipped"],
        tx_drops=report.get("tx_drops"),
        received=report["received"],
        lost=report["lost"],
        duplicated=report["duplicated"],
        damaged=report["damaged"],
        out_of_order=report["out_of_order"],
        beyond_window=report["late_beyond_window"],
        achieved_pps=report["achieved_pps"],
        rx_pps=report["rx_pps"],
        latency=_summary(report["latency"]),
        lateness=_summary(lateness),
        on_schedule=lateness["on_schedule"] if lateness else None,
        last_lost=report["gaps"]["last_lost"],
        longest_gap_ns=report["gaps"]["longest_ns"],
        trailing_lost=report["gaps"]["trailing"],
        flow_figures=FlowFigures(**flows) if (flows := report.get("flow_figures")) else None,
    )


def _summary(report: dict[str, Any] | None) -> LatencySummary | None:
    if not report or not report["count"]:
        return None
    return LatencySummary(**{key: report[key] for key in ("count", "min_ns", "max_ns", "mean_ns", "hdr")})
