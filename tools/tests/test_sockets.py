# SPDX-License-Identifier: Apache-2.0
"""Socket studies: what is refused, how repetitions are summed up, the report."""

import re
import statistics
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from lab.command import inline
from lab.records import result, stream
from lab.socket_records import STUDY, record, stage, trial

from xdplab import app
from xdplab.analysis.sockets import socket_rows
from xdplab.cli.sockets import socket_table
from xdplab.forwarders.xsk_roles import make_role
from xdplab.model import InputError, TrialSpec
from xdplab.model.sockets import SocketStudy, Workload
from xdplab.report.sockets import write_socket_report
from xdplab.results.sockets import SocketFolder
from xdplab.runner.cells import cells
from xdplab.runner.sockets import SocketRun
from xdplab.tools import project_root

STUDIES = project_root() / "suites" / "studies" / "sockets"


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.yaml")), ids=lambda path: path.stem)
def test_studies_of_the_project_can_be_read_and_name_their_source(path: Path) -> None:
    study = app.read_socket_study(path)
    assert study.name == path.stem
    assert study.published is not None
    assert len(cells(study)) > 20


@pytest.mark.parametrize("suite", ["afxdp_micro", "tsn_latency"])
def test_a_suite_has_a_row_for_each_case_of_its_study(suite: str) -> None:
    text = (project_root() / "suites" / f"{suite}.robot").read_text(encoding="utf-8")
    rows = text.partition("*** Test Cases ***    CASE\n")[2].partition("\n\n")[0].splitlines()
    study = app.read_socket_study(STUDIES / f"{suite.replace('_', '-')}.yaml")
    cells = [re.split(r"\s{2,}", row) for row in rows if not row.startswith((" ", "Who Is Ahead"))]
    assert {case for _, case in cells} == {case.title for case in study.cases}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"workloads": ["forward"]}, "workloads.0"),
        ({"workloads": []}, "workloads"),
        ({"cases": []}, "cases"),
        ({"cases": [{"title": "a"}, {"title": "a"}]}, "a title is there twice"),
        ({"cases": [{"title": "a", "program": "xdp-bench"}]}, "cases.0.program"),
        ({"cases": [{"title": "a", "options": {"colour": "red"}}]}, "case 'a': options: colour: unknown key"),
        ({"cases": [{"title": "a", "options": {"rx_ring": 1000}}]}, "power of two"),
        ({"workloads": ["stages"], "cases": [{"title": "a", "program": "testpmd"}]}, "cannot do workload stages"),
        (
            {"workloads": ["stages"], "cases": [{"title": "a", "program": "xdpsock"}]},
            "xdpsock cannot do workload stages",
        ),
        ({"rates_pps": [0]}, "rates_pps"),
        ({"repetitions": 0}, "repetitions"),
    ],
)
def test_bad_studies_are_refused_with_one_line(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(STUDY | change), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        app.read_socket_study(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_refuses_what_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    inline(capsys, "sockets", "/nowhere/study.yaml").refused("/nowhere/study.yaml")


def test_rates_are_medians_over_repetitions_in_the_studys_order() -> None:
    study = SocketStudy.model_validate(STUDY | {"cases": [{"title": "one"}, {"title": "two"}]})
    trials = [trial(case="two", pps=5e6), *(trial(pps=rate) for rate in (3e6, 1e6, 2e6))]
    trials.append(trial(None, status="failed", reason="it fell over"))
    one, two = socket_rows(study, trials)
    assert (one.case, one.mpps, one.mpps_range, one.repetitions, one.status) == ("one", 2, (1, 3), 3, "partial")
    assert (two.case, two.mpps, two.mode, two.status) == ("two", 5, "native copy", "ok")
    assert "it fell over" in socket_table([one, two])


@given(st.lists(st.lists(st.integers(1, 10**9), min_size=1, max_size=20), min_size=1, max_size=4))
def test_stages_of_repetitions_add_up_to_those_of_all_frames(parts: list[list[int]]) -> None:
    study = SocketStudy.model_validate(STUDY | {"workloads": ["stages"]})
    stages = [dict.fromkeys(("driver", "stack", "complete"), stage(values)) for values in parts]
    (row,) = socket_rows(study, [trial(workload="stages", rate_pps=1000.0, stages=each) for each in stages])
    everything = [value / 1000 for values in parts for value in values]
    found = row.stages["stack"]
    assert (found.count, found.min_us, found.max_us) == (len(everything), min(everything), max(everything))
    assert found.peak_to_peak_us == pytest.approx(max(everything) - min(everything))
    assert found.mean_us == pytest.approx(statistics.fmean(everything))
    assert found.rms_us == pytest.approx(statistics.pstdev(everything), rel=1e-6, abs=1e-3)


def test_a_run_folder_is_read_again_and_drawn(tmp_path: Path) -> None:
    read = app.read_socket_study(STUDIES / "tsn-latency.yaml")
    noted = read.cases[0].model_copy(update={"note": "<i>it spins"})
    study = read.model_copy(update={"cases": (noted, *read.cases[1:])})
    stages = dict.fromkeys(("driver", "stack", "complete"), stage([900, 1000, 2500]))
    trials = [
        trial(workload="stages", case=study.cases[0].title, rate_pps=128.0, stages=stages, stamps={"software": 3}),
        trial(None, workload="stages", case=study.cases[1].title, rate_pps=1.0, status="unsupported", reason="<no>"),
    ]
    head = record(kernel_version="#1 SMP PREEMPT_RT").model_copy(update={"study": study})
    folder = SocketFolder(tmp_path)
    folder.head(head)
    for each in trials:
        folder.append(each)
    with (tmp_path / "trials.jsonl").open("ab") as file:
        file.write(b'{"workload": "sta')  # kill -9
    again, kept = folder.load()
    assert (again, kept) == (head, trials)
    write_socket_report(folder.report, again, kept)
    text = folder.report.read_text(encoding="utf-8")
    for words in ("PREEMPT_RT", "XDP for TSN", "38.17", "&lt;no&gt;", "&lt;i&gt;it spins", "<svg", "Published figures"):
        assert words in text
    assert "<script" not in text


def test_what_is_not_such_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run folder"):
        SocketFolder(tmp_path).load()
    (tmp_path / "run.json").write_text("{}", encoding="utf-8")
    (tmp_path / "trials.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="not a socket study"):
        SocketFolder(tmp_path).load()


@pytest.mark.parametrize(
    ("workload", "asked"),
    [
        ("rxdrop", [(0.1, 0.0, 0.0), (0.5, 0.0, 0.1)]),
        ("l2fwd", [(0.5, 0.1, 0.1)]),
        ("pass-through", [(0.5, 0.1, 0.1)]),
        ("stages", [(0.5, 0.0, 0.1)]),
    ],
)
def test_a_warm_up_has_a_process_of_the_tester_only_where_the_program_counts(
    workload: Workload, asked: list[tuple[float, float, float]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    specs: list[TrialSpec] = []

    def run(context: Any, spec: TrialSpec) -> Any:
        specs.append(spec)
        return result(stream([1000] * 7, sent=7))

    matrix = {"functions": ["router"], "modes": ["xdp"]}
    functions = {"cases": [], "network_functions": matrix} if workload == "pass-through" else {}
    study = SocketStudy.model_validate(
        {**STUDY, **functions, "workloads": [workload], "duration_s": 0.5, "warmup_s": 0.1}
    )
    (cell,) = cells(study)
    program = make_role(cell.case, cell.workload, 64)
    counted = 0 if workload == "pass-through" else 7
    monkeypatch.setattr(program, "frames_received", lambda: counted * len(specs))
    monkeypatch.setattr(SocketRun, "_context", lambda *_: None)
    testbed = SimpleNamespace(tester_host=None, dut=None, folder_on=lambda host: tmp_path)
    made = SocketRun(study, testbed, SimpleNamespace(run=run))  # type: ignore[arg-type]
    _, pps = made._receiving(cell, program, SimpleNamespace())  # type: ignore[arg-type]
    assert [(spec.duration_s, spec.warmup_s, spec.drain_s) for spec in specs] == asked
    assert pps == 7  # of the trial alone
