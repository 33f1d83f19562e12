# SPDX-License-Identifier: Apache-2.0
"""Fields that TRex changes from frame to frame, as `trex/profiles/streams.py` takes them."""

from dataclasses import replace
from ipaddress import ip_address
from typing import Any

from xdplab.model import FlowSpec, StreamSpec
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
