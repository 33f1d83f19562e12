# SPDX-License-Identifier: Apache-2.0
"""The section of the report on RFC 2544: one table for each clause, and the graphs that the RFC asks for."""

from typing import TYPE_CHECKING, Any

from xdplab.methods.base import Method
from xdplab.methods.rfc2544.found import Rfc2544Figures
from xdplab.methods.rfc2544.scale import FULL, scale_of
from xdplab.methods.rfc2544.search import PRESETS
from xdplab.model.trial import LOAD_TOLERANCE

if TYPE_CHECKING:
    from xdplab.report.page import Page, Section


def rfc2544_section(method: Method[Any], page: "Page") -> "list[Section]":
    """None where nothing was found."""
    rfc = [summary for summary in page.measured if Rfc2544Figures.of(summary) != Rfc2544Figures()]
    if not rfc:
        return []
    from xdplab.methods.rfc2544.plots import latency_at_load_plot, loss_plot, throughput_plot  # matplotlib: 0.3 s

    plots = {
        "throughput": throughput_plot(rfc),
        "loss_curve": loss_plot(rfc),
        "latency": latency_at_load_plot(rfc),
    }
    found = page.section(
        method,
        "report.html.j2",
        rfc=rfc,
        rfc_plots={name: page.svg(svg) for name, svg in plots.items()},
        ratios=page.ratios(),
        by_size=len({summary.frame_bytes for summary in page.measured}) > 1,
        preset=PRESETS[method.spec.preset],
        load_tolerance=LOAD_TOLERANCE,
        full_scale=scale_of(method.spec) is FULL,
    )
    return [found]
