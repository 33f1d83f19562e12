# SPDX-License-Identifier: Apache-2.0
"""How many CPUs are busy in the middle of a trial: the price of what comes through, whoever pays it."""

import threading
import time
from collections.abc import Callable

from xdplab.forwarders import Dut
from xdplab.hosts.kernel import CpuUse, cpu_use


class BusyCpus:
    """Watches the forwarder's machine while a trial runs; on one machine that is applications, switch and kernel.

    Time that the hypervisor took counts neither as busy nor as idle. Resolution: a clock tick (10 ms) of each CPU.
    """

    def __init__(self, dut: Dut, warmup_s: float, duration_s: float) -> None:
        self._host = dut.host
        self._begin_s, self._length_s = warmup_s + 0.2 * duration_s, 0.6 * duration_s
        self._ended = threading.Event()
        self._found: float | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Callable[[], float | None]:
        self._thread.start()
        return lambda: self._found

    def __exit__(self, *args: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        if self._ended.wait(self._begin_s):
            return
        before, began_s = cpu_use(self._host), time.monotonic()
        if not self._ended.wait(self._length_s):
            self._found = busy_cpus(before, cpu_use(self._host), time.monotonic() - began_s)


def busy_cpus(before: dict[int, CpuUse], after: dict[int, CpuUse], elapsed_s: float) -> float:
    """Mean number of CPUs that were busy between two readings."""
    away_s = [(after[cpu].away_ns - before[cpu].away_ns) / 1e9 for cpu in before.keys() & after.keys()]
    return sum(max(0.0, 1 - each / elapsed_s) for each in away_s)
