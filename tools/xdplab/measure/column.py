# SPDX-License-Identifier: Apache-2.0
"""A column of the table of points: said once, shown on the terminal, in the report, in JSON and in CSV."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from xdplab.measure.point import PointSummary
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
    #: What stands below it in the report, small: how far it holds, what it is of.
    below: Callable[[PointSummary], str] = lambda point: ""
    #: In the report, the head of the ratio to the answer's reference behind it, of what was measured `beside` if given.
    ratio: str = ""
    beside: str = ""
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
