# SPDX-License-Identifier: Apache-2.0
"""Misses of the last-level cache on one CPU, by perf, where the machine has a performance monitoring unit."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from xdplab.hosts import Host

#: Of the kernel: `cpu`, or `cpu_core` where cores differ.
_UNITS = ("/sys/bus/event_source/devices/cpu", "/sys/bus/event_source/devices/cpu_core")


def why_not(host: Host) -> str | None:
    """None, or why they cannot be counted here."""
    if not any(host.exists(unit) for unit in _UNITS):
        return "this machine shows no performance monitoring unit (none in /sys/bus/event_source/devices)"
    if host.run(["which", "perf"], check=False).returncode:
        return "perf is not installed; `apt-get install linux-perf` installs it"
    return None


def counted(text: str) -> int | str:
    """From `perf stat -x,`: the count, or why there is none."""
    for line in text.splitlines():
        value, _, rest = line.partition(",")
        if "cache-misses" in rest:
            return int(value) if value.isdigit() else f"unsupported: perf says {value}"
    return f"unsupported: perf says {text.strip()[:120]!r}"


@contextlib.contextmanager
def cache_misses(host: Host, cpu: int, folder: Path) -> Iterator[dict[str, int | str]]:
    """Count until the block is over; then `cache_misses` is in the dictionary: a count, or `unsupported: ...`."""
    reason = why_not(host)
    if reason:
        yield {"cache_misses": f"unsupported: {reason}"}
        return
    log = folder / "perf.log"
    # perf prints when its own command ends, or at SIGINT
    process = host.start(
        ["perf", "stat", "-x,", "-e", "cache-misses", "-C", str(cpu), "--", "sleep", "3600"], log=log, die_with_us=True
    )
    found: dict[str, int | str] = {}
    try:
        yield found
    finally:
        process.signal(2)
        process.wait(3.0)
        process.stop()
        found["cache_misses"] = counted("\n".join(process.log_tail(5)))
