# SPDX-License-Identifier: Apache-2.0
"""From a description of a stream to TRex's own object. Imported where TRex's client library is on the path.

A description has: `kind` (`latency`: every frame carries TRex's 16-byte trailer with sequence number and time stamp;
`load`: frames are counted by the IP identification that TRex sets), `pg_id`, `frame` (hex, without FCS), `pps`,
`count` (0: until the traffic is stopped), `delay_us`, `flows`, and `flow_offset`, where the 16-bit UDP source port lies
that tells flows apart.

It may have `targets` and `sources`, the addresses that each port is used with (`values` of the lowest 32 bits,
and their `offset`), and then `ip_offset` of an IPv4 header, whose checksum changes; and `seed`: each of these fields is
then drawn, by TRex's own generator, in the place of taking turns: targets first, then sources, then ports.
"""

from typing import Any

from trex.stl.api import (
    STLFlowLatencyStats,
    STLFlowStats,
    STLPktBuilder,
    STLScVmRaw,
    STLStream,
    STLStreamDstMAC_PKT,
    STLTXCont,
    STLTXSingleBurst,
    STLVmFixIpv4,
    STLVmFlowVar,
    STLVmFlowVarRepeatableRandom,
    STLVmWrFlowVar,
    STLVmWrMaskFlowVar,
)

#: Frames after which a drawn sequence repeats.
_SEQUENCE = 2**31


def make_stream(described: dict[str, Any]) -> Any:
    """The STLStream of a description."""
    stats = STLFlowLatencyStats if described["kind"] == "latency" else STLFlowStats
    pps, count = described["pps"], described["count"]
    return STLStream(
        packet=_packet(described),
        mode=STLTXSingleBurst(pps=pps, total_pkts=count) if count else STLTXCont(pps=pps),
        isg=described["delay_us"],
        flow_stats=stats(pg_id=described["pg_id"]),
        # the frame is complete: without these TRex writes the addresses of its own configuration into it
        mac_src_override_by_pkt=True,
        mac_dst_override_mode=STLStreamDstMAC_PKT,
    )


def _packet(described: dict[str, Any]) -> Any:
    frame = bytes.fromhex(described["frame"])
    fields = _fields(described, frame)
    if not fields:
        return STLPktBuilder(pkt_buffer=frame, remove_fcs=False)
    names = [*[*fields][1:], None]
    program = [
        _variable(name, field, described.get("seed"), number, following)
        for number, ((name, field), following) in enumerate(zip(fields.items(), names, strict=True))
    ]
    program += [
        STLVmWrMaskFlowVar(
            fv_name=name, pkt_offset=field["offset"], pkt_cast_size=field["size"], mask=256 ** field["size"] - 1
        )
        if "seed" in described
        else STLVmWrFlowVar(fv_name=name, pkt_offset=field["offset"])
        for name, field in fields.items()
    ]
    if described.get("ip_offset") is not None:
        program.append(STLVmFixIpv4(offset=described["ip_offset"]))
    return STLPktBuilder(pkt_buffer=frame, remove_fcs=False, vm=STLScVmRaw(program))


def _fields(described: dict[str, Any], frame: bytes) -> dict[str, dict[str, Any]]:
    """What changes: the one that takes turns fastest first."""
    fields = {name: {"size": 4, **described[name]} for name in ("targets", "sources") if name in described}
    if described["flows"] > 1:
        first = int.from_bytes(frame[described["flow_offset"] :][:2], "big")
        values = range(first, first + described["flows"])
        fields["flow"] = {"size": 2, "values": values, "offset": described["flow_offset"]}
    return fields


def _variable(name: str, field: dict[str, Any], seed: int | None, number: int, following: str | None) -> Any:
    values, size = field["values"], field["size"]
    even = list(values) == list(range(values[0], values[0] + len(values)))
    if seed is not None:  # four bytes: one of two repeats after 65,535 frames
        return STLVmFlowVarRepeatableRandom(
            name, size=4, limit=_SEQUENCE, seed=(seed + number) % 2**16, min_value=values[0], max_value=values[-1]
        )
    chain = {"next_var": following} if following else {}
    if even:
        return STLVmFlowVar(name, min_value=values[0], max_value=values[-1], size=size, op="inc", **chain)
    return STLVmFlowVar(name, value_list=list(values), size=size, op="inc", **chain)
