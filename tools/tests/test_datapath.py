# SPDX-License-Identifier: Apache-2.0
"""Where forwarders met frames: read from what real programs print, summed, and told alike wherever it is told."""

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
from lab.reading import render
from lab.records import point, run_record, trial

from xdplab.analysis import answer, summarise
from xdplab.analysis.columns import datapath_cells
from xdplab.analysis.export import export_rows
from xdplab.analysis.trace import derivation
from xdplab.cli.tables import csv_text, summary_table
from xdplab.forwarders.ovs.daemon import LookupCounts, parse_threads
from xdplab.measure import make_method
from xdplab.measure.datapath import ENDS
from xdplab.model import InputError, Point, PointFailed, RunRecord, StreamSpec, ThreadUse, TrialRecord, TrialSpec
from xdplab.results import trials_by_point

DATA = Path(__file__).parent / "data"
STATS, PERF, MAIN = (
    (DATA / f"ovs-{name}.txt").read_text(encoding="ascii")
    for name in ("3.1.0-pmd-stats-show", "4.0.0-pmd-perf-show", "4.0.0-pmd-perf-show-main")
)


@pytest.mark.parametrize(
    ("text", "thread", "reported"),
    [
        (STATS, "core 1", {"frames": 15296, "recirculated": 30592, "emc": 23513, "megaflow": 22375,
                           "subtables": 44302, "cycles": 512095877, "idle": 2391645535}),
        (PERF, "core 1", {"frames": 18075, "recirculated": 36150, "emc": 28312, "megaflow": 25913,
                          "subtables": 51826, "cycles": 18075 * 42752,
                          "idle": 2900308554 - 18075 * 42752}),
        (MAIN, "main", {"frames": 19813, "emc": 10945, "megaflow": 8868, "subtables": 8868}),
    ],
)  # fmt: skip
def test_both_forms_are_read_and_each_lookup_ends_once(text: str, thread: str, reported: dict[str, float]) -> None:
    found = {name: one for name, one in parse_threads(text).items() if one.frames}
    assert {key: value for key, value in found[thread].model_dump().items() if value} == reported
    assert list(found) == [thread]  # the other one is idle
    assert sum(reported.get(key, 0) for key in ENDS) == reported["frames"] + reported.get("recirculated", 0)


@pytest.mark.parametrize("text", [STATS, PERF, MAIN], ids=["stats", "perf", "main"])
def test_a_line_that_is_missing_or_not_known_fails_the_point(text: str) -> None:
    """Each one that is read, of the thread that had frames; which is the first in each of the recordings."""
    lines = text.splitlines()
    head = next(at for at, line in enumerate(lines) if line.endswith("thread:") or line.startswith("pmd thread"))
    whole, failed = parse_threads(text), 0
    for at in range(head, head + 16):
        without = "\n".join([*lines[:at], *lines[at + 1 :]])
        try:
            assert parse_threads(without) == whole, lines[at]
        except PointFailed as exc:
            assert "counters of its threads" in str(exc)  # noqa: PT017 - which lines are not read is what differs
            failed += 1
    assert failed >= 9
    for odd in ("  avx512 hits: 7", "  emc hits: many", "Worker 3:", "  - EMC hits 3"):
        with pytest.raises(PointFailed, match=f"line not understood: {odd.strip()!r}"):
            parse_threads("\n".join([*lines[: head + 3], odd, *lines[head + 3 :]]))


def test_a_mean_that_is_missing_fails_the_point() -> None:
    for mean in (", 2.00 subtbl lookups/hit", ", 42752 cycles/pkt"):
        assert mean in PERF
        with pytest.raises(PointFailed, match="counters of its threads: no "):
            parse_threads(PERF.replace(mean, ""))


class Daemon:
    """Counts between two looks, as a real one prints them; the second time more of its hits needed two look-ups."""

    def __init__(self, *shows: str) -> None:
        self.commands = "".join(f"dpif-netdev/{each}  [-pmd core] [dp]\n" for each in shows)
        self.text = STATS

    def __call__(self, command: str) -> str:
        if command == "dpif-netdev/pmd-stats-clear":
            self.text = STATS.replace(": 22375", ": 10").replace(": 1.98", ": 3.00").replace(": 15296", ": 5")
        return self.commands if command == "list-commands" else self.text


def test_counts_are_cleared_where_they_are_read_and_only_grow() -> None:
    counts = LookupCounts()
    ask = Daemon("pmd-stats-show", "pmd-stats-clear")
    first, second = counts.read(ask)["lookups"], counts.read(ask)["lookups"]
    assert list(first) == ["core 1"]
    assert (first["core 1"]["megaflow"], first["core 1"]["subtables"]) == (22375, 44302)
    assert (second["core 1"]["megaflow"], second["core 1"]["subtables"]) == (22385, 44332)
    assert second["core 1"]["frames"] == 15301
    assert LookupCounts().read(Daemon("show")) == {"lookups": {}}


@pytest.mark.parametrize(("looks", "found"), [(1, ["core 1"]), (9, [])])
def test_a_thread_that_has_just_cleared_its_counters_is_asked_again(looks: int, found: list[str]) -> None:
    """In that millisecond nothing is printed of it (pmd_perf_format_overall_stats)."""
    cleared = "\nTime: 00:55:06.864\nMeasurement duration: 0.000 s\n\npmd thread numa_id 0 core_id 1:\n\n"
    texts = iter([cleared] * looks)

    def ask(command: str) -> str:
        if command == "list-commands":
            return "dpif-netdev/pmd-perf-show\ndpif-netdev/pmd-stats-clear\n"
        return next(texts, PERF)

    assert list(LookupCounts().read(ask)["lookups"]) == found


OURS = point("fake:seed=1", flows=300)
OTHER = point("fake:seed=2")
COUNTED = {"frames": 1000, "recirculated": 1000, "emc": 1500, "megaflow": 498, "subtables": 996, "upcalls": 2}


def counting(at: Point = OURS, repetition: int = 0, **counted: Any) -> TrialRecord:
    return trial(at, repetition, [1000] * 20, increments={"b0": {"rx_pkts": 9}, **counted})


def reported(*trials: TrialRecord) -> tuple[RunRecord, dict[str, Any], str]:
    """The run, what JSON has of the first point, and the terminal's table."""
    run = run_record(OURS, OTHER)
    points = summarise(run, trials)
    found = points[0].datapath
    return (
        run,
        found.model_dump(exclude_defaults=True) if found else {},
        summary_table(make_method(run.study.method), points),
    )


def test_shares_are_of_lookups_and_the_same_on_terminal_in_report_in_csv_and_export() -> None:
    cycles = {"core 1": {**COUNTED, "cycles": 1_100_000}, "core 2": {"frames": 1000, "emc": 1000, "cycles": 900_000}}
    trials = [counting(lookups=cycles), counting(repetition=1, lookups=cycles), trial(OTHER)]
    run, met, table = reported(*trials)
    assert met == {
        "frames": 4000, "lookups_per_frame": 1.5, "emc_share": 5 / 6, "megaflow_share": 0.166,
        "hardware_share": 0.0, "simple_share": 0.0, "smc_share": 0.0, "lost_share": 0.0, "subtables_per_hit": 2.0,
        "cycles_per_frame": 1000.0, "upcalls_share": 2 / 3000,
    }  # fmt: skip
    head, row = (re.split("  +", line) for line in table.partition("lookup hits\n")[2].splitlines()[:2])
    assert head == [
        "forwarder", "frames", "look-ups per frame", "EMC", "megaflows", "subtables per hit", "upcalls",
    ]  # fmt: skip
    shown = ["4,000", "1.5", "83.3 %", "16.6 %", "2", "0.067 %", "1,000"]
    assert row[1:] == shown[:-1]
    assert re.search(r"^forwarder +cycles per frame\nfake:seed=1 +1,000$", table, re.MULTILINE)
    html = render(run, trials)
    assert html.count("Lookup hits</h2>") == 1
    assert "".join(f">{text}</td>" in html and "+" for text in shown) == "+" * len(shown)
    points = summarise(run, trials)
    first, second = csv.DictReader(io.StringIO(csv_text(make_method(run.study.method), points)))
    assert (float(first["megaflow_share"]), second["megaflow_share"]) == (0.166, "")
    exported = {row.figure: row for row in export_rows(run, points) if row.point_id == OURS.id}
    assert (exported["cycles_per_frame"].value, exported["emc_share"].unit) == (1000.0, "1")
    assert (exported["cycles_per_frame"].unit, exported["met_frames"].unit) == ("cycles/frame", "frames")
    own = trials_by_point(trials)[OURS.id]
    (line,) = [each for each in derivation(run, points[0], own, answer(run, points, trials)) if "repetition 1" in each]
    assert "2,000 frames, look-ups met by EMC 83.3 %, megaflows 16.6 %, upcalls 0.067 %, 1,000 cycles per frame" in line


def test_points_that_differ_in_a_knob_or_a_size_are_reported_apart() -> None:
    other = point("fake:seed=1", frame_bytes=512).model_copy(update={"knobs": {"gro": True}})
    run = run_record(OURS, other)
    points = summarise(run, [counting(each, lookups={"core 1": COUNTED}) for each in (OURS, other)])
    cells = datapath_cells(points)
    assert (cells["knobs"], cells["bytes"]) == (["-", "gro=True"], ["64", "512"])


def test_a_point_that_was_only_searched_for_has_the_counts_of_its_steps() -> None:
    threads = {"core 1": COUNTED}
    step = counting(lookups=threads).model_copy(update={"purpose": "search"})
    assert reported(step, step)[1]["frames"] == 2000
    assert reported(step, step, counting(repetition=1, lookups=threads))[1]["frames"] == 1000


def test_nothing_is_said_of_cycles_where_a_thread_with_frames_does_not_count_them() -> None:
    threads = {"core 1": {**COUNTED, "cycles": 1_100_000}, "main": COUNTED}
    assert "cycles_per_frame" not in reported(counting(lookups=threads))[1]


def using(user_s: float | None, system_s: float | None) -> ThreadUse:
    halves = {"user_ns": user_s and round(user_s * 1e9), "system_ns": system_s and round(system_s * 1e9)}
    return ThreadUse(name="t", cpu=1, allowed=(1,), ran_ns=0, run_delay_ns=0, nonvoluntary_switches=0, **halves)


def test_the_kernels_share_is_of_all_threads_of_any_forwarder() -> None:
    trials = [
        trial(OURS, 0, [1000] * 20, sent=40, threads=(using(0.2, 0.9), using(0.3, 0.1))),
        trial(OURS, 1, [1000] * 20, sent=40, threads=(using(0.5, 2.0),)),
    ]
    _, met, table = reported(*trials, trial(OTHER))
    assert met == {"kernel_share": 0.75}
    assert re.split("  +", table.partition("lookup hits\n")[2].splitlines()[1])[1:] == ["75 %"]
    assert "Share of the CPU time of forwarding threads" in render(run_record(OURS, OTHER), trials)
    assert "Open vSwitch" not in table  # whose columns are not there
    run = run_record(OURS, OTHER)
    points = summarise(run, trials)
    own = trials_by_point(trials)[OURS.id]
    line = next(each for each in derivation(run, points[0], own, answer(run, points, trials)) if "repetition 2" in each)
    assert "; 80 % of its threads' time in the kernel; ok" in line
    assert (
        reported(trial(OURS, 0, [1000] * 20, sent=40, threads=(using(None, None),)))[1] == {}
    )  # a record of an older version
    assert reported(trial(OURS, 0, [1000] * 20, sent=40, threads=(using(0.0, 0.0),)))[1] == {}  # it slept


def test_a_sample_that_beats_with_the_frames_is_no_share() -> None:
    """Evenly sent frames and the timer: 0 to 86 % were seen of one forwarder."""
    paced = StreamSpec(kind="latency", pps=1000.0, frame_bytes=64)
    for stream, lost, share in (
        (paced, 0, None),
        (paced, 1, None),  # of a thousand
        (paced, 500, 0.75),
        (paced.model_copy(update={"departures": "poisson"}), 0, 0.75),
    ):  # and what the tester itself has lost says nothing of threads
        asked = TrialSpec(streams=(stream,), duration_s=1.0)
        one = trial(OURS, 0, [1000] * (1000 - lost), sent=1000, asked=asked, threads=(using(0.5, 1.5),))
        assert reported(one)[1].get("kernel_share") == share
        assert one.result is not None
        lossy = one.model_copy(update={"result": one.result.model_copy(update={"tester_lost": lost})})
        assert reported(lossy)[1].get("kernel_share") == (share if stream is not paced else None)


def test_polling_without_frames_is_reported_beside_the_cycles() -> None:
    threads = {"core 1": {**COUNTED, "cycles": 900_000, "idle": 100_000}}
    _, met, table = reported(counting(lookups=threads), counting(repetition=1, lookups=threads))
    assert met["busy_share"] == 0.9
    assert "90 %" in table


def node(received: int = 0, idle: float | None = 0, **counted: float) -> dict[str, float | None]:
    return {"calls": 10, "vectors": 1000, "received": received, "idle": idle, **counted}


FETCHING = node(received=1000, calls=500, empty=490, clocks=600_000, idle=100_000)
BEHIND = {"ip4-<b>": node(clocks=40_000), "bri0-tx": node(clocks=360_000)}


def test_nodes_are_reported_with_their_part_of_each_frames_cycles() -> None:
    threads = {
        "vpp_wk_0": {"af_xdp-input": FETCHING, **BEHIND, "bri1-tx": node(calls=0)},
        "vpp_wk_1": {"bri0-tx": node(clocks=100_000)},
    }
    trials = [counting(nodes=threads), trial(OTHER)]
    run, met, table = reported(*trials)
    assert met == {
        "frames": 1000, "frames_per_call": 100.0, "cycles_per_frame": 1000.0, "busy_share": 1 - 100 / 1100,
        "cycles_by_node": {"af_xdp-input": 500.0, "ip4-<b>": 40.0, "bri0-tx": 460.0},
    }  # fmt: skip
    said = "fake:seed=1 flows=300, cycles per frame by node: af_xdp-input 500, bri0-tx 460, ip4-<b> 40"
    assert said in table.splitlines()
    html = render(run, trials)
    assert "cycles per frame by node: af_xdp-input 500, bri0-tx 460, ip4-&lt;b&gt; 40" in html
    assert "ip4-<b>" not in html
    first, _ = csv.DictReader(io.StringIO(csv_text(make_method(run.study.method), summarise(run, trials))))
    assert (first["cycles_per_frame"], first["frames_per_call"]) == ("1000.0", "100.0")


@pytest.mark.parametrize("idle", [485_000, None], ids=["most of it was polling", "nobody knows what polling took"])
def test_what_fetching_cost_is_not_reported_where_polling_hides_it(idle: float | None) -> None:
    _, met, _ = reported(counting(nodes={"vpp_wk_0": {"af_xdp-input": {**FETCHING, "idle": idle}, **BEHIND}}))
    assert met.get("busy_share") == (pytest.approx(0.515) if idle else None)
    assert "cycles_per_frame" not in met
    assert met["cycles_by_node"] == {"ip4-<b>": 40.0, "bri0-tx": 360.0}
    assert met["frames"] == 1000


def test_a_thread_of_vpp_that_had_no_frame_says_nothing() -> None:
    assert reported(counting(nodes={"vpp_main": {"error-drop": node(clocks=1)}, "vpp_wk_0": {}}))[1] == {}


def test_frames_that_flows_in_xdp_took_are_reported_beside_those_that_threads_saw() -> None:
    port = {"rx_pkts": 1000, "xdp_flow_packets": 3000, "xdp_flow_misses": 1000}
    counted = counting(lookups={"core 1": COUNTED}, b1=port)
    run, met, _ = reported(counted)
    assert met["xdp_share"] == 0.75
    assert "seen by no thread: the other figures of the row are of the rest." in render(run, [counted])
    _, _, without = reported(counting(lookups={"core 1": COUNTED}))
    assert "XDP" not in without
    assert "lookup hits" not in reported(counting())[2]


@pytest.mark.parametrize("key", ["lookups", "nodes"])
@pytest.mark.parametrize("wrong", [7, {"core 1": {"frames": -3}}, {"core 1": {"frames": 1, "unknown": 2}}])
def test_a_record_that_is_not_ours_ends_in_one_line(wrong: Any, key: str) -> None:
    with pytest.raises(InputError, match=rf"point {OURS.id}: increments\.{key}"):
        reported(counting(**{key: wrong}))
