#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""Memory that a port takes: resident set of ovs-vswitchd with two AF_XDP ports of one queue less without any, halved.

    ovs/tests/port_memory.py --build "$(ovs/build | tail -1)"
    ovs/tests/port_memory.py --build "$(ovs/build --series stock | tail -1)" --only defaults

Each row has a daemon of its own. Huge pages, which are not in the resident set, are counted too (/proc/PID/status).
Exit code: 0, or 2 if it could not run.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from lab import PORTS, StormError, Switch, huge_pages, measured, namespaces, ready

OPTIONS: dict[str, tuple[str, ...]] = {
    "defaults": (),
    "4,096 frames": ("umem-frames=4096",),
    "frames of 2,048 bytes": ("umem-frame-size=2048",),
    "both": ("umem-frames=4096", "umem-frame-size=2048"),
    "huge pages": ("umem-hugepages=2M",),
    "shared UMEM": ("shared-umem=g",),
}


def used_mib(pid: int) -> float:
    """Resident set and huge pages of a process, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return sum(int(found) for found in re.findall(r"^(?:VmRSS|HugetlbPages):\s+(\d+) kB", status, re.MULTILINE)) / 1024


def per_port_mib(build: Path, options: tuple[str, ...]) -> float:
    """Ports are deleted from a new daemon, and added with these options."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ovs-memory-")))
        names = stack.enter_context(namespaces(f"memory{os.getpid()}"))
        switch = Switch(build, folder, names[1], ports=())
        stack.callback(switch.stop)
        switch.start()
        assert switch.daemon is not None
        time.sleep(0.5)
        before = used_mib(switch.daemon.pid)
        for port in PORTS:
            given = [f"options:{option}" for option in options]
            switch.vsctl("add-port", "br0", port, "--", "set", "interface", port, "type=afxdp", *given)
            failed = switch.vsctl("get", "interface", port, "error").strip()
            if failed not in ("[]", '""'):
                raise StormError(f"{port}: {failed}")
        time.sleep(1.0)
        return (used_mib(switch.daemon.pid) - before) / len(PORTS)


def measure(asked: argparse.Namespace) -> None:
    """All rows."""
    with huge_pages(96):
        for name in asked.only or OPTIONS:
            print(f"{name:24}{per_port_mib(asked.build.resolve(), OPTIONS[name]):8.1f} MiB a port", flush=True)


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--only", choices=OPTIONS, action="append", help="these rows; a stock build has only defaults")
    asked = parser.parse_args(argv)
    if not ready("port_memory", (asked.build,)):
        return 2
    return measured("port_memory", lambda: measure(asked))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
