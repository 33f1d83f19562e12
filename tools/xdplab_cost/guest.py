# SPDX-License-Identifier: Apache-2.0
"""A guest: all that it runs is in its first file system, so that the same bytes give the same instructions.

QEMU counts them (`-icount shift=0,sleep=off`): the guest's clock and its time stamp counter advance by one for each.
One virtual CPU, no address-space randomisation, a fixed seed and date: nothing of this machine's time gets there.
"""

import hashlib
import lzma
import re
import subprocess
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from xdplab.api import LocalHost, XdplabError, cache_folder
from xdplab_cost.cells import Driver, InGuest, program_here
from xdplab_cost.lane import built, lane

if TYPE_CHECKING:
    from nic.archive import Entry
    from nic.artefact import Artefact
    from nic.qemu import Card

_INIT = Path(__file__).with_name("init")
#: `init_on_alloc=0`: a string instruction counts once per element, and clearing pages would be most of a frame.
_APPEND = (
    "console=ttyS0 panic=-1 mitigations=off quiet nokaslr norandmaps init_on_alloc=0 audit=0 apparmor=0 "
    "cryptomgr.notests"
)
_MEMORY_MB = 1024
#: Goes up when what is kept of a boot has another form.
_FORMAT = b"7"
#: A seed moves everything in the guest's memory by so much: two programs that differ in length do, too.
_MOVED_BYTES = 40_009
#: Frames of the smaller burst, and pairs of bursts.
FRAMES, ROUNDS = 1024, 5
#: Frames that the tester sends before it waits for them; the ring of a veth holds 256.
BATCH = 32
#: Programs of this machine that every guest has.
TOOLS = ("ip", "bridge", "chrt", "ethtool")
#: A guest takes 15 to 60 s on a quiet core of 2026.
LIMIT_S = 600.0
#: How a complaint begins that says nothing of the forwarder.
NOT_THE_FORWARDERS = ("the guest timed out", "QEMU ended", "the plugin wrote nothing", "the tester alone: ")
_CONSOLE_TAIL = 3
#: Characters of what a program said last.
_MAX_SAID = 200


class CellFailed(XdplabError):
    """A cell has no figure: one line that says why; the others go on."""


@dataclass(frozen=True)
class Boot:
    """What a boot gave.

    Attributes:
        bursts: Ticks of the guest's counter in each: one of `FRAMES`, one of twice as many, `ROUNDS` times.
        counts: Address -> executions in each burst.
        modules: (first address, address behind the last, name) of each.
        maps: (first address, address behind the last, offset in the file, file) of the code of the forwarder's process.
        symbols: (address, function, module) of the kernel and its modules, where they were asked for.
        note: What the forwarder said of a way that frames did not go.
        seconds: How long it took here.
    """

    bursts: tuple[int, ...]
    counts: Mapping[int, tuple[int, ...]]
    modules: tuple[tuple[int, int, str], ...] = ()
    maps: tuple[tuple[int, int, int, str], ...] = ()
    symbols: tuple[tuple[int, str, str], ...] = ()
    note: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Output:
    """Of a boot: QEMU's exit code, the console, what the plugin wrote, and how long it took here.

    The code is None where it was ended after `LIMIT_S`.
    """

    code: int | None
    console: str
    counts: str
    seconds: float

    @property
    def complaint(self) -> str:
        """Why it did not come to its end."""
        if self.code is None:
            return f"the guest timed out after {LIMIT_S:.0f} s; its console ends: {_tail(self.console)}"
        return _complaint(self.console) or f"QEMU ended with exit code {self.code}: {_tail(self.console)}"


@cache
def _libraries(path: str) -> tuple[str, ...]:
    """What the dynamic linker loads for a program, and the linker itself."""
    done = subprocess.run(["ldd", path], capture_output=True, text=True, check=False)
    return tuple(re.findall(r"(/\S+) \(0x", done.stdout))


def _with_libraries(programs: Mapping[str, str]) -> dict[str, Path]:
    """Path in the guest -> file here, with libraries at the paths that programs look for them."""
    files: dict[str, Path] = {}
    for path, place in programs.items():
        files[place] = Path(path)
        for library in _libraries(path):
            # libxdp loads its own programs from beside it
            more = Path(library).resolve().parent.glob("bpf/*.o") if "libxdp" in library else ()
            for each in (library, *map(str, more)):
                files[(f"/usr{each}" if each.startswith("/lib") else each).lstrip("/")] = Path(each)
    return files


@cache
def _unpacked(image: Path) -> Path:
    """The kernel's ELF file, which starts 5 s sooner, if it is there as xz and QEMU can enter it; else the image."""
    data = image.read_bytes()
    at = data.find(b"\xfd7zXZ\0")
    path = cost_folder() / f"vmlinux-{hashlib.sha256(data).hexdigest()}"
    if at < 0 or path.is_file():
        return image if at < 0 else path
    elf = lzma.LZMADecompressor().decompress(data[at:])
    if not _ENTRY_NOTE.search(elf):
        return image
    keep(path, elf)
    return path


#: Where QEMU enters an ELF file: the note PHYS32_ENTRY of Xen (linux/include/xen/interface/elfnote.h), 18.
_ENTRY_NOTE = re.compile(rb"\x04\x00\x00\x00[\x04\x08]\x00\x00\x00\x12\x00\x00\x00Xen\x00")


def cost_folder() -> Path:
    return cache_folder() / "cost"


def keep(path: Path, content: bytes) -> None:
    """Write a file of `cost_folder` at once, whoever else writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as fresh:
        fresh.write(content)
    Path(fresh.name).replace(path)


#: Each ends the emulator of a thread.
_stops: list[Callable[[], object]] = []


def stop_all() -> None:
    """End every guest: its boot fails."""
    for stop in list(_stops):
        stop()


@dataclass(frozen=True)
class Guest:
    """A kernel with a forwarder between four ports: a0 and a1 face each other, and b1 and b0.

    Attributes:
        made: QEMU and the kernel.
        driver: Of the ports.
        forwarder: Between a1 and b1.
        sink: Port whose frames are counted and dropped: b0, or a1 where nobody forwards.
        seed: Of all random numbers, and of what is where in memory.
        symbols: The kernel's symbols are printed, too.
        batch: Frames that the tester sends before it waits for them.
    """

    made: "Artefact"
    driver: Driver
    forwarder: InGuest
    sink: str
    seed: int
    symbols: bool = False
    batch: int = BATCH

    @property
    def ports(self) -> "tuple[Card, ...]":
        """With the address of each; those of veth pairs, too."""
        lane()
        from nic.qemu import Card

        return tuple(
            Card(name, self.driver.device, wire) for name, wire in (("a0", 1), ("a1", 1), ("b1", 2), ("b0", 2))
        )

    @property
    def frames(self) -> int:
        return self.forwarder.frames or FRAMES

    def archive(self) -> bytes:
        from nic.archive import base_archive, cpio

        return base_archive(self.made.busybox.read_bytes()) + self.made.modules.read_bytes() + cpio(self._entries())

    def _entries(self) -> "list[Entry]":
        from nic.archive import Entry, folder, program

        cell = (
            f"DRIVER={self.driver.name} SINK={self.sink} FRAMES={self.frames} ROUNDS={ROUNDS} "
            f"FLOWS={self.forwarder.flows} PROCESS={self.forwarder.process} SENDS={self.forwarder.frames} "
            f"BATCH={self.batch}\n"
            f"card_settings() {{ {self.driver.settings}; }}\nforward() {{\n{self.forwarder.start}\n}}\n"
            f"prove() {{\n{self.forwarder.prove}\n}}\n"
        )
        tools = {program_here(name): f"usr/bin/{name}" for name in TOOLS}
        files = {**_with_libraries({**tools, **self.forwarder.programs}), "usr/bin/meter": built("meter")}
        if self.forwarder.frames:
            files["usr/bin/marked"] = built("marked")
        parents = {str(parent) for place in files for parent in Path(place).parents} - {".", "usr", "lane"}
        return [
            *(folder(path) for path in ("lane", *sorted(parents))),
            *(program(place, path.read_bytes()) for place, path in sorted(files.items())),
            program("init", _INIT.read_bytes()),
            Entry("lane/cell", cell.encode()),
            Entry("lane/ports", "".join(f"{port.ifname} {port.mac}\n" for port in self.ports).encode()),
            Entry("lane/seed", bytes(self.seed * _MOVED_BYTES)),
            *([Entry("lane/symbols")] if self.symbols else []),
        ]

    def command(self, archive: Path, counts: Path) -> list[str]:
        """The argv of QEMU; it ends when the guest powers off."""
        from nic.qemu import devices, emulator

        return [
            *emulator(self.made, _unpacked(self.made.image), archive, _APPEND),
            *("-machine", "q35,hpet=off", "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"),
            *("-cpu", "max", "-smp", "1", "-m", str(_MEMORY_MB), "-rtc", "clock=vm,base=2026-01-01T00:00:00"),
            *("-seed", str(self.seed), "-plugin", f"file={built('count.so')},out={counts}"),
            *(devices(self.ports) if self.driver.device else ()),
        ]

    @cached_property
    def digest(self) -> str:
        """Over all that the guest is: the same digest, the same instructions."""
        found = hashlib.sha256(_FORMAT + self.archive())
        found.update(self.made.image.read_bytes() + built("count.so").read_bytes())
        found.update((self.made.emulator / "packages.json").read_bytes())
        words = self.command(Path("/archive"), Path("/counts"))
        found.update(" ".join(word for word in words if "/" not in word).encode())
        return found.hexdigest()

    def boot(self) -> Boot:
        """Boot it and read what it counted.

        Raises:
            CellFailed: it did not get there.
        """
        output = self.run()
        if output.code != 0 or "\ncost end" not in output.console:
            raise CellFailed(output.complaint)
        if not output.counts:
            raise CellFailed("the plugin wrote nothing: is the disk full?")
        return _read(output.console, output.counts, output.seconds)

    def run(self) -> Output:
        """Boot it, whatever comes of that."""
        from nic.qemu import environment

        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="xdplab-cost-") as scratch:
            archive, counts, console = (Path(scratch, name) for name in ("archive", "counts", "console"))
            archive.write_bytes(self.archive())
            argv = self.command(archive, counts)
            process = LocalHost().start(argv, log=console, env=environment(self.made))
            _stops.append(process.stop)
            try:
                code = process.wait(LIMIT_S)
            finally:
                _stops.remove(process.stop)
                process.stop()
            text = console.read_text(encoding="utf-8", errors="replace").replace("\r", "")
            found = counts.read_text(encoding="ascii") if counts.exists() else ""
            return Output(code, text, found, time.monotonic() - began)


def _complaint(text: str) -> str:
    """What process 1 said, with the line before it, which is the program's own."""
    lines = [line for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if line.startswith("cost fail: "):
            before = lines[number - 1] if number and not lines[number - 1].startswith(("[", "cost")) else ""
            more = f": {textwrap.shorten(before, _MAX_SAID)}" if before and before not in line else ""
            return f"{line.removeprefix('cost fail: ')}{more}"
    panic = next((line for line in lines if "Kernel panic" in line), "")
    return f"the kernel does not boot: {panic}" if panic else ""


def _tail(text: str) -> str:
    return " | ".join(line.strip() for line in text.splitlines()[-_CONSOLE_TAIL:])


_BURST = re.compile(r"^burst \d+ (\d+)$", re.MULTILINE)
_SYMBOL = re.compile(r"^([0-9a-f]{16}) [tTwW] (\S+)(?:\s+\[(\S+)\])?$", re.MULTILINE)
_MODULE = re.compile(r"^(\w+) (\d+) .* 0x([0-9a-f]{16})\b", re.MULTILINE)
_MAP = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r-xp ([0-9a-f]+) \S+ \d+\s*(\S*)$", re.MULTILINE)
_NOTE = re.compile(r"^flows are not offloaded.*$", re.MULTILINE)


def _read(text: str, counts: str, seconds: float) -> Boot:
    table: dict[int, tuple[int, ...]] = {}
    for line in counts.splitlines():
        address, *numbers = line.split()
        table[int(address, 16)] = tuple(map(int, numbers))
    bursts = tuple(map(int, _BURST.findall(text)))
    if len(bursts) != 2 * ROUNDS or any(len(numbers) != len(bursts) for numbers in table.values()):
        raise CellFailed(f"{len(bursts)} bursts instead of {2 * ROUNDS}, or marks that the plugin did not see")
    note = _NOTE.search(text)
    return Boot(
        bursts,
        table,
        modules=tuple((int(at, 16), int(at, 16) + int(size), name) for name, size, at in _MODULE.findall(text)),
        maps=tuple(
            (int(one, 16), int(two, 16), int(offset, 16), file) for one, two, offset, file in _MAP.findall(text)
        ),
        symbols=tuple((int(at, 16), name, module) for at, name, module in _SYMBOL.findall(text)),
        note=note[0] if note else "",
        seconds=seconds,
    )
