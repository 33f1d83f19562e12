# SPDX-License-Identifier: Apache-2.0
"""One run of the guest: what it is told, and that it ends.

Two guards: process 1 of the guest powers it off after `limit_s`, and if that does not come to pass, QEMU is ended from
outside a little later. QEMU also ends when this process is killed.
"""

import contextlib
import secrets
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nic.archive import Entry, cpio, folder, program
from nic.artefact import Artefact
from nic.errors import Hang, MissingPart
from nic.qemu import CARDS, Card, Share, command, environment
from xdplab.hosts import LocalHost, Running

_INIT = Path(__file__).with_name("init")
#: From QEMU's start to the guest's own guard, and from that guard to power off.
_BOOT_S, _POWER_OFF_S = 30.0, 15.0
_LOOK_S = 0.2


@dataclass(frozen=True)
class Job:
    """What the guest is to do.

    Attributes:
        argv: Command of the guest; its exit code is the guest's word.
        checkout: Folder of the project: the guest sees it, and `/usr`, at the same paths, read-only.
        results: Folder that the guest sees as /results and may write to.
        limit_s: When the guest gives up.
    """

    argv: tuple[str, ...]
    checkout: Path
    results: Path
    limit_s: float


def shares(job: Job) -> tuple[Share, ...]:
    """The folders that the guest sees: nothing of /etc, /home or /root is among them, unless the project lies there.

    Raises:
        MissingPart: .venv was made from a Python that lies elsewhere.
    """
    seen = [Path("/usr"), job.checkout]
    interpreter = (job.checkout / ".venv/bin/python").resolve()
    if not any(interpreter.is_relative_to(path) for path in seen):
        raise MissingPart(f"the guest sees /usr and {job.checkout}, and .venv uses {interpreter}; make it with /usr's")
    tagged = [Share(f"share{number}", path) for number, path in enumerate(seen)]
    return (*tagged, Share("results", job.results, writable=True))


def lane_archive(job: Job, nonce: str, cards: Sequence[Card] = CARDS) -> bytes:
    """The second archive of the guest: process 1 and what this run is about."""
    mounts = {share: "rw,cache=none" if share.writable else "ro,cache=loose" for share in shares(job)}
    at = {share: "/results" if share.writable else str(share.path) for share in mounts}
    for path in at.values():
        if any(letter.isspace() or letter == "\\" for letter in path):
            raise MissingPart(f"{path!r}: the NIC lane's guest takes no path with blanks or backslashes")
    texts = {
        "settings": f"NONCE={shlex.quote(nonce)}\nLIMIT_S={round(job.limit_s)}\n",
        "mounts": "".join(f"{share.tag} {access} {at[share]}\n" for share, access in mounts.items()),
        "cards": "".join(f"{card.ifname} {card.mac}\n" for card in cards),
        "command": f"cd {shlex.quote(str(job.checkout))} && {shlex.join(job.argv)}\n",
    }
    entries = [program("init", _INIT.read_bytes()), folder("lane")]
    return cpio([*entries, *(Entry(f"lane/{name}", text.encode()) for name, text in texts.items())])


def run_guest(artefact: Artefact, job: Job, log: Path, show: Callable[[str], None]) -> int:
    """Boot, wait, and return the exit code of the job.

    Args:
        artefact: QEMU and kernel.
        job: What to do there.
        log: File for the guest's console.
        show: Called with each line that the job prints.

    Raises:
        Hang: The guest did not end by itself, or not with an exit code.
    """
    nonce = secrets.token_hex(8)
    archive = job.results.parent / "guest.cpio"
    archive.write_bytes(artefact.archive.read_bytes() + lane_archive(job, nonce))
    argv = command(artefact, archive, shares(job))
    try:
        return supervise(argv, environment(artefact), job.limit_s, nonce, log, show)
    finally:
        archive.unlink()


def supervise(
    argv: Sequence[str], env: dict[str, str], limit_s: float, nonce: str, log: Path, show: Callable[[str], None]
) -> int:
    """Start the guest's emulator and see to it that it ends; see `run_guest`."""
    process = LocalHost().start(argv, log=log, env=env, die_with_us=True)
    began = time.monotonic()
    console = _Console(log, nonce, show)
    try:
        while process.wait(_LOOK_S) is None:
            console.look()
            if time.monotonic() - began > limit_s + _BOOT_S + _POWER_OFF_S:
                raise Hang(f"the guest did not even power off after {limit_s:g} s; its console is {log}")
            if not console.begun and time.monotonic() - began > _BOOT_S + limit_s / 4:
                raise Hang(f"the guest did not boot in {time.monotonic() - began:.0f} s; its console is {log}")
    finally:
        _end(process)
    console.look()
    return console.verdict()


def _end(process: Running) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.stop()


class _Console:
    """The guest's serial line, a file that grows."""

    def __init__(self, log: Path, nonce: str, show: Callable[[str], None]) -> None:
        self._log, self._mark, self._show = log, f"nic-lane {nonce} ", show
        self._read = 0
        self._end: str | None = None
        self._hang = ""
        self.begun = False

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
        elif self.begun and self._end is None and not self._hang:
            self._show(line)

    def verdict(self) -> int:
        """The exit code that process 1 told.

        Raises:
            Hang: It told none.
        """
        if self._hang:
            raise Hang(f"the guest hung: {self._hang.partition(';')[0]}; stacks of what blocked it are in {self._log}")
        if self._end is None:
            tail = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-3:]
            raise Hang(f"the guest ended without a word; its console, {self._log}, ends: {' | '.join(tail)}")
        if not self._end.isdigit():
            raise MissingPart(f"the guest found {self._end}; its console is {self._log}")
        return int(self._end)
