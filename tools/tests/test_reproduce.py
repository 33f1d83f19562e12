# SPDX-License-Identifier: Apache-2.0
"""The five source documents: each part has its study, the page is the command's, ours stands next to theirs."""

from collections.abc import Callable
from pathlib import Path

from lab import studies
from lab.command import Done

from xdplab.analysis.documents import Document, Part, WhereOurs, beside, documents, newest_run
from xdplab.app import read_study, study_files
from xdplab.cli.reproduce import page, planned
from xdplab.tools import project_root

Cli = Callable[..., Done]
FIVE = ["intel-afxdp-guide", "path-to-dpdk-speeds", "understanding-delays-afxdp", "xdp-for-tsn", "parola-conext21"]


def test_all_five_with_a_study_for_each_part() -> None:
    assert list(documents()) == FIVE
    known = study_files()
    for document in documents().values():
        assert set(document.studies) <= set(known)
        for part in document.parts:
            titles = {each.title for each in read_study(known[part.study]).all_forwarders}
            assert {row.forwarder for row in part.rows} <= titles


def test_every_study_with_published_figures_is_named() -> None:
    named = {study for document in documents().values() for study in document.studies}
    found = set()
    for name, path in study_files().items():
        study = read_study(path)
        of_method = getattr(study.method, "published", None)
        if study.reproduces or of_method or (study.sweep and study.sweep.published):
            found.add(name)
    assert found - {"understanding-delays"} <= named  # on three hosts: its own page names it


def test_each_study_fits_an_afternoon_on_a_lab_or_has_a_design_that_does(cli: Cli, tmp_path: Path) -> None:
    afternoon_s = 4 * 3600
    for document in documents().values():
        for part in document.parts:
            study = part.lab or part.study
            assert planned(study, part.afternoon)[0] <= afternoon_s
            assert bool(part.afternoon) == (planned(study)[0] > afternoon_s)
    done = cli("reproduce", "understanding-delays-afxdp", "--results", tmp_path)
    assert "    run:    xdplab run understanding-delays-embedded: 15 min 00 s\n" in done.out
    assert "    lab:    xdplab run understanding-delays --testbed lab.yaml: 5 h 09 min\n" in done.out
    assert "    or:     xdplab run understanding-delays --testbed lab.yaml --set " in done.out


def test_the_page_is_what_the_command_prints() -> None:
    text = (project_root() / "docs" / "reproduce.md").read_text(encoding="utf-8")
    assert text == page(documents()), "xdplab reproduce --markdown > docs/reproduce.md"


def test_the_command_prints_all_or_one(cli: Cli, tmp_path: Path) -> None:
    done = cli("reproduce", "--results", tmp_path)
    assert done.code == 0
    assert [line.partition(":")[0] for line in done.out.splitlines() if line.partition(":")[0] in FIVE] == FIVE
    assert "  tsn-latency: not measured yet" in done.out
    cli("reproduce", "xdp-for-tns").refused("did you mean", "xdp-for-tsn")


def test_published_and_measured_stand_side_by_side(cli: Cli, tmp_path: Path, results: Path) -> None:
    assert cli("run", studies.study_file(tmp_path)).code == 0
    run = newest_run(results, "fake-study")
    assert run is not None
    assert newest_run(results, "fake") is None
    rows = tuple(
        WhereOurs(what=key, published="2 µs", forwarder=name, where=where, key=key, unit="µs")
        for name, key, where in (
            ("fake", "p50_us", {}), ("fake", "p51_us", {}), ("other", "p50_us", {}), ("fake", "p50_us", {"rate": 1}),
        )
    )  # fmt: skip
    part = Part(part="Figure 1", study="fake-study", here="all of it", rows=rows)
    elsewhere = part.model_copy(update={"study": "another"})
    found = list(beside(Document(title="t", authors="a", parts=(part, elsewhere)), run))
    assert [(each.what, each.published) for each in found] == [(row.key, "2 µs") for row in rows]
    value = run.points[0].measured["p50_us"].value
    assert value is not None
    assert found[0].here == f"{value:.3g} µs"
    assert found[1].here.startswith("not measured: ")
    assert [each.here for each in found[2:]] == ["not in the run"] * 2
