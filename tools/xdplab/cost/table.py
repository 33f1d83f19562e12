# SPDX-License-Identifier: Apache-2.0
"""A table of costs as text, CSV and a page."""

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import pairwise

from xdplab.cost.cells import TESTER
from xdplab.cost.run import Cell, CostTable

#: What no figure here has in it; below every table.
NOT_IN_IT = (
    "Instructions, not time: cache misses, memory and waiting for interrupts cost nothing here. A forwarder that polls "
    "has the only CPU just while it has frames. Which of two forwarders is faster, these figures do not say."
)


def text(found: CostTable) -> str:
    """For a terminal: a line for each cell, and below it its layers."""
    lines: list[str] = []
    for kernel, driver in dict.fromkeys((cell.kernel, cell.driver) for cell in found.cells):
        mine = [cell for cell in found.cells if (cell.kernel, cell.driver) == (kernel, driver)]
        lines += ["", f"kernel {kernel} ({mine[0].kernel_package}), {driver}: instructions per forwarded frame"]
        for cell in mine:
            lines += [f"  {cell.title:<36} {_figure(cell)}", *(f"      {layers}" for layers in _layers(cell))]
    return "\n".join([*lines, "", NOT_IN_IT])


def _figure(cell: Cell) -> str:
    if cell.instructions is None:
        return f"{cell.status}: {cell.reason}"
    extent = f" ({number(cell.low)} to {number(cell.high)})" if cell.low != cell.high else ""
    return f"{number(cell.instructions):>10}{extent}{f', because {cell.varies} varies' if cell.varies else ''}"


def number(value: float | None) -> str:
    """To a tenth of an instruction."""
    return "" if value is None else f"{value:,.1f}"


def _layers(cell: Cell) -> Iterator[str]:
    shown = [f"{layer} {count:,.0f}" for layer, count in cell.layers.items() if abs(count) >= 1]
    for begin in range(0, len(shown), 5):
        yield ", ".join(shown[begin : begin + 5])


_COLUMNS = ["kernel", "kernel_package", "driver", "forwarder", "title", "status", "reason"]
_COLUMNS += ["instructions", "low", "high", "whole"]


def comma_separated(found: CostTable) -> str:
    """A row for each cell; a column for each layer that one of them has."""
    layers = sorted({layer for cell in found.cells for layer in cell.layers})
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")  # None is an empty field
    writer.writerow([*_COLUMNS, *(f"layer {layer}" for layer in layers)])
    for cell in found.cells:
        writer.writerow([*(getattr(cell, name) for name in _COLUMNS), *(cell.layers.get(layer) for layer in layers)])
    return written.getvalue()


def markdown(found: CostTable) -> str:
    """A page: forwarders by kernel and driver, what changed from kernel to kernel, and the layers of each."""
    columns = list(dict.fromkeys((cell.kernel, cell.driver) for cell in found.cells if cell.status != "unsupported"))
    titles = list(dict.fromkeys((cell.forwarder, cell.title) for cell in found.cells))
    rows = [["", *(f"{kernel}, {driver}" for kernel, driver in columns)]]
    for name, title in titles:
        rows.append([title, *(_short(found.cell(*column, name)) for column in columns)])
    notes = [
        f"* {cell.kernel}, {cell.driver}, {cell.title}: {_figure(cell).strip()}" for cell in found.cells
        if cell.status == "failed" or cell.varies
    ]  # fmt: skip
    for reason in dict.fromkeys(cell.reason for cell in found.cells if cell.status == "unsupported"):
        where = dict.fromkeys(_where(cell, columns) for cell in found.cells if cell.reason == reason)
        notes.append(f"* Unsupported: {', '.join(where)}: {reason}")
    parts = [
        "<!-- SPDX-License-Identifier: Apache-2.0 -->\n# What a forwarded frame costs: a table",
        f"Per frame of 60 bytes, above the tester alone; median of {_seeds(found)} seeds ([cost.md](cost.md)). "
        f"The first row is the tester's own. Made by `{found.command}`.",
        _table(rows),
        *(["\n".join(notes)] if notes else []),
        NOT_IN_IT,
        *_between_kernels(found),
        "## Layers",
    ]
    for kernel, driver in columns:
        mine = [cell for cell in found.cells if (cell.kernel, cell.driver) == (kernel, driver) and cell.layers]
        layers = list(dict.fromkeys(layer for cell in mine for layer in cell.layers if cell.forwarder != TESTER))
        body = [["layer", *(cell.title for cell in mine)]]
        for layer in layers:
            body.append([layer, *(f"{cell.layers[layer]:,.0f}" if layer in cell.layers else "" for cell in mine)])
        parts += [f"### {kernel}, {driver}", _table(body)]
    packages = ", ".join(sorted({cell.kernel_package for cell in found.cells}))
    made = f"{found.emulator}, {packages}; xdplab {found.version}; bursts of {found.frames:,} and twice as many frames."
    return "\n\n".join([*parts, made]) + "\n"


def _where(cell: Cell, columns: Sequence[tuple[str, str]]) -> str:
    """A driver that a kernel does not have has no column, and is named without its forwarders."""
    here = (cell.kernel, cell.driver)
    return " ".join([*here, *([cell.title] if here in columns else [])])


def _seeds(found: CostTable) -> int:
    return max(len(cell.seeds) for cell in found.cells)


def _between_kernels(found: CostTable) -> Iterator[str]:
    """What a forwarder takes more or less with the next kernel, and the layers that make most of it."""
    kernels = list(dict.fromkeys(cell.kernel for cell in found.cells))
    rows = [["driver", "forwarder", "kernels", "change", "most of it"]]
    for driver, name in dict.fromkeys(
        (cell.driver, cell.forwarder) for cell in found.cells if cell.forwarder != TESTER
    ):
        for one, two in pairwise(kernels):
            old, new = found.cell(one, driver, name), found.cell(two, driver, name)
            if old.instructions and new.instructions:
                share = 100 * (new.instructions / old.instructions - 1)
                change = f"{new.instructions - old.instructions:+,.0f} ({share:+.1f} %)"
                rows.append([driver, new.title, f"{one} to {two}", change, _largest(old, new)])
    if rows[1:]:
        yield "## From kernel to kernel"
        yield _table(rows)


def _largest(old: Cell, new: Cell) -> str:
    changes = {layer: new.layers.get(layer, 0.0) - old.layers.get(layer, 0.0) for layer in {*old.layers, *new.layers}}
    largest = sorted(changes.items(), key=lambda item: (-abs(item[1]), item[0]))[:3]
    return ", ".join(f"{layer} {change:+,.0f}" for layer, change in largest if abs(change) >= 1)


def _short(cell: Cell) -> str:
    return number(cell.instructions) if cell.instructions is not None else cell.status


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
