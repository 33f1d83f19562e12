# SPDX-License-Identifier: Apache-2.0
"""A verdict by instructions per frame."""

from collections.abc import Callable, Sequence

from xdplab.analysis.gate import GateResult, Side
from xdplab.cost.cells import DRIVERS, KERNELS, chosen
from xdplab.cost.run import Cell, Wanted, measure
from xdplab.forwarders.ovs.builds import make

METRIC, FIGURE = "instructions", "cost of a frame"


def judge_cost(
    base: str,
    new: str,
    max_slowdown: float,
    kernel: str,
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
        kernel: Of the guests.
        driver: Of the guests.
        say: Called with a line for each guest.
        seeds: Of the guests' random numbers.

    Raises:
        InputError: something is missing, or does not compile.
    """
    for name in (base, new):
        make(name.removeprefix("ovs-afxdp:build="), say)
    names = list(dict.fromkeys((base, new)))
    kernels, drivers = chosen([kernel], [*KERNELS], "kernel"), chosen([driver], [*DRIVERS], "driver")
    table = measure(Wanted(kernels, drivers, names, seeds), say)
    cells = [cell for name in (base, new) if (cell := table.cell(kernel, driver, name)) is not None]
    return verdict_of(cells[0], cells[1], max_slowdown)


def verdict_of(base: Cell, new: Cell, max_slowdown: float) -> GateResult:
    """Of two cells of one kernel and driver."""
    sides = [
        Side(forwarder=cell.forwarder, value=cell.instructions, low=cell.low, high=cell.high) for cell in (base, new)
    ]
    found = GateResult(
        verdict="undecided", metric=METRIC, figure=FIGURE, max_slowdown=max_slowdown, base=sides[0], new=sides[1],
        seeds=len(new.seeds), wrong=0.0, confidence=1.0,
    )  # fmt: skip
    for cell in (base, new):
        if cell.status == "unsupported":
            return found.model_copy(update={"verdict": "unsupported", "reason": f"{cell.forwarder}: {cell.reason}"})
    if base.status == "failed":
        return found.model_copy(update={"reason": f"the base itself has no figure: {base.reason}"})
    if new.status == "failed":
        return found.model_copy(update={"verdict": "broken", "reason": f"{new.forwarder}: {new.reason}"})
    assert base.instructions and base.low and base.high and new.instructions and new.low and new.high  # noqa: PT018
    low, high = new.low / base.high, new.high / base.low
    limit = 1 + max_slowdown
    verdict = "slower" if low > limit else "pass" if high <= limit else "undecided"
    update = {"verdict": verdict, "slowdown": new.instructions / base.instructions, "low": low, "high": high}
    return found.model_copy(update=update)
