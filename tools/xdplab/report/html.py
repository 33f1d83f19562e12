# SPDX-License-Identifier: Apache-2.0
"""Fills the template. Everything that comes from outside is escaped by Jinja2; only our own SVG is not."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from xdplab.analysis import Comparison, Distribution, PointSummary, agreements, answer, summarise
from xdplab.analysis.compare import compare_all, unsaid
from xdplab.analysis.digits import percent, significant
from xdplab.analysis.distribution import distribution
from xdplab.analysis.ladder import ladder
from xdplab.analysis.overhead import overhead
from xdplab.analysis.published import reproduction
from xdplab.analysis.summary import counted
from xdplab.analysis.sweep.published import PublishedStudy
from xdplab.methods.rfc2544.scale import FULL, scale_of
from xdplab.methods.search import PRESETS
from xdplab.methods.stages import STAGES
from xdplab.model import Rfc2544Spec, RunRecord, TraceWay, TracingSpec, TrialRecord, XdplabError
from xdplab.model.trial import LOAD_TOLERANCE
from xdplab.report.published import published_figure
from xdplab.report.sweep import published_study, sweep_sections

#: How a frame may be followed.
WAYS: dict[TraceWay, str] = {
    "in-band": "time stamps that the forwarder itself takes, beside the departure in the frame",
    "bpf": "static probes (USDT), recorded by a BPF program",
    "perf": "static probes (USDT), recorded by perf",
}


def write_report(path: Path, run: RunRecord, trials: Sequence[TrialRecord]) -> None:
    """Render into `path`, atomically.

    Raises:
        XdplabError: it cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(render(run, trials))
        partial.replace(path)
    except OSError as exc:
        partial.unlink(missing_ok=True)
        raise XdplabError(f"{path}: {exc.strerror}; `xdplab report {path.parent}` draws it again") from None


def render(run: RunRecord, trials: Sequence[TrialRecord]) -> str:
    """The report of a run as HTML."""
    environment = templates()
    summaries = summarise(run, trials)
    measured = [summary for summary in summaries if summary.repetitions]
    method = run.study.method
    sweeps = sweep_sections(run, trials)
    found = answer(run, summaries, trials, [section["found"] for section in sweeps])
    single = [summary for summary in measured if summary.samples and not sweeps]  # a sweep has pictures of its own
    return environment.get_template("report.html.j2").render(
        run=run,
        answer=found,
        summaries=summaries,
        measured=measured,
        unmeasured=[summary for summary in summaries if not summary.repetitions],
        ratios=_ratios(measured, found.at_rate or found.comparison),
        light_ratios=_ratios([s.light for s in measured if s.light], found.at_rate and found.comparison),
        sweeps=sweeps,
        agreements=agreements(run, summaries),
        direct_plot=_direct_plot(run),
        plots=_plots(single, trials),
        rfc=[summary for summary in measured if summary.figures.keys() - {"breakdown", "tracing"}],
        rfc_plots=_rfc_plots([summary for summary in measured if summary.figures]),
        by_size=_by_size(measured),
        broken=[summary for summary in measured if "breakdown" in summary.figures],
        breakdown_plots=_breakdown_plots([summary for summary in measured if "breakdown" in summary.figures]),
        stage_words=STAGES,
        tracing=[summary for summary in measured if "tracing" in summary.figures],
        way_words=WAYS,
        traced_by_others=_traced_by_others(run),
        steps=ladder(run, summaries, trials),
        reproductions=_reproductions(run, summaries),
        preset=PRESETS[method.preset] if isinstance(method, Rfc2544Spec) else None,
        load_tolerance=LOAD_TOLERANCE,
        full_scale=isinstance(method, Rfc2544Spec) and scale_of(method) is FULL,
        failures=[trial for trial in trials if trial.status == "failed"],
        disturbed=[trial for trial in trials if trial.status == "disturbed"],
        titles={point_id: point.title for point_id, point in run.points.items()},
        dead_time=overhead(trials),
        share=(run.measuring_s or 0) / run.wall_s if run.wall_s else None,
    )


def templates() -> Environment:
    """The templates of this package, with everything escaped, and the filters that make numbers of them."""
    environment = Environment(
        loader=PackageLoader("xdplab.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"fixed": _fixed, "loss": _loss, "kpps": _kpps}
    environment.filters |= {"spread": _spread, "spread_kpps": _spread_kpps, "unsaid": unsaid, "percent": percent}
    return environment


def _ratios(measured: Sequence[PointSummary], compared: Comparison | None) -> dict[str, Comparison]:
    """Point id -> comparison with the answer's reference at the same setting."""
    if compared is None:
        return {}
    reference = next(summary for summary in measured if summary.point_id == compared.reference_id)
    return compare_all(measured, reference, compared.metric)


def _plots(measured: Sequence[PointSummary], trials: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """One set of plots for each frame size and path, so that no picture mixes one-way with round trip."""
    from xdplab.report.plots import density_plot, distribution_plot, repetition_plot  # matplotlib: 0.3 s

    plots = []
    for path, size in sorted({(summary.path, summary.frame_bytes) for summary in measured}):
        group = [s for s in measured if (s.path, s.frame_bytes) == (path, size)]
        curves = {_curve_name(s, group): _merged(s, trials) for s in group}
        plots.append(
            {
                "title": f"{group[0].quantity} latency, {size}-byte frames, path {path}",
                "distribution": Markup(distribution_plot(curves)),  # noqa: S704 - matplotlib escapes its texts
                "density": Markup(density_plot(curves)),  # noqa: S704
                "repetitions": Markup(repetition_plot(group)),  # noqa: S704
            }
        )
    return plots


def _direct_plot(run: RunRecord) -> Markup | None:
    """What several testers report of the direct link."""
    from xdplab.report.plots import distribution_plot

    curves = {
        name: Distribution.merged([found.latency.hdr]) for name, found in run.calibrations.items() if found.latency
    }
    return Markup(distribution_plot(curves)) if curves else None  # noqa: S704 - matplotlib escapes its texts


def _rfc_plots(summaries: Sequence[PointSummary]) -> dict[str, Markup]:
    """The RFC's graphs that the figures allow."""
    from xdplab.report.rfc2544_plots import latency_at_load_plot, loss_plot, throughput_plot

    drawn = {
        "throughput": throughput_plot(summaries),
        "loss_curve": loss_plot(summaries),
        "latency": latency_at_load_plot(summaries),
    }
    return {name: Markup(svg) for name, svg in drawn.items()}  # noqa: S704 - matplotlib escapes its texts


def _reproductions(run: RunRecord, summaries: Sequence[PointSummary]) -> list[dict[str, Any]]:
    """Each published figure that the study names, with ours beside it."""
    from xdplab.report.bars import ratio_plot, throughput_bars

    found = [reproduction(*published_figure(reference), summaries) for reference in run.study.reproduces]
    return [
        {"found": one, "throughput": Markup(throughput_bars(one)), "ratio": Markup(ratio_plot(one))}  # noqa: S704
        for one in found
    ]


def _breakdown_plots(summaries: Sequence[PointSummary]) -> dict[str, Markup]:
    if not summaries:
        return {}
    from xdplab.report.breakdown_plots import breakdown_plot

    return {name: Markup(breakdown_plot(summaries, name)) for name in ("p50", "p99")}  # noqa: S704


def _traced_by_others(run: RunRecord) -> PublishedStudy | None:
    method = run.study.method
    if not isinstance(method, TracingSpec) or method.published is None:
        return None
    return published_study(method.published, f"method.published: {method.published!r}: the name")


def _by_size(summaries: Sequence[PointSummary]) -> bool:
    return len({summary.frame_bytes for summary in summaries}) > 1


def _merged(summary: PointSummary, trials: Sequence[TrialRecord]) -> Distribution:
    return distribution(counted([trial for trial in trials if trial.point_id == summary.point_id]))


def _curve_name(summary: PointSummary, group: Sequence[PointSummary]) -> str:
    alike = [s for s in group if s.forwarder == summary.forwarder]
    knobs = " ".join(f"{key}={value}" for key, value in summary.knobs.items())
    return f"{summary.forwarder} {knobs}" if len(alike) > 1 and knobs else summary.forwarder


def _fixed(value: float | None, digits: int = 2) -> str:
    """A number for a table: three significant digits, a dash for nothing."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 20 else f"{value:.{digits}f}"


def _spread(value: dict[str, Any] | None, digits: int = 1) -> str:
    """Median, and the range where there is more than one value."""
    if not value:
        return "–"
    text = _fixed(value["median"], digits)
    return (
        text if value["count"] == 1 else f"{text} ({_fixed(value['low'], digits)} to {_fixed(value['high'], digits)})"
    )


def _spread_kpps(value: dict[str, Any] | None) -> str:
    scaled = value and {key: value[key] / 1000 for key in ("median", "low", "high")} | {"count": value["count"]}
    return _spread(scaled)


def _loss(value: float | None) -> str:
    return "–" if value is None else "0" if value == 0 else f"{value:.2e}"


def _kpps(value: float | None) -> str:
    return "–" if value is None else significant(value / 1000, 5)
