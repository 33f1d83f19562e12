# SPDX-License-Identifier: Apache-2.0
"""One boot: all that the guest runs is in its first file system, so that the same bytes give the same instructions.

QEMU counts them (`-icount shift=0,sleep=off`): the guest's clock and its time stamp counter advance by one for each.
One virtual CPU, no address-space randomisation, a fixed seed and date: nothing of this machine's time gets there.
"""

import hashlib
import lzma
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from xdplab.cost.cells import KERNELS, TESTER, Driver, Forwarder
from xdplab.hosts import LocalHost, Running
from xdplab.model import InputError, XdplabError
from xdplab.tools import cache_folder, checkout

if TYPE_CHECKING:
    from nic.archive import Entry
    from nic.artefact import Artefact

_INIT = Path(__file__).with_name("init")
#: `init_on_alloc=0`: a string instruction counts once per element, and clearing pages would be most of a frame.
_APPEND = (
    "console=ttyS0 panic=-1 mitigations=off quiet nokaslr norandmaps init_on_alloc=0 audit=0 apparmor=0 "
    "cryptomgr.notests"
)
_MEMORY_MB = 1024
#: Another one where what is kept of a boot has another form.
_FORMAT = b"3"
#: Frames of the smaller burst, and pairs of bursts.
FRAMES, ROUNDS = 1024, 5
#: A guest takes 20 to 60 s on a quiet core of 2026.
LIMIT_S = 600.0
#: Ports of the guest by card, and the wire of each.
_CARDS = {"a0": 1, "a1": 1, "b1": 2, "b0": 2}


class CellFailed(XdplabError):
    """A cell has no figure: one line that says why; the others go on."""


@dataclass(frozen=True)
class Boot:
    """What a boot gave.

    Attributes:
        bursts: (frames, ticks) in their order: one of `FRAMES`, one of twice as many, `ROUNDS` times.
        counts: Address -> executions in each burst.
        symbols: (address, name, module) of the kernel and its modules, where they were asked for.
        modules: (first address, last address) of each of them, likewise.
        maps: (first address, last address, offset in the file, file) of the code of the forwarder's process.
        note: What the forwarder said of a way that frames did not go.
        seconds: How long it took here.
    """

    bursts: tuple[tuple[int, int], ...]
    counts: Mapping[int, tuple[int, ...]]
    symbols: tuple[tuple[int, str, str], ...] = ()
    modules: tuple[tuple[int, int], ...] = ()
    maps: tuple[tuple[int, int, int, str], ...] = ()
    note: str = ""
    seconds: float = 0.0


def lane() -> None:
    """Make the lane's modules (ci/nic) importable.

    Raises:
        InputError: this is no checkout, which has them.
    """
    here = checkout()
    if here is None:
        raise InputError("xdplab cost: it needs a checkout of xdplab, whose ci/nic boots guests")
    if str(here / "ci") not in sys.path:
        sys.path.insert(0, str(here / "ci"))


def artefact(kernel: str, say: Callable[[str], None]) -> "Artefact":
    """QEMU and that kernel, from the cache or fetched now.

    Raises:
        InputError: one of them is not to be had.
    """
    lane()
    from nic.artefact import cache_folder, obtain, read_pins
    from nic.errors import MissingPart

    try:
        return obtain(cache_folder(), read_pins(), kernel, KERNELS[kernel], say)
    except MissingPart as error:
        raise InputError(f"xdplab cost: {error}") from None


def program(name: str) -> Path:
    """A program of bpf/cost, compiled when it is missing or older than its source.

    Raises:
        InputError: it cannot be compiled.
    """
    lane()
    here = checkout()
    assert here is not None
    made = subprocess.run(
        ["make", "--silent", "-C", str(here / "bpf"), "cost"], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise InputError(f"bpf/cost: make failed: {' '.join(made.stderr.split()[:40]) or 'no message'}")
    return here / "bpf" / "build" / "cost" / name


@cache
def _libraries(path: str) -> tuple[str, ...]:
    """What the dynamic linker loads for a program, and the linker itself."""
    done = subprocess.run(["ldd", path], capture_output=True, text=True, check=False)
    return tuple(re.findall(r"(/\S+) \(0x", done.stdout))


def files_of(programs: Mapping[str, str]) -> dict[str, Path]:
    """Path in the guest -> file here, with libraries at the paths that programs look for them."""
    files: dict[str, Path] = {}
    for path, place in programs.items():
        files[place] = Path(path)
        for library in _libraries(path):
            # libxdp loads its own programs from beside it
            more = Path(library).resolve().parent.glob("bpf/*.o") if "libxdp" in library else ()
            for each in (library, *map(str, more)):
                files[(each if each.startswith("/usr") else f"/usr{each}").lstrip("/")] = Path(each)
    return files


def _entries(driver: Driver, forwarder: Forwarder, symbols: bool) -> "list[Entry]":
    from nic.archive import Entry, folder, program as executable

    sink = "a1" if forwarder.name == TESTER else "b0"
    cell = (
        f"DRIVER={driver.name} SINK={sink} FRAMES={FRAMES} ROUNDS={ROUNDS} PROCESS={forwarder.process}\n"
        f"card_settings() {{ {driver.settings}; }}\nforward() {{\n{forwarder.start}\n}}\n"
    )
    tools = {_which(name): f"usr/bin/{name}" for name in ("ip", "bridge", "chrt")}
    tools |= {_which("ethtool"): "usr/sbin/ethtool"}
    files = files_of({**tools, **forwarder.programs})
    files["usr/bin/meter"] = program("meter")
    parents = sorted(
        {str(parent) for place in files for parent in Path(place).parents if str(parent) not in (".", "usr")}
    )
    entries = [folder(parent) for parent in ("lane", *parents) if parent != "lane"]
    entries = [folder("lane"), *entries]
    entries += [executable(place, path.read_bytes()) for place, path in sorted(files.items())]
    entries += [executable("init", _INIT.read_bytes()), Entry("lane/cell", cell.encode())]
    if driver.device:
        cards = "".join(f"{ifname} {_mac(ifname)}\n" for ifname in _CARDS)
        entries.append(Entry("lane/cards", cards.encode()))
    if symbols:
        entries.append(Entry("lane/symbols"))
    return entries


def _which(name: str) -> str:
    import shutil

    path = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if path is None:
        raise InputError(f"xdplab cost: {name} is not on this machine; `ci/setup` installs it")
    return path


def _mac(ifname: str) -> str:
    return {"a0": "02:00:00:00:00:10", "a1": "02:00:00:00:00:20", "b0": "02:00:00:00:00:11", "b1": "02:00:00:00:00:21"}[
        ifname
    ]


def archive(made: "Artefact", driver: Driver, forwarder: Forwarder, *, symbols: bool) -> bytes:
    """The guest's first file system."""
    from nic.archive import base_archive, cpio

    base, modules = base_archive(made.busybox.read_bytes()), made.modules.read_bytes()
    return base + modules + cpio(_entries(driver, forwarder, symbols))


def command(made: "Artefact", driver: Driver, initrd: Path, counts: Path, seed: int) -> list[str]:
    """The argv of QEMU; it ends when the guest powers off."""
    root = made.qemu
    libraries = root / "usr/lib/x86_64-linux-gnu"
    argv = [
        *(str(root / "usr/lib64/ld-linux-x86-64.so.2"), "--library-path", str(libraries)),
        *(str(root / "usr/bin/qemu-system-x86_64"), "-L", str(root / "usr/share/qemu")),
        *("-L", str(root / "usr/share/seabios"), "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-machine", "q35,hpet=off", "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-cpu", "max"),
        *("-smp", "1", "-m", str(_MEMORY_MB), "-seed", str(seed), "-rtc", "clock=vm,base=2026-01-01T00:00:00"),
        *("-serial", "stdio", "-kernel", str(unpacked(made.image)), "-initrd", str(initrd), "-append", _APPEND),
        *("-plugin", f"file={program('count.so')},out={counts}"),
    ]
    for number, (ifname, wire) in enumerate(_CARDS.items(), 1):
        if not driver.device:
            break
        argv += ["-device", f"pcie-root-port,id=port{number},chassis={number}"]
        argv += ["-netdev", f"hubport,id=net{number},hubid={wire}"]
        argv += ["-device", f"{driver.device},bus=port{number},netdev=net{number},mac={_mac(ifname)},romfile="]
    return argv


@cache
def unpacked(image: Path) -> Path:
    """The kernel's ELF file, which starts 5 s sooner, where the image holds it as xz; else the image."""
    data = image.read_bytes()
    at = data.find(b"\xfd7zXZ\0")
    path = cost_folder() / f"vmlinux-{hashlib.sha256(data).hexdigest()}"
    if at < 0 or path.is_file():
        return image if at < 0 else path
    keep(path, lzma.LZMADecompressor().decompress(data[at:]))
    return path


def cost_folder() -> Path:
    """What is kept of guests."""
    return cache_folder() / "cost"


def keep(path: Path, content: bytes) -> None:
    """Write a file of `cost_folder` at once, whoever else writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as fresh:
        fresh.write(content)
    Path(fresh.name).replace(path)


def boot(made: "Artefact", driver: Driver, forwarder: Forwarder, seed: int, *, symbols: bool = False) -> Boot:
    """Boot a guest and read what it counted.

    Raises:
        CellFailed: it did not get there.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="xdplab-cost-") as scratch:
        initrd, counts, console = (Path(scratch, name) for name in ("initrd", "counts", "console"))
        initrd.write_bytes(archive(made, driver, forwarder, symbols=symbols))
        environment = {"QEMU_MODULE_DIR": str(made.qemu / "usr/lib/x86_64-linux-gnu/qemu")}
        process = LocalHost().start(
            command(made, driver, initrd, counts, seed), log=console, env=environment, die_with_us=True
        )
        _running.append(process)
        try:
            code = process.wait(LIMIT_S)
        finally:
            _running.remove(process)
            process.stop()
        text = console.read_text(encoding="utf-8", errors="replace")
        if code is None:
            raise CellFailed(f"the guest was not done after {LIMIT_S:.0f} s; its console ends: {_tail(text)}")
        if code or "\ncost end" not in text.replace("\r", ""):
            raise CellFailed(_complaint(text) or f"QEMU ended with exit code {code}: {_tail(text)}")
        if not counts.exists():
            raise CellFailed("the plugin wrote nothing: is the disk full?")
        return _read(text.replace("\r", ""), counts.read_text(encoding="ascii"), time.monotonic() - began)


#: Emulators of all threads.
_running: list[Running] = []


def stop_all() -> None:
    """End every guest: its boot fails."""
    for process in list(_running):
        process.stop()


def digest(made: "Artefact", driver: Driver, forwarder: Forwarder, seed: int) -> str:
    """Over all that the guest is: the same digest, the same instructions."""
    found = hashlib.sha256(_FORMAT + archive(made, driver, forwarder, symbols=False))
    found.update(made.image.read_bytes() + program("count.so").read_bytes())
    found.update((made.emulator / "packages.json").read_bytes())
    words = command(made, driver, Path("initrd"), Path("counts"), seed)
    found.update(" ".join(word for word in words if "/" not in word).encode())
    return found.hexdigest()


def _complaint(text: str) -> str:
    """What process 1 said, with the line before it, which is the program's own."""
    lines = [line for line in text.replace("\r", "").splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if line.startswith("cost fail: "):
            before = lines[number - 1] if number and not lines[number - 1].startswith(("[", "cost")) else ""
            return f"{line.removeprefix('cost fail: ')}{f': {before.strip()}' if before and before not in line else ''}"
    panic = next((line for line in lines if "Kernel panic" in line), "")
    return f"the kernel does not boot: {panic}" if panic else ""


def _tail(text: str) -> str:
    return " | ".join(line.strip() for line in text.splitlines()[-3:])


_SYMBOL = re.compile(r"^([0-9a-f]{16}) [tTwW] (\S+)(?:\s+\[(\S+)\])?$", re.MULTILINE)
_MODULE = re.compile(r"^\w+ (\d+) .* 0x([0-9a-f]{16})\b", re.MULTILINE)
_MAP = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r-xp ([0-9a-f]+) \S+ \d+\s*(\S*)$", re.MULTILINE)


def _read(text: str, counts: str, seconds: float) -> Boot:
    bursts = tuple(
        (int(frames), int(ticks)) for frames, ticks in re.findall(r"^burst (\d+) (\d+)$", text, re.MULTILINE)
    )
    table: dict[int, tuple[int, ...]] = {}
    for line in counts.splitlines():
        address, *numbers = line.split()
        table[int(address, 16)] = tuple(map(int, numbers))
    if len(bursts) != 2 * ROUNDS or any(len(numbers) != len(bursts) for numbers in table.values()):
        raise CellFailed(f"{len(bursts)} bursts instead of {2 * ROUNDS}, or marks that the plugin did not see")
    symbols = tuple((int(at, 16), name, module) for at, name, module in _SYMBOL.findall(text))
    modules = tuple((int(at, 16), int(at, 16) + int(size)) for size, at in _MODULE.findall(text))
    maps = tuple(
        (int(first, 16), int(last, 16), int(offset, 16), file) for first, last, offset, file in _MAP.findall(text)
    )
    note = re.search(r"^flows are not offloaded.*$", text, re.MULTILINE)
    return Boot(bursts, table, symbols, modules, maps, note[0] if note else "", seconds)
