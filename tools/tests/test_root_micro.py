# SPDX-License-Identifier: Apache-2.0
"""Micro-benchmarks on namespaces: every workload, what veth cannot do, an interruption; nothing is left."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.command import finish, wait_for
from lab.rooted import BUSY_POLLING, Lab

from xdplab.analysis import summarise
from xdplab.forwarders.xsk.xdpsock import XdpsockOptions
from xdplab.hosts import LocalHost
from xdplab.hosts.agent import xsk
from xdplab.measure.point import PointSummary
from xdplab.model import TrialRecord, XdplabError
from xdplab.results import RunFolder

pytestmark = pytest.mark.root


def study(lab: Lab, forwarders: list[dict[str, Any]], method: dict[str, Any], **more: Any) -> Path:
    path = lab.folder / "micro.yaml"
    timed = {"duration_s": 0.4, **({"warmup_s": 0.05} if method["name"] == "micro" else {})}
    given = {
        "schema": 1, "name": "micro", "testbed": str(lab.testbed), "forwarders": forwarders, "repetitions": 1,
        "method": {**timed, **method},
    }  # fmt: skip
    path.write_text(yaml.safe_dump(given | more), encoding="utf-8")
    return path


def case(title: str, name: str = "xsk", **options: Any) -> dict[str, Any]:
    return {"name": name, "label": title, "options": options}


def newest(lab: Lab) -> tuple[dict[tuple[str, str], PointSummary], list[TrialRecord]]:
    """(workload or rate, case) -> its summary; and all records."""
    folder = RunFolder((lab.results / "latest").resolve())
    trials = folder.trials()
    found = {(str(next(iter(p.levels.values()))), p.forwarder): p for p in summarise(folder.load(), trials)}
    return found, trials


def test_a_program_that_is_named_and_not_there_is_bad_input(lab: Lab) -> None:
    path = study(lab, [case("absent", "xdpsock", path="/nowhere/x")], {"name": "micro", "workloads": ["rxdrop"]})
    done = lab.xdplab("run", path, "--allow-program", "/nowhere/x")
    done.refused("xdpsock: path=/nowhere/x: no such program, or not executable; correct the path")
    lab.assert_nothing_left()


def test_every_workload_and_what_veth_cannot_do(lab: Lab) -> None:
    broken = lab.folder / "xdpsock"
    broken.write_text("#!/bin/sh\necho no socket today >&2\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    cases = [
        case("plain"),
        case("broken", "xdpsock", path=str(broken)),
        case("packet", backend="af_packet"),
        case("busy", busy_poll_us=20),
        case("zero", bind="zero-copy"),
        case("huge", hugepages=True),
        case("dpdk", "testpmd"),
    ]
    only = {key: ["rxdrop"] for key in ("broken", "busy", "zero", "dpdk", "huge")} | {"packet": ["l2fwd"]}
    method = {"name": "micro", "workloads": ["rxdrop", "txonly", "l2fwd"], "only": only}
    hugepages = Path("/proc/sys/vm/nr_hugepages").read_text(encoding="ascii")
    allow = ["--allow-program", broken]
    done = lab.xdplab("run", study(lab, cases, method, traffic={"frame_bytes": 512}), *allow)
    assert (done.code, done.complaints) == (1, []), done.err
    found, trials = newest(lab)
    assert len(found) == 9
    broken_one = found["rxdrop", "broken"]
    assert (broken_one.status, "exit code 1: no socket today" in broken_one.reason) == ("failed", True), (
        broken_one.reason
    )
    measured = [("rxdrop", "plain"), ("txonly", "plain"), ("l2fwd", "plain"), ("l2fwd", "packet"), ("rxdrop", "dpdk")]
    for key in (*measured, ("rxdrop", "huge")):
        assert found[key].status == "ok", found[key].reason
        assert 0.0001 < (found[key].by_repetition[0].value("mpps") or 0) < 20
    assert found["rxdrop", "busy"].status == BUSY_POLLING, found["rxdrop", "busy"].reason
    assert found["rxdrop", "zero"].status == "unsupported"
    assert "veth" in found["rxdrop", "zero"].reason
    ends = [trial for trial in trials if trial.purpose == "end" and trial.status == "ok"]
    for end in ends:
        assert end.traffic_s in (pytest.approx(0.4), pytest.approx(0.45))
        assert end.repetition_s > end.traffic_s
    assert Path("/proc/sys/vm/nr_hugepages").read_text(encoding="ascii") == hugepages
    report = lab.results / "latest" / "report.html"
    assert "Not measured, and why" in report.read_text(encoding="utf-8")
    shown = lab.xdplab("show")
    assert "dead time of a repetition: " in shown.out
    assert len(lab.xdplab("show", "--json").json()) == 9
    report.unlink()
    assert lab.xdplab("report").out.strip() == str(report.resolve())
    assert report.is_file()
    assert "of the 3 rounds that an interval needs" in lab.xdplab("compare", "latest", "latest").out
    lab.assert_nothing_left()


def test_stages_of_the_way_of_each_frame(lab: Lab) -> None:
    cases = [case("plain"), case("packet", backend="af_packet")]
    path = study(lab, cases, {"name": "stages", "rates_pps": [2000]}, traffic={"frame_bytes": 512})
    for _ in range(3):  # the kernel begins to stamp arrivals by a work item, which a busy machine may run too late
        done = lab.xdplab("run", path)
        assert (done.code, done.complaints) == (0, []), done.err
        found, trials = newest(lab)
        counts = [
            found["2000.0", each].model_dump()["figures"]["stages"]["complete"]["count"] for each in ("plain", "packet")
        ]
        if min(counts) > 100:
            break
    for title in ("plain", "packet"):
        stages = found["2000.0", title].model_dump()["figures"]["stages"]
        assert 100 < stages["complete"]["count"] <= 800
        assert found["2000.0", title].model_dump()["figures"]["stamps"] == "software"
        parts = stages["driver"]["mean_us"] + stages["stack"]["mean_us"]
        assert stages["complete"]["mean_us"] == pytest.approx(parts, rel=0.02, abs=0.5)
    assert [trial.traffic_s for trial in trials if trial.purpose == "end"] == [pytest.approx(0.4)] * 2
    lab.assert_nothing_left()


@pytest.mark.slow
def test_an_interrupted_run_keeps_what_it_has_and_goes_on(lab: Lab) -> None:
    method = {"name": "micro", "workloads": ["rxdrop"], "duration_s": 0.1}
    process = lab.start("run", study(lab, [case("plain")], method, repetitions=8))
    wait_for(lambda: (lab.results / "latest" / "trials.jsonl").exists(), "the first trial")
    process.send_signal(signal.SIGKILL)
    finish(process)
    done = lab.xdplab("run", "--resume", "latest")
    assert (done.code, done.complaints) == (0, []), done.err
    found, trials = newest(lab)
    assert found["rxdrop", "plain"].repetitions == 8
    assert len({trial.repetition for trial in trials if trial.result}) == 8
    lab.assert_nothing_left()


@pytest.mark.skipif(XdpsockOptions().program is None, reason="xdpsock is not installed")
def test_xdpsock_itself(lab: Lab) -> None:
    done = lab.xdplab("run", study(lab, [case("theirs", "xdpsock")], {"name": "micro"}))
    assert (done.code, done.complaints) == (0, []), done.err
    assert {key: (p.status, p.mode.startswith(("native copy", "copy"))) for key, p in newest(lab)[0].items()} == {
        (workload, "theirs"): ("ok", True) for workload in ("rxdrop", "txonly", "l2fwd")
    }


def test_sockets_of_another_process_are_read_and_given_back() -> None:
    holder = "import socket, sys; s = socket.socket(44, socket.SOCK_RAW); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"open\n"
        (found,) = LocalHost().xsk_sockets(process.pid)
        assert found["statistics"].keys() == set(xsk.STATISTICS)
        before = len(os.listdir("/proc/self/fd"))
        LocalHost().xsk_sockets(process.pid)
        assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(XdplabError, match=f"AF_XDP sockets of process {process.pid}: No such process"):
        LocalHost().xsk_sockets(process.pid)
