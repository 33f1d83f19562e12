# SPDX-License-Identifier: Apache-2.0
"""Cells are booted with several seeds, two guests at a time; what a guest of the same bytes gave is kept."""

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal

from xdplab import __version__
from xdplab.cost.cells import DRIVERS, TESTER, Driver, Forwarder, forwarder
from xdplab.cost.guest import FRAMES, CellFailed, artefact, boot, cost_folder, digest, keep, stop_all
from xdplab.cost.layers import METER, SWITCHING, TICKS, Cost, Symbols, cost_of, symbols_of
from xdplab.model import InputError
from xdplab.model.base import Model

if TYPE_CHECKING:
    from nic.artefact import Artefact

#: Seeds whose range is more than this share of the cost have a layer that varies, which is named.
MAX_RANGE = 0.001
#: The guest's own counter and the plugin's sum agree within this share, or the cell has no figure.
MAX_DISAGREEMENT = 0.005
#: Instructions per frame of a layer that frames went past: one in a hundred may have been there.
PAST = 10
#: Counted for the tester or the single CPU, not for the forwarder.
_NOT_ITS_OWN = (TICKS, SWITCHING, METER)


class Cell(Model):
    """A kernel, a driver with its mode, and a forwarder: what a forwarded frame costs."""

    #: Part of the lane's packages: `6.1`.
    kernel: str
    #: Its package and version.
    kernel_package: str
    #: SHA-256 of its image.
    kernel_sha256: str
    #: `veth`, `igb`, `igb-zc`, `virtio`.
    driver: str
    #: As it is asked for.
    forwarder: str
    #: As a table says it.
    title: str
    #: `ok`; `unsupported`: there is no such combination; `failed`: the guest did not get there.
    status: Literal["ok", "unsupported", "failed"]
    #: Of another status than `ok`, in words.
    reason: str = ""
    #: Instructions per forwarded frame above what the tester alone takes, median over the seeds.
    instructions: float | None = None
    #: The least and the greatest of a seed.
    low: float | None = None
    high: float | None = None
    #: With the tester's, median over the seeds.
    whole: float | None = None
    #: Layer -> instructions per frame above the tester's, median over the seeds; more than 0.5 either way.
    layers: dict[str, float] = {}
    #: The layer that varies most between seeds, where the range is more than 0.1 % of the cost.
    varies: str = ""
    #: `layer: function` -> instructions per frame, the tester's among them, of the first seed; the largest of them.
    functions: dict[str, float] = {}
    #: Of the random numbers that a guest starts with.
    seeds: tuple[int, ...] = ()
    #: SHA-256 of each program of the guest that forwards.
    programs: dict[str, str] = {}
    #: What measures it again.
    command: str


class CostTable(Model):
    """Cells, and what made them."""

    #: Of this file.
    schema_version: Literal[1] = 1
    #: Of xdplab.
    version: str = __version__
    #: Frames of the smaller burst.
    frames: int = FRAMES
    #: QEMU's package and version.
    emulator: str
    #: In the order of tables.
    cells: tuple[Cell, ...]

    def cell(self, kernel: str, driver: str, name: str) -> Cell | None:
        """One of them; None: it was not asked for."""
        asked = (kernel, driver, name)
        return next((each for each in self.cells if (each.kernel, each.driver, each.forwarder) == asked), None)


@dataclass(frozen=True)
class Wanted:
    """What is to be measured: every combination of these."""

    kernels: Sequence[str]
    drivers: Sequence[str]
    forwarders: Sequence[str]
    seeds: Sequence[int] = (1, 2, 3)
    jobs: int = 2
    #: Whether what is in the cache is taken from there.
    kept: bool = True


@dataclass(frozen=True, eq=False)
class _Task:
    kernel: str
    driver: Driver
    forwarder: Forwarder
    seed: int


def measure(wanted: Wanted, say: Callable[[str], None]) -> CostTable:
    """Boot what is not in the cache, and add up.

    Args:
        wanted: Cells.
        say: Called with a line for each guest, and before something is fetched.

    Raises:
        InputError: QEMU, a kernel or a program is not to be had.
    """
    made = {kernel: artefact(kernel, say) for kernel in wanted.kernels}
    tasks, refused = _tasks(wanted)
    symbols = {
        (kernel, driver): kernel_symbols(made[kernel], DRIVERS[driver], say)
        for kernel, driver in dict.fromkeys((task.kernel, task.driver.name) for task in tasks)
    }
    found: dict[_Task, Cost | str] = {}
    began = time.monotonic()
    over = threading.Event()

    def one(task: _Task) -> None:
        if over.is_set():
            return
        try:
            cost, seconds = cost_at(made[task.kernel], task, symbols[task.kernel, task.driver.name], kept=wanted.kept)
        except CellFailed as error:
            found[task] = str(error)
            said = f"failed: {error}"
        except BaseException:
            over.set()
            raise
        else:
            found[task] = cost
            said = f"{cost.counted:,.1f} instructions a frame, the tester's among them" + (
                f" ({seconds:.0f} s)" if seconds else " (kept)"
            )
        left = (time.monotonic() - began) / len(found) * (len(tasks) - len(found))
        what = f"{task.kernel} {task.driver.name} {task.forwarder.name}, seed {task.seed}"
        say(f"{len(found)} of {len(tasks)}: {what}: {said}   [left {left:.0f} s]")

    with ThreadPoolExecutor(wanted.jobs) as pool:
        try:
            for _ in pool.map(one, tasks):
                pass
        except BaseException:  # Ctrl-C, too: no guest is begun any more, and none goes on
            over.set()
            stop_all()
            raise
    cells = [
        _cell(made[kernel], kernel, DRIVERS[driver], name, wanted.seeds, found, tasks, refused)
        for kernel in wanted.kernels
        for driver in wanted.drivers
        for name in (TESTER, *wanted.forwarders)
    ]
    emulator = _packages(next(iter(made.values())).emulator)[0]
    return CostTable(emulator=emulator, cells=tuple(cells))


def _tasks(wanted: Wanted) -> tuple[list[_Task], dict[tuple[str, str, str], tuple[str, str]]]:
    """What is booted; and (kernel, driver, forwarder) -> title and reason of what is not."""
    tasks: list[_Task] = []
    refused: dict[tuple[str, str, str], tuple[str, str]] = {}
    for kernel in wanted.kernels:
        for driver in (DRIVERS[name] for name in wanted.drivers):
            for name in (TESTER, *wanted.forwarders):
                asked = forwarder(name, driver)
                if reason := asked.unsupported(kernel, driver):
                    refused[kernel, driver.name, name] = (asked.title, reason)
                else:
                    tasks += [_Task(kernel, driver, asked, seed) for seed in wanted.seeds]
    return tasks, refused


def cost_at(made: "Artefact", task: _Task, symbols: Symbols, *, kept: bool = True) -> tuple[Cost, float]:
    """Of one boot, and how long it took here: 0 from the cache.

    Raises:
        CellFailed: the guest did not get there, or its two counters disagree.
    """
    path = cost_folder() / f"{digest(made, task.driver, task.forwarder, task.seed)}.json"
    if kept and path.is_file():
        return Cost(**json.loads(path.read_text(encoding="ascii"))), 0.0
    counted = boot(made, task.driver, task.forwarder, task.seed)
    files = {f"/{place}": file for file, place in task.forwarder.programs.items()}
    cost = cost_of(counted, FRAMES, symbols, files)
    if abs(cost.ticks / cost.counted - 1) > MAX_DISAGREEMENT:
        raise CellFailed(
            f"the guest's counter says {cost.ticks:,.1f} and the plugin {cost.counted:,.1f}: it slept, or spun"
        )
    if (went := cost.layers.get(task.forwarder.past, 0.0)) > PAST:
        why = counted.note or "the program does not say why"
        raise CellFailed(f"its frames went through the {task.forwarder.past} ({went:,.0f} instructions each): {why}")
    keep(path, json.dumps(asdict(cost)).encode())
    return cost, counted.seconds


def kernel_symbols(made: "Artefact", driver: Driver, say: Callable[[str], None]) -> Symbols:
    """Of one boot for each kernel and driver, kept: where modules are depends on what a card's driver does before.

    Raises:
        InputError: it does not boot.
    """
    known = hashlib.sha256(made.image.read_bytes() + made.modules.read_bytes() + driver.device.encode()).hexdigest()
    path = cost_folder() / f"symbols-{known}.json"
    if not path.is_file():
        say("reading the kernel's symbols; half a minute, once for each kernel and driver")
        try:
            found = symbols_of(boot(made, driver, forwarder(TESTER, driver), 1, symbols=True))
        except CellFailed as error:
            raise InputError(f"xdplab cost: the guest with {made.image}: {error}") from None
        keep(path, json.dumps(asdict(found)).encode())
    read = json.loads(path.read_text(encoding="ascii"))
    names, modules = ([tuple(each) for each in read[key]] for key in ("names", "modules"))
    return Symbols(read["starts"], names, modules)


def _packages(folder: Path) -> list[str]:
    pins = json.loads((folder / "packages.json").read_text(encoding="utf-8"))["pins"]
    return [f"{pin['package']} {pin['version']}" for pin in pins]


def _cell(
    made: "Artefact",
    kernel: str,
    driver: Driver,
    name: str,
    seeds: Sequence[int],
    found: Mapping[_Task, Cost | str],
    tasks: Sequence[_Task],
    refused: Mapping[tuple[str, str, str], tuple[str, str]],
) -> Cell:
    head = {
        "kernel": kernel,
        "kernel_package": _packages(made.kernel)[0],
        "kernel_sha256": hashlib.sha256(made.image.read_bytes()).hexdigest(),
        "driver": driver.name,
        "forwarder": name,
        "command": f"xdplab cost {name if name != TESTER else ''} --kernel {kernel} --driver {driver.name}".replace(
            "  ", " "
        ),
    }
    if (kernel, driver.name, name) in refused:
        title, reason = refused[kernel, driver.name, name]
        return Cell(**head, title=title, status="unsupported", reason=reason)
    mine = [
        task for task in tasks if (task.kernel, task.driver.name, task.forwarder.name) == (kernel, driver.name, name)
    ]
    title = mine[0].forwarder.title
    alone = [
        task for task in tasks if (task.kernel, task.driver.name, task.forwarder.name) == (kernel, driver.name, TESTER)
    ]
    results = [(found[task], found[base]) for task, base in zip(mine, alone, strict=True)]
    for own, base in results:
        for each in (own, base):
            if isinstance(each, str):
                where = "" if each is own else "the tester alone: "
                return Cell(**head, title=title, status="failed", reason=f"{where}{each}")
    costs = [(own, base) for own, base in results if isinstance(own, Cost) and isinstance(base, Cost)]
    above = [{} if name == TESTER else base.layers for _, base in costs]
    differences = [_above(own.layers, under) for (own, _), under in zip(costs, above, strict=True)]
    totals = [sum(each.values()) for each in differences]
    middle = median(totals)
    names = sorted({layer for each in differences for layer in each})
    ranges = {
        layer: max(each.get(layer, 0.0) for each in differences) - min(each.get(layer, 0.0) for each in differences)
        for layer in names
    }
    varies = max(totals) - min(totals) > MAX_RANGE * middle
    layers = {layer: round(median(each.get(layer, 0.0) for each in differences), 2) for layer in names}
    largest = sorted(costs[0][0].functions.items(), key=lambda item: -item[1])[:40]
    return Cell(
        **head,
        title=title,
        status="ok",
        instructions=round(middle, 3),
        low=round(min(totals), 3),
        high=round(max(totals), 3),
        whole=round(median(own.counted for own, _ in costs), 3),
        layers={
            layer: count for layer, count in sorted(layers.items(), key=lambda item: -item[1]) if abs(count) >= 0.5
        },
        varies=max(ranges, key=lambda layer: ranges[layer]) if varies else "",
        functions={function: round(count, 2) for function, count in largest},
        seeds=tuple(seeds),
        programs=dict(_sums(mine[0].forwarder)),
    )


def _above(own: Mapping[str, float], base: Mapping[str, float]) -> dict[str, float]:
    """Of the forwarder: neither the clock's ticks nor what one CPU for two processes takes."""
    names = {*own, *base} - {*_NOT_ITS_OWN}
    return {name: own.get(name, 0.0) - base.get(name, 0.0) for name in names}


def _sums(of: Forwarder) -> Iterator[tuple[str, str]]:
    for file in of.programs:
        yield re.sub(r".*/", "", file), hashlib.sha256(Path(file).read_bytes()).hexdigest()
