# SPDX-License-Identifier: Apache-2.0
"""`xdplab site`: opens from disk without a network, says no more than the runs do, and takes no name for markup."""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.browser import PROGRAM as CHROMIUM
from lab.command import Done
from lab.records import environment, point, run_record, trial
from lab.tags import Tags

from xdplab.analysis.run import Run
from xdplab.analysis.runs.apart import environments
from xdplab.analysis.runs.trend import all_trends
from xdplab.model import ForwarderSpec, RunRecord
from xdplab.report import assets, site
from xdplab.results import RunFolder

DATA = Path(__file__).parent / "data"
STORED = {"first": DATA / "stored-run", "sockets": DATA / "stored" / "breakdown", "search": DATA / "stored" / "rfc2544"}
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"
A = point("fake")


def curves(path: Path) -> tuple[str, dict[str, dict[str, object]]]:
    """Number of the run, and what its file hands to the page."""
    found = re.fullmatch(r'xdplabRun\("(\d+)",(.*)\);\n', path.read_text(encoding="utf-8"))
    assert found, path
    return found[1], json.loads(found[2])


@pytest.fixture
def place(results: Path, tmp_path: Path, cli: Callable[..., Done]) -> Path:
    """The site of three stored runs."""
    for name, folder in STORED.items():
        shutil.copytree(folder, results / name)
    done = cli("site", tmp_path / "site")
    assert (done.code, done.out) == (0, f"3 runs: {tmp_path / 'site' / 'index.html'}\n")
    return tmp_path / "site"


def test_a_site_refers_to_its_own_files_only(place: Path) -> None:
    files = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    reports = {f"runs/{number}/report.html" for number in (1, 2, 3)}
    assert files == {".xdplab-site", "index.html", "site.js", *reports, *(f"data/{number}.js" for number in (1, 2, 3))}
    for name in files:
        text = (place / name).read_text(encoding="utf-8")
        assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts)\b\s*\(", text), (
            name
        )
        assert not re.search(r"(?:src|href|action)=[\"']?\s*(?:[a-z]+:)?//|url\((?!#)|@import", text, re.I), name
        assert {each.split("/")[2] for each in re.findall(r"https?://[^\s\"'<>]+", text)} <= {"www.w3.org"}, name
    page = (place / "index.html").read_text(encoding="utf-8")
    assert page.index('<script src="site.js">') < page.index(assets.text("table.js"))  # that takes rows out
    found = Tags(page)
    links = {attrs.get(name) or "" for _, attrs in found.tags for name in ("href", "src") if name in attrs}
    assert {link for link in links if not link.startswith("#")} == {*reports, "site.js"}
    assert {link[1:] for link in links if link.startswith("#")} <= {attrs.get("id") for _, attrs in found.tags}
    (policy,) = [attrs["content"] or "" for tag, attrs in found.tags if tag == "meta" and "http-equiv" in attrs]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe-inline" not in policy.partition("script-src")[2]


def test_each_point_with_latencies_can_be_chosen_and_has_its_curve(place: Path, cli: Callable[..., Done]) -> None:
    text = html.unescape((place / "index.html").read_text(encoding="utf-8"))
    boxes = [attrs for tag, attrs in Tags(text).tags if tag == "input"]
    chosen = {(each["data-run"], each["data-point"]) for each in boxes}
    drawn = {(number, key) for path in (place / "data").iterdir() for number, of in [curves(path)] for key in of}
    assert chosen == drawn
    assert len(drawn) == 4
    rows = [row for name in STORED for row in cli("show", name, "--json").json()]
    assert text.count('data-label="run"') == len(rows)
    for row in rows:
        assert row["forwarder"] in text
        assert row["reason"] in text


def test_the_site_is_as_doubtful_as_the_terminal(place: Path, cli: Callable[..., Done]) -> None:
    """Its sentences are those of `show`, word for word, and a doubt stands where the figure does."""
    text = html.unescape((place / "index.html").read_text(encoding="utf-8"))
    for name in ("first", "search"):
        said = cli("show", name).out.splitlines()
        assert any(line in text for line in said if " times as " in line and not line.startswith(" ")), name


def stored(results: Path, name: str, record: RunRecord, shift_ns: int = 0) -> None:
    (results / name).mkdir(parents=True)
    folder = RunFolder(results / name)
    folder.head(record)
    for n in range(5):
        folder.append(trial(A, n, [3000 + shift_ns + 10 * n] * 50))


def at(day: int, **changes: object) -> RunRecord:
    return run_record(A, started=f"2026-01-{day:02}T00:00:00+00:00", environment=environment(**changes))


def test_a_doubt_stands_where_the_figure_does(cli: Callable[..., Done], results: Path, tmp_path: Path) -> None:
    stored(results, "doubted", at(1))
    assert cli("site", tmp_path / "before").code == 0
    RunFolder(results / "doubted").append(trial(A, 5, status="failed", reason="it died"))
    assert cli("site", tmp_path / "after").code == 0
    before, after = (
        html.unescape((tmp_path / name / "index.html").read_text(encoding="utf-8")) for name in ("before", "after")
    )
    for words in ("doubtful</div>", "p50: fake failed in 1 of 6 repetitions: it died"):
        assert words not in before
        assert words in after


def test_a_step_over_runs_is_shown_with_what_changed_there(
    cli: Callable[..., Done], results: Path, tmp_path: Path
) -> None:
    for day in range(1, 9):
        late = day > 5
        stored(results, f"day-{day}", at(day, governor="schedutil" if late else "performance"), 900 if late else 0)
    assert cli("site", tmp_path / "site").code == 0
    text = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    step, *_ = re.findall(r"<tr><td[^>]*>3</td>.*?</tr>", text)
    assert "day-6" in step
    assert "day-8" in step
    assert "<b>worse</b>" in step
    assert "governor: performance → schedutil" in step
    trend, *_ = all_trends(
        [Run.of(RunFolder(results / f"day-{day}")) for day in range(8, 0, -1)]
    )  # fmt: skip
    assert [(run.name, run.count) for run in trend.runs] == [(f"day-{day}", 5) for day in range(1, 9)]
    data = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', text)[0])
    assert data["series"][0]["y"] == pytest.approx([run.mean for run in trend.runs])
    assert len(set(data["series"][1]["y"])) == 2
    assert "<mark>schedutil</mark>" in text


def test_runs_that_do_not_continue_each_other_have_trends_of_their_own() -> None:
    runs = []
    for day in range(1, 8):
        testbed = {"tester": "fake:seed=2"} if day % 2 else {}
        record = at(day).model_copy(update={"study": run_record(A, study=testbed).study})
        runs.append(Run(Path(f"day-{day}"), record, [trial(A, n) for n in range(3)]))
    found = {tuple(run.name for run in each.runs) for each in all_trends(runs)}
    assert found == {("day-1", "day-3", "day-5", "day-7"), ("day-2", "day-4", "day-6")}


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
    record = run_record(bad, study={"title": HOSTILE}, environment=environment(cmdline=HOSTILE), ended_early=HOSTILE)
    for name, each in (("<img src=x onerror='1'>", record), ("plain", at(2))):
        stored(results, name, each.model_copy(update={"points": {A.id: bad}}) if each is record else each)
    assert cli("site", tmp_path / "site").code == 0
    text = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    found = Tags(text)
    assert "<img" not in text
    assert "img" not in {tag for tag, _ in found.tags}
    assert not any(name.startswith("on") for _, attrs in found.tags for name in attrs)
    assert text.count("&lt;script&gt;alert(1)") >= 3
    assert len(re.findall("<script", text)) == len(re.findall("</script>", text))
    names = [of[A.id]["series"]["name"] for _, of in map(curves, (tmp_path / "site" / "data").iterdir()) if A.id in of]  # type: ignore[index]
    assert any(HOSTILE in name for name in names)


def test_a_folder_with_something_else_is_left_alone_and_a_site_is_written_anew(
    place: Path, cli: Callable[..., Done], results: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "index.html").write_text("mine", encoding="utf-8")
    cli("site", tmp_path / "mine").refused("neither empty nor a site")
    assert (tmp_path / "mine" / "index.html").read_text(encoding="utf-8") == "mine"
    cli("site", place, "none").refused("run 'none'")
    (results / "sockets" / "run.json").write_text("{", encoding="utf-8")
    done = cli("site", place)
    assert "not in it: sockets: " in done.out
    assert len(list((place / "runs").iterdir())) == 2
    assert "Not in this site: sockets: " in (place / "index.html").read_text(encoding="utf-8")


def test_reports_are_drawn_here_and_a_run_that_cannot_be_is_left_out(
    place: Path, cli: Callable[..., Done], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (results / "first" / "report.html").write_text("<script>of another machine</script>", encoding="utf-8")
    record = at(9).model_copy(update={"environment": environment(topology={})})
    stored(results, "without-topology", record)
    draw, broken = site.render, {RunFolder(results / "search").load().run_id}

    def render(run: Run) -> str:
        if run.record.run_id in broken or not broken:
            raise ZeroDivisionError("nothing to divide by")
        return draw(run)

    monkeypatch.setattr(site, "render", render)
    done = cli("site", place)
    assert "not in it: search: its report cannot be drawn: nothing to divide by" in done.out
    assert done.out.endswith(f"3 runs: {place / 'index.html'}\n")
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert not [path for path, data in before.items() if b"of another machine" in data]
    assert any(b"unknown number of CPUs" in data for data in before.values())
    assert b"Not in this site: search: " in before[place / "index.html"]
    broken.clear()
    cli("site", place).refused("no run can be drawn")
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def opened(page: str, folder: Path) -> tuple[str, list[str], str]:
    """What a browser without a network made of a page, what the page asked of one, and what it complained of."""
    log = folder / "net.json"
    options = (
        *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
        *("--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--virtual-time-budget=5000"),
    )
    assert CHROMIUM
    done = subprocess.run(
        [CHROMIUM, *options, f"--user-data-dir={folder / 'browser'}", f"--log-net-log={log}", "--dump-dom", page],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    text = log.read_text(encoding="utf-8").rstrip()
    reported = json.loads(text.removesuffix(",") + "]}" if text.endswith(",") else text)  # it was ended while it wrote
    started = reported["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    params = [each.get("params", {}) for each in reported["events"] if each["type"] == started]
    # the browser's own, for its updates and accounts, are of no page
    of_pages = [each["url"] for each in params if each.get("initiator") != "not an origin" and "url" in each]
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, [url for url in of_pages if not url.startswith(("file:", "data:"))], "\n".join(complaints)


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium")
@pytest.mark.timeout(300)
def test_the_site_of_three_stored_runs_opens_from_disk_without_a_network(place: Path, tmp_path: Path) -> None:
    boxes = [attrs for tag, attrs in Tags((place / "index.html").read_text(encoding="utf-8")).tags if tag == "input"]
    chosen = [f"{each['data-run']}.{each['data-point']}" for each in boxes]
    dom, asked, complaints = opened(f"{(place / 'index.html').as_uri()}#{','.join(chosen)}", tmp_path)
    assert (asked, complaints) == ([], "")
    overlay = dom[dom.index('id="overlay"') : dom.index('id="environments"')]
    assert overlay.count("<figure") == 1  # all of these are one-way
    assert len(re.findall(r'<path class="curve" d="M\d', overlay)) == len(chosen) == 4
    for name in ("ovs-afxdp, 64 bytes, first", "xsk, 64 bytes, sockets"):
        assert name in overlay
    assert '<th scope="col"><button' in dom  # tables are sorted by their headings


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium")
@pytest.mark.timeout(300)
def test_a_page_that_asks_for_a_network_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text('<script src="http://example.invalid/x.js"></script>', encoding="utf-8")
    _, asked, _ = opened(page.as_uri(), tmp_path)
    assert asked == ["http://example.invalid/x.js"]


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium")
@pytest.mark.timeout(300)
def test_a_point_beyond_the_rows_that_are_shown_can_be_chosen(
    cli: Callable[..., Done], results: Path, tmp_path: Path
) -> None:
    many = [point(f"fake:seed={n}") for n in range(205)]
    (results / "many").mkdir(parents=True)
    folder = RunFolder(results / "many")
    folder.head(run_record(*many))
    for each in many:
        folder.append(trial(each))
    assert cli("site", tmp_path / "site").code == 0
    dom, *_ = opened(f"{(tmp_path / 'site' / 'index.html').as_uri()}#1.{many[-1].id}", tmp_path)
    assert f'data-point="{many[-1].id}"' not in dom
    assert re.search(r'<path class="curve" d="M\d', dom[dom.index('id="overlay"') :])
