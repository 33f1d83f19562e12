# SPDX-License-Identifier: Apache-2.0
"""Runs of each method, stored: read, shown, compared, traced and drawn again, without the plug-ins that made them.

When this fails because a model has changed, old runs of users cannot be read either: raise SCHEMA_VERSION or read both.
The expected figures are those of the day on which they were made.
"""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lab.command import Done
from robot.api import SkipExecution

from xdplab import robot
from xdplab.analysis import answer, summarise
from xdplab.analysis.run import Run
from xdplab.measure import method_class, method_names
from xdplab.measure.comparison import MAX_WORDS
from xdplab.model import InputError, RunRecord, TrialRecord, plugins
from xdplab.report import write_report
from xdplab.results import RunFolder

STORED = Path(__file__).parent / "data" / "stored"
METHODS = sorted(path.name for path in STORED.iterdir())
#: In the report of each: a heading of its own, and a figure.
WORDS = {
    "applications": ("What applications get", "GRO) at the forwarder"),
    "breakdown": ("Where a frame's time goes", "redirect to end"),
    "changes": (">Changes under load</h2>", "effective blocked time"),
    "functions": ("Modes in order, and the published order", "firewall, af_xdp-poll"),
    "micro": (">Rates</h2>", "NETDEV_XDP_ACT_XSK_ZEROCOPY"),
    "rfc2544": ("Throughput (RFC 2544 §26.1)", "Forwarding rate at overload"),
    "stages": (">Stages</h2>", "time stamps: software"),
    "tracing": ("What the measurement costs", "static probes (USDT), recorded by perf"),
}


def test_each_method_has_one() -> None:
    named = {method_class(name).name for name in method_names()}
    assert {*METHODS, "latency"} == named  # latency: test_stored_run.py
    assert set(WORDS) == set(METHODS)
    assert all(sum(file.stat().st_size for file in (STORED / name).iterdir()) < 200_000 for name in METHODS)


@pytest.mark.parametrize("folder", [*(STORED / name for name in METHODS), STORED.parent / "stored-run"])
def test_the_headline_is_one_sentence_of_thirty_words_and_no_column_says_nothing(folder: Path, tmp_path: Path) -> None:
    run, trials = RunFolder(folder).load(), RunFolder(folder).trials()
    found = answer(run, summarise(run, trials), trials)
    assert len(found.sentence.split()) <= MAX_WORDS
    assert not re.search(r"[a-z)]\. [A-Z]", found.sentence)
    write_report(Run(tmp_path, run, trials))
    html = re.sub(r"<details.*?</details>", "", (tmp_path / "report.html").read_text(encoding="utf-8"), flags=re.DOTALL)
    for table in re.findall(r"<table.*?</table>", html, re.DOTALL):
        rows = [
            re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)
        ]
        widest = max(map(len, rows), default=0)
        columns = [*zip(*(row for row in rows if len(row) == widest), strict=True)]
        texts = [{re.sub(r"<.*?>", "", cell).strip() for cell in column} for column in columns if len(column) > 1]
        assert not [text for text in texts if text <= {"undecided", "not said", "–", "-"}], table[:300]


def complaint(run: RunRecord, trials: Sequence[TrialRecord]) -> str:
    """Why a run has no figures; empty where it has."""
    try:
        summarise(run, trials)
    except InputError as exc:
        return str(exc)
    return ""


@pytest.mark.parametrize("name", METHODS)
def test_a_field_that_is_missing_or_wrong_in_the_journal_is_one_line_that_names_it(name: str) -> None:
    """Of each kind of record its first one, field by field."""
    run, trials = RunFolder(STORED / name).load(), RunFolder(STORED / name).trials()
    kinds = method_class(name).records
    firsts = {frozenset(trial.figures): number for number, trial in reversed([*enumerate(trials)]) if trial.figures}
    for number in firsts.values():
        trial = trials[number]
        if trial.clause == "new-flows":  # counted for whoever reads the journal: no figure is made of it
            continue
        needed = next(kind for kind in kinds if kind.model_fields.keys() >= trial.figures.keys()).model_fields
        for key in trial.figures:
            rest = {name: value for name, value in trial.figures.items() if name != key}
            for figures in ({**rest, key: {"no": "such"}}, rest):
                spoilt = trial.model_copy(update={"figures": figures})
                found = complaint(run, [*trials[:number], spoilt, *trials[number + 1 :]])
                if key in figures or needed[key].is_required():
                    assert found.startswith(f"trials.jsonl, point {trial.point_id}, repetition {trial.repetition}")
                    assert key in found
                    assert "\n" not in found


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No forwarder, tester or knob is installed."""
    real = plugins.find

    def find(group: str, kind: str, name: str) -> Any:
        if group != "xdplab.methods":
            raise InputError(f"{kind} {name!r} is not here")
        return real(group, kind, name)

    monkeypatch.setattr(plugins, "find", find)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.usefixtures("alone")
def test_a_stored_run_is_shown_traced_compared_and_drawn_again(
    name: str, results: Path, cli: Callable[..., Done]
) -> None:
    shutil.copytree(STORED / name, results / name)
    rows = cli("show", name, "--json").json()
    expected = json.loads((STORED / name / "expected.json").read_text(encoding="utf-8"))
    assert [{key: row[key] for key in known} for row, known in zip(rows, expected, strict=True)] == [
        {key: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value for key, value in known.items()}
        for known in expected
    ]
    assert cli("show", name).code == 0
    assert cli("show", name, "--csv").out.count("\n") == 1 + len(rows)
    assert cli("show", name, rows[0]["point_id"]).out.startswith(f"point {rows[0]['point_id']}: ")
    (found,) = cli("compare", name, name, "--json").json()["comparisons"]
    assert found["environment"] == {}
    assert cli("report", name).code == 0
    html = RunFolder(results / name).report.read_text(encoding="utf-8")
    for words in WORDS[name]:
        assert words in html
    ids, links = re.findall(r'\sid="([^"]*)"', html), re.findall(r'href="([^"]*)"', html)
    assert len(ids) == len(set(ids))
    assert {link for link in links if link.removeprefix("#") not in ids} == set()
    assert html.count("<th") - html.count("<thead") == html.count('<th scope="col"') > 0
    assert html.count("<caption>") == html.count("<table")
    assert len(html.encode()) < 250_000


@pytest.mark.parametrize(
    ("name", "part", "said"),
    [
        ("rfc2544", ("throughput",), "NDR 1,240 kpps (99 %: 1,200 to 1,280) (limited by forwarder)"),
        ("rfc2544", ("no-such-clause",), "skipped: no-such-clause: the study's reference was not measured with it"),
        ("tracing", ("perf",), "at p50: undecided"),
        ("tracing", ("in-band", "below its goal"), "skipped: in-band, below its goal: undecided whether its cost"),
        ("functions", ("firewall", "xdp"), "firewall, xdp"),
        ("functions", ("macswap", "xdp"), "skipped: macswap, xdp is not part of this study"),
        ("changes", ("rules",), "installed/s "),
        ("changes", ("port-added",), "skipped: port-added is not part of this study"),
        ("micro", ("anything",), "skipped: anything: method micro has no parts"),
    ],
)
def test_a_suite_asks_for_a_part_of_a_method(
    name: str, part: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(robot.logger, "info", lines.append)
    monkeypatch.setattr(robot.logger, "console", lambda line: None)
    monkeypatch.setattr(robot.logger, "write", lambda text, **_: lines.append(text))
    folder, suite = RunFolder(STORED / name), robot.XdplabLibrary()
    suite.read = Run.of(folder)
    try:
        suite.part_was_measured(*part)
    except SkipExecution as exc:
        lines.append(f"skipped: {exc}")
    assert any(said in line for line in lines), lines
