# SPDX-License-Identifier: Apache-2.0
"""A verdict by instructions per frame."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from xdplab.api import GateResult, GateSide, InputError, LayerChange, verdict_of
from xdplab_cost import debian
from xdplab_cost.cells import DRIVERS, TESTER, chosen
from xdplab_cost.guest import NOT_THE_FORWARDERS
from xdplab_cost.kernels import chosen_kernels
from xdplab_cost.layers import layer_of
from xdplab_cost.run import Cell, Wanted, measure

METRIC, FIGURE = "instructions", "cost of a frame"
#: Of a verdict's page: layers, and functions of each.
_LAYERS, _FUNCTIONS = 6, 3
#: Instructions per frame.
_TESTER_CHANGED = 0.5


def judge_cost(
    base: str,
    new: str,
    max_slowdown: float,
    kernels: Sequence[str],
    driver: str,
    say: Callable[[str], None],
    seeds: Sequence[int] = (1, 2, 3),
) -> GateResult:
    """Whether NEW takes more instructions than BASE and what is allowed.

    Seeds move both by what is random in a guest, such as the length of a hash chain: it is slower where its best is
    above the limit of the other's worst, and passes where its worst is within the limit of the other's best.

    Args:
        base: A forwarder of `xdplab cost`.
        new: Likewise.
        max_slowdown: As a ratio.
        kernels: Of the guests: one, or that of BASE and that of NEW.
        driver: Of the guests.
        say: Called with a line for each guest.
        seeds: Of the guests' random numbers.

    Raises:
        InputError: something is missing.
    """
    if len(kernels) > 2:
        raise InputError(f"--kernel: {len(kernels)} of them, but a gate has one for both, or one for each")
    for name in kernels:
        if debian.SERIES.fullmatch(name):
            raise InputError(f"--kernel {name}: a series, but a gate has one for both, or one for each")
        chosen_kernels([name])
    drivers = chosen([driver], [*DRIVERS], "driver")
    sides = list(zip((kernels[0], kernels[-1]), (base, new), strict=True))
    cells, testers = [], []
    for kernel in dict.fromkeys(kernels):
        names = [name for its, name in sides if its == kernel]
        table = measure(Wanted([kernel], drivers, list(dict.fromkeys(names)), seeds), say)
        cells += [table.cell(kernel, driver, name) for name in names]
        testers.append(table.cell(kernel, driver, TESTER))
    found = judge_cells(cells[0], cells[1], max_slowdown)
    if found.slowdown is None or TESTER in (base, new):
        return found
    return found.model_copy(update={"remarks": tuple(_of_tester(testers[0], testers[-1]))})


def judge_cells(base: Cell, new: Cell, max_slowdown: float) -> GateResult:
    """Of two cells of one kernel and driver."""
    named = [
        f"{each.forwarder} on Linux {each.kernel}" if base.kernel != new.kernel else each.forwarder
        for each in (base, new)
    ]
    sides = [
        GateSide(forwarder=name, value=each.instructions, low=each.low, high=each.high)
        for name, each in zip(named, (base, new), strict=True)
    ]
    found = GateResult(
        verdict="undecided", metric=METRIC, figure=FIGURE, max_slowdown=max_slowdown, base=sides[0], new=sides[1],
        seeds=len(new.seeds), wrong=0.0, confidence=1.0,
    )  # fmt: skip
    for name, cell in zip(named, (base, new), strict=True):
        if cell.status == "unsupported":
            return found.model_copy(update={"verdict": "unsupported", "reason": f"{name}: {cell.reason}"})
    if base.status == "failed":
        return found.model_copy(update={"reason": f"the base itself has no figure: {base.reason}"})
    if new.status == "failed":
        of_others = new.forwarder == TESTER or new.reason.startswith(NOT_THE_FORWARDERS)
        verdict = "undecided" if of_others else "broken"
        return found.model_copy(update={"verdict": verdict, "reason": f"{named[1]}: {new.reason}"})
    ends = [each or 0.0 for each in (base.low, base.instructions, base.high, new.low, new.instructions, new.high)]
    if min(ends) <= 0:
        return found.model_copy(update={"reason": "one of the two takes no instructions above the tester's: no ratio"})
    base_low, base_middle, base_high, new_low, new_middle, new_high = ends
    low, high = new_low / base_high, new_high / base_low
    update = {
        "verdict": verdict_of(low, high, max_slowdown),
        "slowdown": new_middle / base_middle,
        "low": low,
        "high": high,
        "changes": changes(base, new),
    }
    return found.model_copy(update=update)


def _of_tester(base: Cell, new: Cell) -> Iterator[str]:
    """What the tester alone takes more on NEW's kernel, which the verdict leaves out."""
    more = (new.instructions or 0.0) - (base.instructions or 0.0)
    if abs(more) >= _TESTER_CHANGED:
        judged = "`xdplab gate tester tester --cost` judges them"
        yield f"the tester alone: {more:+,.1f} instructions, left out here; {judged}"


def changes(old: Cell, new: Cell) -> tuple[LayerChange, ...]:
    """Layers that changed by an instruction per frame or more, the largest first, with the functions that did."""
    by_layer = _differences(old.layers, new.layers, 1)
    by_function = _differences(old.functions, new.functions, 1)
    found = []
    for layer, change in list(by_layer.items())[:_LAYERS]:
        its = [(name, each) for name, each in by_function.items() if layer_of(*name.rsplit(":", 1)) == layer]
        found.append(LayerChange(layer=layer, change=change, functions=dict(its[:_FUNCTIONS])))
    return tuple(found)


def _differences(old: Mapping[str, float], new: Mapping[str, float], least: float) -> dict[str, float]:
    both = {name: round(new.get(name, 0.0) - old.get(name, 0.0), 2) for name in {*old, *new}}
    ordered = sorted(both.items(), key=lambda item: (-abs(item[1]), item[0]))
    return {name: change for name, change in ordered if abs(change) >= least}
