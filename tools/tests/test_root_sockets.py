# SPDX-License-Identifier: Apache-2.0
"""A socket study on namespaces: every workload, what veth cannot do, an interruption; nothing is left."""

import json
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

from xdplab.forwarders.xdpsock import XdpsockOptions
from xdplab.hosts import LocalHost, xsk_probe
from xdplab.hosts.kernel import xsk_sockets
from xdplab.model import XdplabError
from xdplab.model.sockets import SocketTrial
from xdplab.results.sockets import SocketFolder

pytestmark = pytest.mark.root

ANY_MACHINE = {"max_stalled_share": 1000, "max_steal_share": 1000, "max_run_delay_share": 1000}


def study(lab: Lab, cases: list[dict[str, Any]], **more: Any) -> Path:
    path = lab.folder / "sockets.yaml"
    given = {
        "schema": 1, "name": "sockets", "testbed": str(lab.testbed), "cases": cases, "repetitions": 1,
        "duration_s": 0.4, "warmup_s": 0.05, "disturbance": ANY_MACHINE,
    }  # fmt: skip
    path.write_text(yaml.safe_dump(given | more), encoding="utf-8")
    return path


def newest(lab: Lab) -> list[SocketTrial]:
    return SocketFolder((lab.results / "latest").resolve()).load()[1]


def test_every_workload_and_what_veth_cannot_do(lab: Lab) -> None:
    broken = lab.folder / "xdpsock"
    broken.write_text("#!/bin/sh\necho no socket today >&2\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    cases = [
        {"title": "plain"},
        {"title": "absent", "program": "xdpsock", "options": {"path": "/nowhere/x"}, "workloads": ["rxdrop"]},
        {"title": "broken", "program": "xdpsock", "options": {"path": str(broken)}, "workloads": ["rxdrop"]},
        {"title": "packet", "options": {"backend": "af_packet"}, "workloads": ["l2fwd", "stages"]},
        {"title": "busy", "options": {"busy_poll_us": 20}, "workloads": ["rxdrop"]},
        {"title": "zero", "options": {"bind": "zero-copy"}, "workloads": ["rxdrop"]},
        {"title": "dpdk", "program": "testpmd", "workloads": ["rxdrop"]},
    ]
    workloads = ["rxdrop", "txonly", "l2fwd", "stages"]
    path = study(lab, cases, workloads=workloads, rates_pps=[2000], frame_bytes=512)
    done = lab.xdplab("sockets", path)
    assert (done.code, done.complaints) == (1, []), done.err
    found = {(trial.workload, trial.case): trial for trial in newest(lab)}
    assert len(found) == 11
    absent, broken_one = found["rxdrop", "absent"], found["rxdrop", "broken"]
    assert (absent.status, "no program /nowhere/x" in absent.reason) == ("unsupported", True), absent.reason
    assert (broken_one.status, "exit code 1: no socket today" in broken_one.reason) == ("failed", True), (
        broken_one.reason
    )
    for key in (("rxdrop", "plain"), ("txonly", "plain"), ("l2fwd", "plain"), ("l2fwd", "packet"), ("rxdrop", "dpdk")):
        assert found[key].status == "ok", found[key].reason
        assert 100 < (found[key].pps or 0) < 20e6
    for case in ("plain", "packet"):
        trial = found["stages", case]
        complete = trial.stages["complete"]
        assert 100 < complete.count <= 800
        assert trial.stamps == {"hardware": 0, "software": complete.count, "unstamped": 0}
        assert complete.mean_ns == pytest.approx(
            trial.stages["driver"].mean_ns + trial.stages["stack"].mean_ns, rel=0.02, abs=500
        )
    assert found["rxdrop", "busy"].status == BUSY_POLLING, found["rxdrop", "busy"].reason
    assert found["rxdrop", "zero"].status == "unsupported"
    assert "veth" in found["rxdrop", "zero"].reason
    for (workload, _), trial in found.items():
        measured = trial.pps is not None
        warmup_s = 0.0 if workload == "stages" else 0.05
        assert trial.traffic_s == (pytest.approx(0.4 + warmup_s) if measured else 0)
        assert trial.visit_s > trial.traffic_s or not measured
    report = lab.results / "latest" / "report.html"
    assert "Not measured, and why" in report.read_text(encoding="utf-8")
    shown = lab.xdplab("show")
    assert done.out.startswith(shown.out)
    for program in ("xsk", "testpmd"):
        assert f"dead time of a cell, program {program}: " in shown.out
    assert len(lab.xdplab("show", "--json").json()) == 11
    report.unlink()
    assert lab.xdplab("report").out.strip() == str(report.resolve())
    assert report.is_file()
    assert "too few repetitions" in lab.xdplab("compare", "latest", "latest").out
    lab.assert_nothing_left()


def test_an_interrupted_study_keeps_what_it_has(lab: Lab) -> None:
    path = study(lab, [{"title": "plain"}], workloads=["rxdrop"], repetitions=500)
    process = lab.start("sockets", path)
    wait_for(lambda: (lab.results / "latest" / "trials.jsonl").exists(), "the first trial")
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.code == 130
    assert 1 <= len(newest(lab)) < 500
    assert (lab.results / "latest" / "report.html").is_file()
    lab.assert_nothing_left()


@pytest.mark.skipif(XdpsockOptions().program is None, reason="xdpsock is not installed")
def test_xdpsock_itself(lab: Lab) -> None:
    path = study(lab, [{"title": "theirs", "program": "xdpsock"}], workloads=["rxdrop", "txonly", "l2fwd"])
    done = lab.xdplab("sockets", path)
    assert (done.code, done.complaints) == (0, []), done.err
    assert [(trial.workload, trial.status, trial.mode["xsk"][0]["zero_copy"]) for trial in newest(lab)] == [
        (workload, "ok", False) for workload in ("rxdrop", "txonly", "l2fwd")
    ]


def test_sockets_are_read_in_this_process_as_by_the_script_for_other_machines() -> None:
    holder = "import socket, sys; s = socket.socket(44, socket.SOCK_RAW); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"open\n"
        (found,) = xsk_sockets(LocalHost(), process.pid)
        script = [sys.executable, "-I", "-S", xsk_probe.__file__, str(process.pid)]
        assert [found] == json.loads(subprocess.run(script, capture_output=True, check=True).stdout)
        assert found["statistics"].keys() == set(xsk_probe.STATISTICS)
        before = len(os.listdir("/proc/self/fd"))
        xsk_sockets(LocalHost(), process.pid)
        assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(XdplabError, match=f"AF_XDP sockets of process {process.pid}: No such process"):
        xsk_sockets(LocalHost(), process.pid)
