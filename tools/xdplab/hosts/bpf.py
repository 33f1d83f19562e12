# SPDX-License-Identifier: Apache-2.0
"""Programs of `bpf/` on a host, or why they are missing."""

import os
import re
from functools import cache
from pathlib import Path

from xdplab.hosts.base import Host
from xdplab.model import Unsupported
from xdplab.tools import bpf_program, build_gap


def why_not_built(name: str, host: Host | None = None) -> str | None:
    """None, or why a program of `bpf/` is not there and what builds it, or why it cannot run on that host."""
    program = bpf_program(name)
    if program is None:
        why, fix = build_gap()
        return f"bpf/build/{name} is {why}; `{fix}` fixes it"
    reason = _why_it_cannot_run(program, *host.runs_on) if host else None
    return f"{host.name}: {reason}" if host and reason else None


def built(name: str, host: Host) -> str:
    """Path of a program of `bpf/` on a host.

    Raises:
        Unsupported: it is not built, or for a newer machine than the host.
    """
    program = bpf_program(name)
    if reason := why_not_built(name, host):
        raise Unsupported(reason)
    assert program is not None
    return host.program(program)


def _why_it_cannot_run(program: Path, machine: str, glibc: str) -> str | None:
    """None, or why a program that was built here does not start on a host of such a kind.

    `machine`: "" where it is not known. `glibc`: "" where the host has another C library.
    """
    needed = _glibc_of(program)
    if machine not in ("", ours := os.uname().machine):
        return (
            f"its processor is {machine}; {program.name} of this machine is for {ours}: run xdplab on a machine like it"
        )
    if not machine or (glibc and _numbers(glibc) >= needed):
        return None
    has = f"glibc {glibc}" if glibc else "another C library than glibc"
    return (
        f"it has {has}; {program.name} of this machine needs glibc {'.'.join(map(str, needed))} or later: run xdplab "
        "on a machine with the host's distribution or an older one"
    )


@cache
def _glibc_of(program: Path) -> tuple[int, ...]:
    """The newest version of the C library that a symbol of it is of."""
    found = re.findall(rb"GLIBC_(\d+\.\d+)", program.read_bytes())
    return max((_numbers(each.decode()) for each in found), default=(0, 0))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
