# SPDX-License-Identifier: Apache-2.0
"""DPDK's own driver for two igb cards behind an IOMMU: frames come through, and the kernel gets the cards back."""

import itertools
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nic.guest.cards import HOST, Pair, applied, changes, context, state
from nic.guest.test_3_suite import STUDY, CardTestbed
from xdplab.forwarders.base import mode_name
from xdplab.forwarders.dpdk import PROGRAM
from xdplab.forwarders.ovs.forwarder import OvsDpdk
from xdplab.model import StudySpec, TrialRecord, validated
from xdplab.results import RunFolder
from xdplab.runner import Job, Listener, StudyRun, make_plan, recovery
from xdplab.testbed import cards as taken_cards
from xdplab.testers import make_tester

_STUDY = {**STUDY, "name": "own-driver", "knobs": {}}
_ASKED = " [requested on]"


class Testbed(CardTestbed):
    """Cards in the order of the path; a killed run's are given back as those of machines are."""

    __test__ = False

    def clear_away(self, done: list[str], *, force: bool = False) -> None:
        done += taken_cards.give_back(self.lock, self.dut, ask=not force)


def run_study(near: Pair, far: Pair, forwarder: str, folder: Path) -> list[TrialRecord]:
    """Its trials, and that of its end."""
    study = validated(StudySpec, {**_STUDY, "forwarders": [forwarder]}, "study")
    testbed, tester, results = Testbed(near, far), make_tester("xsk"), RunFolder(folder)
    plan = make_plan(study, testbed.spec, tester)
    outcome = StudyRun(Job("own-driver", study, plan, testbed, (tester,), results, Listener())).execute()
    assert outcome.error is None, outcome.error
    return list(results.trials())


@pytest.fixture
def unlike(cards: dict[str, Pair]) -> Iterator[dict[str, str]]:
    """The forwarder's cards with settings that are not igb's own; afterwards all are as they were."""
    ports = (cards["igb"].right, cards["igb-far"].left)
    everyone = (*cards["igb"].ports, *cards["igb-far"].ports)
    wanted = {"rx_ring": 512, "tx_ring": 128, "coalesce_rx_usecs": 10, "napi_defer_hard_irqs": 2, "mtu": 1400}
    before = state(everyone)
    with applied(context(ports), **wanted):
        now = state(everyone)
        assert len(changes(before, now)) == 2 * (len(wanted) - 1)  # both rings are in one text
        for port in ports:
            HOST.write(f"/sys/class/net/{port.ifname}/tx_queue_len", "777")
        now = state(everyone)
        yield now
        assert differing_lines(now, state(everyone)) == []
        for port in ports:
            HOST.write(f"/sys/class/net/{port.ifname}/tx_queue_len", "1000")
    assert differing_lines(before, state(everyone)) == []


def differing_lines(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """What each of them is of, was and is: whole texts of ethtool would hide it.

    An offload that is off is the same, whether it is so because another is or by itself.
    """
    return [
        f"{key}: {old!r} -> {new!r}"
        for key, (was, now) in changes(before, after).items()
        for old, new in itertools.zip_longest(
            was.replace(_ASKED, "").splitlines(), now.replace(_ASKED, "").splitlines()
        )
        if old != new
    ]


@pytest.mark.timeout(300)  # the emulated CPUs are slow for threads that poll
@pytest.mark.parametrize(
    "forwarder",
    [
        pytest.param("testpmd:port=pmd", marks=pytest.mark.skipif(not Path(PROGRAM).exists(), reason=PROGRAM)),
        pytest.param(
            "ovs-dpdk:port=pmd", marks=pytest.mark.skipif(not Path(OvsDpdk.daemon).exists(), reason=OvsDpdk.daemon)
        ),
    ],
)
@pytest.mark.usefixtures("unlike")
def test_frames_come_through_and_the_cards_are_given_back(
    forwarder: str, cards: dict[str, Pair], tmp_path: Path, fact: Callable[[Pair, str, str], None]
) -> None:
    trials = run_study(cards["igb"], cards["igb-far"], forwarder, tmp_path)
    assert [(trial.status, trial.reason) for trial in trials if trial.purpose == "end"] == [("ok", "")]
    (trial,) = [trial for trial in trials if trial.purpose == "measure"]
    assert trial.result is not None
    (stream,) = trial.result.streams
    assert (stream.lost, stream.duplicated) == (0, 0)
    assert stream.received == stream.sent > 200
    assert mode_name(trial.mode) == "DPDK's own driver"
    assert trial.mode["cards"] == {"b0": "vfio-pci", "b1": "vfio-pci"}
    fact(cards["igb"], forwarder, "no loss, cards given back with all settings")


@pytest.mark.timeout(300)
@pytest.mark.skipif(not Path(PROGRAM).exists(), reason=PROGRAM)
@pytest.mark.usefixtures("unlike")
def test_cards_of_a_killed_run_are_given_back(
    cards: dict[str, Pair], tmp_path: Path, fact: Callable[[Pair, str, str], None]
) -> None:
    near, far = cards["igb"], cards["igb-far"]
    run = multiprocessing.get_context("fork").Process(target=run_study, args=(near, far, "testpmd:port=pmd", tmp_path))
    run.start()
    deadline = time.monotonic() + 120.0
    while any(Path(f"/sys/class/net/{port.ifname}").exists() for port in (near.right, far.left)):
        assert run.is_alive(), "the run ended before it was killed"
        assert time.monotonic() < deadline, "the cards were not taken"
        time.sleep(0.05)
    time.sleep(2.0)
    assert run.pid is not None
    os.kill(run.pid, signal.SIGKILL)
    run.join()
    testbed = Testbed(near, far)
    assert testbed.lock.changed
    done = recovery.recover_testbed(testbed)
    assert [line for line in done if "back to driver igb" in line] == [
        f"guest: {port.ifname} back to driver igb" for port in (near.right, far.left)
    ]
    assert not Testbed(near, far).lock.changed
    fact(near, "a run with DPDK's own driver that was killed", "cards given back with all settings")
