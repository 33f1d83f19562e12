# SPDX-License-Identifier: Apache-2.0
"""What a method may ask of the report that it writes a section of; `xdplab.report.page` has it."""

from collections.abc import Sequence
from typing import Any, Protocol

from markupsafe import Markup

from xdplab.measure.column import Column
from xdplab.measure.comparison import Answer, Comparison
from xdplab.measure.point import PointSummary
from xdplab.model import RunRecord, TrialRecord

#: HTML that may stand in the page as it is.
Section = Markup


class Page(Protocol):
    """A report while it is made."""

    @property
    def run(self) -> RunRecord:
        """What was asked for, where it was measured."""

    @property
    def trials(self) -> Sequence[TrialRecord]:
        """All of the run."""

    @property
    def summaries(self) -> Sequence[PointSummary]:
        """All points."""

    @property
    def measured(self) -> list[PointSummary]:
        """Those that have a figure."""

    @property
    def answer(self) -> Answer:
        """The first sentence."""

    @property
    def place(self) -> Any:
        """Where it was measured, in words (`xdplab.report.place`)."""

    def section(self, of: Any, template: str, **found: Any) -> Section:
        """A template of the folder of a method (`of`), which finds those of the report as well."""

    def table(self, columns: Sequence[Column] = (), caption: str = ...) -> Section:
        """The points that were measured, with the columns of the method or those given, where one has a value."""

    def ratios(self, beside: str = "") -> dict[str, Comparison]:
        """Point id -> comparison with the answer's reference at the same setting; of what was measured `beside`."""

    def pictures(self) -> Section:
        """Distributions of latency, where there are any."""

    def chart(self, found: Any) -> Section:
        """A chart (`xdplab.report.chart`)."""

    def svg(self, text: str) -> Markup:
        """A picture of ours as it is."""
