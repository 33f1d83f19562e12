# SPDX-License-Identifier: Apache-2.0
"""Streams as TRex takes them (`trex/profiles/streams.py`), and what it counted of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

from hdrh.histogram import HdrHistogram

from xdplab.model import FlowSpec, LatencySummary, PointFailed, StreamResult, StreamSpec, TrialResult, TrialSpec
from xdplab.model.histogram import HIGHEST_NS, histogram_of
from xdplab.model.traffic import PORTS
from xdplab.testers.packets import Headers, Range

_LOW_BITS = 0xFFFFFFFF
#: Values of a field.
_LIST = 65_535
#: Seeds that a stream may take: one for each of its fields.
_SEEDS = 3


def why_no_fields(headers: Headers, traffic: FlowSpec) -> str | None:
    """None, or why TRex has no such flows: each of its fields takes all its values with each value of the next."""
    targets, sources, flows = headers.targets, headers.sources, traffic.flows
    if traffic.flow_choice == "zipf":
        return "flow_choice: zipf: TRex draws with equal probability only"
    if traffic.flow_choice == "uniform" and (targets.next or sources.next):
        return "flow_choice: uniform: TRex draws with a seed from numbers in a row only, and rule_match: all has others"
    if flows > 1 and max(targets.count, sources.count) > _LIST:
        return f"rule_match: all: TRex takes a list of {_LIST:,} addresses at the most"
    if not _ports(headers, flows):
        return (
            f"flows: TRex takes each address with each port, and {flows:,} is no multiple of "
            f"{targets.count:,} x {sources.count:,}"
        )
    return None


def behind_known(headers: Headers, stream: StreamSpec) -> tuple[Headers, StreamSpec]:
    """A stream of new flows as one of all flows with the ports behind those of known ones; any other as it is."""
    if not stream.new_flows:
        return headers, stream
    known = -(-stream.flows // headers.pairs)
    update = {"flows": (PORTS - known) * headers.pairs, "flow_choice": "round-robin"}
    return replace(headers, udp_src=headers.udp_src + known), stream.model_copy(update=update)


def fields_of(headers: Headers, stream: StreamSpec, place: int = 0) -> dict[str, Any]:
    """What a description has next to `flows`; nothing for flows that differ in their port and take turns.

    Args:
        headers: Of the stream's frames.
        stream: What is asked for.
        place: Among the streams of a trial, so that two of them do not draw the same.
    """
    fields: dict[str, Any] = {}
    if stream.flow_choice == "uniform":
        fields["seed"] = (stream.flow_seed + _SEEDS * place) % 2**16
    ranges = (("targets", headers.targets, headers.dst_ip, 0), ("sources", headers.sources, headers.src_ip, 1))
    for name, addresses, first, before in ranges:
        if addresses.count > 1 and stream.flows > 1:
            width = 4 if headers.ip == 4 else 16
            offset = headers.flow_offset - 4 - width * before
            fields[name] = {"offset": offset, "values": _values(addresses, first)}
    if "targets" in fields or "sources" in fields:
        fields["ip_offset"] = headers.flow_offset - 20 if headers.ip == 4 else None
        fields["flows"] = _ports(headers, stream.flows)
    return fields


def _ports(headers: Headers, flows: int) -> int | None:
    """Ports of each pair of addresses; None when that is no whole number."""
    ports, rest = divmod(flows, headers.targets.count * headers.sources.count)
    return 1 if flows == 1 else ports if not rest else None


def _values(addresses: Range, first: str) -> list[int]:
    """The lowest 32 bits of each."""
    return [int(ip_address(addresses.address(first, number))) & _LOW_BITS for number in range(addresses.count)]


# What TRex counted, in the model that all testers share.
#
# TRex stamps a frame just before it hands it to its driver and when its receive loop takes it from the driver, in whole
# microseconds cut off. Its histogram is decoded here; its average is a filtered value (0.5 old + 0.5 new, every half a
# second) and is never used.

#: Traffic that took longer than this was late: a share of the duration, and what the commands around it take, in s.
_LATE_SHARE, _LATE_S = 0.03, 0.05


def latency_of(hdrh: str) -> LatencySummary | None:
    """A TRex histogram (µs, cut off) as one in ns; each value stands in the middle of what was cut to it."""
    theirs = HdrHistogram.decode(hdrh)
    if not theirs.get_total_count():
        return None
    ours = histogram_of()
    weighted = 0
    lowest, highest = HIGHEST_NS, 0
    for item in theirs.get_recorded_iterator():
        count = item.count_at_value_iterated_to
        low_us = theirs.get_lowest_equivalent_value(item.value_iterated_to)
        high_us = theirs.get_highest_equivalent_value(item.value_iterated_to) + 1
        middle_ns = (low_us + high_us) * 500
        ours.record_value(min(middle_ns, HIGHEST_NS), count)
        weighted += middle_ns * count
        lowest, highest = min(lowest, middle_ns), max(highest, middle_ns)
    return LatencySummary(
        count=ours.get_total_count(),
        min_ns=lowest,
        max_ns=highest,
        mean_ns=weighted / ours.get_total_count(),
        hdr=ours.encode().decode(),
    )


def intended_frames(stream: StreamSpec, duration_s: float) -> int:
    """Frames the schedule asks for; 0 for an unpaced stream that ends with the trial."""
    if stream.pps is None:
        return stream.count
    whole = round(stream.pps * max(0.0, duration_s - stream.start_ns / 1e9))
    return min(whole, stream.count) if stream.count else whole


def trial_result(trial: TrialSpec, report: Mapping[str, Any], sending_ports: Sequence[int]) -> TrialResult:
    """A trial's result from the bridge's reply; `sending_ports` holds the TRex port of each stream.

    Raises:
        PointFailed: the counters contradict each other.
    """
    sent = _really_sent(trial.streams, report, sending_ports)
    took_s = float(report["took_s"])
    elapsed_s = _elapsed(trial.duration_s, took_s)
    streams = tuple(
        _stream(asked, counted, frames, trial.duration_s, elapsed_s, _sending_s(asked, elapsed_s, took_s))
        for asked, counted, frames in zip(trial.streams, report["streams"], sent, strict=True)
    )
    return TrialResult(
        tester="trex",
        sender="trex",
        elapsed_s=elapsed_s,
        streams=streams,
        rx_program="af_packet",
        tester_lost=sum(port.get("rx_missed_errors", 0) for port in report["ports"].values()),
        detail={"ports": report["ports"], "strays": report["strays"], "took_s": report["took_s"],
                "errors": [counted.get("errors") for counted in report["streams"]]},
    )  # fmt: skip


def _elapsed(duration_s: float, took_s: float) -> float:
    """The duration asked for, or the time it took where TRex could not keep up.

    TRex never leaves a frame out: a schedule that it cannot keep is sent to its end, only later. Its load is then the
    number of frames over the time they took, and the frames that the schedule had for that time are missing.
    """
    return took_s if took_s > duration_s * (1 + _LATE_SHARE) + _LATE_S else duration_s


def _sending_s(asked: StreamSpec, elapsed_s: float, took_s: float) -> float:
    """What the rates of a stream are over: of one that ends with its count until TRex said that it had sent all.

    TRex reports no departures, and is asked every 10 ms: the burst was shorter, and its rate higher, than reported.
    """
    return min(elapsed_s, took_s) if asked.count and took_s else elapsed_s


def _really_sent(streams: Sequence[StreamSpec], report: Mapping[str, Any], ports: Sequence[int]) -> list[int]:
    """Frames of each stream that left. TRex counts a frame before its driver takes it, and drops it when that is full.

    What the driver of a port did not take is charged to that port's load streams first, then to its latency streams.
    """
    sent = [int(counted["sent"]) for counted in report["streams"]]
    for port in set(ports):
        mine = [index for index, sender in enumerate(ports) if sender == port]
        driver = report["ports"].get(str(port), {}).get("tx_good_packets")
        refused = max(0, sum(sent[index] for index in mine) - driver) if driver is not None else 0
        for index in sorted(mine, key=lambda index: streams[index].kind == "latency"):
            taken = min(refused, sent[index])
            sent[index] -= taken
            refused -= taken
    return sent


def _stream(
    asked: StreamSpec, counted: Mapping[str, Any], sent: int, duration_s: float, elapsed_s: float, sending_s: float
) -> StreamResult:
    """Latency streams carry sequence numbers; of load streams only the number of frames is known."""
    errors = counted.get("errors") or {}
    received = int(counted["received"])
    duplicated = int(errors.get("dup", 0)) if asked.kind == "latency" else max(0, received - sent)
    distinct = received - duplicated
    if distinct > sent:
        raise PointFailed(f"trex: {distinct} frames received of a stream that sent {sent}: its counters are wrong")
    hdrh = counted.get("hdrh")
    if asked.kind == "latency" and hdrh is None:
        raise PointFailed("trex: no histogram of a latency stream; the server was started without --hdrh")
    intended = intended_frames(asked, duration_s)
    intended = round(intended * elapsed_s / duration_s) if asked.pps is not None else intended or sent
    return StreamResult(
        kind=asked.kind,
        direction=asked.direction,
        new_flows=asked.new_flows,
        frame_bytes=asked.frame_bytes,
        offered_pps=asked.pps,
        intended=intended,
        sent=sent,
        skipped=max(0, intended - sent),
        received=distinct,
        lost=sent - distinct,
        duplicated=duplicated,
        out_of_order=int(errors.get("out_of_order", 0)),
        achieved_pps=sent / sending_s,
        rx_pps=distinct / sending_s,
        latency=latency_of(hdrh) if hdrh and asked.kind == "latency" else None,
    )
