# SPDX-License-Identifier: Apache-2.0
"""What a killed forwarder leaves in shared memory: found by its name, which the folder of its run gives it."""

import hashlib
from pathlib import PurePath

from xdplab.hosts.base import Host

_WHERE = "/dev/shm"  # noqa: S108 - where POSIX shared memory is


def prefix(rundir: PurePath) -> str:
    """How names begin of what a forwarder with this folder makes there; the same after a kill."""
    return "xdplab-" + hashlib.sha256(str(rundir).encode()).hexdigest()[:8]


def remove(host: Host, rundir: PurePath) -> list[str]:
    """Remove that of a forwarder that has ended; the paths of what was there."""
    if not host.exists(_WHERE):
        return []
    found = ["find", _WHERE, "-maxdepth", "1", "-name", f"{prefix(rundir)}-*"]
    return host.run([*found, "-print", "-delete"]).stdout.split()
