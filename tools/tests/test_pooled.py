# SPDX-License-Identifier: Apache-2.0
"""A report over several runs: rows can be told apart, and a doubt stands where the figure does."""

import html
import shutil
from dataclasses import replace
from pathlib import Path

from xdplab.analysis.runs.pooled import shared_points
from xdplab.cli.several import read_runs
from xdplab.report.site import write_pooled_report

STORED = Path(__file__).parent / "data" / "stored"


def test_rows_say_their_settings_and_figures_their_doubts(results: Path) -> None:
    shutil.copytree(STORED / "rfc2544", results / "search")
    shutil.copytree(STORED / "functions", results / "functions")
    runs, left_out = read_runs("report", (), results)
    at = next(n for n, run in enumerate(runs) if run.folder.name == "search")
    first = runs[at].points[0]
    wavered = first.measured["ndr_pps"].model_copy(update={"doubt": "it wavered"})
    summaries = (first.model_copy(update={"measured": {**first.measured, "ndr_pps": wavered}}), *runs[at].points[1:])
    runs[at].__dict__["points"] = summaries
    write_pooled_report(results / "merged.html", runs, left_out)
    page = html.unescape((results / "merged.html").read_text(encoding="utf-8"))
    assert page.count(f'<div class="soft wrap">{first.forwarder}: it wavered</div>') == 1
    settings = {", ".join(filter(None, [each.mode, *each.settings])) for run in runs for each in run.points}
    assert len(settings) > 4
    assert [each for each in settings if f"{each}</div>" not in page] == []


def test_points_of_several_testbeds_are_named_apart(results: Path) -> None:
    for bed in ("one", "two"):
        shutil.copytree(STORED / "functions", results / bed)
    runs, _ = read_runs("report", (), results)
    beds = [run.record.testbed.model_copy(update={"name": name}) for run, name in zip(runs, "ab", strict=True)]
    runs = [
        replace(run, record=run.record.model_copy(update={"testbed": bed})) for run, bed in zip(runs, beds, strict=True)
    ]
    found = [(point.title, point.figure.key) for point in shared_points(runs)]
    assert found
    assert len(set(found)) == len(found)
