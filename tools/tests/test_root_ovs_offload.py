# SPDX-License-Identifier: Apache-2.0
"""Flow offload to XDP on namespaces, and the programs that compare and shake it, which must find what is planted."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from lab.command import BIN
from lab.rooted import Lab

from xdplab.forwarders.ovs.builds import PATCHED, find_build, missing
from xdplab.hosts import LocalHost
from xdplab.tools import project_root

pytestmark = pytest.mark.root

STOCK_DAEMON = "/usr/lib/openvswitch-switch/ovs-vswitchd"


def folder(name: str) -> str:
    """Of a build in the cache; skips with the reason when it is not there."""
    build = find_build(name, STOCK_DAEMON, LocalHost())
    reason = missing(LocalHost(), build, "")
    if reason:
        pytest.skip(reason)
    return str(Path(build.vswitchd).parent)


def run(program: str, *argv: str) -> "subprocess.CompletedProcess[str]":
    path = project_root() / "ovs" / "tests" / program
    return subprocess.run([sys.executable, str(path), *argv], capture_output=True, text=True, check=False)


def test_frames_of_known_flows_are_forwarded_by_the_program_and_counted(lab: Lab) -> None:
    folder(PATCHED)
    titles = [f"ovs-afxdp:flow_offload={value}" for value in ("true", "false")]
    done = lab.run(forwarders=titles)
    assert done.complaints == [], done.err
    rows = {row["forwarder"]: row for row in lab.rows()}
    assert [(rows[title]["status"], rows[title]["reason"]) for title in titles] == [("ok", "")] * 2
    trials = {each.point_id: each for each in lab.trials() if each.result}
    with_it, without = (trials[rows[title]["point_id"]] for title in titles)
    assert with_it.result is not None
    assert with_it.result.received > 100
    counted = [sum(port.get("xdp_flow_packets", 0) for port in each.increments.values()) for each in (with_it, without)]
    assert counted[0] >= with_it.result.received
    assert counted[1] == 0
    assert [rows[title]["mode"] for title in titles] == ["native copy + XDP flows", "native copy"]
    lab.assert_nothing_left()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_row_of_the_latency_suite_is_measured_and_its_frames_met_flows_in_xdp(lab: Lab) -> None:
    folder(PATCHED)
    given = {"TESTBED": str(lab.testbed), "FORWARDERS": "ovs-afxdp:flow_offload=true xdp", "REPETITIONS": "1"}
    given |= {"DURATION": "0.2", "RATE": "20000"}
    options = [word for name, value in given.items() for word in ("-v", f"{name}:{value}")]
    argv = [BIN / "robot", "--output", "NONE", "--log", "NONE", "--report", "NONE", *options]
    suite = project_root() / "suites" / "latency.robot"
    done = subprocess.run([*argv, suite], capture_output=True, text=True, check=False, env=lab.env())
    assert done.returncode == 0, done.stdout
    for name in ("OVS on AF_XDP, known flows in XDP", "Known Flows Were Forwarded In XDP"):
        assert re.search(rf"^{name} .*\| PASS \|$", done.stdout, re.MULTILINE), done.stdout
    html = lab.newest().report.read_text(encoding="utf-8")
    assert re.search(
        r"ovs-afxdp:flow_offload=true: Frames of .* Counted in all its trials: [\d,]+ of [\d,]+ frames", html
    )


@pytest.mark.parametrize(
    "fault",
    ["flush", "foreign", "jumbo", "headers", "user", "tags", "looks", "order",
     pytest.param("crowd", marks=[pytest.mark.slow, pytest.mark.timeout(240)])],
)  # fmt: skip
def test_a_fault_that_was_found_is_not_there(fault: str) -> None:
    done = run("faults.py", "--build", folder(PATCHED), "--times", "5", fault)
    assert (done.returncode, done.stdout) == (0, f"{fault}: not there\n"), done.stderr


def test_generic_mode_offloads_nothing_and_says_so(lab: Lab) -> None:
    folder(PATCHED)
    title = "ovs-afxdp:flow_offload=true,xdp_mode=generic"
    lab.run(forwarders=[title, "xdp"])
    (row,) = [each for each in lab.rows() if each["forwarder"] == title]
    assert row["status"] == "unsupported"
    assert "flow_offload=true is not in force: 0 frames of b" in row["reason"]
    assert "xdp-flows is off" in row["reason"]
    lab.assert_nothing_left()


def test_a_build_without_the_offload_is_unsupported(lab: Lab) -> None:
    title = "ovs-afxdp:build=stock,flow_offload=true"
    lab.run(forwarders=[title, "xdp"])  # one that can be measured, for else there is no run
    (row,) = [each for each in lab.rows() if each["forwarder"] == title]
    assert (row["status"], row["repetitions"]) == ("unsupported", 0)
    assert "has no xdp-flow-entries; patch offload-Add-provider-for-XDP" in row["reason"]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("plant", [None, "port", "bytes", "count"])
def test_random_frames_and_tables_find_what_is_planted_and_nothing_else(plant: str | None) -> None:
    argv = ["--build", folder(PATCHED), "--no-offload", "--packets", "600", "--stop-after", "1"]
    done = run("offload_diff.py", *argv, *(["--plant", plant, "--times", "1", "--show", "1"] if plant else []))
    assert done.returncode == (1 if plant else 0), done.stderr
    if plant is None:
        assert done.stdout.endswith("the same ports, the same bytes, the same counters\n")
    elif plant == "count":
        assert "counters of priority=" in done.stdout
    else:
        assert "  second: port " in done.stdout  # the frame, and what came out


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_offloaded_frames_are_treated_as_all_others() -> None:
    """Some of what `ovs/README.md` gives the command for."""
    done = run("offload_diff.py", "--build", folder(PATCHED), "--packets", "1500")
    assert (done.returncode, done.stderr) == (0, "")


def test_new_flows_are_installed_with_and_without_offload() -> None:
    done = run("new_flows.py", "--build", folder(PATCHED), "--flows", "500", "--repetitions", "1")
    assert done.returncode == 0, done.stderr
    rows = {words[0]: [float(word) for word in words[1::4]] for words in map(str.split, done.stdout.splitlines()[1:])}
    assert {name: len(found) for name, found in rows.items()} == {
        "lost": 2, "p50_us": 2, "p99_us": 2, "per_s": 2, "offloaded_per_s": 1,
    }  # fmt: skip
    assert all(value > 0 for name, found in rows.items() for value in found if name != "lost")


@pytest.mark.slow
def test_the_cost_of_a_miss_is_reported_for_each_number_of_masks() -> None:
    done = run("miss_cost.py", "--build", folder(PATCHED), "--frames", "1000", "--repetitions", "1")
    assert done.returncode == 0, done.stderr
    rows = {words[0]: float(words[1]) for words in map(str.split, done.stdout.splitlines()[1:])}
    assert list(rows) == ["without", "0", "1", "8", "64"]
    assert all(value > 0 for value in rows.values())


@pytest.mark.slow
def test_frames_out_of_tunnels_and_of_connections_are_counted_in_xdp() -> None:
    done = run("cloud_rate.py", "--build", folder(PATCHED), "--seconds", "0.1", "--repetitions", "1")
    assert done.returncode == 0, done.stderr
    rows = {words[0]: float(words[1]) for words in map(str.split, done.stdout.splitlines()[1:])}
    assert list(rows) == ["plain", "tunnel", "tracked", "both"]
    assert all(value > 0 for value in rows.values())


@pytest.mark.slow
def test_short_connections_are_counted_with_and_without_offload() -> None:
    done = run("connection_rate.py", "--build", folder(PATCHED), "--seconds", "0.5", "--repetitions", "1")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == ["without", "flows", "times"]
    assert float(rows[0][1]) > 0


@pytest.mark.slow
def test_the_rate_over_queues_is_of_offloaded_frames() -> None:
    argv = ("--repetitions", "1", "--seconds", "0.2")
    done = run("offload_queues.py", "--build", folder(PATCHED), *argv)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[:2] for row in rows] == [["1", "CPUs,"], ["2", "CPUs,"], ["times", "one"]]
    done = run("offload_queues.py", "--build", folder("unpatched"), *argv)
    assert done.returncode == 2
    assert "this build has no flows in XDP" in done.stderr


@pytest.mark.slow
def test_a_miss_costs_nothing_where_there_is_no_flow_table() -> None:
    done = run("miss_cost.py", "--build", folder("unpatched"), "--frames", "1000", "--repetitions", "1")
    assert done.returncode == 2
    assert "this build has no flows in XDP" in done.stderr


@pytest.mark.slow
def test_a_build_that_offloads_nothing_does_not_pass() -> None:
    done = run("offload_diff.py", "--build", folder("unpatched"), "--packets", "150")
    assert done.returncode == 1
    assert "nothing was offloaded" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_devices_that_refuse_small_peers_and_crowds_take_no_frames_of_others() -> None:
    done = run("offload_attack.py", "--build", folder(PATCHED))
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["refused", "mtu", "crowd"]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("offload", [False, True])
def test_a_storm_of_changes_sends_no_frame_twice_or_astray(offload: bool) -> None:
    changes = ["80"] if offload else ["15", "--no-offload"]
    argv = ["--build", folder(PATCHED), "--changes", *changes]
    done = run("offload_storm.py", *argv)
    assert (done.returncode, done.stderr) == (0, "")
    assert "none twice, none by a port not named, none in another shape" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_storm_of_pipelines_passes_with_flows_in_xdp() -> None:
    argv = ["--build", folder(PATCHED), "--offload", "--changes", "12", "--pause", "0.05"]
    done = run("pipeline_storm.py", *argv)
    assert (done.returncode, done.stderr) == (0, "")
    assert "of the last frames in XDP" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "words"), [("stale", "after its flow"), ("twice", "came twice"), ("shape", "that should look like")]
)
def test_a_storm_finds_what_is_planted(plant: str, words: str) -> None:
    done = run("offload_storm.py", "--build", folder(PATCHED), "--no-offload", "--changes", "40", "--plant", plant)
    assert done.returncode == 1
    assert words in done.stderr
