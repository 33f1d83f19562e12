# SPDX-License-Identifier: Apache-2.0
"""What a command loads: big libraries only where they are used, told by `sys.modules` and not by a clock."""

import subprocess
import sys
from pathlib import Path

import pytest

STORED = Path(__file__).parent / "data" / "stored-run"
_RUN = """
import sys
from xdplab.cli import main
heavy, sys.argv = sys.argv[1].split(","), ["xdplab", *sys.argv[2:]]
try:
    main()
finally:
    print(*[name for name in heavy if name in sys.modules], sep=",", file=sys.stderr)
"""
_PLOTS = {"sklearn", "scipy.stats", "scipy.optimize", "asyncssh", "scapy"}
_EVERYTHING = {*_PLOTS, "numpy", "scipy", "pandas", "xdplab.model", "jinja2", "yaml", "robot", "MLRsearch", "hdrh"}


def loaded(heavy: set[str], *argv: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, ",".join(sorted(heavy)), *argv], capture_output=True, text=True, check=True
    )
    assert done.stdout
    return [name for name in done.stderr.strip().split(",") if name]


@pytest.mark.parametrize("argv", [["--version"], ["--help"], ["run", "--help"], ["lab", "--help"]], ids=" ".join)
def test_help_and_version_load_no_library_but_that_of_the_command_line(argv: list[str]) -> None:
    assert loaded(_EVERYTHING, *argv) == []


def test_only_what_lists_commands_looks_for_those_of_other_packages() -> None:
    assert loaded({"importlib.metadata", "xdplab_cost"}, "--version") == []
    assert loaded({"importlib.metadata"}, "--help") == ["importlib.metadata"]


def test_a_run_is_shown_without_the_libraries_that_draw_and_classify() -> None:
    """Nor is what other methods need, or other hosts."""
    others = {"xdplab_timeline.micro", "xdplab.forwarders.dpdk", "asyncio"}
    assert loaded({*_PLOTS, *others, "jinja2", "xdplab.runner", "xdplab.report"}, "show", str(STORED)) == []


def test_the_front_ends_load_no_library_that_draws_and_classifies() -> None:
    code = "import sys, xdplab.app, xdplab.robot; print([m for m in sys.modules if m in sys.argv[1:]])"
    done = subprocess.run([sys.executable, "-c", code, *_PLOTS], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
