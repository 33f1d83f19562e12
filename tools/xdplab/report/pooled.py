# SPDX-License-Identifier: Apache-2.0
"""One page over several run folders, with links to their own reports."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from xdplab.analysis.runs.pooled import PooledRun, main_figures, shared_points, testbed_differences
from xdplab.analysis.tables.columns import figure_text
from xdplab.measure import Figure
from xdplab.measure.point import PointSummary
from xdplab.report.page import templates
from xdplab.results.writing import write_whole


def write_pooled_report(path: Path, runs: Sequence[PooledRun], left_out: Mapping[str, str]) -> None:
    """Render into `path`; `left_out`: folder -> why it is not in it."""
    environment = templates()
    environment.filters |= {"figure": figure_text, "doubt": _doubt}
    text = environment.get_template("pooled.html.j2").render(
        runs=runs,
        links=[_link(run.folder / "report.html", path) for run in runs],
        testbeds=list(dict.fromkeys(run.testbed for run in runs)),
        figures=main_figures(runs),
        shared=shared_points(runs),
        differences=testbed_differences(runs),
        left_out=left_out,
    )
    write_whole(path, text)


def _doubt(summary: PointSummary, figure: Figure) -> str:
    """Why a figure is not to be taken for a fact."""
    found = summary.measured.get(figure.key)
    return found.doubt if found else ""


def _link(to: Path, page: Path) -> str:
    """A relative link; a colon is quoted, so that no folder's name is taken for a scheme."""
    return quote(os.path.relpath(to, page.parent))
