# SPDX-License-Identifier: Apache-2.0
"""Settings of the whole machine: socket busy polling by default, sleep states, frequency, DDIO, hugepages.

They outlive a run; `xdplab restore` puts them back after kill -9.
"""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Literal

from xdplab.hosts import Host, Running
from xdplab.hosts.waiting import comes_true
from xdplab.knobs.base import Knob, KnobContext, ValueKnob, whole_number
from xdplab.knobs.ethtool import switch
from xdplab.model import InputError, Unsupported, XdplabError
from xdplab.model.design import Scalar

# Hugepages, for DPDK programs that are asked to run on them.

#: How long a program that was killed may take to give its memory back.
_ENDS_S = 2.0
_FOLDER = "/sys/kernel/mm/hugepages/hugepages-2048kB"
_FILE = f"{_FOLDER}/nr_hugepages"
#: Moves pages together where free memory is in pieces (admin-guide/sysctl/vm.rst of the kernel's documents).
_COMPACT, _COMPACTIONS = "/proc/sys/vm/compact_memory", 2


class Hugepages2M(Knob):
    """Number of 2 MiB pages that the kernel keeps for the run, besides those in use when it began."""

    name: ClassVar[str] = "hugepages_2m"
    scope: ClassVar[Literal["port", "system"]] = "system"
    shared: ClassVar[bool] = False

    def __init__(self) -> None:
        self._needed = 0

    def check(self, value: Scalar) -> int:
        return whole_number(self.name, value, 0, 1 << 20)

    def read(self, context: KnobContext) -> int:
        return int(context.host.read(_FILE))

    def apply(self, context: KnobContext, value: Scalar) -> None:
        """Reserve until that many are free: pages that others reserved stay, and those that they use are theirs."""
        free, promised = (int(context.host.read(f"{_FOLDER}/{name}_hugepages")) for name in ("free", "resv"))
        present = self.read(context)
        self._needed = present + max(0, int(value) - (free - promised))
        if present < self._needed:
            context.host.write(_FILE, str(self._needed))
        for _ in range(_COMPACTIONS):
            if self.read(context) >= self._needed:
                break
            with suppress(XdplabError):  # a container may have no right to it
                context.host.write(_COMPACT, "1")
            context.host.write(_FILE, str(self._needed))

    def verify(self, context: KnobContext, value: Scalar) -> None:
        """The kernel may find fewer than asked for."""
        present, needed = self.read(context), max(self._needed, int(value))
        if present < needed:
            used = f", of which others use {needed - int(value)}" if needed > int(value) else ""
            found = f"the kernel found memory for {present} of {needed} pages of 2 MiB"
            raise Unsupported(f"hugepages_2m: {found}{used}")

    def restore(self, context: KnobContext, saved: Any) -> None:
        """Give them back, unless somebody has reserved more since.

        Those of a program that was killed are counted until all of its threads have ended.
        """
        if self._needed and self.read(context) > self._needed:
            return
        context.host.write(_FILE, str(saved))
        if not comes_true(lambda: self.read(context) == saved, _ENDS_S):
            raise Unsupported(f"hugepages_2m: {self.read(context)} reserved instead of {saved} before the run")


_CPU = "/sys/devices/system/cpu"


class _SystemKnob(Knob):
    scope: ClassVar[Literal["port", "system"]] = "system"


class _BusySysctl(_SystemKnob):
    """A time in us under net.core."""

    file: ClassVar[str]

    def check(self, value: Scalar) -> int:
        return whole_number(self.name, value, 0, 1_000_000)

    def unsupported(self, context: KnobContext, value: Scalar) -> str | None:
        """The kernel must have been built with busy polling."""
        found = context.machine.run(["test", "-w", self.file], check=False)
        return f"{self.name}: {self.file} does not exist or cannot be written" if found.returncode else None

    def read(self, context: KnobContext) -> int:
        return int(context.machine.read(self.file))

    def apply(self, context: KnobContext, value: Scalar) -> None:
        context.machine.write(self.file, str(value))

    def verify(self, context: KnobContext, value: Scalar) -> None:
        if self.read(context) != value:
            raise Unsupported(f"{self.name}: {self.file} holds {self.read(context)} after writing {value}")

    def restore(self, context: KnobContext, saved: Any) -> None:
        self.apply(context, saved)
        self.verify(context, saved)


#: How long poll() and select() look at the card's queue themselves; AF_XDP needs a NAPI id for it.
SysctlBusyPoll = _BusySysctl.called("sysctl_busy_poll_us", file="/proc/sys/net/core/busy_poll")
#: SO_BUSY_POLL of sockets that do not set it.
SysctlBusyRead = _BusySysctl.called("sysctl_busy_read_us", file="/proc/sys/net/core/busy_read")


class _FilesKnob(_SystemKnob, ValueKnob):
    """Files of the machine, whose paths are their names."""

    def place(self, context: KnobContext) -> Host:
        return context.machine

    def present(self, host: Host, name: str) -> str:
        return host.read(name)

    def write(self, host: Host, name: str, value: Any) -> None:
        host.write(name, value)


class CpuidleMaxState(_FilesKnob):
    """The deepest sleep state that CPUs of the data path may enter: 0 is none but the first."""

    name: ClassVar[str] = "cpuidle_max_state"

    def check(self, value: Scalar) -> int:
        return whole_number(self.name, value, 0, 15)

    def unsupported(self, context: KnobContext, value: Scalar) -> str | None:
        """Sleep states must be driven by cpuidle, and there must be some to forbid."""
        missing = _no_cpuidle(context.machine)
        if missing:
            return f"{self.name}: {missing}"
        states = [self._state(path) for path in self.names(context)]
        return None if states else f"{self.name}: the CPUs {list(context.cpus)} have no sleep states"

    def names(self, context: KnobContext) -> list[str]:
        """One for each state of each CPU."""
        found = []
        for cpu in context.cpus:
            listed = context.machine.run(["ls", f"{_CPU}/cpu{cpu}/cpuidle"], check=False).stdout.split()
            found += [f"{_CPU}/cpu{cpu}/cpuidle/{name}/disable" for name in listed if re.fullmatch(r"state\d+", name)]
        return found

    def wanted(self, name: str, present: str, value: Scalar) -> str:
        return str(int(self._state(name) > int(value)))

    @staticmethod
    def _state(path: str) -> int:
        return int(path.rpartition("/state")[2].partition("/")[0])


class CpuDmaLatency(_SystemKnob):
    """How long waking up may take, in us, for all CPUs; 0 keeps them awake.

    The kernel holds it as long as a file is open, so a process holds it open, and ends with this one.
    """

    name: ClassVar[str] = "cpu_dma_latency_us"
    _FILE: ClassVar[str] = "/dev/cpu_dma_latency"
    _HOLD: ClassVar[str] = 'exec 3>"$1"; printf %s "$2" >&3; exec sleep infinity'

    def __init__(self) -> None:
        self._holder: Running | None = None

    def check(self, value: Scalar) -> int:
        return whole_number(self.name, value, 0, 1_000_000)

    def unsupported(self, context: KnobContext, value: Scalar) -> str | None:
        """The file must be there, and cpuidle, which obeys it."""
        if context.machine.run(["test", "-w", self._FILE], check=False).returncode:
            return f"{self.name}: {self._FILE} does not exist or cannot be written"
        missing = _no_cpuidle(context.machine)
        return f"{self.name}: {missing}" if missing else None

    def read(self, context: KnobContext) -> int:
        """What holds now, of all who ask."""
        return int(context.machine.run(["od", "-An", "-td4", "-N4", self._FILE]).stdout)

    def apply(self, context: KnobContext, value: Scalar) -> None:
        """Open the file and keep it open."""
        argv = ["sh", "-c", self._HOLD, "sh", self._FILE, f"0x{int(value):08x}"]
        self._holder = context.machine.start(argv, log=Path(os.devnull))
        for _ in range(50):
            if self.read(context) == int(value) or self._holder.wait(0.02) is not None:
                return

    def verify(self, context: KnobContext, value: Scalar) -> None:
        """The smallest of all that is asked for holds."""
        present = self.read(context)
        if present != int(value):
            raise Unsupported(f"{self.name}: {present} us is in force after {value} was requested")

    def restore(self, context: KnobContext, saved: Any) -> None:
        """Close the file; after kill -9 the kernel has done so."""
        if self._holder is not None:
            self._holder.stop()
            self._holder = None
        if self.read(context) != saved:
            raise Unsupported(f"{self.name}: {self.read(context)} us holds instead of {saved} before the run")


class Governor(_FilesKnob):
    """Frequency governor of the data path's CPUs."""

    name: ClassVar[str] = "governor"

    def check(self, value: Scalar) -> str:
        if not re.fullmatch(r"[a-z_]+", str(value)):
            raise InputError(f"knob {self.name}: {value!r} is not the name of a governor")
        return str(value)

    def unsupported(self, context: KnobContext, value: Scalar) -> str | None:
        """Frequencies must be driven by cpufreq, and it must have that governor."""
        for path in self.names(context):
            listed = context.machine.run(
                ["cat", path.replace("scaling_governor", "scaling_available_governors")], check=False
            )
            if listed.returncode:
                return f"{self.name}: no cpufreq here (a virtual machine has none)"
            if value not in listed.stdout.split():
                return f"{self.name}: no governor {value}; there are {', '.join(listed.stdout.split())}"
        return None

    def names(self, context: KnobContext) -> list[str]:
        return [f"{_CPU}/cpu{cpu}/cpufreq/scaling_governor" for cpu in context.cpus]


class Turbo(_FilesKnob):
    """Frequencies above the nominal one."""

    name: ClassVar[str] = "turbo"
    _INTEL: ClassVar[str] = f"{_CPU}/intel_pstate/no_turbo"
    _BOOST: ClassVar[str] = f"{_CPU}/cpufreq/boost"

    def check(self, value: Scalar) -> bool:
        return switch(self.name, value)

    def unsupported(self, context: KnobContext, value: Scalar) -> str | None:
        """One of the two files must be there."""
        return None if self.names(context) else f"{self.name}: neither {self._INTEL} nor {self._BOOST} is here"

    def names(self, context: KnobContext) -> list[str]:
        there = [
            p for p in (self._INTEL, self._BOOST) if not context.machine.run(["test", "-w", p], check=False).returncode
        ]
        return there[:1]

    def wanted(self, name: str, present: str, value: Scalar) -> str:
        """Intel's says whether there is none."""
        return str(int(bool(value) != (name == self._INTEL)))


class DdioWays(_SystemKnob):
    """Ways of the last-level cache that cards write into (MSR 0xC8B, IIO_LLC_WAYS), on Intel's servers; default 2."""

    name: ClassVar[str] = "ddio_ways"
    _MSR: ClassVar[str] = "0xc8b"
    #: The register has one bit per way; those of eleven ways are the topmost first.
    _WAYS: ClassVar[int] = 11

    def check(self, value: Scalar) -> int:
        return whole_number(self.name, value, 1, self._WAYS)

    def unsupported(self, context: KnobContext, value: Scalar) -> str | None:
        """An Intel server, the msr module, and rdmsr."""
        info = context.machine.read("/proc/cpuinfo")
        if "GenuineIntel" not in info:
            model = re.search(r"^model name\s*:\s*(.*)$", info, re.MULTILINE)
            return f"{self.name}: only Intel's servers have DDIO; this CPU is {model.group(1) if model else 'another'}"
        if "hypervisor" in info:
            return f"{self.name}: a virtual machine may not write model-specific registers"
        if context.machine.run(["test", "-w", "/dev/cpu/0/msr"], check=False).returncode:
            return f"{self.name}: /dev/cpu/0/msr is not there; `modprobe msr` makes it"
        if context.machine.run(["which", "rdmsr", "wrmsr"], check=False).returncode:
            return f"{self.name}: rdmsr and wrmsr are missing (package msr-tools)"
        return None

    def read(self, context: KnobContext) -> str:
        """The register, as rdmsr prints it."""
        values = set(context.machine.run(["rdmsr", "-a", self._MSR]).stdout.split())
        if len(values) != 1:
            raise XdplabError(f"{self.name}: the sockets differ: {', '.join(sorted(values))}")
        return values.pop()

    def apply(self, context: KnobContext, value: Scalar) -> None:
        """That many bits from the top way down."""
        context.machine.run(["wrmsr", "-a", self._MSR, f"0x{self._mask(int(value)):x}"])

    def verify(self, context: KnobContext, value: Scalar) -> None:
        if int(self.read(context), 16) != self._mask(int(value)):
            raise Unsupported(f"{self.name}: the register holds 0x{self.read(context)} after {value} ways were set")

    def restore(self, context: KnobContext, saved: Any) -> None:
        context.machine.run(["wrmsr", "-a", self._MSR, f"0x{saved}"])
        if self.read(context) != saved:
            raise Unsupported(f"{self.name}: the register holds 0x{self.read(context)} instead of 0x{saved}")

    def _mask(self, ways: int) -> int:
        return ((1 << ways) - 1) << (self._WAYS - ways)


def _no_cpuidle(host: Host) -> str | None:
    """Why sleep states cannot be steered here; None when they can."""
    found = host.run(["cat", f"{_CPU}/cpuidle/current_driver"], check=False).stdout.strip()
    return None if found not in ("", "none") else "no cpuidle driver here: the hypervisor controls sleep states"
