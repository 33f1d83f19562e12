# SPDX-License-Identifier: Apache-2.0
"""Which CPU serves a card's interrupts, the forwarder's or one apart from it; NAPI settings of the forwarder's ports.

Those of NAPI (Documentation/networking/napi.rst) are live on veth with NAPI on.
"""

import re
import time
from typing import Any, ClassVar

from xdplab.hosts import Host
from xdplab.hosts.kernel import cpu_list
from xdplab.knobs.base import EachKnob, KnobContext, PortFileKnob, ValueKnob, whole_number
from xdplab.knobs.ethtool import driver, first_missing
from xdplab.model import CpuLayout, InputError, Unsupported
from xdplab.model.design import Scalar

_FILE = "/proc/irq/{}/smp_affinity_list"


class IrqCpu(EachKnob):
    """`forwarder`: interrupts and forwarder on one CPU; `apart`: on another of the data path; or the number of a CPU.

    Several numbers as `2/3`: the interrupts of a port take turns.
    """

    name: ClassVar[str] = "irq_cpu"
    after: ClassVar[tuple[str, ...]] = ("channels",)  # each queue brings an interrupt

    def check(self, value: Scalar) -> Scalar:
        """One of the words, or numbers."""
        if value in ("forwarder", "apart") or (re.fullmatch(r"\d+(/\d+)*", str(value)) and not isinstance(value, bool)):
            return int(value) if str(value).isdigit() else value
        raise InputError(f"knob {self.name}: {value!r} is none of forwarder, apart, or a CPU's number")

    def unsupported(self, context: KnobContext, value: Scalar) -> str | None:
        """The card must have interrupts, and the CPU must be there."""
        missing = first_missing(context.ports, context.host, "device/msi_irqs")
        if missing:
            inline = "; NAPI runs on the sender's CPU, and cpu_layout moves it" if missing == "veth" else ""
            return f"{self.name}: the {missing} driver has no interrupts of its own{inline}"
        cpus = self._cpus(context, value)
        if not cpus:
            return f"{self.name}: no CPU apart from tester and forwarder"
        for cpu in cpus:
            if cpu not in context.cpus:
                return f"{self.name}: CPU {cpu} is none of the testbed's {list(context.cpus)}"
        for port in context.ports:
            if not interrupts(context.host, port.ifname):
                return f"{self.name}: {port.ifname} ({driver(context.host, port.ifname)}) has no interrupt in use"
        return None

    def layout(self, context: KnobContext, value: Scalar) -> CpuLayout:
        """NAPI runs where the interrupt does: that of the first queue."""
        return context.layout.model_copy(update={"dut_napi": next(iter(self._cpus(context, value)), None)})

    def names(self, context: KnobContext) -> list[str]:
        return [irq for port in context.ports for irq in interrupts(context.host, port.ifname)]

    def present(self, host: Host, irq: str) -> str:
        return host.read(_FILE.format(irq))

    def apply(self, context: KnobContext, value: Scalar) -> None:
        for irq, cpu in self._wanted(context, value).items():
            context.host.write(_FILE.format(irq), str(cpu))

    def verify(self, context: KnobContext, value: Scalar) -> None:
        """Ask for the mask; a daemon such as irqbalance may have moved it already."""
        for irq, cpu in self._wanted(context, value).items():
            cpus = self.present(context.host, irq)
            if cpu_list(cpus) != (cpu,):
                raise Unsupported(f"{self.name}: interrupt {irq} is on CPUs {cpus}; is irqbalance running?")

    def restore_one(self, context: KnobContext, irq: str, cpus: Any) -> None:
        """Put the masks back; one that the driver has given up since has none, or is somebody else's."""
        ours = (each for port in context.ports for each in _listed(context.host, port.ifname))
        if irq not in ours or not context.host.exists(_FILE.format(irq)):
            return
        if cpu_list(self.present(context.host, irq)) != cpu_list(cpus):  # some controllers take no CPUs at all
            context.host.write(_FILE.format(irq), cpus)
        present = self.present(context.host, irq)
        if cpu_list(present) != cpu_list(cpus):
            raise Unsupported(f"{self.name}: interrupt {irq} is on CPUs {present} and could not be put back to {cpus}")

    def _wanted(self, context: KnobContext, value: Scalar) -> dict[str, int]:
        cpus = self._cpus(context, value)
        each = (interrupts(context.host, port.ifname) for port in context.ports)
        return {irq: cpus[number % len(cpus)] for of_port in each for number, irq in enumerate(of_port)}

    @staticmethod
    def _cpus(context: KnobContext, value: Scalar) -> tuple[int, ...]:
        if value == "forwarder":
            return (context.layout.forwarder,)
        if value == "apart":
            taken = (*context.layout.tx_cpus, context.layout.forwarder)
            return tuple(cpu for cpu in context.cpus if cpu not in taken)[:1]
        return tuple(map(int, str(value).split("/")))


def interrupts(host: Host, ifname: str) -> list[str]:
    """Message-signalled interrupts of a card that somebody has asked for, in the order in which it got them."""
    listed = _listed(host, ifname)
    if not listed:
        return []
    used = set(re.findall(r"^\s*(\d+):", host.read("/proc/interrupts"), re.MULTILINE))
    return sorted((irq for irq in listed if irq in used), key=int)


def _listed(host: Host, ifname: str) -> list[str]:
    return host.run(["ls", f"/sys/class/net/{ifname}/device/msi_irqs"], check=False).stdout.split()


def irq_cpus(host: Host, ifname: str) -> str:
    """CPUs that may serve them, one after another, in the kernel's words: `2 3 2 3`; "" without any."""
    return " ".join(host.read(_FILE.format(irq)).strip() for irq in interrupts(host, ifname))


# NAPI settings.

#: A closed zero-copy socket leaves its queue some time later; virtio_net then waits for the lock that a writer of
#: `threaded` holds, who waits for it: both hang for good (Linux 7.2).
_VIRTIO_SETTLES_S = 1.0


#: How many empty polls NAPI makes before interrupts are enabled again.
NapiDeferHardIrqs = PortFileKnob.called("napi_defer_hard_irqs", file="napi_defer_hard_irqs", high=2**31 - 1)
#: Timer in ns after which a deferred NAPI is polled again.
GroFlushTimeout = PortFileKnob.called("gro_flush_timeout", file="gro_flush_timeout", high=1_000_000_000)


class IrqSuspendTimeout(ValueKnob):
    """How long interrupts stay suspended while an application finds frames by busy polling with epoll.

    Only epoll with prefer-busy-poll suspends them (EPIOCSPARAMS); the system calls of an AF_XDP socket never do. It
    matters for applications next to the switch, such as the servers of the co-location studies.
    """

    name: ClassVar[str] = "irq_suspend_timeout"
    after: ClassVar[tuple[str, ...]] = ("channels", "offload_gro")  # NAPIs come with queues, on veth with GRO

    def check(self, value: Scalar) -> int:
        return whole_number(self.name, value, 0, 2**31 - 1)

    def unsupported(self, context: KnobContext, value: Scalar) -> str | None:
        """The kernel must list NAPIs of each port, with this setting (6.13)."""
        for port in context.ports:
            if port.simulated:
                return f"{self.name}: port {port.role} is simulated"
            if context.host.suspend_timeouts(port.ifname) is None:
                release = context.host.read("/proc/sys/kernel/osrelease")
                return f"{self.name}: Linux {release} lists no NAPI of {port.ifname} with it (needs 6.13, and NAPI on)"
        return None

    def present(self, host: Host, name: str) -> list[int] | None:
        """Of each NAPI, lowest id first."""
        return host.suspend_timeouts(name)

    def wanted(self, name: str, present: list[int] | None, value: Scalar) -> list[int]:
        """The same for each; there must be one."""
        return [int(value)] * max(1, len(present or ()))

    def write(self, host: Host, name: str, value: Any) -> None:
        host.suspend_timeouts(name, value)

    def restore_one(self, context: KnobContext, ifname: str, values: Any) -> None:
        """Set each NAPI back; those that came since then get the last one's."""
        present = context.host.suspend_timeouts(ifname, values or ())
        if values and present != [*values, *values[-1:] * len(present or ())][: len(present or ())]:
            raise Unsupported(f"{self.name}: {ifname} holds {present} and could not be restored to {values}")


class ThreadedNapi(PortFileKnob):
    """NAPI in kernel threads of its own instead of softirq context."""

    name: ClassVar[str] = "threaded_napi"
    file: ClassVar[str] = "threaded"
    high: ClassVar[int] = 1

    def restore(self, context: KnobContext, saved: Any) -> None:
        """As other files, once sockets are gone that were closed just now."""
        if any(driver(context.host, ifname) == "virtio_net" for ifname in saved):
            time.sleep(_VIRTIO_SETTLES_S)
        super().restore(context, saved)
