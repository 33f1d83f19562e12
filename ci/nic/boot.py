# SPDX-License-Identifier: Apache-2.0
"""Guests that run in parallel: what each is given, and that it ends.

Two guards: process 1 of a guest powers it off after `limit_s`, and if that does not come to pass, QEMU is ended from
outside a little later. QEMU also ends when this process is killed.
"""

import contextlib
import functools
import secrets
import shlex
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nic.archive import Entry, base_archive, cpio, folder, program
from nic.artefact import Artefact, cache_folder
from nic.errors import Hang, MissingPart
from nic.qemu import Card, Share, command, environment
from xdplab.hosts import LocalHost

_INIT = Path(__file__).with_name("init")
#: From QEMU's start to the guest's own guard, and from that guard to power off.
_BOOT_S, _POWER_OFF_S = 30.0, 15.0
_LOOK_S = 0.2
#: Emulators and kernels that may break before their guest has begun: QEMU 10.0 with two CPUs did so once in some ten
#: boots (its issue 1921, "iotlb_to_section", a race of its own threads).
_ABORTS = 2
#: The kernel's own watch over tasks that wait (CONFIG_DETECT_HUNG_TASK).
STUCK = "INFO: task swapper/"


@dataclass(frozen=True)
class Job:
    """What a guest is to do.

    Attributes:
        argv: Command of the guest; its exit code is the guest's word.
        cards: What it has.
        memory_mb: Of it.
        checkout: Folder of the project: the guest sees it, `/usr` and `more`, at the same paths, read-only.
        more: Other folders.
        results: Folder that the guest sees as /results and may write to.
        limit_s: When the guest gives up.
        iommu: Its cards are behind one.
    """

    argv: tuple[str, ...]
    cards: tuple[Card, ...]
    memory_mb: int
    checkout: Path
    more: tuple[Path, ...]
    results: Path
    limit_s: float
    iommu: bool = False


def shares(job: Job) -> tuple[Share, ...]:
    """The folders that the guest sees: nothing of /etc, /home or /root is among them, unless the project lies there.

    Raises:
        MissingPart: .venv was made from a Python that lies elsewhere.
    """
    seen = [Path("/usr"), job.checkout, *job.more]
    environment = (job.checkout / ".venv").resolve()
    if not environment.is_relative_to(job.checkout):  # that of another checkout, linked
        seen.append(environment)
    interpreter = (job.checkout / ".venv/bin/python").resolve()
    if not any(interpreter.is_relative_to(path) for path in seen):
        raise MissingPart(f"the guest sees /usr and {job.checkout}, and .venv uses {interpreter}; make it with /usr's")
    tagged = [Share(f"share{number}", path) for number, path in enumerate(seen)]
    return (*tagged, Share("results", job.results, writable=True))


def lane_archive(job: Job, nonce: str) -> bytes:
    """The second archive of the guest: process 1 and what this run is about."""
    mounts = {share: "rw,cache=none" if share.writable else "ro,cache=loose" for share in shares(job)}
    at = {share: "/results" if share.writable else str(share.path) for share in mounts}
    for path in at.values():
        if any(letter.isspace() or letter == "\\" for letter in path):
            raise MissingPart(f"{path!r}: the NIC lane's guest takes no path with blanks or backslashes")
    texts = {
        "settings": f"NONCE={shlex.quote(nonce)}\nLIMIT_S={round(job.limit_s)}\n",
        "mounts": "".join(f"{share.tag} {access} {at[share]}\n" for share, access in mounts.items()),
        "cards": "".join(f"{card.ifname} {card.mac}\n" for card in job.cards),
        "command": f"cd {shlex.quote(str(job.checkout))} && {shlex.join(('env', *_variables(job), *job.argv))}\n",
    }
    entries = [program("init", _INIT.read_bytes()), folder("lane")]
    return cpio([*entries, *(Entry(f"lane/{name}", text.encode()) for name, text in texts.items())])


def _variables(job: Job) -> tuple[str, ...]:
    """So that this checkout's package runs, and finds the programs that were built here."""
    return f"PYTHONPATH={job.checkout / 'tools'}:{job.checkout / 'ci'}", f"XDPLAB_CACHE={cache_folder().parent}"


def run_guests(
    artefact: Artefact, jobs: Mapping[str, Job], show: Callable[[str], None]
) -> dict[str, int | Hang | MissingPart]:
    """Boot a guest for each job, all at once, and return what each ended with: an exit code, or why there is none.

    Args:
        artefact: QEMU and kernel.
        jobs: Name of the guest -> what to do there. Its console is `console.log` beside the folder of its results.
        show: Called with each line that a job prints, behind the guest's name when there are several.
    """
    with tempfile.TemporaryDirectory(prefix="nic-lane-") as folder_:
        guests = {}
        for name, job in jobs.items():
            nonce, archive = secrets.token_hex(8), Path(folder_, f"{name}.cpio")
            base, modules = base_archive(artefact.busybox.read_bytes()), artefact.modules.read_bytes()
            archive.write_bytes(base + modules + lane_archive(job, nonce))
            guests[name] = Guest(
                argv=command(artefact, archive, shares(job), job.cards, job.memory_mb, iommu=job.iommu),
                env=environment(artefact),
                limit_s=job.limit_s,
                nonce=nonce,
                log=job.results.with_name("console.log"),
                show=show if len(jobs) == 1 else functools.partial(_show_of, name, show),
            )
        return supervise(guests)


def _show_of(name: str, show: Callable[[str], None], line: str) -> None:
    show(f"{name}: {line}" if line.strip() else "")


@dataclass(frozen=True)
class Guest:
    """An emulator's command line, and what is needed to follow its guest; see `Job` and `run_guests`."""

    argv: Sequence[str]
    env: Mapping[str, str]
    limit_s: float
    nonce: str
    log: Path
    show: Callable[[str], None]


def supervise(guests: Mapping[str, Guest]) -> dict[str, int | Hang | MissingPart]:
    """Start the emulators and see to it that they end, one's hang not being the others'; see `run_guests`."""
    ended: dict[str, int | Hang | MissingPart] = {}
    running: dict[str, _Run] = {}
    aborts = dict.fromkeys(guests, 0)
    try:
        for name, guest in guests.items():
            running[name] = _Run(guest)
        while len(ended) < len(guests):
            for name in [name for name in guests if name not in ended]:
                try:
                    code = running[name].look()
                except _Aborted as error:
                    running[name].end()
                    aborts[name] += 1
                    if aborts[name] > _ABORTS:
                        ended[name] = Hang(str(error))
                        continue
                    guests[name].show(f"{error}; it is started again")
                    running[name] = _Run(guests[name])
                except (Hang, MissingPart) as error:
                    ended[name] = error
                    running[name].end()
                else:
                    if code is not None:
                        ended[name] = code
    finally:
        for run in running.values():
            run.end()
    return ended


class _Aborted(Exception):
    """The emulator, or the kernel in it, broke before its guest had begun: nothing was tested yet."""


class _Run:
    """A started guest."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._process = LocalHost().start(guest.argv, log=guest.log, env=dict(guest.env))
        self._began = time.monotonic()
        self._console = _Console(guest.log, guest.nonce, guest.show)

    def look(self) -> int | None:
        """Wait a moment; the exit code, None while it runs.

        Raises:
            _Aborted: The emulator or its kernel did.
            Hang: It takes too long, or ended without an exit code.
            MissingPart: It reported what it lacks.
        """
        code = self._process.wait(_LOOK_S)
        self._console.look()
        if self._console.stuck:
            raise _Aborted(f"its kernel hung at boot: {self._console.stuck}")
        if code is not None:
            if code < 0 and not self._console.begun:
                raise _Aborted(f"QEMU aborted at boot ({signal.Signals(-code).name}): {self._console.tail(1)}")
            return self._console.verdict()
        took_s = time.monotonic() - self._began
        log, limit_s = self._guest.log, self._guest.limit_s
        if took_s > limit_s + _BOOT_S + _POWER_OFF_S:
            raise Hang(f"the guest did not even power off after {limit_s:g} s; its console is {log}")
        if not self._console.begun and took_s > _BOOT_S + limit_s / 4:
            raise Hang(f"the guest did not boot in {took_s:.0f} s; its console is {log}")
        return None

    def end(self) -> None:
        """Whatever it is doing."""
        with contextlib.suppress(ProcessLookupError):
            self._process.stop()


class _Console:
    """The guest's serial line, a file that grows."""

    def __init__(self, log: Path, nonce: str, show: Callable[[str], None]) -> None:
        self._log, self._mark, self._show = log, f"nic-lane {nonce} ", show
        self._read = 0
        self._end: str | None = None
        self._hang = ""
        self.begun = False
        #: The kernel's line on its own task that waits, before its first process (7.2, once on a busy machine).
        self.stuck = ""

    def look(self) -> None:
        """Take the lines that have come."""
        with self._log.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            self._take(line)

    def _take(self, line: str) -> None:
        _, found, word = line.partition(self._mark)
        if found and word == "begin":
            self.begun = True
        elif found and word.startswith("end "):
            self._end = word.removeprefix("end ")
        elif found and word.startswith("hang "):
            self._hang = word
        elif not self.begun and STUCK in line:
            self.stuck = line.strip()
        elif self.begun and self._end is None and not self._hang:
            self._show(line)

    def tail(self, lines: int) -> str:
        """The last lines in one."""
        return " | ".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def verdict(self) -> int:
        """The exit code that process 1 reported.

        Raises:
            Hang: It reported none.
        """
        if self._hang:
            raise Hang(f"the guest hung: {self._hang.partition(';')[0]}; stacks of what blocked it are in {self._log}")
        if self._end is None:
            raise Hang(f"the guest ended without a message; its console, {self._log}, ends: {self.tail(3)}")
        if not self._end.isdigit():
            raise MissingPart(f"the guest found {self._end}; its console is {self._log}")
        return int(self._end)
