# SPDX-License-Identifier: Apache-2.0
"""Programs of `bpf/` on a host, or why they are missing."""

from xdplab.hosts.base import Host
from xdplab.model import Unsupported
from xdplab.tools import bpf_program, build_gap


def why_not_built(name: str) -> str | None:
    """None, or why a program of `bpf/` is not there and what builds it."""
    if bpf_program(name):
        return None
    why, fix = build_gap()
    return f"bpf/build/{name} is {why}; `{fix}` fixes it"


def built(name: str, host: Host) -> str:
    """Path of a program of `bpf/` on a host.

    Raises:
        Unsupported: it is not built.
    """
    program = bpf_program(name)
    if program is None:
        raise Unsupported(why_not_built(name))
    return host.program(program)
