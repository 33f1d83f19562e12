# SPDX-License-Identifier: Apache-2.0
"""Cells are booted with several seeds, two guests at a time; what a guest of the same bytes gave is kept."""

import datetime
import hashlib
import json
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from xdplab.api import DoesNotCompile, LocalHost, Model, Unsupported, __version__, cpu_model
from xdplab_cost.cells import (
    DRIVERS,
    OWN,
    TESTER,
    InGuest,
    compile_source,
    in_guest,
    program_here,
    title_of,
    versions_of,
)
from xdplab_cost.features import Feature, try_features
from xdplab_cost.guest import BATCH, FRAMES, NOT_THE_FORWARDERS, TOOLS, CellFailed, Guest, cost_folder, keep, stop_all
from xdplab_cost.kernels import obtain
from xdplab_cost.layers import EVENTS, METER, SWITCHING, TICKS, Cost, Symbols, cost_of, layer_of, symbols_of

if TYPE_CHECKING:
    from nic.artefact import Artefact

#: Seeds whose range is more than this share of the cost have a layer that varies, which is named.
MAX_RANGE = 0.001
#: The guest's own counter and the plugin's sum agree within this share, or the cell has no figure.
MAX_DISAGREEMENT = 0.005
#: Instructions per frame of a layer that frames bypass: Linux 6.1 flushes AF_XDP sockets after each redirect (14
#: instructions), and a frame that goes through one takes 400.
MAX_BYPASSED = 40
#: Instructions per frame; functions with fewer of them are not kept.
_LEAST = 1
#: What is kept of a boot was read by this code, and another reads it anew.
_READ_BY = hashlib.sha256(Path(__file__).with_name("layers.py").read_bytes()).hexdigest()[:8]
#: Why the tester alone is not measured.
_ALONE = "no forwarder to measure above it"
#: Counted for the tester or the single CPU, not for the forwarder.
_NOT_ITS_OWN = (TICKS, SWITCHING, METER)


class Cell(Model):
    """A kernel, a driver with its mode, and a forwarder: what a forwarded frame costs."""

    #: Part of the lane's packages: `6.1`.
    kernel: str
    #: Its package and version; "" of what is unsupported, as below.
    kernel_package: str = ""
    #: SHA-256 of its image.
    kernel_sha256: str = ""
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
    #: What else there is of each frame, above the tester's, median over the seeds: system calls; wake-ups, threads that
    #: slept and are made runnable; bytes copied by string moves (REP MOVS), which are the kernel's copies.
    events: dict[str, float] = {}
    #: `WHERE:FUNCTION` -> instructions per frame above the tester's, of the first seed; at least 1 either way.
    functions: dict[str, float] = {}
    #: Of the random numbers that a guest starts with.
    seeds: tuple[int, ...] = ()
    #: Of each of these guests, SHA-256 of all that it was booted with: equal ones have equal figures, on any machine.
    guests: tuple[str, ...] = ()
    #: SHA-256 of each program of the guest that forwards.
    programs: dict[str, str] = {}
    #: Program -> its version, and what it is made of.
    versions: dict[str, str] = {}
    #: When the last of its guests was booted, as YYYY-MM-DD; "": it was not.
    date: str = ""
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
    #: Frames that the tester sends before it waits for them.
    batch: int = BATCH
    #: QEMU's package and version.
    emulator: str
    #: The CPU that emulated, which makes no difference.
    machine: str = ""
    #: What measures all of it again.
    command: str
    #: In the order of tables.
    cells: tuple[Cell, ...]
    #: Which functions of AF_XDP work; empty where that was not asked for.
    features: tuple[Feature, ...] = ()

    def cell(self, kernel: str, driver: str, name: str) -> Cell:
        """One of them; a table has every combination."""
        asked = (kernel, driver, name)
        return next(each for each in self.cells if (each.kernel, each.driver, each.forwarder) == asked)


@dataclass(frozen=True)
class Wanted:
    """What is to be measured: every combination of these."""

    kernels: Sequence[str]
    drivers: Sequence[str]
    forwarders: Sequence[str]
    seeds: Sequence[int] = (1, 2, 3)
    #: Guests at once.
    jobs: int = 2
    #: Whether what is in the cache is taken from there.
    kept: bool = True
    #: Whether functions of AF_XDP are tried as well, on every kernel and driver.
    features: bool = False
    #: Frames that the tester sends before it waits for them.
    batch: int = BATCH


@dataclass(frozen=True)
class _Asked:
    """A cell that is asked for, and its guests by seed; none where it cannot be measured, for which reason."""

    kernel: str
    driver: str
    name: str
    forwarder: InGuest
    guests: tuple[Guest, ...]
    reason: str


def measure(wanted: Wanted, say: Callable[[str], None]) -> CostTable:
    """Boot what is not in the cache, and add up.

    Args:
        wanted: Cells; what this machine has no program or kernel for, or cannot compile, is `unsupported`.
        say: Called with a line for each guest, and before something is fetched or compiled.

    Raises:
        InputError: a name or an option is none.
    """
    broken = {name: why for name in wanted.forwarders if (why := _why_not_compiled(name, say))}
    names = list(dict.fromkeys((TESTER, *wanted.forwarders)))
    forwarders = {
        (driver, name): _in_guest(name, driver, broken.get(name, "")) for driver in wanted.drivers for name in names
    }

    def has_cells(kernel: str) -> bool:
        cells = ((driver, name) for driver, name in forwarders if name != TESTER or len(names) == 1)
        return any(not forwarders[cell].unsupported(kernel, DRIVERS[cell[0]]) for cell in cells)

    made = {
        kernel: _artefact(kernel, say) if wanted.features or has_cells(kernel) else _ALONE
        for kernel in wanted.kernels
    }  # fmt: skip
    asked = [
        _asked(made[kernel], kernel, driver, name, forwarders[driver, name], wanted)
        for kernel in wanted.kernels for driver in wanted.drivers for name in names
    ]  # fmt: skip
    needed = {(each.kernel, each.driver) for each in asked if each.guests and (each.name != TESTER or len(names) == 1)}
    asked = [
        each if (each.kernel, each.driver) in needed or each.reason else replace(each, guests=(), reason=_ALONE)
        for each in asked
    ]
    booted = {each.kernel: each.guests[0].made for each in asked if each.guests}
    symbols = {kernel: kernel_symbols(each, say) for kernel, each in booted.items()}
    found = _boot_all(asked, symbols, wanted, say)
    alone = {(each.kernel, each.driver): found[id(each)] for each in asked if each.name == TESTER}
    cells = [_cell(each, found[id(each)], alone[each.kernel, each.driver], wanted) for each in asked]
    tried = _try_all(made, wanted, say) if wanted.features else []
    emulators = [_packages(each.emulator)[0] for each in made.values() if not isinstance(each, str)]
    words = [f"--kernel {shlex.quote(kernel)}" for kernel in wanted.kernels] + [
        f"--driver {driver}" for driver in wanted.drivers
    ]
    words += [*more_words(wanted.batch, len(wanted.seeds)), *(["--features"] if wanted.features else [])]
    return CostTable(
        batch=wanted.batch,
        emulator=next(iter(emulators), ""), machine=cpu_model(LocalHost()), cells=tuple(cells), features=tuple(tried),
        command=" ".join(["xdplab cost", *map(shlex.quote, wanted.forwarders), *words]),
    )  # fmt: skip


def batch_words(batch: int) -> list[str]:
    """`--batch N` where it is not the usual one."""
    return [] if batch == BATCH else [f"--batch {batch}"]


def more_words(batch: int, seeds: int) -> list[str]:
    """Likewise, and `--seeds N`."""
    return [*batch_words(batch), *([] if seeds == len(Wanted.seeds) else [f"--seeds {seeds}"])]


def _artefact(kernel: str, say: Callable[[str], None]) -> "Artefact | str":
    """QEMU and that kernel, or why they are not to be had."""
    try:
        for name in TOOLS:
            program_here(name)
        return obtain(kernel, say)
    except (Unsupported, DoesNotCompile) as error:
        return str(error)


def _why_not_compiled(name: str, say: Callable[[str], None]) -> str:
    try:
        compile_source(name, say)
    except DoesNotCompile as error:
        return str(error)
    return ""


def _in_guest(name: str, driver: str, broken: str) -> InGuest:
    """With the reason where it does not compile, or a program of it is missing."""
    if broken:
        return InGuest("", {}, reason=broken, sockets=True, title=title_of(name))
    try:
        return in_guest(name, DRIVERS[driver])
    except Unsupported as error:
        return InGuest("", {}, reason=str(error), sockets=True, title=title_of(name))


def _asked(
    made: "Artefact | str", kernel: str, driver_name: str, name: str, forwarder: InGuest, wanted: Wanted
) -> _Asked:
    driver = DRIVERS[driver_name]
    reason = forwarder.unsupported(kernel, driver)
    if isinstance(made, str):
        return _Asked(kernel, driver_name, name, forwarder, (), reason or made)
    sink = "a1" if name in OWN else "b0"
    guests = (
        () if reason else tuple(Guest(made, driver, forwarder, sink, seed, batch=wanted.batch) for seed in wanted.seeds)
    )
    return _Asked(kernel, driver_name, name, forwarder, guests, reason)


def _boot_all(
    asked: Sequence[_Asked], symbols: Mapping[str, Symbols | str], wanted: Wanted, say: Callable[[str], None]
) -> dict[int, list[Cost | str]]:
    """`id` of a cell -> what each of its guests counted, or why it did not; a line is said of each."""
    tasks = [(each, number) for each in asked for number in range(len(each.guests))]
    found: dict[int, list[Cost | str]] = {id(each): [""] * len(each.guests) for each in asked}
    began, done, over = time.monotonic(), [0], threading.Event()

    def one(task: tuple[_Asked, int]) -> None:
        each, number = task
        if over.is_set():
            return
        try:
            known = symbols[each.kernel]
            if isinstance(known, str):
                raise CellFailed(known)
            cost, seconds = cost_at(each.guests[number], known, kept=wanted.kept)
        except CellFailed as error:
            found[id(each)][number] = str(error)
            said = f"failed: {error}"
        except BaseException:
            over.set()
            raise
        else:
            found[id(each)][number] = cost
            how = f"{seconds:.0f} s" if seconds else "kept"
            said = f"{cost.counted:,.1f} instructions a frame, the tester's included ({how})"
        done[0] += 1
        left = (time.monotonic() - began) / done[0] * (len(tasks) - done[0])
        what = f"{each.kernel} {each.driver} {each.name}, seed {each.guests[number].seed}"
        say(f"{done[0]} of {len(tasks)}: {what}: {said}   [left {left:.0f} s]")

    with ThreadPoolExecutor(wanted.jobs) as pool:
        try:
            for _ in pool.map(one, tasks):
                pass
        except BaseException:  # Ctrl-C, too: no other guest is started, and those that run are ended
            over.set()
            stop_all()
            raise
    return found


def _kept_cost(guest: Guest) -> Path:
    return cost_folder() / f"{guest.digest}-{_READ_BY}.json"


def _try_all(made: Mapping[str, "Artefact | str"], wanted: Wanted, say: Callable[[str], None]) -> list[Feature]:
    """Functions of AF_XDP on every kernel and driver, by rows."""
    rows = [(kernel, driver) for kernel in wanted.kernels for driver in wanted.drivers]

    def one(row: tuple[str, str]) -> list[Feature]:
        return try_features(made[row[0]], *row, say, kept=wanted.kept)

    with ThreadPoolExecutor(wanted.jobs) as pool:
        try:
            return [each for found in pool.map(one, rows) for each in found]
        except BaseException:
            stop_all()
            raise


def cost_at(guest: Guest, symbols: Symbols, *, kept: bool = True) -> tuple[Cost, float]:
    """Of one boot, and how long it took here: 0 from the cache.

    Raises:
        CellFailed: the guest did not get there, its two counters disagree, or frames went another way.
    """
    path = _kept_cost(guest)
    if kept and path.is_file():
        return Cost(**json.loads(path.read_text(encoding="ascii"))), 0.0
    counted = guest.boot()
    cost = cost_of(
        counted, guest.frames, symbols, {f"/{place}": file for file, place in guest.forwarder.programs.items()}
    )
    # a program that sends by itself also sleeps in its runs, until it looks whether they are over
    if not guest.forwarder.frames and abs(cost.ticks / cost.counted - 1) > MAX_DISAGREEMENT:
        raise CellFailed(
            f"the guest's counter says {cost.ticks:,.1f} and the plugin {cost.counted:,.1f}: it slept, or spun"
        )
    layer = guest.forwarder.bypasses
    if (passed := cost.layers.get(layer, 0.0)) > MAX_BYPASSED:
        why = counted.note or "the program does not say why"
        raise CellFailed(f"its frames went through the {layer} ({passed:,.0f} instructions each): {why}")
    keep(path, json.dumps(asdict(cost)).encode())
    return cost, counted.seconds


def kernel_symbols(made: "Artefact", say: Callable[[str], None]) -> Symbols | str:
    """Of one boot for each kernel, kept; or why it does not boot."""
    known = hashlib.sha256(made.image.read_bytes() + made.modules.read_bytes()).hexdigest()
    path = cost_folder() / f"functions-{known}-{_READ_BY}.json"
    if not path.is_file():
        say(f"reading the symbols of {_packages(made.kernel)[0]}; half a minute, once for each kernel")
        driver = DRIVERS["veth"]
        try:
            found = symbols_of(Guest(made, driver, in_guest(TESTER, driver), "a1", 1, symbols=True).boot())
        except CellFailed as error:
            return str(error)
        keep(path, json.dumps(found.functions).encode())
    read = json.loads(path.read_text(encoding="ascii"))
    return Symbols({module: [tuple(each) for each in functions] for module, functions in read.items()})


def _packages(folder: Path) -> list[str]:
    pins = json.loads((folder / "packages.json").read_text(encoding="utf-8"))["pins"]
    return [f"{pin['package']} {pin['version']}" for pin in pins]


def _cell(asked: _Asked, own: Sequence[Cost | str], alone: Sequence[Cost | str], wanted: Wanted) -> Cell:
    """Of what its guests counted, and of what the tester alone takes with the same seeds."""
    words = shlex.join(["xdplab", "cost", asked.name, "--kernel", asked.kernel, "--driver", asked.driver])
    head: dict[str, Any] = {
        "kernel": asked.kernel,
        "driver": asked.driver,
        "forwarder": asked.name,
        "title": asked.forwarder.title,
        "command": " ".join([words, *more_words(wanted.batch, len(wanted.seeds))]),
    }
    if asked.reason:
        return Cell(**head, status="unsupported", reason=asked.reason)
    made = asked.guests[0].made
    head["kernel_package"] = _packages(made.kernel)[0]
    head["kernel_sha256"] = hashlib.sha256(made.image.read_bytes()).hexdigest()
    errors = [f"the tester alone: {each}" for each in alone if isinstance(each, str) and asked.name != TESTER]
    errors += sorted(
        (each for each in own if isinstance(each, str)), key=lambda each: each.startswith(NOT_THE_FORWARDERS)
    )
    if errors:
        return Cell(**head, status="failed", reason=errors[0])
    whole = [each for each in own if isinstance(each, Cost)]
    bare = [each for each in alone if isinstance(each, Cost)]
    costs = [each.layers for each in whole]
    above = asked.name not in OWN
    bases = [each.layers if above else {} for each in bare]
    names = sorted({name for each in (*costs, *bases) for name in each} - {*_NOT_ITS_OWN})
    layers = {name: [each.get(name, 0.0) - base.get(name, 0.0) for each, base in zip(costs, bases, strict=True)]
              for name in names}  # fmt: skip
    totals = [sum(each) for each in zip(*layers.values(), strict=True)]
    ranges = {name: max(values) - min(values) for name, values in layers.items()}
    middle = {name: round(median(values), 2) for name, values in layers.items()}
    varies = max(totals) - min(totals) > MAX_RANGE * median(totals)
    pairs = [(each.events, (base.events if above else {})) for each, base in zip(whole, bare, strict=True)]
    events = {
        name: round(median(its[name] - base.get(name, 0.0) for its, base in pairs), 4)
        for name in EVENTS if all(name in its for its, _ in pairs)
    }  # fmt: skip
    base = bare[0].functions if above else {}
    more = {each: whole[0].functions.get(each, 0.0) - base.get(each, 0.0) for each in {*whole[0].functions, *base}}
    functions = {
        each: round(count, 2) for each, count in sorted(more.items(), key=lambda item: (-item[1], item[0]))
        if abs(count) >= _LEAST and layer_of(*each.rsplit(":", 1)) not in _NOT_ITS_OWN
    }  # fmt: skip
    return Cell(
        **head,
        status="ok",
        instructions=round(median(totals), 3),
        low=round(min(totals), 3),
        high=round(max(totals), 3),
        whole=round(median(each.counted for each in whole), 3),
        layers={name: count for name, count in sorted(middle.items(), key=lambda item: -item[1]) if abs(count) >= 0.5},
        varies=max(ranges, key=lambda name: ranges[name]) if varies else "",
        events=events,
        functions=functions,
        seeds=tuple(guest.seed for guest in asked.guests),
        guests=tuple(guest.digest for guest in asked.guests),
        programs={
            Path(file).name: hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in asked.forwarder.programs
        },
        versions=versions_of(asked.name),
        date=_last_day([_kept_cost(guest) for guest in asked.guests]),
    )


def _last_day(files: Sequence[Path]) -> str:
    """When the newest was written; "" where the cache has none, as on a full disk."""
    newest = max((file.stat().st_mtime for file in files if file.exists()), default=None)
    return datetime.datetime.fromtimestamp(newest, datetime.UTC).date().isoformat() if newest else ""
