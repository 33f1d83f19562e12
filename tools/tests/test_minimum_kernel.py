# SPDX-License-Identifier: Apache-2.0
"""One minimum kernel, the oldest that is tested: docs, doctor and code say the same."""

import re
from pathlib import Path

import pytest

from xdplab.cli.doctor_host import kernel
from xdplab.hosts.kernel import MINIMUM

PROJECT = Path(__file__).resolve().parents[2]
OLDEST = ".".join(map(str, MINIMUM))
#: Where others' machines are described, or versions are made up.
ELSEWHERE = ("tools/xdplab/model/published/", "suites/studies/", "ovs/patches/", "tools/tests/", "bpf/build/")
#: `Linux 5.18`, `kernel from 5.18 on`, `kernels before 5.6`, `(5.18)` after the words.
NAMED = re.compile(r"\b(?:linux|kernels?)\b(?: \w+){0,2} \(?v?([2-9]\.\d{1,2})\b", re.IGNORECASE)
#: What claims to be the least: a feature says that it needs a newer one, or since when it is there.
LEAST = re.compile(r"\b(?:linux|kernel) (?:from )?(\d\.\d{1,2}) (?:on|or (?:later|newer))\b", re.IGNORECASE)


def sources() -> list[Path]:
    """Of the project, as far as it is text."""
    kinds = (".py", ".md", ".c", ".h", ".yml", ".yaml", ".robot", ".toml", ".j2", "Makefile", "setup", "build")
    every = [PROJECT / name for name in ("README.md", "Makefile", "pyproject.toml")]
    for folder in ("bpf", "ci", "docs", "ovs", "suites", "tools", "trex", "vpp"):
        every += [path for path in (PROJECT / folder).rglob("*") if path.name.endswith(kinds) and path.is_file()]
    return [path for path in every if not str(path.relative_to(PROJECT)).startswith(ELSEWHERE)]


def found(pattern: re.Pattern[str], text: str) -> list[tuple[int, ...]]:
    # what a comment breaks into lines is one sentence
    return [tuple(map(int, version.split("."))) for version in pattern.findall(re.sub(r"\s*\n[\s*#/]*", " ", text))]


def test_no_file_names_an_older_kernel() -> None:
    older = {
        str(path.relative_to(PROJECT)): versions
        for path in sources()
        if (versions := [each for each in found(NAMED, path.read_text(encoding="utf-8")) if each < MINIMUM])
    }
    assert not older


def test_docs_name_one_minimum() -> None:
    docs = [path for path in sources() if path.suffix == ".md"]
    reported = {str(path.relative_to(PROJECT)): found(LEAST, path.read_text(encoding="utf-8")) for path in docs}
    reported = {name: versions for name, versions in reported.items() if versions}
    assert {"docs/hosts.md", "bpf/README.md"} <= set(reported)
    assert {version for versions in reported.values() for version in versions} == {MINIMUM}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Kernel 5.18 or later for the live sender", (5, 18)),
        ("(kernel\n * 5.18) calls live_send", (5, 18)),
        ("boot a kernel from 5.18 on", (5, 18)),
        ("which kernels below 5.6 needed", (5, 6)),
    ],
)
def test_what_stood_in_different_places_would_be_found(text: str, version: tuple[int, int]) -> None:
    assert found(NAMED, text) == [version]


@pytest.mark.parametrize(
    ("release", "state"),
    [("5.15.0-91-generic", "missing"), ("6.0.19", "missing"), ("6.1.0-32-amd64", "ok"), ("7.2", "ok")],
)
def test_the_doctor_refuses_what_is_older(release: str, state: str) -> None:
    row = kernel(release)
    assert row.state == state
    if state == "missing":
        assert (row.found, row.fix) == (
            f"{release} is older than {OLDEST}, the oldest that is tested",
            f"boot Linux {OLDEST} or later (Debian 12's or newer)",
        )
