# SPDX-License-Identifier: Apache-2.0
"""How a method shows what it measured: columns of the table of points, and what it may ask of the report.

A column is declared once, and shown on the terminal, in the report, in JSON and in CSV.
`xdplab.report.page` has the page.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from markupsafe import Markup

from xdplab.measure.comparison import Answer, Comparison
from xdplab.measure.point import PointSummary
from xdplab.model import RunRecord, TrialRecord
from xdplab.model.digits import number

Place = Literal["terminal", "html"]


@dataclass(frozen=True)
class Column:
    """One of them; where no point has a value it is left out."""

    #: In JSON and CSV.
    key: str
    #: Its head, with the unit.
    title: str
    #: A point's value, as JSON and CSV have it; None: it has none.
    of: Callable[[PointSummary], Any]
    #: The value as people read it.
    text: Callable[[Any], str] = number
    #: In its place, where the value alone does not say it.
    words: Callable[[PointSummary], str] | None = None
    #: A sign behind the text.
    mark: Callable[[PointSummary], str] = lambda point: ""
    #: Small text under the cell in the report: how far it holds, what it is of.
    subtext: Callable[[PointSummary], str] = lambda point: ""
    #: What it means, shown on hover over its head.
    about: str = ""
    #: In the report, the head of a further column: the ratio to the answer's reference, of this clause if one is named.
    ratio: str = ""
    clause: str = ""
    #: Where it is shown; JSON and CSV have all.
    places: tuple[Place, ...] = ("terminal", "html")
    #: Text stands left, numbers right.
    left: bool = False
    #: The report shows it in bold.
    main: bool = False

    def shown(self, point: PointSummary) -> str:
        """Of one point; a dash for nothing."""
        value = self.of(point)
        if self.words is not None:
            return self.words(point) + self.mark(point)
        return "-" if value is None else self.text(value) + self.mark(point)


#: HTML that may stand in the page as it is.
Section = Markup


class Page(Protocol):
    """A report while it is made."""

    @property
    def run(self) -> RunRecord:
        """What was asked for, where it was measured."""

    @property
    def trials(self) -> Sequence[TrialRecord]:
        """All trials of the run."""

    @property
    def summaries(self) -> Sequence[PointSummary]:
        """All points of the run, also those without a figure."""

    @property
    def measured(self) -> list[PointSummary]:
        """Points that have a figure."""

    @property
    def answer(self) -> Answer:
        """What the report says first."""

    @property
    def place(self) -> Any:
        """Where it was measured, in words (`xdplab.report.page`)."""

    def section(self, of: Any, template: str, **found: Any) -> Section:
        """A template of the folder of a method (`of`), which finds those of the report as well."""

    def table(self, columns: Sequence[Column] = (), caption: str = ...) -> Section:
        """The points that were measured, with the columns of the method or those given, where one has a value."""

    def ratios(self, clause: str = "") -> dict[str, Comparison]:
        """Point id -> comparison with the answer's reference at the same setting; of this clause of the method."""

    def pictures(self) -> Section:
        """Distributions of latency, where there are any."""

    def chart(self, found: Any) -> Section:
        """A chart (`xdplab.report.chart`)."""
