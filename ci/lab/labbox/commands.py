# SPDX-License-Identifier: Apache-2.0
"""The lab's command line."""

import argparse
import sys
from collections.abc import Sequence

from labbox import box, production
from labbox.follow import Reader, follow
from labbox.machines import MACHINES, SSH_PORT, settled
from nic.errors import Hang, MissingPart
from private_apt import AptError


def main(argv: Sequence[str]) -> int:
    """Exit code 0 good, 1 not, 2 something is missing."""
    parser = argparse.ArgumentParser(
        prog="ci/lab", description="Three Debian guests, cabled as docs/first-lab.md has it."
    )
    parser.add_argument("--b", choices=("bookworm", "trixie"), default="bookworm", help="Debian's suite on B")
    parser.add_argument("--keep", action="store_true", help="test: the lab stays up, also where a command fails")
    parser.add_argument("action", nargs="?", choices=("up", "down", "status", "test", "resume"), default="up",
                        help="resume: continue `test --keep` with the command that failed")  # fmt: skip
    options = parser.parse_args(argv)
    try:
        if options.action in ("test", "resume"):
            _test(options.b, keep=options.keep, resume=options.action == "resume")
            return 0
        if options.action == "up":
            box.up(options.b, _say)
        elif options.action == "down":
            box.down()
        print(_status())
    except (MissingPart, AptError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 2
    except Hang as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    return 0


def _test(b: str, *, keep: bool, resume: bool) -> None:
    """In a lab of its own; consoles and what commands printed stay."""
    if not resume:
        box.require_none()
        try:
            box.up(b, _say)
        except BaseException:
            box.down()
            raise
    reader = Reader(_say)
    try:
        follow(reader)
        production.untouched(reader, _say)
    except BaseException:
        if keep or resume:
            _say("the lab stays up: `.venv/bin/python ci/lab resume` continues with the command that failed")
        else:
            box.down()
        raise
    if not keep:
        box.down()


def _status() -> str:
    state = box.read_state()
    if state is None:
        return "no lab runs; `make lab` starts one"
    lines = [
        f"CPUs: {state.accel}; the figures of its machines are an emulator's; user lab has password {state.password}"
    ]
    for machine in MACHINES:
        suite = state.b if machine.role == "B" else "bookworm"
        how = "answers" if box.answers(machine) else "runs, no answer" if box.running(machine) else "has ended"
        lines.append(f"{machine.role} {machine.name:<9} {suite:<8} lab@{machine.address}:{SSH_PORT} {how}")
        lines.append(f"  {' '.join(box.ssh(machine))}")
    return "\n".join([*lines, f"cables: {settled()}"])


def _say(text: str) -> None:
    print(f"lab: {text}", flush=True)
