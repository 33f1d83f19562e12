# SPDX-License-Identifier: Apache-2.0
"""What breaks during a run: the point fails with its reason, the others are measured, nothing stays behind."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.command import NOBODY, finish, wait_for
from lab.rooted import Lab

from xdplab.hosts.ssh_link import agent_zip
from xdplab.model import XdplabError
from xdplab.results import RunFolder
from xdplab.testbed import TestbedLock

pytestmark = pytest.mark.root

MEASURE = "lab.saboteur:QuickXdpgen.measure"


def killed(target: str, **plan: Any) -> dict[str, Any]:
    """SIGKILL for a child process in the middle of a trial."""
    return {"at": MEASURE, "after_s": 0.15, "signal": "SIGKILL", "target": target, **plan}


@pytest.mark.parametrize(
    ("forwarder", "process"),
    [
        ("ovs-afxdp", "ovs-vswitchd"),
        pytest.param("testpmd", "dpdk-testpmd", marks=pytest.mark.slow),
        ("xdp", "xdpfwd"),
    ],
)
def test_a_forwarder_killed_in_a_trial_fails_its_point_alone(lab: Lab, forwarder: str, process: str) -> None:
    done = lab.run(
        killed(process, needs=process),
        forwarders=[forwarder, "linux-bridge"],
        method={"name": "latency", "duration_s": 0.4},
    )
    lab.assert_nothing_left()
    bad, good = lab.rows()
    assert (good["status"], good["repetitions"]) == ("ok", 1)
    assert (bad["status"], bad["repetitions"]) == ("failed", 0)
    assert f"{process} was ended by signal SIGKILL" in bad["reason"]
    (record,) = [each for each in lab.trials() if each.status == "failed"]
    assert record.log_tail or forwarder == "xdp"  # xdpfwd says nothing on stderr while it is well
    assert "was ended by signal SIGKILL" in (lab.results / "latest" / "report.html").read_text(encoding="utf-8")
    assert "Traceback" not in done.err
    assert done.code == 1


def test_a_forwarder_that_is_stopped_in_a_trial_is_named_as_such(lab: Lab) -> None:
    lab.run(killed("xsk", signal="SIGSTOP"), forwarders=["xsk"], method={"name": "latency", "duration_s": 0.4})
    lab.assert_nothing_left()
    (row,) = lab.rows()
    assert row["status"] == "failed"
    assert re.match(r"xsk is stopped \(process \d+, state T; kill -CONT \d+ lets it go on\)", row["reason"]), row[
        "reason"
    ]


def test_a_tester_killed_in_a_trial_fails_its_repetition_alone(lab: Lab) -> None:
    done = lab.run(
        killed("xdpgen"), forwarders=["ovs-afxdp"], repetitions=2, method={"name": "latency", "duration_s": 0.4}
    )
    lab.assert_nothing_left()
    (row,) = lab.rows()
    assert (row["status"], row["repetitions"], row["failed"]) == ("partial", 1, 1)
    assert row["reason"] == "xdpgen was ended by signal SIGKILL: no message"
    assert done.code == 1


def test_a_port_that_already_carries_xdp_is_refused(lab: Lab) -> None:
    done = lab.run(env={"LAB_XDP_ON": "b1"})
    done.refused("B: b1-", "carries XDP program", "ip link set dev", "xdp off")
    assert list(lab.results.iterdir()) == []
    lab.assert_nothing_left()


def test_a_second_run_on_the_testbed_is_refused_and_the_first_goes_on(lab: Lab) -> None:
    first = lab.start("run", lab.study(repetitions=2))
    wait_for(lambda: list(lab.state.glob("*.json")), "the first run's testbed")
    lab.xdplab("run", lab.study()).refused(f"testbed {lab.name}: in use by process {first.pid}")
    done = finish(first)
    assert done.complaints == []
    assert [row["repetitions"] for row in lab.rows()] == [2]
    lab.assert_nothing_left()


def test_more_than_the_tester_can_send_is_refused(lab: Lab) -> None:
    lab.run(traffic={"probe_pps": 9e7}).refused("top rate")
    assert list(lab.results.iterdir()) == []
    lab.assert_nothing_left()


def test_programs_that_are_not_built_are_named(lab: Lab) -> None:
    lab.run(env={"XDPLAB_BPF_DIR": str(lab.folder)}).refused("xdpgen is not built", "make -C bpf")
    partly = lab.folder / "bpf"
    partly.mkdir()
    shutil.copy(Path(bpf_folder()) / "xdpgen", partly)
    lab.run(env={"XDPLAB_BPF_DIR": str(partly)}).refused(
        "no point of it can be measured here: bpf/build/xdpfwd is not built"
    )
    lab.assert_nothing_left()


def bpf_folder() -> str:
    from xdplab.tools import bpf_program

    found = bpf_program("xdpgen")
    assert found, "bpf/ is not built"
    return str(found.parent)


def path_without(lab: Lab, *missing: str) -> str:
    """A PATH with everything but some programs."""
    folder = lab.folder / "bin"
    folder.mkdir()
    for directory in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(directory).glob("*") if Path(directory).is_dir() else ():
            if program.name not in missing:
                link = folder / program.name
                link.unlink(missing_ok=True)
                link.symlink_to(program)
    return str(folder)


@pytest.mark.parametrize("program", ["ip", "ethtool"])
def test_a_missing_system_program_is_a_missing_part(lab: Lab, program: str) -> None:
    done = lab.run(env={"PATH": path_without(lab, program)})
    lab.assert_nothing_left()
    done.refused(program)


def test_a_program_missing_for_one_forwarder_fails_that_one(lab: Lab) -> None:
    done = lab.run(env={"PATH": path_without(lab, "ovs-ofctl")}, forwarders=["ovs-afxdp", "xdp"])
    lab.assert_nothing_left()
    bad, good = lab.rows()
    assert (good["status"], bad["status"]) == ("ok", "failed")
    assert "ovs-ofctl" in bad["reason"]
    assert done.code == 1


def test_without_root_nothing_is_touched(lab: Lab, open_folder: Path) -> None:
    testbed = Path(shutil.copy(lab.testbed, open_folder))
    text = lab.study(testbed=str(testbed), tester="xdpgen").read_text(encoding="utf-8")
    study = open_folder / "study.yaml"
    study.write_text(text, encoding="utf-8")
    writable = open_folder / "nobody"
    writable.mkdir()
    os.chown(writable, 65534, 65534)
    own = {"XDPLAB_STATE": str(writable / "state"), "XDPLAB_RESULTS": str(writable / "results"), "PYTHONPATH": ""}
    lab.xdplab("run", study, wrap=NOBODY, **own).refused(f"testbed {lab.name}: ", "need root; run it with sudo")
    lab.xdplab("restore", "--testbed", testbed, wrap=NOBODY, **own).refused("need root")
    lab.assert_nothing_left()


@pytest.fixture
def small_disk(lab: Lab) -> Iterator[Path]:
    """48 KiB."""
    folder = lab.folder / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48k,mode=0700", "lab-small", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_disk_that_is_really_full_keeps_the_trials_before(lab: Lab, small_disk: Path) -> None:
    done = lab.run(
        testbed="fake", tester="fake", forwarders=["fake"], repetitions=99, env={"XDPLAB_RESULTS": str(small_disk)}
    )
    lines = (small_disk / "latest" / "trials.jsonl").read_bytes().split(b"\n")
    assert len(lines) > 4
    assert lines[-1] == b""
    run = RunFolder((small_disk / "latest").resolve())
    assert {trial.status for trial in run.trials()} == {"ok"}
    done.refused("No space left on device", "--resume", code=1)


def test_on_a_full_disk_everything_is_put_back_all_the_same(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is put back goes from the state file, and the next to come takes its lock; nothing new is remembered."""
    monkeypatch.setenv("XDPLAB_STATE", str(small_disk))
    lock = TestbedLock("t")
    lock.remember(netns=[f"xdplab-{number}" for number in range(400)])
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "full").write_bytes(bytes(100_000))
    with pytest.raises(XdplabError, match=r"t\.json: No space left on device; `xdplab restore` puts back"):
        lock.remember(netns=[f"xdplab-{number}" for number in range(2000)])
    assert len(lock.state()["netns"]) == 400
    again = TestbedLock("t")
    again.acquire()
    again.remember(netns=["xdplab-1"])
    assert again.state() == {"netns": ["xdplab-1"]}
    again.remember(netns=[])
    again.forget_unchanged()
    assert not again.path.exists()
    again.release()


def test_an_agent_begins_and_ends_on_a_host_whose_disk_is_full(small_disk: Path) -> None:
    folder = small_disk / "agent"
    program = small_disk.parent / "agent.pyz"
    program.write_bytes(agent_zip())

    def session() -> dict[str, Any]:
        hello = json.dumps({"controller": "c", "label": "a test", "lease_s": 30})
        argv = [sys.executable, "-I", "-S", str(program), str(folder)]
        done = subprocess.run(argv, input=f"{hello}\n", capture_output=True, text=True, timeout=30, check=True)
        assert not done.stderr
        facts = json.loads(done.stdout)
        assert isinstance(facts, dict)
        return facts

    session()
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "full").write_bytes(bytes(100_000))
    assert "pid" in session()
