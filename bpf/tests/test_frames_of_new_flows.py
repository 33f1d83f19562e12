# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Each frame of a stream is the first of its flow: none comes twice, in the warm-up or in the trial."""

import pytest
import scapy.all as scapy
from conftest import clean, config, counts, stream, xdpgen
from test_drain import TESTERS
from test_frames import headers_of, is_checksum_right
from xsk import xsk

KNOWN, FRAMES, WARM = 5, 600, 100
RANGES = {"dst_addresses": 3, "src_addresses": 2, "dst_next": "10.200.0.1"}
NEW = stream(id=1, pps=FRAMES / 0.3, flow_choice="new", first_flow=KNOWN, flows=FRAMES + WARM, **RANGES)
#: A million of them, of which a table would take 4 MB, and no order is remembered.
MANY = {"first_flow": 0, "flows": 1_000_000, "src_addresses": 20}


def sent_by(net, tester, *streams):
    """Streams as they are told of, behind a warm-up of `WARM` frames."""
    timing = {"warmup_s": 0.3 * WARM / FRAMES, "duration_s": 0.3, "drain_s": 0.3, "max_burst": 1_000_000}
    if tester in ("live", "xsk"):
        ports = [net.port("a0"), net.port("c0")]
        return xdpgen(config(ports, *streams, sender=tester, flow_figures=True, **timing))["streams"]
    ports = [{"netns": net.path(name[0]), "ifname": name} for name in ("a0", "c0")]
    with xsk(net, "a", "probe", ports=ports, streams=streams, **timing) as probe:
        return probe.finish(signal=False)["streams"]


@pytest.mark.parametrize("tester", ["live", "xsk", "probe"])
def test_flows_are_those_behind_the_known_ones_and_come_once(middle, tmp_path, tester):
    known = stream(pps=2000.0, flows=KNOWN, flow_choice="zipf", **RANGES)
    with middle.forwarder(tmp_path, capture=FRAMES) as report:
        reported = sent_by(middle, tester, known, NEW)
    assert [counts(each) for each in reported] == [clean(FRAMES)] * 2
    assert [each["latency"]["count"] for each in reported] == [FRAMES] * 2
    assert reported[1].get("flow_figures") is None
    packets = [scapy.Ether(bytes.fromhex(frame)) for frame in report["captured"]["1"]]
    found = [(packet[scapy.IP].src, packet[scapy.IP].dst, packet[scapy.UDP].sport) for packet in packets]
    assert found == [headers_of(NEW, KNOWN + WARM + number) for number in range(FRAMES)]
    assert all(is_checksum_right(packet) for packet in packets)


@TESTERS
def test_no_two_are_of_one_flow_and_so_none_is_out_of_order(middle, tmp_path, tester):
    with middle.forwarder(tmp_path, swap=[50, 100, 250], delay={150: 0.05}, drop=[7, 8], duplicate=[9]):
        (reported,) = sent_by(middle, tester.replace("xdpgen", "live").replace("xsk", "probe"), NEW | MANY)
    expected = {"received": FRAMES - 2, "lost": 2, "duplicated": 1}
    assert counts(reported) == clean(FRAMES) | expected


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"flows": 699}, "flows: fewer than the 700 that arrive in 0.35 s: more addresses, or a lower pps"),
        ({"pps": None}, 'flow_choice: "new" needs pps'),
        ({"departures": "poisson"}, 'flow_choice: "new" needs departures "paced"'),
        ({"first_flow": 2**32 - 700}, "exceeds 65535"),
        ({"flows": 55_536 * 6 - 4}, "exceeds 65535"),
    ],
)
def test_more_arrivals_than_flows_are_refused(direct, more, text):
    line = xdpgen(config([direct.port("a0"), direct.port("c0")], NEW | {"id": 0} | more), expect=2)
    assert text in line
