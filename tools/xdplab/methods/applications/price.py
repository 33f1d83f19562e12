# SPDX-License-Identifier: Apache-2.0
"""How many CPUs were busy in the middle of a trial: the price of what came through, whoever paid it."""

import threading
from collections.abc import Callable

from xdplab.forwarders import Dut
from xdplab.hosts import Host

#: proc_stat(5) counts hundredths of a second.
_TICK_S = 0.01
_IDLE, _IOWAIT, _STEAL = 3, 4, 7


class BusyCpus:
    """Watches the forwarder's machine while a trial runs; on one machine that is applications, switch and kernel.

    Time that the hypervisor took counts neither as busy nor as idle. Resolution: 10 ms of each CPU.
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
        busy, wall = busy_and_wall(self._host)
        if self._ended.wait(self._length_s):
            return
        busy_after, wall_after = busy_and_wall(self._host)
        if wall_after > wall:
            self._found = (busy_after - busy) / (wall_after - wall)


def busy_and_wall(host: Host) -> tuple[float, float]:
    """Seconds that all CPUs of a host were busy since its boot, and the seconds of one CPU."""
    lines = [line.split() for line in host.read("/proc/stat").splitlines() if line.startswith("cpu")]
    total = [int(each) for each in lines[0][1:9]]
    cpus = len(lines) - 1
    busy = sum(total) - total[_IDLE] - total[_IOWAIT] - total[_STEAL]
    return busy * _TICK_S, sum(total) * _TICK_S / cpus
