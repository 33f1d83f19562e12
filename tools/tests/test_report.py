# SPDX-License-Identifier: Apache-2.0
"""report.html: the answer first, one file, nothing fetched, nothing of a user's taken for markup."""

import re
import warnings
from html.parser import HTMLParser
from pathlib import Path as FilePath
from typing import Any

import pytest
from lab import studies
from lab.reading import a_run, render
from lab.records import environment, point, run_record, trial

from xdplab import app
from xdplab.forwarders.fake import FakeForwarder
from xdplab.model import ForwarderSpec, Path, Point, RunRecord, TrialRecord, XdplabError, plugins
from xdplab.report import page as pages, write_report
from xdplab.runner import Listener

A, B = point("fake:seed=1"), point("fake:seed=2")
HOSTILE = "</style></title><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def trials(*points: Point) -> list[TrialRecord]:
    return [
        trial(at, n, [1000 * (k + 1) + (k + 1) * 7 * (n * (k + 2) % 5) + j for j in range(50)])
        for k, at in enumerate(points)
        for n in range(5)
    ]


def page(run: RunRecord, records: list[TrialRecord]) -> tuple[str, Page]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        html = render(run, records)
    return html, Page(html)


def named(label: str) -> Point:
    return A.model_copy(update={"forwarder": ForwarderSpec(name="fake", label=label)})


def test_a_report_fetches_nothing_and_runs_our_scripts_only() -> None:
    html, found = page(run_record(A, B), trials(A, B))
    assert len([tag for tag, _ in found.tags if tag == "figure"]) == 1
    assert re.findall(r"<script>(.*?)</script>", html, re.DOTALL) == [pages.asset(name) for name in pages.SCRIPTS]
    assert {"link", "iframe", "img", "object", "embed", "base"}.isdisjoint({tag for tag, _ in found.tags})
    policies = [attrs["content"] for tag, attrs in found.tags if tag == "meta" and attrs.get("http-equiv")]
    assert policies == [f"default-src 'none'; style-src 'unsafe-inline'; script-src {pages.script_hashes()}"]
    for tag, attrs in found.tags:
        for name, value in attrs.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("href", "src", "xlink:href", "action", "data"):
                assert (value or "").startswith("#"), (tag, name, value)
    outside = set(re.findall(r"https?://[^\s\"'<>]+", html)) | set(re.findall(r"@import|url\((?!#)[^)]*\)", html))
    assert {address for address in outside if "www.w3.org" not in address} == set()


def test_a_report_starts_with_the_answer() -> None:
    run = run_record(A, B, study={"answer": ("fake:seed=1", "fake:seed=2"), "title": "Which one?"})
    html, _ = page(run, trials(A, B))
    body = html[html.index("<body>") :]
    title = r"<body>\s*<h1>Which one\?, simulated</h1>"
    first = title + r'\s*<p class="answer">At [\d.]+ kpps fake \(seed=1\) is [\d.]+ times as fast'
    assert re.match(first, body)


def test_hostile_words_stay_words() -> None:
    bad = named(HOSTILE)
    run = run_record(
        bad, B, study={"title": HOSTILE}, ended_early=HOSTILE, unsupported={B.id: HOSTILE}, rx_reason=HOSTILE,
        environment=environment(cmdline=HOSTILE, versions={HOSTILE: HOSTILE}, ports={HOSTILE: {HOSTILE: HOSTILE}}),
    )  # fmt: skip
    failed = trial(bad, 7, status="failed", reason=HOSTILE, log_tail=(HOSTILE, "]]>"))
    strange = trial(bad, 8, [1000], clause=HOSTILE, mode={"label": HOSTILE})
    html, found = page(run, [*trials(bad), failed, strange])
    kinds = [attrs.get("type") for tag, attrs in found.tags if tag == "script"]
    assert (kinds.count(None), len(kinds)) == (len(pages.SCRIPTS), len(pages.SCRIPTS) + 1)  # ours, and their numbers
    assert "img" not in {tag for tag, _ in found.tags}
    assert not any(name.startswith("on") for _, attrs in found.tags for name in attrs)
    assert html.count("&lt;script&gt;alert(1)") >= 8
    assert html.count("<style>") == 1
    assert html.rstrip().endswith("</html>")


def test_any_label_is_drawn() -> None:
    labels = ["50 % & more", "a $5 and $\\frac{ b", "_hidden", "fast \N{ROCKET}"]
    points = [named(label) for label in labels]
    _, found = page(run_record(*points), trials(*points))
    shown = [text.strip() for text in found.text]
    assert {label: shown.count(label) >= 3 for label in labels} == dict.fromkeys(
        labels, True
    )  # table, picture, tables of charts


@pytest.mark.parametrize("ended", [None, "ended by SIGINT; what was measured is kept"])
def test_a_report_without_a_measured_point_says_why(ended: str | None) -> None:
    html, _ = page(run_record(A, B, unsupported={B.id: "no such card"}, ended_early=ended), [])
    assert "<svg" not in html
    assert "No answer" in html
    assert "no such card" in html
    assert "not measured" in html
    assert not ended or ended in html


def test_failures_show_the_last_lines_of_the_log() -> None:
    broken = trial(A, 0, status="failed", reason="it broke", log_tail=("before", "the last words"))
    html, _ = page(run_record(A), [broken])
    assert "before\nthe last words" in html
    assert html.count("it broke") >= 2


def test_a_point_that_lost_everything_is_drawn() -> None:
    html, _ = page(run_record(A), [trial(A, n, [], sent=100) for n in range(2)])
    assert '<td data-label="lost">100 %</td>' in html


def test_a_single_sample_and_many_points_are_drawn() -> None:
    points = [point(f"fake:seed={n}") for n in range(12)]
    html, _ = page(run_record(*points), [trial(at, 0, [2000]) for at in points])
    assert "fake:seed=11" in html


def test_one_way_and_round_trip_are_never_in_one_picture() -> None:
    other = A.model_copy(update={"path": Path.HAIRPIN})
    html, _ = page(run_record(A, other), trials(A, other))
    assert "One-way latency, 64-byte frames, path through" in html
    assert "Round trip latency, 64-byte frames, path hairpin" in html


def test_the_same_run_gives_the_same_report() -> None:
    run, records = run_record(A, B), trials(A, B)
    assert render(run, records) == render(run, records)


def test_a_report_that_cannot_be_written_says_how_to_draw_it_again(tmp_path: FilePath) -> None:
    missing: Any = tmp_path / "run" / "report.html"
    with pytest.raises(XdplabError, match=r"No such file or directory; `xdplab report .*/run` draws it again"):
        write_report(a_run(run_record(A), []), missing)


def test_what_a_forwarder_says_of_itself_is_stored_and_drawn_without_it(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as installed:
        installed.setattr(FakeForwarder, "describe", lambda self: f"is <slow>, {self.box.capacity_pps:g} pps")
        folder, _ = app.run_study(app.prepare(studies.study(repetitions=1)), Listener(), results)
    said = folder.load().forwarders
    assert said
    assert all(sentence.startswith("is <slow>, ") for sentence in said.values())
    monkeypatch.setattr("xdplab.model.plugins.find", only_methods(plugins.find))
    page = render(folder.load(), folder.trials())
    assert all(f"<li>{title}: is &lt;slow&gt;, " in page for title in said)


def only_methods(find: Any) -> Any:
    def found(group: str, kind: str, name: str) -> Any:
        assert group == "xdplab.methods", f"{kind} {name} is asked for"
        return find(group, kind, name)

    return found
