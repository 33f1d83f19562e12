# SPDX-License-Identifier: Apache-2.0
"""The man page and the reference of the commands: complete, and without a complaint of groff."""

import re
import shutil
import subprocess

import pytest
import typer

from dev import commands
from xdplab.cli.main import cli
from xdplab.tools import project_root

#: `xdplab lab init` -> its options.
THERE = {
    words: [opt for each in command.params for opt in each.opts if opt.startswith("--")]
    for words, command in commands.leaves(typer.main.get_command(cli), "xdplab")
}


@pytest.fixture(scope="module")
def page() -> str:
    """As a terminal shows it, without bold."""
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed; `apt-get install groff-base` installs it")
    argv = ["groff", "-man", "-Tascii", "-P-cbou", "-rLL=300n", "-ww"]
    done = subprocess.run(argv, input=commands.man_page(), capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def test_the_man_page_has_each_command_with_its_options_and_its_example(page: str) -> None:
    assert {"xdplab run", "xdplab lab init", "xdplab show", "xdplab cost"} <= set(THERE)
    _, *parts = re.split(r"^   (?=xdplab )", page.partition("EXIT STATUS")[0], flags=re.MULTILINE)
    reported = {
        words: part for part in parts for words in THERE if re.match(rf"{words}( [\[A-Z]|$)", part, re.MULTILINE)
    }
    assert set(reported) == set(THERE)
    missing = {
        (words, opt) for words, opts in THERE.items() for opt in opts if not re.search(rf"{opt}\b", reported[words])
    }
    assert missing == set()
    assert [words for words in THERE if f"Example: {words}" not in reported[words]] == []


def test_it_names_the_variables_that_the_code_reads(page: str) -> None:
    sources = [path.read_text(encoding="utf-8") for path in (project_root() / "tools").glob("xdplab*/**/*.py")]
    read = {name for text in sources for name in re.findall(r"XDPLAB_[A-Z_]+", text)} - {"XDPLAB_UP_UNTIL_EOF"}
    assert len(read) >= 7
    assert set(re.findall(r"XDPLAB_[A-Z_]+", page.partition("ENVIRONMENT")[2])) == read


def test_what_roff_would_take_for_itself_is_escaped() -> None:
    assert commands._man(".so `a-b` \\x") == "\\&.so \\fBa\\-b\\fR \\ex"


def test_the_reference_has_a_section_for_each_command() -> None:
    text = commands.reference()
    assert set(re.findall(r"^## (xdplab .+)$", text, re.MULTILINE)) == set(THERE)
    assert [opt for opts in THERE.values() for opt in opts if not re.search(rf"[` ]{opt}\b", text)] == []
