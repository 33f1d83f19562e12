# SPDX-License-Identifier: Apache-2.0
"""Runs of the suite on four igb ports: A sends, B forwards, C receives; zero-copy, and by Open vSwitch in XDP."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nic.guest.cards import CPUS, HOST, Pair, changes, state
from xdplab.forwarders.base import mode_name
from xdplab.forwarders.ovs.builds import PATCHED, find_build, missing
from xdplab.hosts import Host
from xdplab.measure.datapath import offloaded
from xdplab.model import StudySpec, TestbedSpec, TrialRecord, validated
from xdplab.results import RunFolder
from xdplab.runner import Job, Listener, StudyRun, make_plan
from xdplab.testbed import EmbeddedTestbed, Port, TesterPorts
from xdplab.testers import make_tester

STUDY: dict[str, Any] = {
    "schema": 1,
    "name": "nic-lane",
    "path": "through",
    "tester": "xsk",
    "knobs": {"rx_ring": 512, "coalesce_rx_usecs": 10},
    "traffic": {"probe_pps": 500, "frame_bytes": 64},
    # each trial binds sockets of its own, and igb's link is down 0.2 to 0.4 s after that
    "method": {"name": "latency", "duration_s": 0.5, "warmup_s": 1.0, "drain_s": 0.3},
    "repetitions": 1,
}


class CardTestbed(EmbeddedTestbed):
    """The guest's cards instead of veth pairs: a0 with b0, b1 with c0. They are there before the run and after it."""

    def __init__(self, near: Pair, far: Pair) -> None:
        super().__init__(validated(TestbedSpec, {"name": "cards", "kind": "embedded", "cpus": list(CPUS)}, "testbed"))
        ends = {"a0": near.left, "b0": near.right, "b1": far.left, "c0": far.right}
        self.ports = {role: Port(role, HOST, port.ifname, port.mac, port.mtu, lasting=True)
                      for role, port in ends.items()}  # fmt: skip

    @property
    def dut(self) -> Host:
        return HOST

    def up(self) -> None:
        self.lock.acquire()

    def direct_ports(self) -> TesterPorts | None:
        return None


@pytest.fixture
def measured(cards: dict[str, Pair], tmp_path: Path) -> Iterator[Callable[[str], TrialRecord]]:
    """`measured(forwarder)`: the one trial of a study, which lost nothing; afterwards all cards are as they were."""
    near, far = cards["igb"], cards["igb-far"]
    before = state((*near.ports, *far.ports))

    def run(forwarder: str) -> TrialRecord:
        study = validated(StudySpec, {**STUDY, "forwarders": [forwarder]}, "study")
        testbed, tester = CardTestbed(near, far), make_tester("xsk")
        folder = RunFolder(tmp_path)
        plan = make_plan(study, testbed.spec, tester)
        outcome = StudyRun(Job("nic-lane", study, plan, testbed, (tester,), folder, Listener())).execute()
        assert outcome.error is None, outcome.error
        assert [(trial.status, trial.reason) for trial in folder.trials() if trial.purpose == "end"] == [("ok", "")]
        (trial,) = [trial for trial in folder.trials() if trial.purpose == "measure"]
        assert trial.result is not None
        (stream,) = trial.result.streams
        assert (stream.lost, stream.duplicated) == (0, 0)
        assert stream.received == stream.sent > 200
        assert set(trial.knobs["rx_ring"].values()) == {"512"}
        return trial

    yield run
    assert changes(before, state((*near.ports, *far.ports))) == {}


@pytest.mark.timeout(100)
def test_a_study_runs_on_zero_copy_and_puts_the_cards_back(
    measured: Callable[[str], TrialRecord], cards: dict[str, Pair], fact: Callable[[Pair, str, str], None]
) -> None:
    trial = measured("xsk:bind=zero-copy")
    assert mode_name(trial.mode) == "native zero-copy"
    fact(cards["igb"], "a study of the suite", "zero-copy throughout, no loss, settings put back")


_WITHOUT = missing(HOST, find_build(PATCHED, "", HOST), "")


@pytest.mark.timeout(300)  # the emulated CPUs are slow for a daemon and its PMD thread
@pytest.mark.skipif(_WITHOUT is not None, reason=_WITHOUT or "")
def test_flows_of_open_vswitch_are_forwarded_in_xdp_from_card_to_card(
    measured: Callable[[str], TrialRecord], cards: dict[str, Pair], fact: Callable[[Pair, str, str], None]
) -> None:
    """In the mode that the driver gives: the program's frames come from a zero-copy socket's pool."""
    trial = measured("ovs-afxdp:flow_offload=true,umem_frames=4096")
    found = offloaded([trial])
    assert found is not None
    assert trial.result is not None
    assert found.met >= trial.result.streams[0].sent
    fact(cards["igb"], "Open vSwitch's flows in XDP", f"{mode_name(trial.mode)}, no loss, all frames met one")
