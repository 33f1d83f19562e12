# SPDX-License-Identifier: Apache-2.0
"""Instructions next to what a run measured: whether both put forwarders into the same order."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from xdplab.api import Figure, InputError, PointSummary, Run, compare_points, corrected
from xdplab_cost.cells import is_there
from xdplab_cost.run import Cell, CostTable
from xdplab_cost.table import number


@dataclass(frozen=True)
class Beside:
    """A table of costs and a run that have forwarders in common.

    Attributes:
        run: Its first figure is taken.
        kernel: Of the guests, the table's last.
        driver: Of the guests, the table's first.
        pairs: What both have, in the table's order.
    """

    run: Run
    kernel: str
    driver: str
    pairs: tuple[tuple[Cell, PointSummary], ...]

    @property
    def figure(self) -> Figure:
        """What the run's method compares by."""
        return self.run.method.figures[0]

    def sentences(self) -> Iterator[str]:
        """How often the two agree, and each pair of forwarders of which they do not; only what both are sure of."""
        agreed, other = 0, []
        both = [pair for pair in combinations(self.pairs, 2) if pair[0][1].setting == pair[1][1].setting]
        family = corrected(
            {at: compare_points(pair[0][1], pair[1][1], self.figure.key) for at, pair in enumerate(both)}
        )
        for at, ((one, _), (two, _)) in enumerate(both):
            fewer, ahead = _fewer(one, two), family[at].better if at in family else None
            if fewer is None or ahead is None:
                continue
            agreed += fewer == ahead
            if fewer != ahead:
                less, more = (one, two) if fewer else (two, one)
                other.append(
                    f"{less.title} takes {number(less.instructions)} instructions and {more.title} "
                    f"{number(more.instructions)}, but the latter has the better {self.figure.name}."
                )
        yield f"Pairs of forwarders that both can order: {agreed + len(other)}, {agreed} of them alike."
        yield from other

    def text(self) -> str:
        """For a terminal, and as Markdown."""
        unit, per = self.figure.unit, self.figure.per
        lines = [
            f"## Next to what was measured: {self.figure.name} of {self.run.name}",
            "",
            f"| forwarder | instructions ({self.kernel}, {self.driver}) | {self.figure.name}, {unit} |",
            "| --- | --- | --- |",
        ]
        for cell, point in self.pairs:
            known = point.measured.get(self.figure.key)
            shown = "" if known is None or known.value is None else f"{known.value / per:,.4g}"
            lines.append(f"| {cell.title} | {number(cell.instructions)} | {shown} |")
        return "\n".join([*lines, "", *(f"* {each}" for each in self.sentences())])


def _fewer(one: Cell, two: Cell) -> bool | None:
    """Whether the first takes fewer instructions; None where seeds do not tell."""
    if (one.high or 0.0) < (two.low or 0.0):
        return True
    return False if (two.high or 0.0) < (one.low or 0.0) else None


def _names(run: Run) -> dict[str, str]:
    """Forwarder as the command line has it -> what the run calls it."""
    return {spec.model_copy(update={"label": ""}).title: spec.title for spec in run.record.study.forwarders}


def countable(run: Run) -> list[str]:
    """Its forwarders that there are in guests."""
    return [name for name in _names(run) if is_there(name)]


def beside(found: CostTable, run: Run) -> Beside:
    """Of the cells of one kernel and driver, and the points of a run.

    Raises:
        InputError: they have fewer than two forwarders in common.
    """
    kernel, driver = found.cells[-1].kernel, found.cells[0].driver
    names = _names(run)
    pairs = [
        (cell, point)
        for cell in found.cells
        for point in run.points
        if (cell.kernel, cell.driver, cell.status) == (kernel, driver, "ok")
        and names.get(cell.forwarder) == point.forwarder
        and point.status == "ok"
    ]
    if len(pairs) < 2:
        has = ", ".join(names) or "none"
        raise InputError(f"run {run.name}: it has fewer than two forwarders of this table; its own are {has}")
    return Beside(run, kernel, driver, tuple(pairs))
