# SPDX-License-Identifier: Apache-2.0
"""From a description of a stream to TRex's own object. Imported where TRex's client library is on the path.

A description has: `kind` (`latency`: every frame carries TRex's 16-byte trailer with sequence number and time stamp;
`load`: frames are counted by the IP identification that TRex sets), `pg_id`, `frame` (hex, without FCS), `pps`,
`count` (0: until the traffic is stopped), `delay_us`, `flows`, and `flow_offset`, where the 16-bit UDP source port lies
that tells flows apart.
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
    STLVmFlowVar,
    STLVmWrFlowVar,
)


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
    if described["flows"] == 1:
        return STLPktBuilder(pkt_buffer=frame, remove_fcs=False)
    first = int.from_bytes(frame[described["flow_offset"] :][:2], "big")
    program = [
        STLVmFlowVar("flow", min_value=first, max_value=first + described["flows"] - 1, size=2, op="inc"),
        STLVmWrFlowVar(fv_name="flow", pkt_offset=described["flow_offset"]),
    ]
    return STLPktBuilder(pkt_buffer=frame, remove_fcs=False, vm=STLScVmRaw(program))
