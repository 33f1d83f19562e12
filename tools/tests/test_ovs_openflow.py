# SPDX-License-Identifier: Apache-2.0
"""Statistics of ports as the daemon sends them: numbers that `ovs-ofctl dump-ports` printed of the same ports."""

import struct

import pytest
from hypothesis import example, given, strategies as st
from lab.ovs_host import PORTS

from xdplab.forwarders.ovs.openflow import ASK, END, port_counters
from xdplab.model import XdplabError

INTERNAL = {f"rx_{key}": 0 for key in ("pkts", "bytes", "drop", "errs", "frame", "over", "crc")} | {
    "tx_pkts": 0, "tx_bytes": 0, "tx_drop": 2, "tx_errs": 0, "tx_coll": 0,
}  # fmt: skip


def test_an_answer_of_3_1_0() -> None:
    """What AF_XDP does not count is left out; what it counts for itself is there."""
    assert PORTS.endswith(END)
    assert port_counters(PORTS) == {
        "b0": {"rx_pkts": 8, "rx_bytes": 572, "tx_pkts": 8, "tx_bytes": 696, "xsk_queue_0_rx_dropped": 0,
               "xsk_queue_0_rx_invalid_descs": 0, "xsk_queue_0_tx_invalid_descs": 0},
        "p9": INTERNAL,
        "xdplab0": INTERNAL,
    }  # fmt: skip


def test_the_messages_are_whole() -> None:
    sizes, left = [], ASK
    while left:
        version, _, size, _ = struct.unpack_from(">BBHI", left)
        assert version == 6
        sizes.append(size)
        left = left[size:]
    assert sizes == [8, 24, 24, 8]


def test_a_refusal_is_reported() -> None:
    with pytest.raises(XdplabError, match="OpenFlow: the bridge refuses it: type 1, code 5"):
        port_counters(struct.pack(">BBHIHH", 6, 1, 12, 3, 1, 5) + END)


@given(st.integers(0, len(PORTS)), st.binary(max_size=40))
@example(0, b"")
def test_what_is_no_answer_is_reported(at: int, put: bytes) -> None:
    """Cut off, or with something else in its middle: an error of ours or numbers, and an end."""
    for data in (PORTS[:at], PORTS[:at] + put + PORTS[at:], PORTS[:at] + put):
        try:
            found = port_counters(data)
        except XdplabError:
            continue
        assert all(value >= 0 for each in found.values() for value in each.values())
