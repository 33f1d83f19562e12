# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/first-lab.md and docs/provision.md, run as they stand there, against the lab.

What differs: the addresses, and sshd's port, are those of the lab; `~` is a folder of the lab, so that no key and no
known host of the user is touched; runs are short, because everything is slow in emulation (`MORE`).
"""

import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from labbox import box
from labbox.machines import MACHINES, SSH_PORT
from labbox.others import OTHERS
from nic.errors import Hang, MissingPart
from xdplab.model.run import LAB_IN_A_BOX
from xdplab.tools import cache_folder, project_root

ROOT = project_root()
PAGES = ("docs/first-lab.md", "docs/provision.md")
#: A block of text whose first line begins with one of these holds commands; others are pictures.
PROGRAMS = ("ssh", "ssh-keygen", "ssh-copy-id", "ssh-keyscan", "xdplab", "make", "robot")
_SHORT_RUN = ("--set", "traffic.probe_pps=1000", "--set", "method.light_pps=500", "--set", "method.duration_s=1",
              "--set", "method.light_duration_s=1", "--set", "method.turns=1")  # fmt: skip
#: Beginning of a command -> what is added to it.
MORE = {
    "xdplab run": _SHORT_RUN,
    "robot": ("-v", "PRESET:quick", "-v", "LINE_RATE:2e6", "-v", "FRAME_SIZES:64"),
    "make": ("-o", "setup"),  # this machine is set up
}
#: Of runs that name none.
_FORWARDERS = ("--set", "forwarders=[xdp, linux-bridge, ovs-afxdp, ovs-kernel]")
#: Where sshd listens; emulated machines answer after the 5 s that ssh-keyscan waits, and it asks once for each type.
_SSH_OPTIONS = {
    "ssh": ("-p", str(SSH_PORT)),
    "ssh-copy-id": ("-p", str(SSH_PORT)),
    "ssh-keyscan": ("-T", "60", "-t", "ed25519", "-p", str(SSH_PORT)),
}
#: Command -> why it is not run.
LEFT_OUT = {
    'make provision TESTBED=lab.yaml ANSIBLE="-e xdplab_boot=true"': "the machines are booted without GRUB",
}
#: Commands that end with 2 where something is missing, and say what: before provisioning much is.
_MAY_FIND_GAPS = ("xdplab doctor",)
_LIMIT_S = 7200.0
#: Answers ssh's questions: whether a host is known, a passphrase for the new key, the password.
_ASKPASS = """#!/bin/sh
case $1 in
*yes/no*) echo yes ;;
*passphrase*) echo ;;
*) echo "$LAB_PASSWORD" ;;
esac
"""
#: ssh takes `~` from the accounts of this machine, and not from HOME.
_SSH = '#!/bin/sh\nexec /usr/bin/ssh -F none -o UserKnownHostsFile="$HOME/.ssh/known_hosts" "$@"\n'


@dataclass(frozen=True)
class Step:
    """A command, the file that what it prints is added to, and the one that it reads."""

    argv: tuple[str, ...]
    output: Path | None = None
    input: str = os.devnull


def commands(text: str) -> list[str]:
    """Those of a page, without their comments, in order."""
    blocks = re.findall(r"^```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [re.sub(r"\s{2,}#.*", "", line).strip() for each in blocks for line in each.splitlines() if _is(each)]
    return [line for line in lines if line]


def _is(block: str) -> bool:
    return block.split(maxsplit=1)[0] in PROGRAMS


def step(line: str, home: Path) -> Step:
    """What is run for a line of a page.

    Raises:
        Hang: It is none of the programs that pages may have.
    """
    words = shlex.split(line)
    if words[0] not in PROGRAMS:
        raise Hang(f"{line!r}: the lab knows commands that begin with {', '.join(PROGRAMS)}")
    for machine in MACHINES:
        port = "" if words[0].startswith("ssh") else f":{SSH_PORT}"
        words = [word.replace(machine.documented, machine.address + port) for word in words]
    words = [str(home) + word[1:] if word.startswith("~/") else word for word in words]
    words[1:1] = _SSH_OPTIONS.get(words[0], ())
    for beginning, more in MORE.items():
        if line.startswith(f"{beginning} "):
            count = len(beginning.split())
            words = [*words[:count], *more, *words[count:]] if count == 1 else [*words, *more]
            words += _FORWARDERS if beginning == "xdplab run" and "forwarders=" not in line else ()
    *argv, redirected, path = words if {">>", "<"} & {*words} else [*words, "", ""]
    if redirected == "<":
        return Step(tuple(argv), input=path)
    return Step(tuple(argv), Path(path)) if redirected else Step(tuple(argv))


class Reader:
    """Who follows the pages: a home, a copy of the checkout's top to work in, and a log of all that was printed."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self.home, self.place = say, box.FOLDER / "home", box.FOLDER / "place"
        #: Program of others -> why there is none; empty: it is where it belongs.
        self._absent: dict[str, str] = {}
        state = box.read_state()
        if state is None:
            raise MissingPart("no lab runs; `make lab` starts one")
        self._followed = box.FOLDER / "followed"
        #: Commands of the pages that have passed in this lab.
        self.followed = self._followed.read_text(encoding="utf-8").splitlines() if self._followed.exists() else []
        self._log = (box.FOLDER / "follow.log").open("ab" if self.followed else "wb")
        (self.home / "bin").mkdir(parents=True, exist_ok=True)
        (self.home / ".ssh").mkdir(mode=0o700, exist_ok=True)
        for name, text in (("ssh", _SSH), ("askpass", _ASKPASS)):
            (self.home / "bin" / name).write_text(text, encoding="ascii")
            (self.home / "bin" / name).chmod(0o755)
        self.place.mkdir(exist_ok=True)
        for path in ROOT.iterdir():
            if path.name not in ("build", "results", ".git") and not (self.place / path.name).exists():
                (self.place / path.name).symlink_to(path)
        self.env = {
            **os.environ,
            "HOME": str(self.home),
            "PATH": f"{self.home / 'bin'}:{ROOT / '.venv/bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "tools"),
            "SSH_ASKPASS": str(self.home / "bin/askpass"),
            "SSH_ASKPASS_REQUIRE": "force",
            "LAB_PASSWORD": state.password,
            "XDPLAB_CACHE": str(cache_folder()),
            "XDPLAB_RESULTS": str(self.place / "results"),
            "XDPLAB_STATE": str(self.home / "state"),
            "LC_ALL": "C.UTF-8",
        }
        self.env.pop("SSH_AUTH_SOCK", None)

    def passed(self, line: str) -> None:
        """Record a command that passed."""
        self.followed.append(line)
        with self._followed.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def _why_absent(self, line: str) -> str:
        """Empty where a command needs no program of others, or this machine has it: the first one has it sent."""
        return next(filter(None, (self._send_once(name) for name in OTHERS if name in line)), "")

    def _send_once(self, name: str) -> str:
        if name not in self._absent:
            self._absent[name] = OTHERS[name](self._say)
        return self._absent[name]

    def run(self, line: str, refused: str = "") -> str:
        """Run a command of a page; what it printed. `refused`: it must end as bad input, with these words.

        Raises:
            Hang: It failed, or was not refused.
        """
        why = LEFT_OUT.get(line) or self._why_absent(line)
        if why:
            self._say(f"left out, {why}: {line}")
            return ""
        began, todo = time.monotonic(), step(line, self.home)
        try:
            with (self.place / todo.input).open("rb") as given:
                done = subprocess.run(
                    todo.argv, cwd=self.place, env=self.env, stdin=given, stdout=subprocess.PIPE,
                    stderr=None if todo.output else subprocess.STDOUT, timeout=_LIMIT_S, check=False,
                )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Hang(f"`{line}`: timed out after {_LIMIT_S:g} s") from None
        self._log.write(f"\n$ {shlex.join(todo.argv)}\n".encode() + done.stdout)
        self._log.flush()
        text = done.stdout.decode(errors="replace")
        if refused:
            if done.returncode != 2 or refused not in text:
                said = text[-3000:]
                raise Hang(f"exit code {done.returncode} of `{line}`, which was to be refused, {refused!r}:\n{said}")
        elif done.returncode and not (done.returncode == 2 and line.startswith(_MAY_FIND_GAPS)):
            raise Hang(f"exit code {done.returncode} of `{line}`:\n{text[-3000:]}")
        if todo.output:
            with todo.output.open("a", encoding="utf-8") as file:
                file.write(text)
        self._say(f"{time.monotonic() - began:4.0f} s: {line}")
        return text


def follow(reader: Reader) -> None:
    """Every command of the pages, and what the pages say of it.

    Raises:
        Hang: One failed, or does not do what its page says.
    """
    lines = list(_lines())
    done = list(reader.followed)
    if lines[: len(done)] != done:
        raise Hang("the pages have other commands than when the lab began; `make lab-down` ends it")
    seen = set(done)
    for line in lines[len(done) :]:
        text = reader.run(line)
        if line == "make provision TESTBED=lab.yaml" and line in seen:
            counts = re.findall(r"changed=(\d+)", text)
            if counts != ["0"] * len(MACHINES):
                raise Hang(f"the second time `{line}` changed something: {counts}")
        if text and line.startswith(("xdplab run", "robot")):
            page = (reader.place / "results/latest/report.html").read_text(encoding="utf-8")
            if f"emulated ({LAB_IN_A_BOX})" not in page:
                raise Hang(f"the report of `{line}` does not say that its machines are emulated")
        seen.add(line)
        reader.passed(line)


def _lines() -> Iterator[str]:
    for page in PAGES:
        yield from commands((ROOT / page).read_text(encoding="utf-8"))
