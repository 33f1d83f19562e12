# SPDX-License-Identifier: Apache-2.0
"""The lane from its command line to its exit code."""

import argparse
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from nic.artefact import cache_folder, obtain, read_pins
from nic.boot import Job, run_guests
from nic.errors import Hang, MissingPart
from nic.outcome import Outcome, merged, read_outcome
from nic.qemu import CARDS, IGB, IGB_FAR, PLAIN, VIRTIO, Card
from xdplab.tools import bpf_program, project_root

#: Of the guests' own guard; a run takes about two minutes on two cores of 2026.
_LIMIT_S = 300.0
#: Guests that run at once, one for each core of a small machine: their cards and their tests, of like duration.
_GUESTS: dict[str, tuple[tuple[Card, ...], tuple[str, ...]]] = {
    "drivers": ((*IGB, *VIRTIO, *PLAIN), ("test_1_drivers.py", "test_9_restored.py")),
    "settings": ((*IGB, *IGB_FAR, *VIRTIO), ("test_2_settings.py", "test_3_suite.py", "test_9_restored.py")),
}
#: Without the plugins that the guest has no use for: each module that is loaded there takes its time.
_PYTEST = ("-m", "pytest", "-p", "pytest_timeout", "-p", "no:cacheprovider", "-v", "--tb=short", "--color=no",
           "--timeout=100", "--junitxml=/results/tests.xml")  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Run the tests, or another command, in guests; exit code 0 good, 1 not, 2 something is missing."""
    options = _parse(argv)
    began = time.monotonic()
    try:
        code = _other(options) if options.command else _tests(options)
    except MissingPart as error:
        print(f"nic-test: {error}", file=sys.stderr)
        return 2
    if not options.command:
        print(f"nic-test: {time.monotonic() - began:.0f} s")
    return code


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ci/nic", description="Tests on the drivers igb and virtio_net, emulated.")
    parser.add_argument(
        "--limit-s", type=float, default=_LIMIT_S, help="each guest's time limit (default: %(default)s)"
    )
    parser.add_argument("--select", metavar="WORDS", default="", help="only these tests (pytest -k)")
    parser.add_argument("command", nargs="*", help="run this in one guest with all cards, not the tests (after --)")
    return parser.parse_args(argv)


def _tests(options: argparse.Namespace) -> int:
    tests = Path(__file__).with_name("guest")
    words = ["-k", options.select] if options.select else []
    python = str(project_root() / ".venv/bin/python")
    commands = {
        name: (cards, (python, *_PYTEST, *words, *(str(tests / file) for file in files)))
        for name, (cards, files) in _GUESTS.items()
    }
    ended, folder = _run(options, commands)
    outcomes: dict[str, Outcome] = {}
    for name, code in ended.items():
        if isinstance(code, int):
            try:
                outcomes[name] = read_outcome(folder / name / "results", code)
            except Hang as error:
                ended[name] = error
    outcome = merged(outcomes)
    print(outcome.text())
    return _told(ended) or outcome.exit_code


def _other(options: argparse.Namespace) -> int:
    ended, _ = _run(options, {"guest": (CARDS, tuple(options.command))})
    (code,) = ended.values()
    return code if isinstance(code, int) else _told(ended)


def _told(ended: Mapping[str, int | Hang | MissingPart]) -> int:
    """Say why guests have no exit code; 2 when one lacks something, else 1, or 0 when all have."""
    errors = {name: error for name, error in ended.items() if not isinstance(error, int)}
    for name, error in errors.items():
        print(f"nic-test: {name}: {error}", file=sys.stderr)
    return max((2 if isinstance(error, MissingPart) else 1 for error in errors.values()), default=0)


def _run(
    options: argparse.Namespace, commands: Mapping[str, tuple[tuple[Card, ...], tuple[str, ...]]]
) -> tuple[dict[str, int | Hang | MissingPart], Path]:
    """Guest -> what it ended with, and the folder that has a folder for each."""
    root = project_root()
    if bpf_program("xsk") is None or not (root / ".venv/bin/python").exists():
        raise MissingPart("bpf/build/xsk or .venv is not there; ci/setup makes them")
    artefact = obtain(cache_folder(), read_pins(), _say)
    folder = _fresh_folder()
    jobs = {}
    for name, (cards, argv) in commands.items():
        results = folder / name / "results"
        results.mkdir(parents=True)
        jobs[name] = Job(argv, cards, root, results, options.limit_s)
    return run_guests(artefact, jobs, lambda line: print(line, flush=True)), folder


def _fresh_folder() -> Path:
    """build/nic: consoles, results; what an earlier run left there is removed."""
    folder = project_root() / "build" / "nic"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _say(text: str) -> None:
    print(f"nic-test: {text}", flush=True)
