# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Which flow a frame is of: drawn evenly or by Zipf's law, the same each time, and known to the receiver."""

import collections
import struct

import pytest
from conftest import clean, config, counts, stream, xdpgen

FLOWS, FRAMES = 40, 3000
EXPONENT = 1.2
WEIGHTS = [(k + 1) ** -EXPONENT for k in range(FLOWS)]
LAWS = {"uniform": [1 / FLOWS] * FLOWS, "zipf": [each / sum(WEIGHTS) for each in WEIGHTS]}
#: Of chi-square with FLOWS - 1 degrees of freedom, one in 10^9 is above; what is drawn here is always the same.
CHI_SQUARE = 110
UDP_SRC = struct.Struct("!34xH")


def flows_on_the_wire(net, tmp_path, sender="live", **more):
    """Flow of each frame, by its port, of a stream of each law; and what is told of it."""
    streams = [
        stream(id=n, pps=FRAMES / 0.3, flows=FLOWS, flow_choice=law, zipf_exponent=EXPONENT) | more
        for n, law in enumerate(LAWS)
    ]
    with net.forwarder(tmp_path, capture=FRAMES) as report:
        ports = [net.port("a0"), net.port("c0")]
        reported = xdpgen(config(ports, *streams, sender=sender, flow_figures=True))["streams"]
    assert [counts(each) for each in reported] == [clean(FRAMES)] * len(LAWS)
    frames = [report["captured"][str(n)] for n in range(len(LAWS))]
    return [[UDP_SRC.unpack_from(bytes.fromhex(f))[0] - 10000 for f in each] for each in frames], reported


def test_flows_are_drawn_by_their_law_and_counted_as_they_were_sent(middle, tmp_path):
    drawn, reported = flows_on_the_wire(middle, tmp_path)
    for flows, figures, shares in zip(drawn, reported, LAWS.values(), strict=True):
        seen = collections.Counter(flows)
        by_flow = [seen[flow] for flow in range(FLOWS)]
        expected = [share * FRAMES for share in shares]
        assert sum((a - b) ** 2 / b for a, b in zip(by_flow, expected, strict=True)) < CHI_SQUARE
        assert figures["flow_figures"]["sent"] == figures["flow_figures"]["received"] == by_flow


def test_a_sequence_is_that_of_its_seed_whoever_sends(middle, tmp_path):
    live, xsk, other = (
        flows_on_the_wire(middle, tmp_path, **more)[0] for more in ({}, {"sender": "xsk"}, {"flow_seed": 2})
    )
    assert live == xsk
    assert live != other


@pytest.mark.parametrize(("flows", "exponent"), [(1, 1), (2, 0), (100000, 10), (100000, 0)])
def test_extremes_of_a_law(direct, flows, exponent):
    """All weight on one flow, or none; tables of several streams beside each other."""
    law = {"flow_choice": "zipf", "flows": flows, "zipf_exponent": exponent, "src_addresses": 2}
    streams = [stream(id=n, pps=1000.0, **law) for n in range(3)]
    reported = xdpgen(config([direct.port("a0"), direct.port("c0")], *streams))["streams"]
    assert [counts(each) for each in reported] == [clean(300)] * 3
