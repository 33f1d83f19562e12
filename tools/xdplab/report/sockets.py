# SPDX-License-Identifier: Apache-2.0
"""The report of a socket study."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from xdplab.analysis.overhead import socket_overhead
from xdplab.analysis.ranks import rank_agreements
from xdplab.analysis.scaling import scalings
from xdplab.analysis.socket_answer import socket_answer
from xdplab.analysis.sockets import STAGES, SocketRow, socket_rows, stage_distribution
from xdplab.analysis.stats import significant
from xdplab.knobs import make_knob
from xdplab.model.sockets import SocketRunRecord, SocketTrial
from xdplab.report.plots import distribution_plot, line_style, new_figure, plain, to_svg


def write_socket_report(path: Path, run: SocketRunRecord, trials: Sequence[SocketTrial]) -> None:
    """Render into `path`."""
    environment = Environment(
        loader=PackageLoader("xdplab.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    rows = socket_rows(run.study, trials)
    rates = [row for row in rows if row.mpps is not None]
    staged = [row for row in rows if row.stages]
    scaling = scalings(rows)
    text = environment.get_template("sockets.html.j2").render(
        run=run,
        answer=socket_answer(rows),
        significant=significant,
        rates=rates,
        misses=sorted({str(trial.counters["cache_misses"]) for trial in trials if "cache_misses" in trial.counters}),
        settings=[make_knob(name).describe(value) for name, value in run.study.knobs.items()],
        served=[row for row in rows if row.figure is not None],
        ranks=[] if scaling else rank_agreements(run.study, rows),
        scaling=scaling,
        staged=staged,
        unmeasured=[row for row in rows if not row.repetitions],
        stages=STAGES,
        rate_plot=Markup(_rate_plot(rates)) if rates else "",  # noqa: S704 - our own SVG
        stage_plots={name: Markup(_stage_plot(name, staged, trials)) for name in STAGES} if staged else {},  # noqa: S704
        disturbed=sum(trial.status == "disturbed" for trial in trials),
        trials=len(trials),
        dead_times=socket_overhead(run.study, trials),
    )
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def title_of(row: SocketRow) -> str:
    """A row's label."""
    return row.case + (f", {row.rate_pps:.10g} pps" if row.rate_pps else "")


def _rate_plot(rows: Sequence[SocketRow]) -> str:
    figure, axes = new_figure(0.9 + 0.3 * len(rows))
    for place, row in enumerate(reversed(rows)):
        assert row.mpps is not None
        assert row.mpps_range is not None
        axes.barh(place, row.mpps, color=line_style(0)["color"], height=0.6)
        axes.plot(row.mpps_range, [place, place], color="#1d2430", linewidth=1.2)
    labels = [plain(f"{row.workload}: {row.case}") for row in reversed(rows)]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_xlabel("Mpps (bar: median, line: all repetitions)")
    return to_svg(figure, axes, "rates by case", legend=False)


def _stage_plot(stage: str, rows: Sequence[SocketRow], trials: Sequence[SocketTrial]) -> str:
    curves = {}
    for row in rows:
        of_row = [trial for trial in trials if (trial.case, trial.rate_pps) == (row.case, row.rate_pps)]
        curves[title_of(row)] = stage_distribution(of_row, stage)  # type: ignore[arg-type]
    return distribution_plot(curves)
