# SPDX-License-Identifier: Apache-2.0
"""Micro-benchmarks as methods of the one runner: refused, repeated, resumed, restored, compared, drawn."""

import itertools
import json
import re
import shutil
import statistics
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from lab import micro_records as micro, studies
from lab.claims import NOISE
from lab.command import Done, environment, xdplab
from lab.markup import without_our_scripts
from lab.outsider import distribution
from lab.reading import render
from lab.records import environment as machine, result, stream

from xdplab import app
from xdplab.analysis import summarise
from xdplab.analysis.columns import rows_of
from xdplab.forwarders.xsk.forwarder import XskOptions, XskRole
from xdplab.measure import make_method
from xdplab.methods.counting import UNDER_WAY_S
from xdplab.model import InputError, PointFailed, StudySpec, TrialSpec, validated
from xdplab.tools import project_root

STUDIES = project_root() / "suites" / "studies"
MICRO = ("afxdp-micro", "tsn-latency", "network-functions", "network-functions-scaling", "network-functions-colocation")
FAKE = {"method": {"name": "micro", "workloads": ["rxdrop", "l2fwd"], "duration_s": 0.1, "warmup_s": 0.05}}


@pytest.mark.parametrize("name", MICRO)
def test_studies_of_the_project_can_be_read_and_name_their_source(name: str) -> None:
    study = app.read_study(STUDIES / f"{name}.yaml")
    assert study.name == name
    assert study.method.model_dump()["published"]["source"]
    assert len(app.prepare(study).plan.points) > 20


@pytest.mark.parametrize("suite", ["afxdp_micro", "tsn_latency"])
def test_a_suite_has_a_row_for_each_case_of_its_study(suite: str) -> None:
    text = (project_root() / "suites" / f"{suite}.robot").read_text(encoding="utf-8")
    rows = text.partition("*** Test Cases ***    CASE\n")[2].partition("\n\n")[0].splitlines()
    study = app.read_study(STUDIES / f"{suite.replace('_', '-')}.yaml")
    cells = [re.split(r"\s{2,}", row) for row in rows if not row.startswith((" ", "Who Is Ahead"))]
    assert {case for _, case in cells} == {forwarder.title for forwarder in study.forwarders}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method.workloads": ["forward"]}, "method.workloads.0"),
        ({"method.workloads": []}, "method.workloads"),
        ({"forwarders": []}, "forwarders: Tuple should have at least 1 item"),
        ({"forwarders": [{"name": "xsk"}, {"name": "xsk"}]}, "a point occurs twice"),
        ({"forwarders": [{"name": "xdp-bench"}]}, "forwarder 'xdp-bench': unknown"),
        ({"forwarders": [{"name": "xsk", "options": {"colour": "red"}}]}, "forwarder xsk: colour: unknown key"),
        ({"forwarders": [{"name": "xsk", "options": {"rx_ring": 1000}}]}, "power of two"),
        ({"forwarders": ["ovs-afxdp"]}, "forwarder ovs-afxdp: it cannot do rxdrop"),
        ({"method": {"name": "stages"}, "forwarders": ["testpmd"]}, "forwarder testpmd: it cannot do stages"),
        ({"method": {"name": "stages"}, "forwarders": ["xdpsock"]}, "forwarder xdpsock: it cannot do stages"),
        ({"method": {"name": "stages", "rates_pps": [0]}}, "rates_pps"),
        ({"method.only": {"none": ["rxdrop"]}}, "method.only: 'none' is none of one"),
        ({"method.only": {"one": []}}, "its method can measure none of its forwarders"),
    ],
)
def test_bad_studies_are_refused_with_one_line(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = studies.study_file(tmp_path)
    path.write_text(json.dumps(micro.study()), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        app.prepare(app.read_study(path, change))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rates_are_medians_over_repetitions_in_the_studys_order(results: Path, cli: Callable[..., Done]) -> None:
    spec = micro.study(("one", "two"), method={"name": "micro", "workloads": ["rxdrop"]})
    one, two = micro.points_of(spec)
    trials = [micro.trial(two, 5e6), *(micro.trial(one, rate, repetition=n) for n, rate in enumerate((3e6, 1e6, 2e6)))]
    trials.append(micro.trial(one, None, repetition=3, status="failed", reason="it fell over"))
    run = micro.run(spec)
    first, second = rows_of(make_method(run.study.method), summarise(run, trials))
    assert (first["forwarder"], first["mpps"], first["mpps_low"], first["mpps_high"]) == ("one", 2, 1, 3)
    assert (first["repetitions"], first["status"], first["workload"]) == (3, "partial", "rxdrop")
    assert (second["forwarder"], second["mpps"], second["mode"], second["status"]) == ("two", 5, "native copy", "ok")
    micro.store(results, spec, trials)
    assert "it fell over" in cli("show").out


def test_rates_are_ranked_among_frames_of_one_size_and_none_overwrites_another() -> None:
    """`B` was not measured with 64 bytes: its rate of 1,500 bytes was ranked below `A`'s of 64."""
    spec = micro.study(("A", "B"), method={"name": "micro", "workloads": ["rxdrop"]}, frame_bytes=[64, 1500])
    mpps = {("A", 64): 10, ("A", 1500): 2, ("B", 1500): 4}
    lacking = next(at for at in micro.points_of(spec) if (at.forwarder.title, at.traffic.frame_bytes) == ("B", 64))
    trials = [micro.record(lacking, {}, status="failed", reason="it fell over")]
    for at in micro.points_of(spec):
        pps = 1e6 * mpps.get((at.forwarder.title, int(at.traffic.frame_bytes)), 0)
        trials += [micro.trial(at, pps * noise, repetition=n) for n, noise in enumerate(NOISE) if pps]
    run = micro.run(spec)
    found = make_method(run.study.method).answer(run, summarise(run, trials))
    assert found is not None
    assert found.sentence.startswith("rxdrop, 1500-byte frames: B is ahead with 4 Mpps, 2 times as much as A")
    assert found.details == ("Failed: rxdrop, 64-byte frames: B.",)


@given(st.lists(st.lists(st.integers(1, 10**9), min_size=1, max_size=20), min_size=1, max_size=4))
def test_stages_of_repetitions_add_up_to_those_of_all_frames(parts: list[list[int]]) -> None:
    spec = micro.study(method={"name": "stages"})
    (at,) = micro.points_of(spec)
    run = micro.run(spec)
    (found,) = summarise(run, [micro.staged(at, values, repetition=n) for n, values in enumerate(parts)])
    everything = [value / 1000 for values in parts for value in values]
    row = found.model_dump()["figures"]["stages"]["stack"]
    assert (row["count"], row["min_us"], row["max_us"]) == (len(everything), min(everything), max(everything))
    assert row["peak_to_peak_us"] == pytest.approx(max(everything) - min(everything))
    assert row["mean_us"] == pytest.approx(statistics.fmean(everything))
    assert row["rms_us"] == pytest.approx(statistics.pstdev(everything), rel=1e-6, abs=1e-3)


class Stamped(XskRole):
    """A program that receives 100 frames; what it reports of their stages is `reported`."""

    def __init__(self, reported: dict[str, Any]) -> None:
        super().__init__(XskOptions(), "stages", 64)
        self._reported = reported
        self._received = itertools.count(0, 100)

    def frames_received(self) -> int:
        return next(self._received)

    def stages(self) -> dict[str, Any]:
        each = micro.stage([1000] * 100).model_dump(mode="json")
        return {"unstamped": 0, **dict.fromkeys(("driver", "stack", "complete"), each), **self._reported}

    def ineffective(self) -> str:
        return ""


@pytest.mark.parametrize(("hardware", "fails"), [(100, True), (0, False)])
def test_stamps_of_a_card_whose_clock_went_astray_are_no_figures(hardware: int, fails: bool) -> None:
    """Stamps of the departure are by another clock."""
    reason = "not to be trusted: the card's clock is 5000 ns ahead of CLOCK_TAI"
    program = Stamped({"hardware": hardware, "software": 100 - hardware, "stamps": reason})
    method = make_method(validated(StudySpec, micro.study(method={"name": "stages"}), "study").method)
    point = SimpleNamespace(levels={"rate_pps": 1000.0})
    here = SimpleNamespace(
        forwarder=program,
        send=lambda _: result(stream([1000] * 100)),
        dut=SimpleNamespace(tester_here=True),
        point=point,
    )
    traffic: Any = SimpleNamespace(smallest=64)
    measured: list[Any] = []
    here.measure_by = lambda _, send: measured.append(send())
    session_: Any = here
    with pytest.raises(PointFailed, match=f"card's time stamps are {reason}") if fails else nullcontext():
        method.measure(session_, traffic)
    assert len(measured) == (not fails)


def test_a_report_shows_stages_notes_what_was_published_and_the_kernel() -> None:
    read = app.read_study(STUDIES / "tsn-latency.yaml")
    points = app.prepare(read).plan.points
    study = read.model_copy(update={"notes": {read.forwarders[0].title: "<i>it spins"}})
    run = micro.run(micro.study()).model_copy(
        update={
            "study": study,
            "points": {each.id: each for each in points},
            "environment": machine(kernel_version="#1 SMP PREEMPT_RT"),
        }
    )
    silent = micro.trial(points[-1], None, status="unsupported", reason="<no>")
    text = render(run, [micro.staged(points[1], [900, 1000, 2500]), silent])
    for words in ("PREEMPT_RT", "XDP for TSN", "38.17", "&lt;no&gt;", "&lt;i&gt;it spins", "<svg", "Published figures"):
        assert words in text
    assert "<script" not in without_our_scripts(text)


@pytest.mark.parametrize(
    ("method", "asked"),
    [
        ({"name": "micro", "workloads": ["rxdrop"]}, [(0.1, 0.0, UNDER_WAY_S), (0.5, 0.0, 0.1)]),
        ({"name": "micro", "workloads": ["l2fwd"]}, [(0.5, 0.1, 0.1)]),
        ({"name": "functions", "traffic": ["pass-through"]}, [(0.5, 0.1, 0.1)]),
        ({"name": "functions", "traffic": ["dropped"]}, [(0.1, 0.0, UNDER_WAY_S), (0.5, 0.0, 0.1)]),
    ],
    ids=["rxdrop", "l2fwd", "pass-through", "dropped"],
)
def test_a_warm_up_is_a_trial_of_its_own_only_where_the_program_counts(
    method: dict[str, Any], asked: list[tuple[float, float, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {**method, "duration_s": 0.5, "warmup_s": 0.1}
    matrix = {"functions": ["router"], "modes": ["xdp"]} if method["name"] == "functions" else {}
    spec = validated(
        StudySpec, {**micro.study(), "forwarders": [] if matrix else ["xsk"]} | {"method": given | matrix}, ""
    )
    made = make_method(spec.method)
    at = app.prepare(spec).plan.points[0]
    program = made.forwarder(at)
    sent: list[TrialSpec] = []
    what = next(iter(at.levels.values()))
    by_program, by_tester = {"rxdrop": (7, 0), "l2fwd": (0, 7), "pass-through": (0, 7), "dropped": (7, 0)}[str(what)]
    for name in ("frames_received", "frames_dropped"):
        monkeypatch.setattr(program, name, lambda: by_program * len(sent), raising=False)
    monkeypatch.setattr(program, "ineffective", lambda: None)

    def send(trial: TrialSpec) -> Any:
        sent.append(trial)
        return result(stream([1000] * by_tester, sent=7))

    found: list[Any] = []
    session: Any = SimpleNamespace(
        point=at, forwarder=program, send=send, measure_by=lambda asked, count: found.append(count())
    )
    made.measure(session, at.traffic)
    assert [(trial.duration_s, trial.warmup_s, trial.drain_s) for trial in sent] == asked
    assert found[0].figures.mpps == pytest.approx(7e-6)  # of the trial alone


def test_an_option_that_needs_hugepages_asks_the_run_for_them() -> None:
    """`required_knobs` was not honoured: the case failed that works in any other study."""
    spec = micro.study(forwarders=[{"name": "xsk", "options": {"hugepages": True}}])
    made = make_method(validated(StudySpec, spec, "").method)
    assert made.forwarder(micro.points_of(spec)[0]).required_knobs().keys() == {"hugepages_2m"}
    scaled = micro.functions(modes=["xdp"], cores=[1, 2], ddio_ways=[2], traffic=["dropped"])
    method = make_method(validated(StudySpec, scaled, "").method)
    knobs = [method.forwarder(each).required_knobs() for each in micro.points_of(scaled)]
    assert knobs == [{"ddio_ways": 2, "channels": 1}, {"ddio_ways": 2, "channels": 2}]


def test_a_killed_run_is_resumed_and_ends_as_the_whole_one(tmp_path: Path, cli: Callable[..., Done]) -> None:
    path = studies.study_file(tmp_path, **FAKE, repetitions=3)
    assert cli("run", path).code == 0
    whole = studies.only_run(tmp_path / "results")
    lines = (whole.path / "trials.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    cut = tmp_path / "results" / "cut"
    shutil.copytree(whole.path, cut)
    (cut / "trials.jsonl").write_text("".join(lines[:7]) + lines[7][:50], encoding="utf-8")
    done = cli("run", "--resume", cut)
    assert done.code == 0, done.err

    def figures(folder: Path) -> dict[tuple[str, int], Any]:
        records = [json.loads(line) for line in (folder / "trials.jsonl").read_text(encoding="utf-8").splitlines()]
        return {(each["point_id"], each["repetition"]): each["figures"] for each in records if each["result"]}

    assert figures(cut) == figures(whole.path)
    assert len(figures(cut)) == 2 * 2 * 3


STUBBORN = """
import os
from pathlib import Path
from typing import ClassVar
from xdplab.forwarders.fake import FakeForwarder
from xdplab.knobs import Knob
from xdplab.model import XdplabError

class Stubborn(FakeForwarder):
    name: ClassVar[str] = "stubborn"
    def stop(self):
        raise XdplabError("stubborn: it does not stop")

class Dial(Knob):
    name: ClassVar[str] = "dial"
    scope: ClassVar[str] = "system"
    file = Path(os.environ.get("DIAL", "/nowhere"))
    def check(self, value): return value
    def unsupported(self, context, value): return None
    def read(self, context): return self.file.read_text()
    def apply(self, context, value): self.file.write_text(str(value))
    def verify(self, context, value): pass
    def restore(self, context, saved): self.file.write_text(saved)
"""


def test_settings_are_put_back_when_the_program_does_not_stop(tmp_path: Path) -> None:
    (tmp_path / "dial").write_text("7", encoding="utf-8")
    points = {"xdplab.forwarders": {"stubborn": "stubborn:Stubborn"}, "xdplab.knobs": {"dial": "stubborn:Dial"}}
    folder = distribution(tmp_path / "stubborn", "stubborn", points, STUBBORN)
    path = studies.study_file(tmp_path, **FAKE, forwarders="stubborn", knobs={"dial": 9}, repetitions=1)
    done = xdplab("run", path, env=environment({"DIAL": str(tmp_path / "dial")}, [folder]))
    assert done.code != 0
    assert "it does not stop" in done.err
    assert (tmp_path / "dial").read_text(encoding="utf-8") == "7"


def test_runs_are_compared_and_their_series_has_a_trend(results: Path, cli: Callable[..., Done]) -> None:
    spec = micro.study(method={"name": "micro", "workloads": ["rxdrop"]})
    (at,) = micro.points_of(spec)
    names = []
    for mpps in (1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0):
        trials = [micro.trial(at, (mpps + n / 1000) * 1e6, repetition=n) for n in range(5)]
        names.append(micro.store(results, spec, trials).name)
    found = cli("compare", names[0], names[-1], "--json").json()["comparisons"][0]["points"][0]["mpps"]
    assert found["interval"]["ratio"] == pytest.approx(3, rel=0.01)
    assert found["verdict"].endswith("(after) has more; to be sure, measure both in one run")
    stretches = cli("compare", *names, "--json").json()["trend"][0]["stretches"]
    assert [(each["runs"], each["change"]) for each in stretches] == [(4, "first"), (4, "better")]
    assert "rate, Mpps" in cli("compare", names[0], names[-1]).out
