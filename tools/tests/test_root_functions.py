# SPDX-License-Identifier: Apache-2.0
"""Network functions on namespaces: every mode and kind of traffic, what runs beside them, settings put back."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.rooted import BUSY_POLLING, Lab

from xdplab.model.sockets import SocketTrial
from xdplab.results.sockets import SocketFolder

pytestmark = pytest.mark.root

ANY_MACHINE = {"max_stalled_share": 1000, "max_steal_share": 1000, "max_run_delay_share": 1000}


def study(lab: Lab, workloads: list[str], matrix: dict[str, Any], **more: Any) -> Path:
    path = lab.folder / "functions.yaml"
    given = {
        "schema": 1, "name": "functions", "testbed": str(lab.testbed), "workloads": workloads, "repetitions": 1,
        "duration_s": 0.2, "warmup_s": 0.05, "disturbance": ANY_MACHINE, "network_functions": matrix,
    }  # fmt: skip
    path.write_text(yaml.safe_dump(given | more), encoding="utf-8")
    return path


def trials(lab: Lab) -> dict[tuple[str, str], SocketTrial]:
    found = SocketFolder((lab.results / "latest").resolve()).load()[1]
    return {(trial.workload, trial.case): trial for trial in found}


def test_functions_in_their_modes(lab: Lab) -> None:
    matrix = {
        "functions": ["macswap", "firewall+load_balancer"],
        "modes": ["xdp", "af_xdp-poll", "af_xdp-bp", "combined-poll"],
        "drop_percents": [30],
        "work_iterations": [2],
        "work_lookups": [1],
    }
    path = study(lab, ["dropped", "pass-through", "mixed"], matrix, knobs={"cpu_layout": "1C1T"})
    done = lab.xdplab("sockets", path)
    assert (done.code, done.complaints) == (0, []), done.err
    found = trials(lab)
    assert len(found) == 12
    for (_, case), trial in found.items():
        if case.endswith("-bp") and BUSY_POLLING == "unsupported":
            assert trial.status == BUSY_POLLING
            continue
        assert trial.status == "ok", (case, trial.reason)
        assert 1000 < (trial.pps or 0) < 20e6
        assert bool(trial.mode["xsk"]) == (not case.endswith(" xdp"))
        assert {port["mode"] for port in trial.mode["xdp"].values()} == {"native"}
        assert trial.mode["knobs"].keys() == {"cpu_layout"}
        used = trial.mode["application"]["options"]["nf"]
        assert (used["work_iterations"], used["work_lookups"]) == (2, 1)
    mixed = found["mixed", "firewall+load_balancer, 2 iterations, 1 reads, 30 % dropped, combined-poll"]
    # the firewall is the kernel's and hands on what it lets through
    kernel, user = (mixed.counters["nf"][half] for half in ("xdp", "af_xdp"))
    assert kernel["forwarded"] == user["dropped"] == 0
    assert kernel["dropped"] / kernel["rx"] == pytest.approx(0.3, abs=0.02)
    assert "order of our medians" in done.out
    report = (lab.results / "latest" / "report.html").read_text(encoding="utf-8")
    assert "receive NAPI and forwarder on one CPU" in report
    lab.assert_nothing_left()


def test_local_traffic_web_server_and_job(lab: Lab) -> None:
    matrix = {"functions": ["firewall"], "modes": ["xdp", "af_xdp-poll"], "flood_pps": [20000]}
    done = lab.xdplab("sockets", study(lab, ["local", "web", "job"], matrix, duration_s=0.3))
    assert (done.code, done.complaints) == (0, []), done.err
    found = trials(lab)
    assert len(found) == 6
    for (workload, case), trial in found.items():
        assert trial.status == "ok", (workload, case, trial.reason)
        assert trial.unit == ("s per round" if workload == "job" else "requests/s")
        assert (trial.figure or 0) > (0 if workload == "job" else 50)
        counted = trial.counters["nf"]["xdp" if case.endswith(" xdp") else "af_xdp"]
        if workload != "local":
            assert 5000 < counted["dropped"] < 40000
        if workload != "job":
            # a request is at least a frame each way
            assert counted["local"] > (trial.figure or 0) * 0.2
        assert counted["undelivered"] == 0
    misses = found["job", "firewall beside 20000 pps, xdp"].counters["cache_misses"]
    assert isinstance(misses, int) or misses.startswith("unsupported: ")
    report = (lab.results / "latest" / "report.html").read_text(encoding="utf-8")
    assert "nginx" in report
    lab.assert_nothing_left()


def test_what_this_machine_cannot_set_is_unsupported(lab: Lab) -> None:
    info = Path("/proc/cpuinfo").read_text(encoding="ascii")
    if "GenuineIntel" in info and "hypervisor" not in info:
        pytest.skip("here the ways of DDIO may be set")
    matrix = {"functions": ["macswap"], "modes": ["xdp"]}
    done = lab.xdplab("sockets", study(lab, ["dropped"], matrix, knobs={"ddio_ways": 11}))
    assert done.code == 0
    (trial,) = trials(lab).values()
    assert trial.status == "unsupported"
    assert "ddio_ways" in trial.reason
    lab.assert_nothing_left()


def test_one_core_is_measured_and_more_have_a_reason(lab: Lab) -> None:
    matrix = {
        "functions": ["macswap"], "modes": ["xdp", "af_xdp-poll"], "cores": [1, 2], "rx_rings": [512, 256],
        "ddio_ways": [0, 2],
    }  # fmt: skip
    done = lab.xdplab("sockets", study(lab, ["pass-through"], matrix))
    assert (done.code, done.complaints) == (0, []), done.err
    found = trials(lab)
    assert len(found) == 16
    for (_, case), trial in found.items():
        if "2 cores" in case or "2 DDIO ways" in case:
            assert trial.status == "unsupported"
            assert "ddio_ways" in trial.reason or "channels" in trial.reason or "2 cores" in trial.reason
            continue
        assert trial.status == "ok", (case, trial.reason)
        assert set(trial.mode["knobs"]) == {"channels"}
        if case.endswith("poll"):
            ring = 512 if "ring 512" in case else 256
            assert {sock["rings"]["rx"] for sock in trial.mode["application"]["sockets"]} == {ring}
    report = (lab.results / "latest" / "report.html").read_text(encoding="utf-8")
    assert "Scaling over cores" in report
    assert "one number of cores was measured" in report
    lab.assert_nothing_left()
