# SPDX-License-Identifier: Apache-2.0
"""`xdplab compare -o`: a page that opens from disk, says no more than the terminal, and takes no name for markup."""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.command import Done
from lab.records import environment, point, run_record, trial
from lab.tags import Tags

from xdplab.analysis.run import Run
from xdplab.analysis.runs import environments, trends
from xdplab.model import ForwarderSpec, RunRecord
from xdplab.report import page as pages
from xdplab.results import RunFolder

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"
A = point("fake")


def stored(results: Path, name: str, record: RunRecord, shift_ns: int = 0) -> str:
    (results / name).mkdir(parents=True)
    folder = RunFolder(results / name)
    folder.head(record)
    for n in range(5):
        folder.append(trial(next(iter(record.points.values())), n, [3000 + shift_ns + 10 * n] * 50))
    return name


def at(day: int, **changes: object) -> RunRecord:
    return run_record(A, started=f"2026-01-{day:02}T00:00:00+00:00", environment=environment(**changes))


def test_a_page_has_what_the_terminal_has_and_fetches_nothing(
    cli: Callable[..., Done], results: Path, tmp_path: Path
) -> None:
    names = [stored(results, "first", at(1)), stored(results, "second", at(2, kernel="6.19.0"), 2000)]
    done = cli("compare", *names, "-o", tmp_path / "page.html")
    assert done.code == 0
    assert done.out.endswith(f"{tmp_path / 'page.html'}\n")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    text = html.unescape(page)
    row = next(line for line in done.out.splitlines() if line.startswith("fake"))
    for cell in re.split(r"\s{2,}", row):
        assert cell in text
    assert "<mark>6.19.0</mark>" in text
    assert f"script-src {pages.script_hashes()}" in page
    assert not re.search(r"(?:src|href|action)=[\"']?\s*(?:[a-z]+:)?//|url\((?!#)|@import", page, re.IGNORECASE)
    assert not Tags(page).of("a", "href")


def test_a_step_over_runs_is_shown_with_what_changed_there(
    cli: Callable[..., Done], results: Path, tmp_path: Path
) -> None:
    names = [
        stored(results, f"day-{day}", at(day, governor="schedutil" if day > 5 else "performance"), 900 * (day > 5))
        for day in range(1, 9)
    ]
    assert cli("compare", *reversed(names), "-o", tmp_path / "page.html").code == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    step, *_ = re.findall(r"<tr><td[^>]*>3</td>.*?</tr>", text)
    for words in ("day-6", "day-8", "<b>worse</b>", "governor: performance → schedutil"):
        assert words in step
    trend, *_ = trends([Run.of(RunFolder(results / name)) for name in names])
    assert [(run.name, run.count) for run in trend.runs] == [(name, 5) for name in names]
    data = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', text)[0])
    assert data["series"][0]["y"] == pytest.approx([run.mean for run in trend.runs])
    assert len(set(data["series"][1]["y"])) == 2
    assert "<mark>schedutil</mark>" in text


def test_environments_that_are_alike_stand_together_and_output_is_compared_line_by_line() -> None:
    def reported(ring: int) -> RunRecord:
        return at(1, ports={"b0": {"ifname": "b0-x", "ethtool -g": f"Ring of b0-x:\nRX: 4096\nCurrent:\nRX: {ring}"}})

    found = environments([("one", reported(512)), ("two", reported(1024)), ("three", reported(512)), ("four", at(1))])
    assert found.groups == [["one", "three"], ["two"], ["four"]]
    assert found.differing["ports.b0.ethtool -g: RX (2)"] == ["512", "1024", None]
    assert next(iter(found.differing)) == "ports.b0.ethtool -g: RX (2)"
    assert "kernel" not in found.differing
    assert found.same > 5


def test_hostile_names_stay_names(cli: Callable[..., Done], results: Path, tmp_path: Path) -> None:
    bad = A.model_copy(update={"forwarder": ForwarderSpec(name="fake", label=HOSTILE)})
    record = run_record(bad, study={"title": HOSTILE, "name": "s"}, environment=environment(cmdline=HOSTILE))
    names = [
        stored(results, "<img src=x onerror='1'>", record),
        stored(results, "plain", record.model_copy(update={"environment": environment(cmdline="x")})),
    ]
    assert cli("compare", *names, "-o", tmp_path / "page.html").code == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    found = Tags(text)
    assert "img" not in {tag for tag, _ in found.tags}
    assert not any(name.startswith("on") for _, attrs in found.tags for name in attrs)
    assert "&lt;script&gt;alert(1)" in text
    assert len(re.findall("<script", text)) == len(re.findall("</script>", text))


def test_a_page_that_cannot_be_written_is_one_line(cli: Callable[..., Done], results: Path, tmp_path: Path) -> None:
    names = [stored(results, "first", at(1)), stored(results, "second", at(2))]
    cli("compare", *names, "-o", tmp_path / "none" / "page.html").refused("none")
