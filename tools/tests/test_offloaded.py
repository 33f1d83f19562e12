# SPDX-License-Identifier: Apache-2.0
"""Frames that met a flow in XDP, as ports counted them: in the report, in a trial's line, and where Robot insists."""

from pathlib import Path
from typing import Any

import pytest
from lab.reading import a_run, render
from lab.records import point, run_record, trial
from robot.api import SkipExecution, TestSuite as Suite

from xdplab import app
from xdplab.analysis import answer, summarise
from xdplab.analysis.run import Run
from xdplab.analysis.trace import derivation
from xdplab.measure.datapath import Offloaded, offloaded
from xdplab.model import Point, TrialRecord
from xdplab.model.published import published_figure, span
from xdplab.robot import XdplabLibrary
from xdplab.tools import project_root

#: A point of the fake box under the title of what offloads; the count is what makes it one.
OURS = point("fake:seed=7")
TITLE = OURS.forwarder.title
BESIDE = "ovs-afxdp:flow_offload=true"


def counting(at: Point, repetition: int = 0, *, met: int, **left: int) -> TrialRecord:
    """A trial in which `met` frames met a flow at b0; others went to the socket."""
    rest = {f"xdp_flow_{why}": frames for why, frames in left.items()}
    counted = {"b0": {"rx_pkts": 9, "xdp_flow_packets": met, **rest}, "b1": {"rx_pkts": 3}, "coverage": {"afxdp_x": 1}}
    return trial(at, repetition, [1000] * 20, increments=counted)


def test_frames_are_summed_over_trials_and_over_all_that_sends_them_to_the_socket() -> None:
    trials = [counting(OURS, met=990, misses=5, undecided=3, unsendable=2), counting(OURS, 1, met=1000)]
    assert offloaded(trials) == Offloaded(met=1990, left=10)
    assert Offloaded(met=7, left=0).text() == "7 of 7 frames met a flow in XDP"
    assert offloaded([trial(OURS)]) is None
    assert offloaded([counting(OURS, met=0, misses=5)]) is None  # its program is there, and forwards nothing


def test_the_report_says_how_many_beside_whose_core_pays_and_each_trial_says_its_own() -> None:
    other = point("fake:seed=8")
    reported = {each.forwarder.title: "The sender's core pays." for each in (OURS, other)}
    run = run_record(OURS, other, forwarders=reported)
    trials = [counting(OURS, met=1990, misses=10), trial(other)]
    html = render(run, trials)
    words = "1,990 of 2,000 frames met a flow in XDP, the others went to the socket"
    assert f"<li>{TITLE}: The sender&#39;s core pays. Counted in all its trials: {words}.</li>" in html
    assert "<li>fake:seed=8: The sender&#39;s core pays.</li>" in html
    summaries = summarise(run, trials)
    said = answer(run, summaries, trials)
    ways = [list(derivation(run, each, [own], said)) for each, own in zip(summaries, trials, strict=True)]
    assert [sum(words in line for line in lines) for lines in ways] == [1, 0]


def keyword(*trials: TrialRecord, **record: Any) -> None:
    library: Any = XdplabLibrary()
    library.read = Run(Path(), run_record(OURS, **record), trials)
    library.flows_forwarded_in_xdp(TITLE)


def test_robot_passes_when_most_frames_met_a_flow_however_fast_they_were() -> None:
    keyword(counting(OURS, met=1990, misses=10))


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (counting(OURS, met=10, misses=1990), "10 of 2,000 frames met a flow in XDP"),
        (counting(OURS, met=0, misses=1990), "no frame met a flow in XDP"),
        (trial(OURS), "no frame met a flow in XDP"),
        (trial(OURS, status="failed", reason="it fell over"), "it fell over"),
    ],
    ids=["few", "none", "not counted", "failed"],
)
def test_robot_fails_when_the_pmd_thread_forwarded(record: TrialRecord, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        keyword(record)


def test_robot_skips_with_the_reason_where_it_cannot_be() -> None:
    with pytest.raises(SkipExecution, match="unsupported: the build is not there"):
        keyword(unsupported={OURS.id: "the build is not there"})
    library = XdplabLibrary()
    library.read = a_run(run_record(OURS))
    with pytest.raises(SkipExecution, match="not part of this study"):
        library.flows_forwarded_in_xdp("another")


def test_the_combined_mode_stands_beside_the_parts_of_it_and_the_published_one() -> None:
    titles = {name: study_titles(name) for name in ("latency", "ovs-figures", "ovs-ablation")}
    for name in ("latency", "ovs-figures"):
        assert {BESIDE, "ovs-afxdp", "ovs-dpdk", "xdp"} <= set(titles[name])
    assert "ovs-afpacket:build=patched" in titles["latency"]
    assert {"xdp-flows", "stock", "unpatched", "patched", "no-switch"} <= set(titles["ovs-ablation"])
    _, figure = published_figure("xsknf-measurements/pass-through")
    assert set(figure.forwarders) <= set(titles["ovs-figures"])
    theirs = app.read_study(app.find_study("network-functions")).method.published  # type: ignore[attr-defined]
    modes = theirs.modes_mpps["pass-through"]["macswap"]
    kinds = {"xdp": ("xdp",), "ovs-afxdp": ("af_xdp", "af_xdp-bp", "af_xdp-poll")}
    kinds[BESIDE] = tuple(f"combined{mode.removeprefix('af_xdp')}" for mode in kinds["ovs-afxdp"])
    spans = {name: [modes[mode] for mode in of] for name, of in kinds.items()}
    assert [span(one.mpps) for one in figure.series] == ["9.38", "7.68 to 12.05", "2.45 to 2.56"]
    assert {one.forwarder: one.mpps for one in figure.series} == {k: (min(v), max(v)) for k, v in spans.items()}
    for one in figure.ratios:
        over = spans[one.to] if one.to != "xdp" else spans[one.to] * 3
        found = [ours / other for ours, other in zip(spans[one.of], over, strict=True)]
        assert one.ratio == (round(min(found), 2), round(max(found), 2))


def study_titles(name: str) -> list[str]:
    return [each.title for each in app.read_study(app.find_study(name)).forwarders]


@pytest.mark.parametrize(
    ("suite", "studies"), [("latency", ["latency"]), ("ovs_comparison", ["ovs-figures", "ovs-ablation"])]
)
def test_the_rows_of_a_suite_are_titles_of_its_studies(suite: str, studies: list[str]) -> None:
    """A row whose title is in no study would be skipped for ever."""
    tests = Suite.from_file_system(project_root() / "suites" / f"{suite}.robot").tests
    asking = ("Forwarder Was Measured", "Variant Was Compared", "Flows Forwarded In XDP")
    rows = [step.args[0] for test in tests for step in test.body if step.name in asking]
    assert len(rows) > 8
    assert set(rows) <= {title for study in studies for title in study_titles(study)}
