# SPDX-License-Identifier: Apache-2.0
"""The section of the report on RFC 2544: one table for each clause, and the graphs that the RFC asks for."""

from typing import Any

from xdplab.measure.method import Method
from xdplab.measure.page import Page, Section
from xdplab.methods.rfc2544.charts import latency_at_load_chart, loss_chart, throughput_chart
from xdplab.methods.rfc2544.found import Rfc2544Figures
from xdplab.methods.rfc2544.scale import FULL, scale_of
from xdplab.methods.rfc2544.search import PRESETS
from xdplab.model.trial import LOAD_TOLERANCE


def rfc2544_section(method: Method[Any], page: Page) -> list[Section]:
    """None where nothing was found."""
    rfc = [summary for summary in page.measured if Rfc2544Figures.of(summary) != Rfc2544Figures()]
    if not rfc:
        return []
    charts = {
        "throughput": throughput_chart(rfc),
        "loss_curve": loss_chart(rfc),
        "latency": latency_at_load_chart(rfc),
    }
    found = page.section(
        method,
        "report.html.j2",
        rfc=rfc,
        charts={name: page.chart(chart) for name, chart in charts.items() if chart.series},
        ratios=page.ratios(),
        by_size=len({summary.frame_bytes for summary in page.measured}) > 1,
        preset=PRESETS[method.spec.preset],
        load_tolerance=LOAD_TOLERANCE,
        full_scale=scale_of(method.spec) is FULL,
        drain_idle_s=scale_of(method.spec).drain_idle_s,
    )
    return [found]
