# SPDX-License-Identifier: Apache-2.0
"""Every real forwarder carries frames on namespaces, in the mode that was asked for, and leaves nothing."""

import re
from pathlib import Path
from typing import Any

import pytest
from lab.command import finish, wait_for
from lab.rooted import Lab, hugepages

from xdplab.hosts.kernel import cpu_list
from xdplab.model import plugins

pytestmark = pytest.mark.root

MODES = {
    "ovs-afxdp": "native copy",
    "ovs-afxdp:xdp_mode=generic": "generic copy",
    "ovs-afpacket": "af_packet",
    "ovs-dpdk": "native copy",
    "ovs-dpdk:hugepages=true": "native copy",
    "ovs-dpdk:port=af_packet": "dpdk af_packet",
    "testpmd": "native copy",
    "testpmd:port=af_packet": "dpdk af_packet",
    "xdp": "native",
    "xdp:mode=generic": "generic",
    "linux-bridge": "kernel bridge",
    "xsk": "native copy",
    "xsk:mode=generic,shared_umem=false,wait=poll": "generic copy",
    "xsk:backend=af_packet": "af_packet v2",
    "xsk:backend=af_packet,packet_version=3": "af_packet v3",
}
#: What veth has not, and a word of the reason.
UNSUPPORTED = {"ovs-afxdp:xdp_mode=native-with-zerocopy": "veth"}
if Path("/sys/module/openvswitch").exists():
    MODES["ovs-kernel"] = "kernel datapath"
else:
    UNSUPPORTED["ovs-kernel"] = "the kernel's module openvswitch is not loaded"
IN_KERNEL = {"xdp", "xdp:mode=generic", "linux-bridge", "ovs-kernel"}


@pytest.fixture(scope="module")
def rows(shared_lab: Lab) -> dict[str, dict[str, Any]]:
    """The summary of each forwarder from one run of all, under an MTU not its own."""
    before = hugepages()
    done = shared_lab.run(forwarders=[*MODES, *UNSUPPORTED], knobs={"mtu": [1400]})
    assert done.complaints == [], done.err
    shared_lab.assert_nothing_left()
    assert hugepages() == before
    return {row["forwarder"]: row for row in shared_lab.rows()}


def test_all_forwarders_of_the_project_are_tried_here() -> None:
    optional = {name for name in plugins.names("xdplab.forwarders") if name.startswith("vpp-")}  # test_root_vpp.py
    # test_root_functions.py, test_root_micro.py, test_root_pipelines.py, test_root_own_programs.py, test_veth_pair.py,
    # test_external.py
    of_methods = {"nf", "xdpsock", "linux-router", "command", "veth-pair", "external"}
    assert {title.split(":")[0] for title in (*MODES, *UNSUPPORTED)} == set(plugins.names("xdplab.forwarders")) - {
        "fake"
    } - optional - of_methods


@pytest.mark.parametrize("title", MODES)
def test_a_forwarder_carries_frames_in_the_mode_asked_for(rows: dict[str, dict[str, Any]], title: str) -> None:
    row = rows[title]
    assert (row["status"], row["reason"], row["mode"]) == ("ok", "", MODES[title])
    assert (row["path"], row["quantity"], row["repetitions"], row["offered_pps"]) == ("through", "one-way", 1, 5000)
    assert row["samples"] > 0.9 * row["sent"] > 0  # a busy machine leaves some of the schedule out
    assert 0.05 < row["p50_us"] < 1e6
    assert row["p99_us"] is None or row["p50_us"] <= row["p99_us"] < 1e6  # short: few frames lie above it


@pytest.mark.parametrize("title", UNSUPPORTED)
def test_what_this_machine_cannot_do_is_unsupported_with_the_reason(
    rows: dict[str, dict[str, Any]], title: str
) -> None:
    row = rows[title]
    assert (row["status"], row["repetitions"], row["mode"]) == ("unsupported", 0, "")
    assert UNSUPPORTED[title] in row["reason"]


@pytest.mark.parametrize("title", MODES)
def test_a_record_holds_what_the_kernel_says(rows: dict[str, dict[str, Any]], shared_lab: Lab, title: str) -> None:
    (trial,) = [each for each in shared_lab.trials() if each.point_id == rows[title]["point_id"] and each.result]
    assert set(trial.mode["xdp"]) == {"b0", "b1"}
    assert bool(trial.mode["xsk"]) == (MODES[title] in ("native copy", "generic copy"))
    assert all(sock["zero_copy"] is False and len(sock["statistics"]) == 6 for sock in trial.mode["xsk"])
    assert bool(trial.threads) == (title not in IN_KERNEL)
    assert {cpu for thread in trial.threads for cpu in thread.allowed} <= {1}
    assert all(thread.ran_ns > 0 for thread in trial.threads)
    assert all(None not in (thread.user_ns, thread.system_ns) for thread in trial.threads)
    if sum(thread.ran_ns for thread in trial.threads) > 0.1e9:  # of which /proc has 10 ms and more
        assert sum((thread.user_ns or 0) + (thread.system_ns or 0) for thread in trial.threads) > 0
    assert trial.counters or title.startswith("testpmd")
    assert set(trial.knobs["mtu"].values()) == {"1400"}


@pytest.mark.parametrize("title", [title for title in MODES if title.startswith("xsk")])
def test_what_xsk_says_is_what_the_kernel_says(rows: dict[str, dict[str, Any]], shared_lab: Lab, title: str) -> None:
    (trial,) = [each for each in shared_lab.trials() if each.point_id == rows[title]["point_id"] and each.result]
    said = trial.mode["application"]
    assert [port["xdp_mode"] for port in said["ports"]] == [trial.mode["xdp"][role]["mode"] for role in ("b0", "b1")]
    asked = ("zero_copy", "napi_id", "busy_poll_us", "prefer_busy_poll")
    own = [{key: sock[key] for key in asked} for sock in said["sockets"] if sock["family"] == "af_xdp"]
    assert own == [{key: sock[key] for key in asked} for sock in trial.mode["xsk"]]
    assert sum(sock["rx"] for sock in trial.counters["sockets"]) >= rows[title]["samples"]


@pytest.mark.parametrize("title", [title for title in MODES if title.startswith(("xdp", "xsk"))])
def test_what_a_trial_added_has_its_frames_and_not_those_of_the_proof(
    rows: dict[str, dict[str, Any]], shared_lab: Lab, title: str
) -> None:
    (trial,) = [each for each in shared_lab.trials() if each.point_id == rows[title]["point_id"] and each.result]
    assert trial.result is not None
    if title.startswith("xsk"):
        counted, whole = sum(sock["rx"] for sock in trial.increments["sockets"].values()), trial.counters["sockets"]
        before = sum(sock["rx"] for sock in whole) - counted
    else:
        counted = sum(port["rx"] for port in trial.increments.values())
        before = sum(port["rx"] for port in trial.counters.values()) - counted
    assert counted >= trial.result.sent
    assert before >= 2  # the proof sends 20 frames in each direction, and one of them is enough


def test_hugepages_are_reserved_and_given_back(rows: dict[str, dict[str, Any]], shared_lab: Lab) -> None:
    point = rows["ovs-dpdk:hugepages=true"]["point_id"]
    held = {each.point_id: each.knobs.get("hugepages_2m") for each in shared_lab.trials() if each.result}
    assert held[point] >= 384
    assert [pages for other, pages in held.items() if other != point] == [None] * (len(MODES) - 1)


def test_paths_that_come_back_measure_a_round_trip(lab: Lab) -> None:
    paths = ["hairpin", "reflect"]
    assert lab.run(path=paths, forwarders=["ovs-afxdp", "xdp"]).complaints == []
    assert [(row["path"], row["forwarder"], row["status"], row["quantity"]) for row in lab.rows()] == [
        (path, name, "ok", "round trip") for path in paths for name in ("ovs-afxdp", "xdp")
    ]
    lab.assert_nothing_left()


def test_large_frames_in_both_directions_and_a_load_beside_the_probes(lab: Lab) -> None:
    traffic = {"probe_pps": 2000, "load_pps": 4000, "bidirectional": True, "vlan": 7, "flows": 3}
    assert lab.run(traffic=traffic, frame_bytes=[68, 1522]).complaints == []
    rows = lab.rows()
    assert [(row["frame_bytes"], row["status"], row["offered_pps"]) for row in rows] == [
        (68, "ok", 12000),
        (1522, "ok", 12000),
    ]
    for trial in lab.trials():
        if trial.result:
            found = {(each.kind, each.direction) for each in trial.result.streams if each.received}
            assert found == {(kind, way) for kind in ("latency", "load") for way in ("forward", "backward")}
    lab.assert_nothing_left()


def napi_threads(lab: Lab) -> dict[str, tuple[int, ...]]:
    """Kernel threads of this testbed's forwarder ports and the CPUs they may use."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name = (process / "comm").read_text(encoding="utf-8")
            if name.startswith((f"napi/b0-{lab.tag}", f"napi/b1-{lab.tag}")):
                status = (process / "status").read_text(encoding="utf-8")
                found[name.strip()] = cpu_list(re.findall(r"Cpus_allowed_list:\s*(\S+)", status)[0])
        except OSError:
            continue
    return found


def test_1c1t_pins_threaded_napi_beside_the_forwarder_and_nobody_else_has_it(lab: Lab) -> None:
    study = {"forwarders": ["ovs-afxdp"], "knobs": {"cpu_layout": ["1C1T", "inline"]}, "repetitions": 1}
    process = lab.start("run", lab.study(**study, method={"name": "latency", "duration_s": 0.4}))

    def pinned() -> bool:
        threads = napi_threads(lab)
        return len(threads) >= 2 and set(threads.values()) == {(1,)}

    wait_for(pinned, "two NAPI threads on CPU 1")
    assert finish(process).complaints == []
    threaded = [set(each.knobs["cpu_layout"].values()) for each in lab.trials() if each.result]
    assert sorted(threaded, key=str) == [{"0"}, {"1"}]  # side by side, in an order of chance
    by_layout = {row["knobs"]["cpu_layout"]: row for row in lab.rows()}
    assert "napi thread" in by_layout["1C1T"]["cpus"]
    assert "napi with tx" in by_layout["inline"]["cpus"]
    lab.assert_nothing_left()
