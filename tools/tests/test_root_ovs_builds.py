# SPDX-License-Identifier: Apache-2.0
"""The patched Open vSwitch next to Debian's on namespaces: options in force, one interleaved run, stages by probes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lab.rooted import BUSY_POLLING, Lab, hugepages

from xdplab.forwarders.ovs.builds import find_build, missing
from xdplab.hosts import LocalHost
from xdplab.tools import project_root

pytestmark = pytest.mark.root

STOCK_DAEMON = "/usr/lib/openvswitch-switch/ovs-vswitchd"
RINGS = "xsk_rx_ring=512,xsk_tx_ring=512,xsk_fill_ring=1024,xsk_comp_ring=512,umem_frames=4096"
FRAMES = "umem_frame_size=2048,umem_headroom=0,umem_hugepages=2M"
CALLS = "use_need_wakeup=false,rx_wakeup=none,tx_skb_budget=64"
SHARED = "shared_umem=lab,tx_copy=auto"
#: Title -> what a port must tell of itself in the trial's record.
VARIANTS: dict[str, dict[str, str]] = {
    "ovs-afxdp:build=patched": {"xsk-rx-ring": "2048", "umem-frame-size": "4096", "busy-poll": "0"},
    f"ovs-afxdp:build=patched,{RINGS}": {"xsk-rx-ring": "512", "xsk-comp-ring": "512", "umem-frames": "4096"},
    f"ovs-afxdp:build=patched,{FRAMES}": {"umem-frame-size": "2048", "umem-headroom": "0", "umem-pages": "2M"},
    f"ovs-afxdp:build=patched,{CALLS}": {"use-need-wakeup": "false", "rx-wakeup": "none", "tx-skb-budget": "64"},
    f"ovs-afxdp:build=patched,{SHARED}": {"shared-umem": "lab", "tx-copy": "auto"},
    "ovs-afxdp:build=patched,type=afxdp-nonpmd": {"type": "afxdp-nonpmd"},
}
BUSY = "ovs-afxdp:build=patched,busy_poll_us=20"


def patched() -> None:
    """Skip with the reason unless the patched build is in the cache."""
    reason = missing(LocalHost(), find_build("patched", STOCK_DAEMON, LocalHost()), "")
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def rows(shared_lab: Lab) -> dict[str, dict[str, Any]]:
    """One interleaved run of Debian's build and the patched one in all its variants."""
    patched()
    before = hugepages()
    done = shared_lab.run(forwarders=["ovs-afxdp", *VARIANTS, BUSY, "ovs-dpdk:build=patched"])
    assert done.complaints == [], done.err
    shared_lab.assert_nothing_left()
    assert hugepages() == before
    return {row["forwarder"]: row for row in shared_lab.rows()}


def test_two_builds_stand_in_one_run_and_the_record_tells_them_apart(
    rows: dict[str, dict[str, Any]], shared_lab: Lab
) -> None:
    builds = {each.point_id: each.mode["build"] for each in shared_lab.trials() if each.result}
    stock, ours = (builds[rows[title]["point_id"]] for title in ("ovs-afxdp", "ovs-afxdp:build=patched"))
    assert (stock["name"], ours["name"]) == ("stock", "patched")
    assert "key" in ours
    assert "key" not in stock
    versions = shared_lab.newest().load().environment.versions
    assert "0001-" in versions["ovs-vswitchd (patched)"]


@pytest.mark.parametrize("title", VARIANTS)
def test_an_option_is_in_force_and_in_the_record(rows: dict[str, dict[str, Any]], shared_lab: Lab, title: str) -> None:
    row = rows[title]
    if row["status"] == "unsupported" and row["reason"].endswith("brings it"):
        pytest.skip(f"the build in the cache is older: {row['reason']}")
    assert (row["status"], row["reason"], row["mode"]) == ("ok", "", "native copy")
    (trial,) = [each for each in shared_lab.trials() if each.point_id == row["point_id"] and each.result]
    # a tester that others keep from its CPU sends few
    assert row["samples"] > 0.9 * row["sent"] > 5, (trial.disturbance, trial.result, trial.increments, trial.log_tail)
    for port in trial.mode["ovs"].values():
        assert {key: port.get(key) for key in VARIANTS[title]} == VARIANTS[title]


def test_busy_poll_on_veth_works_or_has_its_reason(rows: dict[str, dict[str, Any]]) -> None:
    row = rows[BUSY]
    assert (row["status"], row["repetitions"] > 0) == (BUSY_POLLING, BUSY_POLLING == "ok"), row["reason"]
    assert ("busy-poll-active is false" in row["reason"]) == (BUSY_POLLING == "unsupported")


def test_ovs_dpdk_takes_the_patched_build_too(rows: dict[str, dict[str, Any]]) -> None:
    row = rows["ovs-dpdk:build=patched"]
    if row["reason"].endswith("is built without DPDK"):
        pytest.skip(f"the DPDK of this distribution is another release than ours takes: {row['reason']}")
    assert (row["status"], row["mode"]) == ("ok", "native copy")


@pytest.mark.slow
def test_the_stages_of_a_frame_are_seen_by_the_probes(lab: Lab) -> None:
    patched()
    method = {"name": "breakdown", "rates_pps": [5000, 50_000], "pairs": 1, "duration_s": 0.2}
    done = lab.run(forwarders=["ovs-afxdp:build=patched", "ovs-afxdp"], method=method, tester="xdpgen")
    assert done.complaints == [], done.err
    ours, stock = lab.rows()
    assert (stock["status"], stock["repetitions"]) == ("unsupported", 0)
    assert "--enable-usdt-probes" in stock["reason"]
    assert (ours["status"], ours["reason"]) == ("ok", "")
    low, high = ours["figures"]["breakdown"]
    assert (low["rate_pps"], high["rate_pps"]) == (5000, 50_000)
    assert low["batches"] > 5
    assert low["unmatched"] + low["unsent"] <= 0.02 * low["seen"]
    assert all(value > 0 for value in low["typical_us"]["p50"].values())
    lab.assert_nothing_left()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_storm_of_option_changes_under_traffic_loses_no_frame() -> None:
    """Some of what `ovs/README.md` gives the command for."""
    patched()
    storm = project_root() / "ovs" / "tests" / "option_storm.py"
    build = Path(find_build("patched", STOCK_DAEMON, LocalHost()).vswitchd).parent
    argv = [sys.executable, str(storm), "--build", str(build), "--changes", "20", "--seed", "1"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no frame lost" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("plant", "words"),
    [
        ("", "frames copied; none damaged, twice or astray, none lost"),
        ("damage", "damaged: its UDP header is"),
        ("tunnel", "no more traffic: outer headers of the tunnel are"),
    ],
)
def test_a_storm_of_pipeline_changes_finds_what_is_planted_and_nothing_else(plant: str, words: str) -> None:
    """Some of what `ovs/README.md` gives the command for."""
    patched()
    storm = project_root() / "ovs" / "tests" / "pipeline_storm.py"
    build = Path(find_build("patched", STOCK_DAEMON, LocalHost()).vswitchd).parent
    argv = [sys.executable, str(storm), "--build", str(build), "--changes", "12", "--pause", "0.05"]
    done = subprocess.run([*argv, *(["--plant", plant] if plant else [])], capture_output=True, text=True, check=False)
    assert done.returncode == (1 if plant else 0), done.stderr
    assert words in (done.stderr if plant else done.stdout)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_what_a_change_of_one_option_loses_is_counted_to_the_frame() -> None:
    """At 1,000 frames a second the rings bridge a quarter of a second of a loaded machine; a new socket does not."""
    patched()
    loss = project_root() / "ovs" / "tests" / "option_loss.py"
    build = Path(find_build("patched", STOCK_DAEMON, LocalHost()).vswitchd).parent
    only = [word for row in ("external_ids", "n_rxq") for word in ("--only", row)]
    argv = [sys.executable, str(loss), "--build", str(build), "--pps", "1000", "--repetitions", "1", *only]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = {words[0]: words for words in map(str.split, done.stdout.splitlines()[1:])}
    assert set(rows) == {"external_ids", "n_rxq"}
    assert rows["external_ids"][1:4] == ["0", "(0", "to"]
    assert int(rows["n_rxq"][1]) > 0
    assert all(int(words[-1]) > int(words[1]) for words in rows.values())  # some arrived
