# SPDX-License-Identifier: Apache-2.0
"""A table of costs as text, CSV and a page."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise

from xdplab.api import forwarder_spec, spreadsheet_row
from xdplab_cost import known
from xdplab_cost.cells import TESTER
from xdplab_cost.features import FEATURES, WORKING, Feature
from xdplab_cost.guest import BATCH
from xdplab_cost.layers import layer_of
from xdplab_cost.page import Block, Bullets, Heading, Paragraph, Table, as_html, as_markdown
from xdplab_cost.run import Cell, CostTable, Wanted, more_words

#: What no figure here has in it; below every table.
NOT_IN_IT = (
    "Instructions, not time: cache misses, memory and waiting for interrupts cost nothing here. A forwarder that polls "
    "has the only CPU just while it has frames. These figures do not say which of two forwarders is faster."
)

#: Where a table has more kernels, only the first and the last have their layers on the page.
_MANY_KERNELS = 6
#: Between two kernels, of a forwarder's instructions.
_LEAST_STEP = 0.005
#: Share of a layer's change that a function makes, to be named; and of that one's change in the other direction that
#: another may make.
_MOST, _OPPOSITE = 0.5, 0.8


def text(found: CostTable) -> str:
    """For a terminal: a line for each cell, and below it its layers."""
    lines: list[str] = []
    for kernel, driver in dict.fromkeys((cell.kernel, cell.driver) for cell in found.cells):
        mine = [cell for cell in found.cells if (cell.kernel, cell.driver) == (kernel, driver)]
        lines += [
            "",
            f"kernel {kernel}{_package(mine)}, {driver}: instructions per forwarded frame{_batches(found)}",
        ]
        for cell in mine:
            lines += [f"  {cell.title:<36} {_figure(cell)}", *(f"      {layers}" for layers in _layers(cell))]
    for kernel, driver in dict.fromkeys((each.kernel, each.driver) for each in found.features):
        lines += ["", f"kernel {kernel}, {driver}: what works of AF_XDP"]
        for each in found.features:
            if (each.kernel, each.driver) == (kernel, driver):
                lines.append(f"  {each.feature:<24} {each.found}{f': {each.detail}' if each.detail else ''}")
    return "\n".join([*lines, "", NOT_IN_IT])


def _figure(cell: Cell) -> str:
    if cell.instructions is None:
        return f"{cell.status}: {cell.reason}"
    extent = f" ({number(cell.low)} to {number(cell.high)})" if cell.low != cell.high else ""
    return f"{number(cell.instructions):>10}{extent}{f', because {cell.varies} varies' if cell.varies else ''}"


def number(value: float | None) -> str:
    """To a tenth of an instruction."""
    return "" if value is None else f"{value:,.1f}"


def _package(cells: Sequence[Cell]) -> str:
    package = next((cell.kernel_package for cell in cells if cell.kernel_package), "")
    return f" ({package})" if package else ""


def _layers(cell: Cell) -> Iterator[str]:
    shown = [f"{layer} {count:,.0f}" for layer, count in cell.layers.items() if abs(count) >= 1]
    for begin in range(0, len(shown), 5):
        yield ", ".join(shown[begin : begin + 5])
    if cell.events:
        yield ", ".join(f"{name} {_few(count)}" for name, count in cell.events.items())


def _few(count: float) -> str:
    """Of what there may be once in a batch of frames."""
    return f"{count:,.4g}"


_COLUMNS = ["kernel", "kernel_package", "driver", "forwarder", "title", "status", "reason"]
_COLUMNS += ["instructions", "low", "high", "whole", "date", "command"]


def comma_separated(found: CostTable) -> str:
    """A row for each cell; a column for each layer that one of them has."""
    layers = sorted({layer for cell in found.cells for layer in cell.layers})
    events = list(dict.fromkeys(event for cell in found.cells for event in cell.events))
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")  # None is an empty field
    writer.writerow([*_COLUMNS, "batch", *events, *(f"layer {layer}" for layer in layers)])
    for cell in found.cells:
        more = [*(cell.events.get(event) for event in events), *(cell.layers.get(layer) for layer in layers)]
        writer.writerow(spreadsheet_row([*(getattr(cell, name) for name in _COLUMNS), found.batch, *more]))
    return written.getvalue()


def ktap(found: CostTable) -> str:
    """KTAP (linux/Documentation/dev-tools/ktap.rst), which the kernel's CI reads: a test for each cell and function."""
    lines = ["KTAP version 1", f"1..{len(found.cells) + len(found.features)}"]
    for at, cell in enumerate(found.cells, 1):
        name = f"{cell.kernel} {cell.driver} {cell.title}{_batches(found)}".replace("#", "")
        if cell.instructions is not None:
            lines += [f"# {cell.instructions:.1f} instructions per frame", f"ok {at} {name}"]
        elif cell.status == "unsupported":
            lines.append(f"ok {at} {name} # SKIP {cell.reason}")
        else:
            lines += [f"# {cell.reason}", f"not ok {at} {name}"]
    for at, each in enumerate(found.features, len(found.cells) + 1):
        name, words = f"{each.kernel} {each.driver} {each.feature}".replace("#", ""), f"{each.found}: {each.detail}"
        if each.broken:
            lines += [f"# {words}", f"not ok {at} {name}"]
        else:
            lines.append(f"ok {at} {name}{'' if each.found in WORKING else f' # SKIP {words}'}")
    return "\n".join(lines) + "\n"


def markdown(found: CostTable) -> str:
    return as_markdown(page(found))


def web_page(found: CostTable) -> str:
    return as_html(page(found))


def page(found: CostTable) -> list[Block]:
    """Forwarders by kernel and driver, what works, changes between neighbours, layers, and what was counted."""
    columns = list(dict.fromkeys((cell.kernel, cell.driver) for cell in found.cells if cell.status != "unsupported"))
    titles = list(dict.fromkeys((cell.forwarder, cell.title) for cell in found.cells))
    rows = [["", *(title for _, title in titles)]]
    for kernel, driver in columns:
        rows.append([f"{kernel}, {driver}", *(_short(found.cell(kernel, driver, name)) for name, _ in titles)])
    notes = [
        f"{cell.kernel}, {cell.driver}, {cell.title}: {_figure(cell).strip()}" for cell in found.cells
        if cell.status == "failed" or cell.varies
    ]  # fmt: skip
    for reason in dict.fromkeys(cell.reason for cell in found.cells if cell.status == "unsupported"):
        where = dict.fromkeys(_where(cell, columns) for cell in found.cells if cell.reason == reason)
        notes.append(f"Unsupported: {', '.join(where)}: {reason}")
    blocks: list[Block] = [
        Heading("What a forwarded frame costs: a table", 1),
        Paragraph(
            f"Instructions per frame of 60 bytes, above the tester alone{_batches(found)}; {_seeds(found)} "
            "([cost.md](cost.md)). "
            f"The first column is the tester's own. Made by `{found.command}`."
        ),
        Paragraph(NOT_IN_IT),
        Table(rows),
        *([Bullets(notes)] if notes else []),
        *_what_works(found),
        *_between_kernels(found),
        *_between_builds(found),
        Heading("Layers"),
    ]
    for kernel, driver in _ends(columns, found):
        mine = [cell for cell in found.cells if (cell.kernel, cell.driver) == (kernel, driver) and cell.layers]
        layers = list(dict.fromkeys(layer for cell in mine for layer in cell.layers if cell.forwarder != TESTER))
        body = [["layer", *(cell.title for cell in mine)]]
        for layer in layers:
            body.append([layer, *(f"{cell.layers[layer]:,.0f}" if layer in cell.layers else "" for cell in mine)])
        blocks += [Heading(f"{kernel}, {driver}", 3), Table(body)]
    return [*blocks, *_events(found, columns), *_counted(found)]


def _ends(columns: Sequence[tuple[str, str]], found: CostTable) -> list[tuple[str, str]]:
    """All of a few kernels; of many the first and the last of each driver: the data has the others."""
    counted = {(cell.kernel, cell.driver) for cell in found.cells if cell.layers and cell.forwarder != TESTER}
    by_driver: dict[str, list[tuple[str, str]]] = {}
    for column in columns:
        if column in counted:
            by_driver.setdefault(column[1], []).append(column)
    few = len({kernel for kernel, _ in columns}) <= _MANY_KERNELS
    return [end for each in by_driver.values() for end in (each if few else dict.fromkeys((each[0], each[-1])))]


def _what_works(found: CostTable) -> Iterator[Block]:
    """Functions of AF_XDP by driver and kernel, and what was seen where one does not just work.

    Kernels one after another that behave alike are one row.
    """
    if not found.features:
        return
    yield Heading("What works of AF_XDP")
    yield Paragraph(
        "Each function was tried with frames from one port to another of the same guest, both with that driver. "
        "Kernels that follow one another and behave alike are one row. `inert`: it is taken and changes nothing. "
        "`no flag`: the mode of a socket that asks for none."
    )
    by_driver: dict[str, dict[str, dict[str, Feature]]] = {}
    for each in found.features:
        by_driver.setdefault(each.driver, {}).setdefault(each.kernel, {})[each.feature] = each
    rows = [["", *FEATURES]]
    details: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for driver, kernels in by_driver.items():
        alike = {kernel: [_in_words(its[name]) for name in FEATURES] for kernel, its in kernels.items()}
        for _, same in groupby(kernels, alike.__getitem__):
            first, *others = same
            where = f"{first} to {others[-1]}" if others else first
            rows.append([f"{where}, {driver}", *(kernels[first][name].found for name in FEATURES)])
            for each in _reported(kernels[first]):
                details.setdefault((each.feature, *_in_words(each)), []).append((f"{where} {driver}", each.detail))
    yield Table(rows)
    if details:
        yield Bullets([f"{name}: {word}: {at[0][1]} ({_places(at)})" for (name, word, _), at in details.items()])
    days = sorted({each.date for each in found.features})
    yield Paragraph(
        f"Tried {' to '.join(dict.fromkeys((days[0], days[-1])))}; "
        "`xdplab cost tester --kernel KERNEL --driver DRIVER --features` repeats a row."
    )


def _in_words(each: Feature) -> tuple[str, str]:
    """What was found, and why, without the numbers of one guest."""
    return each.found, "" if each.found in WORKING else re.sub(r"\d+", "N", each.detail)


def _places(found: Sequence[tuple[str, str]]) -> str:
    first, *others = (where for where, _ in found)
    if len({detail for _, detail in found}) == 1:
        return ", ".join([first, *others])
    return f"{first}; likewise, with other numbers, {', '.join(others)}"


def _reported(functions: Mapping[str, Feature]) -> list[Feature]:
    """Those that do not just work; what there is no socket for has the reason of the socket, which is given once."""
    sockets = functions[FEATURES[0]]
    return [
        each for each in functions.values()
        if each.found not in WORKING and each.detail and (each is sockets or each.detail != sockets.detail)
    ]  # fmt: skip


def _batches(found: CostTable) -> str:
    return "" if found.batch == BATCH else f", in batches of {found.batch}"


def _where(cell: Cell, columns: Sequence[tuple[str, str]]) -> str:
    """A driver that a kernel does not have has no column, and is named without its forwarders."""
    here = (cell.kernel, cell.driver)
    return " ".join([*here, *([cell.title] if here in columns else [])])


def _seeds(found: CostTable) -> str:
    seeds = max(len(cell.seeds) for cell in found.cells)
    return f"median of {seeds} seeds" if seeds > 1 else "one seed"


def _between_kernels(found: CostTable) -> Iterator[Block]:
    """What a forwarder takes more or less with the next kernel, the layers that make most of it, and known commits.

    Kernels that do not have a driver, or failed, are skipped.
    """
    kernels = list(dict.fromkeys(cell.kernel for cell in found.cells))
    rows = [["driver", "forwarder", "kernels", *_CHANGE, "known for it"]]
    commits: dict[str, str] = {}
    for driver, name in dict.fromkeys(
        (cell.driver, cell.forwarder) for cell in found.cells if cell.forwarder != TESTER
    ):
        for old, new in _steps([found.cell(kernel, driver, name) for kernel in kernels]):
            why = list(known.between(old, new))
            commits |= {each.name: each.words for each, _ in why}
            named = ", ".join(f"{each.name} {price:+,.0f}" for each, price in why)
            rows.append([driver, new.title, f"{old.kernel} to {new.kernel}", *_change(old, new), named])
    if rows[1:]:
        yield Heading("From kernel to kernel")
        yield Paragraph(f"Steps below {100 * _LEAST_STEP:g} % are left out.")
        yield Table(rows)
    if commits:
        yield Bullets([f"{commit}: {words}" for commit, words in commits.items()])


def _steps(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Cell]]:
    """Of kernels in their order; many small ones that add up are one, from the last that is shown."""
    counted = [cell for cell in cells if cell.instructions]
    shown = counted[0] if counted else None
    for old, new in pairwise(counted):
        for before in (old, shown):
            if before and before.instructions and abs((new.instructions or 0) / before.instructions - 1) >= _LEAST_STEP:
                shown = new
                yield before, new
                break


_CHANGE = ("change", "most of it")


def _between_builds(found: CostTable) -> Iterator[Block]:
    """Likewise of the same forwarder of another build, in the order that they were asked for."""
    rows = [["kernel, driver", "from", "to", *_CHANGE]]
    for kernel, driver in dict.fromkeys((cell.kernel, cell.driver) for cell in found.cells):
        groups: dict[str, list[Cell]] = {}
        for cell in found.cells:
            if (cell.kernel, cell.driver) == (kernel, driver) and cell.instructions and cell.forwarder != TESTER:
                spec = forwarder_spec(cell.forwarder)
                others = {name: value for name, value in spec.options.items() if name != "build"}
                groups.setdefault(spec.model_copy(update={"options": others}).title, []).append(cell)
        for old, new in (pair for group in groups.values() for pair in pairwise(group)):
            rows.append([f"{kernel}, {driver}", old.title, new.title, *_change(old, new)])
    if rows[1:]:
        yield Heading("From build to build")
        yield Table(rows)


def _change(old: Cell, new: Cell) -> tuple[str, str]:
    before, after = old.instructions or 0.0, new.instructions or 0.0
    return f"{after - before:+,.1f} ({100 * (after / before - 1):+.1f} %)", _largest(old, new)


def _events(found: CostTable, columns: Sequence[tuple[str, str]]) -> Iterator[Block]:
    """What is counted beside instructions, where it is not the same with all drivers."""
    names = list(dict.fromkeys(event for cell in found.cells for event in cell.events))
    titles = list(dict.fromkeys((cell.forwarder, cell.title) for cell in found.cells))
    rows = [["", *(title for _, title in titles)]]
    for kernel, driver in columns:
        cells = [found.cell(kernel, driver, forwarder).events for forwarder, _ in titles]
        rows.append(
            [f"{kernel}, {driver}"]
            + [" / ".join(_few(events[name]) for name in names if name in events) for events in cells]
        )
    if names:
        yield Heading(" / ".join(names).capitalize())
        yield Paragraph(
            "Per frame, above the tester alone. Copies that programs make are not in it ([cost.md](cost.md))."
        )
        yield Table(rows)


def _counted(found: CostTable) -> Iterator[Block]:
    """Versions and checksums of all that was booted, and how a cell is repeated."""
    yield Heading("What was counted")
    days = sorted({cell.date for cell in found.cells if cell.date})
    words = ["xdplab cost FORWARDER --kernel KERNEL --driver DRIVER"]
    words += more_words(found.batch, max((len(cell.seeds) for cell in found.cells), default=0) or len(Wanted.seeds))
    yield Paragraph(
        f"`{' '.join(words)}` repeats a cell. "
        f"{found.emulator}; xdplab {found.version}; bursts of {found.frames:,} and twice as many frames. "
        f"Counted on {found.machine}{', '.join(['', *days][:2])}{f' to {days[-1]}' if days[1:] else ''}; "
        "`--check` reports whether another machine repeats it."
    )
    kernels = dict.fromkeys((cell.kernel, cell.kernel_package, cell.kernel_sha256) for cell in found.cells)
    yield Table([["kernel", "package", "SHA-256"], *([*each[:2], each[2][:16]] for each in kernels if each[1])])
    rows = [["forwarder", "versions", "SHA-256 of its programs"]]
    for cell in {cell.forwarder: cell for cell in found.cells if cell.programs}.values():
        programs = ", ".join(f"{name} {digest[:16]}" for name, digest in cell.programs.items())
        rows.append([f"`{cell.forwarder}`", "; ".join(cell.versions.values()), programs])
    yield Table(rows)


def _largest(old: Cell, new: Cell) -> str:
    """Three layers, the first with the function that makes most of its change, where there is one."""
    layers = [(layer, new.layers.get(layer, 0.0) - old.layers.get(layer, 0.0)) for layer in {*old.layers, *new.layers}]
    layers = [each for each in sorted(layers, key=lambda item: (-abs(item[1]), item[0]))[:3] if abs(each[1]) >= 1]
    return ", ".join(
        f"{layer} {change:+,.0f}{_function(old, new, layer, change) if at == 0 else ''}"
        for at, (layer, change) in enumerate(layers)
    )


def _function(old: Cell, new: Cell, layer: str, change: float) -> str:
    """` (NAME +282)`: half of the layer's change or more, and no other function's opposite (a new name); else ""."""
    by_name = dict[str, float]()
    for sign, cell in ((1, new), (-1, old)):
        for place, count in cell.functions.items():
            where, name = place.rsplit(":", 1)
            if layer_of(where, name) == layer:
                by_name[name] = by_name.get(name, 0.0) + sign * count
    for name, its in sorted(by_name.items(), key=lambda item: (-abs(item[1]), item[0])):
        opposite = max(-each / its for each in by_name.values()) if its else 1.0
        if _MOST <= its / change <= 1 / _MOST and opposite < _OPPOSITE:
            return f" ({name} {its:+,.0f})"
    return ""


def _short(cell: Cell) -> str:
    return number(cell.instructions) if cell.instructions is not None else cell.status
