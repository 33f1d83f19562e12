# SPDX-License-Identifier: Apache-2.0
"""Network functions on namespaces: every mode and kind of traffic, what runs next to them, settings put back."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.rooted import BUSY_POLLING, Lab

from xdplab.model import TrialRecord
from xdplab.results import RunFolder

pytestmark = pytest.mark.root


def study(lab: Lab, traffic: list[str], matrix: dict[str, Any], **more: Any) -> Path:
    path = lab.folder / "functions.yaml"
    method = {"name": "functions", "traffic": traffic, "duration_s": 0.2, "warmup_s": 0.05, **matrix}
    given = {
        "schema": 1, "name": "functions", "testbed": str(lab.testbed), "repetitions": 1,
        "method": method,
    }  # fmt: skip
    path.write_text(yaml.safe_dump(given | more), encoding="utf-8")
    return path


def trials(lab: Lab) -> dict[tuple[str, str], TrialRecord]:
    """(traffic, title) -> the trial, or the record that says why there is none."""
    folder = RunFolder((lab.results / "latest").resolve())
    head = folder.load()
    found = {
        point_id: TrialRecord(
            point_id=point_id, repetition=0, status="unsupported", reason=reason, started="2026-01-02T03:04:05+00:00"
        )
        for point_id, reason in head.unsupported.items()
    }
    found |= {record.point_id: record for record in folder.trials() if record.result or record.status != "ok"}
    return {(str(head.points[p].levels["traffic"]), head.points[p].forwarder.title): r for p, r in found.items()}


def test_functions_in_their_modes(lab: Lab) -> None:
    matrix = {
        "functions": ["macswap", "firewall+load_balancer"],
        "modes": ["xdp", "af_xdp-poll", "af_xdp-bp", "combined-poll"],
        "drop_percents": [30],
        "work_iterations": [2],
        "work_lookups": [1],
    }
    path = study(lab, ["dropped", "pass-through", "mixed"], matrix, knobs={"cpu_layout": "1C1T"})
    done = lab.xdplab("run", path)
    assert (done.code, done.complaints) == (0, []), done.err
    found = trials(lab)
    assert len(found) == 12
    for (_, case), trial in found.items():
        if case.endswith("-bp") and BUSY_POLLING == "unsupported":
            assert trial.status == BUSY_POLLING
            continue
        assert trial.status == "ok", (case, trial.reason)
        assert 0.001 < trial.figures["mpps"] < 20
        assert bool(trial.mode["xsk"]) == (not case.endswith(" xdp"))
        assert {port["mode"] for port in trial.mode["xdp"].values()} == {"native"}
        assert trial.knobs.keys() == {"cpu_layout"}
        used = trial.mode["application"]["options"]["nf"]
        assert (used["work_iterations"], used["work_lookups"]) == (2, 1)
    mixed = found["mixed", "firewall+load_balancer, 2 iterations, 1 reads, 30 % dropped, combined-poll"]
    # the firewall is the kernel's and hands on what it lets through
    kernel, user = (mixed.counters["nf"][half] for half in ("xdp", "af_xdp"))
    assert kernel["forwarded"] == user["dropped"] == 0
    assert kernel["dropped"] / kernel["rx"] == pytest.approx(0.3, abs=0.02)
    assert "our medians" in done.out
    report = (lab.results / "latest" / "report.html").read_text(encoding="utf-8")
    assert "receive NAPI and forwarder on one CPU" in report
    lab.assert_nothing_left()


@pytest.mark.slow
def test_local_traffic_web_server_and_job(lab: Lab) -> None:
    matrix = {"functions": ["firewall"], "modes": ["xdp", "af_xdp-poll"], "flood_pps": [20000]}
    done = lab.xdplab("run", study(lab, ["local", "web", "job"], {**matrix, "duration_s": 0.3}))
    assert (done.code, done.complaints) == (0, []), done.err
    found = trials(lab)
    assert len(found) == 6
    for (workload, case), trial in found.items():
        assert trial.status == "ok", (workload, case, trial.reason)
        figure = trial.figures["s_per_round" if workload == "job" else "requests_per_s"]
        assert figure > (0 if workload == "job" else 50)
        counted = trial.counters["nf"]["xdp" if case.endswith(" xdp") else "af_xdp"]
        if workload != "local":
            assert 5000 < counted["dropped"] <= 40000  # all of the flood, where the workload took longer
        if workload != "job":
            # a request is at least a frame each way
            assert counted["local"] > figure * 0.2
        assert counted["undelivered"] == 0
    misses = found["job", "firewall next to 20000 pps, xdp"].figures["cache_misses"]
    assert isinstance(misses, int) or misses.startswith("unsupported: ")
    report = (lab.results / "latest" / "report.html").read_text(encoding="utf-8")
    assert "nginx" in report
    lab.assert_nothing_left()


def test_what_this_machine_cannot_set_is_unsupported(lab: Lab) -> None:
    info = Path("/proc/cpuinfo").read_text(encoding="ascii")
    if "GenuineIntel" in info and "hypervisor" not in info:
        pytest.skip("here the ways of DDIO may be set")
    matrix = {"functions": ["macswap"], "modes": ["xdp"]}
    done = lab.xdplab("run", study(lab, ["dropped"], matrix, knobs={"ddio_ways": 11}))
    done.refused("no point of it can be measured here", "ddio_ways")
    lab.assert_nothing_left()


@pytest.mark.slow
def test_one_core_is_measured_and_more_have_a_reason(lab: Lab) -> None:
    matrix = {
        "functions": ["macswap"], "modes": ["xdp", "af_xdp-poll"], "cores": [1, 2], "rx_rings": [512, 256],
        "ddio_ways": [0, 2],
    }  # fmt: skip
    done = lab.xdplab("run", study(lab, ["pass-through"], matrix))
    assert (done.code, done.complaints) == (0, []), done.err
    found = trials(lab)
    assert len(found) == 16
    for (_, case), trial in found.items():
        if "2 cores" in case or "2 DDIO ways" in case:
            assert trial.status == "unsupported"
            assert "ddio_ways" in trial.reason or "channels" in trial.reason or "2 cores" in trial.reason
            continue
        assert trial.status == "ok", (case, trial.reason)
        assert set(trial.knobs) == {"channels"}
        if case.endswith("poll"):
            ring = 512 if "ring 512" in case else 256
            assert {sock["rings"]["rx"] for sock in trial.mode["application"]["sockets"]} == {ring}
    report = (lab.results / "latest" / "report.html").read_text(encoding="utf-8")
    assert "Scaling over cores" in report
    assert "one number of cores was measured" in report
    lab.assert_nothing_left()
