# SPDX-License-Identifier: Apache-2.0
"""Which threads of Open vSwitch's daemon forward, and on which CPUs."""

import re
from collections.abc import Iterable

from xdplab.forwarders.ovs.daemon import Ovs
from xdplab.forwarders.ovs.options import PmdOptions, cpu_set
from xdplab.forwarders.ovs.readback import RxqPlace
from xdplab.model import CpuLayout


class MainThread:
    """The daemon's main thread: it sleeps in poll() between frames."""

    def __init__(self, layout: CpuLayout) -> None:
        #: CPUs of the daemon's threads that do not place themselves.
        self.daemon_cpus: tuple[int, ...] = (layout.forwarder,)
        #: `KEY=VALUE` of the daemon.
        self.settings: list[str] = []

    def refusal(self) -> str | None:
        """None, or why its CPUs cannot be used here."""
        return None

    def forwarding(self, ovs: Ovs) -> dict[int, int]:
        """Thread -> process of those that forward."""
        return {pid: pid for pid in ovs.pids}

    def misplaced(self, places: Iterable[RxqPlace]) -> str | None:
        """None, or which queue is polled elsewhere than `rxq_affinity` says."""
        return None


class PmdThreads(MainThread):
    """Threads that poll, which place themselves; the daemon's others keep house."""

    def __init__(self, options: PmdOptions, layout: CpuLayout) -> None:
        self._options = options
        self._layout = layout
        spare = (layout.tester_tx, layout.dut_napi, layout.tester_rx)
        self._allowed = (layout.forwarder, *(cpu for cpu in layout.housekeeping if cpu not in spare))
        self._cpus = cpu_set(options.pmd_cpus) if options.pmd_cpus else self._allowed[: options.pmd_cores or 1]
        self.daemon_cpus = layout.housekeeping
        self.settings = [f"pmd-cpu-mask={sum(1 << cpu for cpu in self._cpus):#x}"]

    def refusal(self) -> str | None:
        """The CPUs must be there, and be neither the tester's nor NAPI's."""
        asked = self._options
        if len(self._cpus) >= (asked.pmd_cores or 1) and set(self._cpus) <= set(self._allowed):
            return None
        wanted = f"pmd_cpus={asked.pmd_cpus}" if asked.pmd_cpus else f"pmd_cores={asked.pmd_cores}"
        return (
            f"{wanted}: PMD threads may use CPU {'/'.join(map(str, self._allowed))} here, "
            f"the others are taken ({self._layout.describe()})"
        )

    def forwarding(self, ovs: Ovs) -> dict[int, int]:
        return ovs.threads(r"^pmd-c")

    def misplaced(self, places: Iterable[RxqPlace]) -> str | None:
        wanted = dict(pair.split(":") for pair in re.split("[+,]", self._options.rxq_affinity or "") if pair)
        for place in places:
            if wanted.get(str(place.queue), str(place.core)) != str(place.core):
                return f"queue {place.queue} of {place.port} is polled on CPU {place.core}"
        return None
