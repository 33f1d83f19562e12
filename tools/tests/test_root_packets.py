# SPDX-License-Identifier: Apache-2.0
"""What testers put on the wire, read back at the other end of the direct link and compared with what scapy builds."""

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.frames import decode, of_flow

from xdplab import testbed, testers
from xdplab.model import StreamSpec, TestbedSpec, TrialSpec
from xdplab.testbed import RuleAddresses, TesterPorts
from xdplab.testers.packets import build, headers_of

pytestmark = pytest.mark.root

CAPTURE = Path(__file__).parent / "lab" / "capture.py"
STACKS = {
    "ipv4, 64 bytes": StreamSpec(kind="latency", pps=2000, frame_bytes=64),
    "ipv4, odd length": StreamSpec(kind="latency", pps=2000, frame_bytes=75),
    "vlan, pair 2": StreamSpec(kind="latency", pps=2000, frame_bytes=68, vlan=4094, pair=2),
    "ipv6": StreamSpec(kind="latency", pps=2000, frame_bytes=84, ip=6),
    "ipv6 in a vlan, long": StreamSpec(kind="latency", pps=2000, frame_bytes=1280, ip=6, vlan=7),
    "load of five flows": StreamSpec(kind="load", pps=2000, frame_bytes=512, flows=5),
    "marked, two tags": StreamSpec(
        kind="latency", pps=2000, frame_bytes=80, vlan=7, outer_vlan=4094, pcp=5, dei=True, dscp=46
    ),
    "rules, by three targets": StreamSpec(kind="load", pps=2000, frame_bytes=75, flows=6, rule_match="all"),
    "four pairs of addresses": StreamSpec(
        kind="load", pps=2000, frame_bytes=96, flows=12, src_addresses=2, dst_addresses=2, ip=6, dscp=33
    ),
}


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[testbed.Testbed]:
    """A direct link whose two ends are in one namespace, so that every tester can use it."""
    state = pytest.MonkeyPatch()
    state.setenv("XDPLAB_STATE", str(tmp_path_factory.mktemp("state")))
    spec = TestbedSpec.model_validate({"schema": 1, "name": "wire", "kind": "embedded"})
    made = testbed.open_testbed(spec, one_tester_host=True)
    made.up()
    yield made
    made.down()
    state.undo()


@pytest.fixture(scope="module", params=["xdpgen", "trex"])
def tester(request: pytest.FixtureRequest, wire: testbed.Testbed) -> Iterator[testers.Tester]:
    made = testers.make_tester(request.param)
    reason = made.unsupported(wire)
    if reason:
        pytest.skip(reason)
    yield made
    made.close()


def captured(
    tester: testers.Tester, wire: testbed.Testbed, stream: StreamSpec, workdir: Path, count: int = 20
) -> list[bytes]:
    ports = ports_of(wire)
    workdir.mkdir()
    context = testers.TesterContext(ports, wire.layout, tester.rx_programs[0], workdir)
    if tester.name == "trex":  # its server starts with the first trial, and looks at the histogram with a frame
        tester.run(context, TrialSpec(streams=(stream,), duration_s=0.01, drain_s=0.05))
    netns = Path(ports.last.netns or "").name
    argv = ["ip", "netns", "exec", netns, sys.executable, str(CAPTURE), ports.last.ifname, str(count), "10"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as capture:
        assert capture.stdout is not None
        assert capture.stdout.readline() == "ready\n"
        try:
            result = tester.run(context, TrialSpec(streams=(stream,), duration_s=0.2, drain_s=0.1))
        except BaseException:
            capture.kill()
            raise
        frames = [bytes.fromhex(line) for line in capture.stdout]
    assert result.received == result.sent
    assert len(frames) == count
    return frames


@pytest.mark.parametrize("stack", STACKS)
def test_frames_on_the_wire_are_those_of_the_builder(
    tester: testers.Tester, wire: testbed.Testbed, stack: str, tmp_path: Path
) -> None:
    stream = STACKS[stack]
    ports = ports_of(wire)
    wanted = headers_of(stream, ports)
    expected = [of_flow(wanted, number) for number in range(stream.flows)]
    flows = set()
    for frame in captured(tester, wire, stream, tmp_path / "work"):
        found = decode(frame)
        flows.add(found.headers)
        assert len(frame) == stream.frame_bytes - 4
        if tester.name == "xdpgen":  # writes its headers itself, in the kernel: byte for byte what scapy builds
            assert found.checksums_right
            assert frame == build(found.headers, stream.frame_bytes, payload=found.payload)
        else:  # marks each frame in the IP header, and has no UDP checksum for it changes the payload
            marked = (wanted.bytes - 8 - 20) if wanted.ip == 4 else None
            assert frame[wanted.flow_offset + 6 : wanted.flow_offset + 8] == b"\0\0"
            assert marked is None or found.checksums_right
    assert flows == set(expected)


def ports_of(wire: testbed.Testbed) -> TesterPorts:
    """With addresses for three rules of a pipeline."""
    ports = wire.direct_ports()
    assert ports is not None
    rules = RuleAddresses("target", 3, "10.0.0.17", 32)
    return dataclasses.replace(ports, rules=(rules, rules))
