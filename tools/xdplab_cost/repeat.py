# SPDX-License-Identifier: Apache-2.0
"""Whether a table repeats an earlier one, of this machine or another: to the last digit, where the same was booted."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from pydantic import ValidationError

from xdplab.api import InputError, listed
from xdplab_cost.run import Cell, CostTable, Wanted

_FIGURES = ("instructions", "low", "high", "whole", "layers", "functions", "events")


@dataclass(frozen=True)
class Repeat:
    """Cells that both tables have.

    Attributes:
        path: Of the earlier table.
        earlier: It, counted elsewhere or before.
        now: What was counted now.
        pairs: The same cell of both, the earlier one first.
    """

    path: Path
    earlier: CostTable
    now: CostTable
    pairs: tuple[tuple[Cell, Cell], ...]

    @property
    def wrong(self) -> list[Cell]:
        """Those whose guests were booted with the same bytes, and that have another figure."""
        return [
            new
            for old, new in self.pairs
            if old.guests == new.guests and any(getattr(old, each) != getattr(new, each) for each in _FIGURES)
        ]

    def sentences(self) -> Iterator[str]:
        """How many are the same, which are not, and which cannot be."""
        wrong, others = self.wrong, [(old, new) for old, new in self.pairs if old.guests != new.guests]
        same = len(self.pairs) - len(others)
        yield (
            f"{same - len(wrong)} of {same} cells that were booted with the same bytes are those of {self.path} to the "
            f"last digit; it was counted on {self.earlier.machine}, this on {self.now.machine}."
        )
        for cell in wrong:
            yield f"{_name(cell)}: booted with the same bytes, it gave another number."
        if others:
            names = listed([f"{_name(new)} ({_other(old, new)})" for old, new in others])
            yield f"Not compared, because something else was booted: {names}."


def earlier_table(path: Path, wanted: Wanted) -> CostTable:
    """A table that `--json` wrote.

    Raises:
        InputError: it cannot be read, or has none of the cells that are wanted now.
    """
    try:
        earlier = CostTable.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise InputError(f"{path}: {exc.strerror}") from None
    except (UnicodeDecodeError, ValidationError):
        raise InputError(f"{path}: no table that `xdplab cost --json` of this version wrote") from None
    if earlier.batch != wanted.batch:
        raise InputError(f"{path}: its frames came in batches of {earlier.batch}: give --batch {earlier.batch}")
    combinations = {*product(wanted.kernels, wanted.drivers, wanted.forwarders)}
    if not any((cell.kernel, cell.driver, cell.forwarder) in combinations for cell in earlier.cells):
        raise InputError(f"{path}: it has none of these cells; its command was: {earlier.command}")
    return earlier


def repeat(path: Path, earlier: CostTable, now: CostTable) -> Repeat:
    by_name = {_name(cell): cell for cell in earlier.cells if cell.status == "ok"}
    pairs = [(by_name[_name(cell)], cell) for cell in now.cells if cell.status == "ok" and _name(cell) in by_name]
    return Repeat(path, earlier, now, tuple(pairs))


def _name(cell: Cell) -> str:
    return f"{cell.kernel} {cell.driver} {cell.forwarder}"


def _other(old: Cell, new: Cell) -> str:
    """What is not the same in them."""
    if old.kernel_sha256 != new.kernel_sha256:
        return "another kernel"
    if old.seeds != new.seeds:
        return "other seeds"
    names = [name for name in {**old.programs, **new.programs} if old.programs.get(name) != new.programs.get(name)]
    return f"another {listed(names)}" if names else "other tools or libraries of this machine"
