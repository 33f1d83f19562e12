# SPDX-License-Identifier: Apache-2.0
"""Every command of every page can be typed as it stands: its program, command, options, studies and files are there.

Those of README.md and its sequels are run as well (`test_readme.py`).
"""

import itertools
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from dev.__main__ import cli as dev
from dev.commands import commands_in
from xdplab import app
from xdplab.cli.main import cli
from xdplab.cli.study import changes_of
from xdplab.model import InputError

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
         "ovs/README.md", "bpf/README.md", "vpp/README.md", "trex/README.md")  # fmt: skip
#: Of the system: nothing of ours is in their arguments.
SYSTEM = {
    "cargo",
    "cc",
    "clang",
    "cp",
    "ssh",
    "ssh-keygen",
    "ssh-copy-id",
    "ssh-keyscan",
    "apt-get",
    "podman",
    "pip",
    "python3",
    "xdplab-env/bin/pip",
    ".",
    "cd",
    "git",
    "go",
}
#: What a reader makes of a page before, and what stands for something of his own.
THEIRS = re.compile(r"(lab|mine|hop|sink|dns|acme-\w+)\.(yaml|dat)|/tmp/lab/.*|[A-Z][A-Z_/.-]*|\.\.\.")
ENDS = re.compile(r"\s{2,}#.*|\s+#\s.*")


_BLOCK = re.MULTILINE | re.DOTALL


def fenced(page: str) -> Iterator[str]:
    """Of blocks, fenced and indented; a command ends where its line and its quotes do."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```(?:sh|text|console)\n(.*?)^```", text, _BLOCK)
    rest = re.sub(r"^```.*?^```", "", text, flags=_BLOCK)
    ours = re.compile(r"    (?:xdplab|robot|make|\w+/\w+)( |$)")
    for block in [*blocks, *re.findall(r"(?:^    .*\n)+", rest, re.MULTILINE)]:
        line = ""
        for each in block.splitlines():
            line = f"{line} {ENDS.sub('', each)}" if line else ENDS.sub("", each)
            if line.count('"') % 2 == 0:
                if line.strip() and (block in blocks or ours.match(line)):
                    yield line.strip()
                line = ""


def inline(page: str) -> Iterator[str]:
    """Code within sentences that begins with a program of ours."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=_BLOCK)
    for found in re.findall(r"`([^`]+)`", text):
        line = " ".join(found.split())
        if re.match(r"(xdplab|robot|make|pytest|ovs/\w+|ci/\w+|bpf/build/\w+|\.venv/bin/python) ", line):
            yield line


def typed(command: Any, words: list[str], *, whole: bool) -> dict[str, Any]:
    """What typer makes of the words; a sentence may leave arguments out."""
    while commands := commands_in(command):
        if not words or words[0].startswith("-"):
            return {}
        assert words[0] in commands, f"no command {words[0]}"
        command, words = commands[words[0]], words[1:]
    try:
        params: dict[str, Any] = command.make_context("xdplab", list(words)).params
    except Exception as exc:  # of click, which is not public in typer
        if "'results/" in str(exc):  # of a run that the reader has
            return {}
        if whole or type(exc).__name__ != "MissingParameter":
            raise AssertionError(f"{type(exc).__name__}: {getattr(exc, 'message', exc)}") from exc
        return {}
    return params


def xdplab(words: list[str], *, whole: bool) -> None:
    command = typer.main.get_command(cli)
    params = typed(command, words, whole=whole)
    study, changes = params.get("study"), params.get("set_")
    if words[:1] == ["run"] and study and not THEIRS.fullmatch(str(study)):
        found = app.find_study(str(study))
        assert (ROOT / found).is_file() or found.is_file(), f"no study {study}"
        if changes and not re.search(r"\$|\.\.\.", " ".join(changes)):  # a variable of the shell
            app.read_study(ROOT / found, changes_of(list(changes)))


def robot(words: list[str], *, whole: bool) -> None:
    """Suites are files, and their variables are those that they declare."""
    suites = [ROOT / word for word in words if word.endswith(".robot") and not THEIRS.fullmatch(word)]
    assert suites or not whole, "no suite"
    declared = {"ALLOW_PROGRAM"}
    for suite in suites:
        assert suite.is_file(), f"no suite {suite}"
        declared |= set(re.findall(r"^\$\{(\w+)\}", suite.read_text(encoding="utf-8"), re.MULTILINE))
    for option, value in pairwise(words):
        if option == "-v" and suites:
            assert value.partition(":")[0] in declared, f"no variable {value}"


MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def make(words: list[str], *, whole: bool) -> None:
    folder = ROOT
    if words[0] == "-C":
        folder, words = ROOT / words[1], words[2:]
    text = (folder / "Makefile").read_text(encoding="utf-8")
    targets = {target for line in re.findall(r"^([\w./ -]+):", text, re.MULTILINE) for target in line.split()}
    for word in words:
        name, given, _ = word.partition("=")
        there = f"$({name})" in text or f"$({name}:" in text or f"{name} ?=" in text if given else word in targets
        assert there or THEIRS.fullmatch(word), f"no target or variable {word}"


def program(path: str, words: list[str]) -> None:
    """A file of the tree, or a folder that python runs, and options that its sources have."""
    at = ROOT / path
    assert at.exists() or path.startswith("bpf/build/"), f"no program {path}"
    at = at if at.exists() else ROOT / "bpf" / Path(path).name
    files = [at] if at.is_file() else [each for each in at.rglob("*") if each.suffix in (".py", ".c", ".h")]
    text = "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)
    ours = words[: words.index("--")] if "--" in words else words
    for option in [word.partition("=")[0] for word in ours if word.startswith("--")]:
        assert option in text or f'"{option[2:]}"' in text, f"no option {option} of {path}"


def check(line: str, *, whole: bool) -> None:
    """Raises where a part of the command is not there."""
    line = line.replace("$(xdplab where suites)", "suites").replace("/usr/local/share/xdplab/", "")
    first, *words = shlex.split(line.removeprefix("git bisect run ").partition(" | ")[0].partition(" > ")[0])
    if first == "xdplab":
        xdplab(words, whole=whole)
    elif first == "robot":
        robot(words, whole=whole)
    elif first == "make":
        make(words, whole=whole)
    elif first == "pytest" or words[:2] == ["-m", "pytest"]:
        files = [word for word in words if word.endswith(".py")]
        options = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "suites/pytest").glob("*.py"))
        assert all((ROOT / file).is_file() for file in files), files
        assert all(word.partition("=")[0] in options for word in words if word.startswith("--")), words
    elif words[:2] == ["-m", "xdplab_delays"]:
        program("tools/xdplab_delays", words[2:])
    elif words[:1] == ["tools/dev"]:
        typed(typer.main.get_command(dev), words[1:], whole=whole)
    elif first == "python" or first.endswith("bin/python"):
        program(words[0], words[1:])
    elif "/" in first and first not in SYSTEM:
        program(first, words)
    else:
        assert first in SYSTEM, f"unknown program {first}"


def test_every_command_of_a_page_can_be_typed() -> None:
    wrong = []
    for page, (whole, of) in itertools.product(PAGES, ((True, fenced), (False, inline))):
        for line in of(page):
            if "----" in line:  # a drawing of cables
                continue
            try:
                check(line, whole=whole)
            except (AssertionError, InputError, ValueError) as exc:  # ValueError: quotes without an end
                wrong.append(f"{page}: {line}: {exc}")
    assert wrong == []


@pytest.mark.parametrize(
    "line",
    [
        "xdplab measure latency",
        "xdplab run latencies",
        "xdplab run latency --set method.nothing=1",
        "xdplab run latency --dryrun",
        "xdplab dev bench-sweep",
        "robot suites/none.robot",
        "robot -v NOTHING:1 suites/latency.robot",
        "make nothing",
        "make provision NOTHING=1",
        "ovs/build --nothing",
        "ci/nothing",
        "pytest suites/pytest/test_rfc2544.py --nothing",
        "nothing",
    ],
)
def test_a_command_that_is_not_there_is_found(line: str) -> None:
    with pytest.raises((AssertionError, InputError)):
        check(line, whole=True)


def test_a_study_that_a_page_names_is_there() -> None:
    for page in PAGES:
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        named = re.findall(r"\bstud(?:y|ies) ((?:`[a-z0-9-]+`(?:, | and )?)+)", text)
        assert {name for each in named for name in re.findall(r"`([^`]+)`", each)} <= app.study_files().keys(), page
