# SPDX-License-Identifier: Apache-2.0
"""The lane from its command line to its exit code."""

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from nic.artefact import cache_folder, obtain, read_pins
from nic.boot import Job, run_guest
from nic.errors import Hang, MissingPart
from nic.outcome import read_outcome
from xdplab.tools import bpf_program, project_root

#: Of the guest's own guard; a run takes about two minutes on two cores of 2026.
_LIMIT_S = 300.0
#: Without the plugins that the guest has no use for: each module that is loaded there takes its time.
_PYTEST = ("-m", "pytest", "-p", "pytest_timeout", "-p", "no:cacheprovider", "-v", "--tb=short", "--color=no",
           "--timeout=100", "--junitxml=/results/tests.xml")  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Run the tests, or another command, in the guest; exit code 0 good, 1 not, 2 something is missing."""
    options = _parse(argv)
    began = time.monotonic()
    try:
        if options.command:
            return _other(options)
        code = _tests(options)
    except MissingPart as error:
        print(f"nic-test: {error}", file=sys.stderr)
        return 2
    except Hang as error:
        print(f"nic-test: {error}", file=sys.stderr)
        return 1
    print(f"nic-test: {time.monotonic() - began:.0f} s")
    return code


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ci/nic", description="Tests on the drivers igb and virtio_net, emulated.")
    parser.add_argument("--limit-s", type=float, default=_LIMIT_S, help="the guest's time limit (default: %(default)s)")
    parser.add_argument("--select", metavar="WORDS", default="", help="only these tests (pytest -k)")
    parser.add_argument("command", nargs="*", help="run this in the guest instead of the tests (after --)")
    return parser.parse_args(argv)


def _tests(options: argparse.Namespace) -> int:
    folder = _fresh_folder()
    tests = Path(__file__).with_name("guest")
    words = ["-k", options.select] if options.select else []
    code = _run(options, folder, [*_PYTEST, *words, str(tests)])
    outcome = read_outcome(folder / "results", code)
    print(outcome.text())
    return outcome.exit_code


def _other(options: argparse.Namespace) -> int:
    return _run(options, _fresh_folder(), options.command, python=False)


def _run(options: argparse.Namespace, folder: Path, arguments: Sequence[str], python: bool = True) -> int:
    root = project_root()
    if bpf_program("xsk") is None or not (root / ".venv/bin/python").exists():
        raise MissingPart("bpf/build/xsk or .venv is not there; ci/setup makes them")
    artefact = obtain(cache_folder(), read_pins(), _say)
    first = [str(root / ".venv/bin/python")] if python else []
    job = Job((*first, *arguments), root, folder / "results", options.limit_s)
    return run_guest(artefact, job, folder / "console.log", lambda line: print(line, flush=True))


def _fresh_folder() -> Path:
    """build/nic: console, results; what an earlier run left there is removed."""
    folder = project_root() / "build" / "nic"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "results").mkdir(parents=True)
    return folder


def _say(text: str) -> None:
    print(f"nic-test: {text}", flush=True)
