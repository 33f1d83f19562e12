# SPDX-License-Identifier: Apache-2.0
"""The lane from its command line to its exit code."""

import argparse
import functools
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nic.artefact import cache_folder, obtain, read_pins
from nic.boot import Job, run_guests
from nic.errors import Hang, MissingPart
from nic.kernels import KERNELS, Tests
from nic.outcome import Outcome, merged, read_outcome
from xdplab.forwarders.ovs.builds import cache as ovs_builds
from xdplab.tools import bpf_program, project_root

#: Of the guests' own guard; a guest takes one to three minutes on two cores of 2026 that have nothing else to do.
_LIMIT_S = 400.0
#: Without the plugins that the guest has no use for: each module that is loaded there takes its time.
_PYTEST = ("-m", "pytest", "-p", "pytest_timeout", "-p", "nic.guest.failures", "-p", "no:cacheprovider", "-v",
           "--tb=short", "--color=no", "--timeout=100", "--junitxml=/results/tests.xml")  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Run the tests, or another command, in guests; exit code 0 good, 1 not, 2 something is missing."""
    options = _parse(argv)
    if options.command:
        return _code(functools.partial(_other, options))
    return max([_code(functools.partial(_tests, options, name)) for name in options.kernel or KERNELS])


def _code(run: Callable[[], int]) -> int:
    """What a run returns; when something is missing, that is reported, and the next kernel has its turn."""
    try:
        return run()
    except MissingPart as error:
        print(f"nic-test: {error}", file=sys.stderr)
        return 2


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ci/nic", description="Tests in guests: emulated cards, and older kernels.")
    parser.add_argument(
        "--kernel", action="append", choices=KERNELS, help="only this one (default: all, one after another)"
    )
    parser.add_argument(
        "--limit-s", type=float, default=_LIMIT_S, help="each guest's time limit (default: %(default)s)"
    )
    parser.add_argument("--select", metavar="WORDS", default="", help="only these tests (pytest -k)")
    parser.add_argument("command", nargs="*", help="run this in one guest, not the tests (after --)")
    return parser.parse_args(argv)


def _tests(options: argparse.Namespace, kernel: str) -> int:
    """The tests of a kernel."""
    began = time.monotonic()
    words = ["-k", options.select] if options.select else []
    python = str(project_root() / ".venv/bin/python")
    commands = {
        name: ((python, *_PYTEST, *words, *map(_path, tests.files)), tests)
        for name, tests in KERNELS[kernel].guests.items()
    }
    ended, folder = _run(options, kernel, commands)
    outcomes: dict[str, Outcome] = {}
    for name, code in ended.items():
        if isinstance(code, int):
            try:
                outcomes[name] = read_outcome(folder / name / "results", code)
            except Hang as error:
                ended[name] = error
    outcome = merged(outcomes)
    print(outcome.text())
    print(f"nic-test: kernel {kernel}: {time.monotonic() - began:.0f} s")
    return _told(ended) or outcome.exit_code


def _path(test: str) -> str:
    """Of the lane's own tests or the project's."""
    own = Path(__file__).with_name("guest") / test
    return str(project_root() / test if "/" in test else own)


def _other(options: argparse.Namespace) -> int:
    name = options.kernel[-1] if options.kernel else next(iter(KERNELS))
    kernel = KERNELS[name]
    other = Tests((), kernel.cards, kernel.memory_mb)
    ended, _ = _run(options, name, {"guest": (tuple(options.command), other)})
    (code,) = ended.values()
    return code if isinstance(code, int) else _told(ended)


def _told(ended: Mapping[str, int | Hang | MissingPart]) -> int:
    """Say why guests have no exit code; 2 when one lacks something, else 1, or 0 when all have."""
    errors = {name: error for name, error in ended.items() if not isinstance(error, int)}
    for name, error in errors.items():
        print(f"nic-test: {name}: {error}", file=sys.stderr)
    return max((2 if isinstance(error, MissingPart) else 1 for error in errors.values()), default=0)


#: What a guest runs, and what it has.
_Commands = Mapping[str, tuple[tuple[str, ...], Tests]]


def _run(
    options: argparse.Namespace, kernel: str, commands: _Commands
) -> tuple[dict[str, int | Hang | MissingPart], Path]:
    """Guest -> what it ended with, and the folder that has a folder for each."""
    root = project_root()
    if bpf_program("xsk") is None or not (root / ".venv/bin/python").exists():
        raise MissingPart("bpf/build/xsk or .venv is not there; ci/setup makes them")
    artefact = obtain(cache_folder(), read_pins(), kernel, KERNELS[kernel].modules, _say)
    folder = _fresh_folder(kernel)
    jobs = {}
    for name, (argv, tests) in commands.items():
        results = folder / name / "results"
        results.mkdir(parents=True)
        jobs[name] = Job(argv, tests.cards, tests.memory_mb, root, _more(), results, options.limit_s, iommu=tests.iommu)
    ended: dict[str, int | Hang | MissingPart] = {}
    waiting = list(jobs)
    while waiting:
        now, waiting = waiting[: KERNELS[kernel].at_once], waiting[KERNELS[kernel].at_once :]
        ended |= run_guests(artefact, {name: jobs[name] for name in now}, lambda line: print(line, flush=True))
    return ended, folder


def _more() -> tuple[Path, ...]:
    """Where Debian's programs that have alternatives lead to, and the patched OVS, where there is one."""
    return tuple(path for path in (Path("/etc/alternatives"), ovs_builds()) if path.is_dir())


def _fresh_folder(kernel: str) -> Path:
    """build/nic/KERNEL: consoles, results; what an earlier run left there is removed."""
    folder = project_root() / "build" / "nic" / kernel
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _say(text: str) -> None:
    print(f"nic-test: {text}", flush=True)
