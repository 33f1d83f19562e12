# SPDX-License-Identifier: Apache-2.0
"""Studies shared out over a pool of testbeds by pabot, and one report of what came of it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from lab import studies
from lab.command import Done
from lab.pool import pabot, pool_of, suite

from xdplab.results import RunFolder


def fake_testbed(folder: Path, name: str) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"schema": 1, "name": name, "kind": "fake"}), encoding="utf-8")
    return path


def test_three_studies_share_two_testbeds(tmp_path: Path, results: Path, cli: Callable[..., Done]) -> None:
    beds = [fake_testbed(tmp_path, name) for name in ("bed-1", "bed-2")]
    pool = pool_of(tmp_path, {bed.stem: f"TESTBED={bed}" for bed in beds})
    suites = [suite(tmp_path, f"s{i}", studies.study_file(tmp_path, name=f"study-{i}")) for i in range(3)]
    code, tests = pabot(tmp_path, "--pabotlib", "--resourcefile", pool, "--processes", 3, *suites)
    # a testbed that is used twice at once refuses the second: its lock is held
    assert (code, {status for status, _ in tests.values()}) == (0, {"PASS"}), tests
    runs = [RunFolder(path.parent) for path in results.glob("*/run.json") if not path.parent.is_symlink()]
    assert sorted(run.load().study.name for run in runs) == ["study-0", "study-1", "study-2"]
    assert {run.load().testbed.name for run in runs} == {"bed-1", "bed-2"}

    (results / "broken").mkdir()
    (results / "broken" / "run.json").write_text("{}", encoding="utf-8")
    merged = cli("report", "--all")
    assert merged.code == 0, merged.err
    assert "not in it: broken: " in merged.out
    page = (results / "merged.html").read_text(encoding="utf-8")
    assert "3 runs on 2 testbeds" in page
    for run in runs:
        assert f'href="{run.name}/report.html"' in page
    assert "The same point on several testbeds" in page
    assert "Not in this report: broken" in page
    assert (results / "merged.html").stat().st_mode & 0o077 == 0


def test_a_tag_chooses_from_the_pool(tmp_path: Path, results: Path) -> None:
    beds = [fake_testbed(tmp_path, name) for name in ("slow", "fast")]
    pool = pool_of(tmp_path, {bed.stem: f"TESTBED={bed}\nTAGS={bed.stem},here" for bed in beds})
    one = suite(tmp_path, "one", studies.study_file(tmp_path))
    code, tests = pabot(tmp_path, "--pabotlib", "--resourcefile", pool, one, testbed="pool:here,fast")
    assert code == 0, tests
    assert studies.only_run(results).load().testbed.name == "fast"


@pytest.mark.parametrize(
    ("options", "lines", "testbed", "words"),
    [
        (["--no-pabotlib"], "TESTBED=fake", "pool", "start the suites with `make pool POOL=FILE`"),
        pytest.param(["--pabotlib"], "NOTHING=fake", "pool", "[one] has no line TESTBED=", marks=pytest.mark.slow),
        pytest.param(
            ["--pabotlib"], "TESTBED=fake", "pool:zero-copy", "No value set matching given tags", marks=pytest.mark.slow
        ),
        (["--pabotlib"], "TESTBED=nowhere", "pool", "testbed 'nowhere': no such file"),
    ],
    ids=["no pabotlib", "no testbed", "no such tag", "no such testbed"],
)
def test_a_pool_that_cannot_be_used_says_why(
    tmp_path: Path, options: list[str], lines: str, testbed: str, words: str
) -> None:
    pool = pool_of(tmp_path, {"one": lines})
    one = suite(tmp_path, "one", studies.study_file(tmp_path))
    code, tests = pabot(tmp_path, *options, "--resourcefile", pool, one, testbed=testbed)
    assert code != 0
    assert [status for status, _ in tests.values()] == ["FAIL"]
    assert words in tests["one"][1]


def test_nothing_to_merge_is_said(cli: Callable[..., Done], results: Path) -> None:
    results.mkdir()
    cli("report", "--all").refused("no run in")


def test_a_merged_report_is_not_written_through_a_link_of_somebody_else(
    tmp_path: Path, results: Path, cli: Callable[..., Done]
) -> None:
    """Who can write into the folder and knows the name in advance could have any file of ours overwritten."""
    assert cli("run", studies.study_file(tmp_path)).code == 0
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    (results / f".merged.html.{os.getpid()}").symlink_to(victim)
    (results / "merged.html").symlink_to(victim)
    assert cli("report", "--all").code == 0
    assert victim.read_text(encoding="utf-8") == "precious"
    assert "1 runs on 1 testbeds" in (results / "merged.html").read_text(encoding="utf-8")
    assert not (results / "merged.html").is_symlink()


def test_names_in_a_merged_report_do_nothing(tmp_path: Path, results: Path, cli: Callable[..., Done]) -> None:
    assert cli("run", studies.study_file(tmp_path)).code == 0
    run = studies.only_run(results)
    data = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
    data["study"]["title"] = "<script>alert(1)</script>"
    data["environment"]["kernel"] = '"><img src=x onerror=alert(2)>'
    (run.path / "run.json").write_text(json.dumps(data), encoding="utf-8")
    run.path.rename(results / "javascript:alert(3)")
    assert cli("report", "--all").code == 0
    page = (results / "merged.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img" not in page
    assert 'href="javascript%3Aalert%283%29/report.html"' in page
