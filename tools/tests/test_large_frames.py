# SPDX-License-Identifier: Apache-2.0
"""Frames of several buffers go through whatever takes them on both sides; else it is said whose the limit is."""

from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from lab.ovs_host import forwarder
from lab.rooted import Lab
from lab.studies import a_testbed, study

from xdplab.hosts.kernel import why_no_buffers
from xdplab.model import InputError
from xdplab.runner import make_plan
from xdplab.runner.refusals import _too_large
from xdplab.testers import make_tester


def points(tester: str, **changes: Any) -> Any:
    asked = study(forwarders=["xdp"], tester=tester, testbed="embedded", **changes)
    return make_plan(asked, a_testbed("embedded", mtu=9000), make_tester(tester)).points


def test_the_tester_takes_what_the_mtu_allows_or_says_that_the_limit_is_its_own() -> None:
    assert points("xdpgen", frame_bytes=[3517, 9018])
    with pytest.raises(InputError, match=r"xdpgen sends 64 to 9018 bytes \(FCS counted\) at an MTU of 9000"):
        points("xdpgen", frame_bytes=9019)
    words = "frame_bytes: 3517 does not fit: tester trex sends and receives frames of up to 3,516 bytes, .*xdpgen takes"
    with pytest.raises(InputError, match=words):
        points("trex", frame_bytes=3517)


def test_a_kernel_without_such_frames_is_named() -> None:
    old, new = (SimpleNamespace(read=lambda _, release=release: release) for release in ("6.1.0-28-amd64\n", "6.6.0\n"))
    assert why_no_buffers(old) == "Linux 6.1.0-28-amd64 has no AF_XDP frames of several buffers (needs 6.6)"  # type: ignore[arg-type]
    assert why_no_buffers(new) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ovs-afxdp", "its XDP program and sockets take one buffer; multi_buffer=true"),
        ("ovs-afxdp:build=patched,multi_buffer=true", None),
        ("vpp-afxdp", "its XDP program and sockets take one buffer; multi_buffer=true"),
        ("testpmd", "net_af_xdp opens its sockets for one buffer"),
        ("ovs-dpdk:port=af_packet", "net_af_packet has frames of 2,048 bytes in its rings"),
        ("ovs-dpdk:port=pmd", None),
        ("xsk", "it has sockets and slots for one buffer"),
        ("xdp", None),
        ("linux-bridge", None),
    ],
)
def test_a_forwarder_of_one_buffer_is_refused_with_its_limit(text: str, why: str | None) -> None:
    there = forwarder(text)
    (large, small) = points("xdpgen", frame_bytes=[9018, 64])
    ports: Any = [SimpleNamespace(mtu=9000)]
    limit = f"the limit of {there.name} is 3,516 bytes at an MTU of 3,498: {why}"
    assert _too_large(large, there, ports) == (why and f"frames of 9,018 bytes: {limit}")
    assert _too_large(small, there, ports) == (why and f"an MTU of 9,000: {limit}")
    assert _too_large(small, there, [SimpleNamespace(mtu=3498)]) is None  # type: ignore[list-item]


@pytest.mark.root
def test_jumbo_frames_through_what_takes_them(lab: Lab) -> None:
    spec = yaml.safe_load(lab.testbed.read_text(encoding="utf-8"))
    lab.testbed.write_text(yaml.safe_dump({**spec, "mtu": 9000, "queues": 1}), encoding="utf-8")
    assert lab.run(forwarders=["xdp", "linux-bridge", "xsk"], tester="xdpgen", frame_bytes=[9018, 3516]).code == 0
    rows = {(row["forwarder"], row["frame_bytes"]): row for row in lab.rows()}
    assert {rows[name, size]["status"] for name in ("xdp", "linux-bridge") for size in (9018, 3516)} == {"ok"}
    assert rows["xsk", 9018]["reason"].startswith("frames of 9,018 bytes: the limit of xsk is 3,516 bytes at an MTU of")
    assert rows["xsk", 3516]["reason"].startswith("an MTU of 9,000: the limit of xsk is 3,516 bytes at an MTU of")
    results = [record.result for record in lab.trials() if record.result]
    assert {result.sender for result in results} == {"xsk"}
    assert all("AF_XDP sends them" in result.sender_reason for result in results)
    lab.assert_nothing_left()
