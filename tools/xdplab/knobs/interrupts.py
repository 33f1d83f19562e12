# SPDX-License-Identifier: Apache-2.0
"""Which CPU serves a card's interrupts: the forwarder's, or one apart from it."""

import re
from typing import Any, ClassVar

from xdplab.hosts import Host
from xdplab.hosts.kernel import cpu_list
from xdplab.knobs.base import EachKnob, KnobContext
from xdplab.knobs.ethtool import driver, first_missing
from xdplab.model import CpuLayout, InputError, Unsupported
from xdplab.model.design import Scalar

_FILE = "/proc/irq/{}/smp_affinity_list"


class IrqCpu(EachKnob):
    """`forwarder`: interrupts and forwarder on one CPU; `apart`: on another of the data path; or a CPU's number."""

    name: ClassVar[str] = "irq_cpu"
    after: ClassVar[tuple[str, ...]] = ("channels",)  # each queue brings an interrupt

    def check(self, value: Scalar) -> Scalar:
        """One of the words, or a number."""
        if value in ("forwarder", "apart") or (str(value).isdigit() and not isinstance(value, bool)):
            return int(value) if str(value).isdigit() else value
        raise InputError(f"knob {self.name}: {value!r} is none of forwarder, apart, or a CPU's number")

    def unsupported(self, context: KnobContext, value: Scalar) -> str | None:
        """The card must have interrupts, and the CPU must be there."""
        missing = first_missing(context.ports, context.host, "device/msi_irqs")
        if missing:
            inline = "; NAPI runs on the sender's CPU, and cpu_layout moves it" if missing == "veth" else ""
            return f"{self.name}: the {missing} driver has no interrupts of its own{inline}"
        cpu = self._cpu(context, value)
        if cpu is None:
            return f"{self.name}: no CPU apart from tester and forwarder"
        if cpu not in context.cpus:
            return f"{self.name}: CPU {cpu} is none of the testbed's {list(context.cpus)}"
        for port in context.ports:
            if not self._interrupts(context.host, port.ifname):
                return f"{self.name}: {port.ifname} ({driver(context.host, port.ifname)}) has no interrupt in use"
        return None

    def layout(self, context: KnobContext, value: Scalar) -> CpuLayout:
        """NAPI runs where the interrupt does."""
        return context.layout.model_copy(update={"dut_napi": self._cpu(context, value)})

    def names(self, context: KnobContext) -> list[str]:
        """All interrupts of the ports."""
        return [irq for port in context.ports for irq in self._interrupts(context.host, port.ifname)]

    def present(self, host: Host, irq: str) -> str:
        """CPUs that may serve it."""
        return host.read(_FILE.format(irq))

    def apply(self, context: KnobContext, value: Scalar) -> None:
        """Bind them."""
        for irq in self.names(context):
            context.host.write(_FILE.format(irq), str(self._cpu(context, value)))

    def verify(self, context: KnobContext, value: Scalar) -> None:
        """Ask for the mask; a daemon such as irqbalance may have moved it already."""
        for irq, cpus in self.read(context).items():
            if cpu_list(cpus) != (self._cpu(context, value),):
                raise Unsupported(f"{self.name}: interrupt {irq} is on CPUs {cpus}; is irqbalance running?")

    def restore_one(self, context: KnobContext, irq: str, cpus: Any) -> None:
        """Put the masks back."""
        context.host.write(_FILE.format(irq), cpus)
        present = self.present(context.host, irq)
        if cpu_list(present) != cpu_list(cpus):
            raise Unsupported(f"{self.name}: interrupt {irq} is on CPUs {present} and could not be put back to {cpus}")

    @staticmethod
    def _cpu(context: KnobContext, value: Scalar) -> int | None:
        if value == "forwarder":
            return context.layout.forwarder
        if value == "apart":
            taken = (*context.layout.tx_cpus, context.layout.forwarder)
            return next((cpu for cpu in context.cpus if cpu not in taken), None)
        return int(value)

    @staticmethod
    def _interrupts(host: Host, ifname: str) -> list[str]:
        """Message-signalled interrupts of a card that somebody has asked for."""
        listed = host.run(["ls", f"/sys/class/net/{ifname}/device/msi_irqs"], check=False).stdout.split()
        used = set(re.findall(r"^\s*(\d+):", host.read("/proc/interrupts"), re.MULTILINE))
        return [irq for irq in listed if irq in used]
