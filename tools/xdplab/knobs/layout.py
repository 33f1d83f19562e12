# SPDX-License-Identifier: Apache-2.0
"""Who pays: on which CPUs the receive half (NAPI) and the forwarder's thread run.

On veth a NAPI without a thread runs on the CPU that sent the frame, so "2 cores" costs the tester's core and not a
third one. Threaded NAPI pinned to a CPU gives the layouts of Intel's AF_XDP guide.
"""

import re
from typing import Any, ClassVar

from xdplab.hosts import Host
from xdplab.hosts.kernel import cpu_list, napi_threads
from xdplab.knobs.base import Knob, KnobContext
from xdplab.knobs.interrupts import ThreadedNapi
from xdplab.model import CpuLayout, InputError, Unsupported
from xdplab.model.design import Scalar

_VALUES = {
    "inline": "receive NAPI on the sender's core (veth's default)",
    "1C1T": "receive NAPI and forwarder on one CPU",
    "1C2T": "receive NAPI and forwarder on two threads of one core",
    "2C2T": "receive NAPI and forwarder on two cores, both apart from the tester",
}


class CpuLayoutKnob(Knob):
    """The layouts of the guide, by threaded NAPI pinned to a CPU."""

    name: ClassVar[str] = "cpu_layout"

    def check(self, value: Scalar) -> str:
        if value not in _VALUES:
            raise InputError(f"knob {self.name}: {value!r} is none of {', '.join(_VALUES)}")
        return str(value)

    def unsupported(self, context: KnobContext, value: Scalar) -> str | None:
        """The CPUs it needs must exist."""
        return (
            None if self._napi_cpu(context, value) is not None or value == "inline" else self._missing(context, value)
        )

    def layout(self, context: KnobContext, value: Scalar) -> CpuLayout:
        """The default layout with the NAPI moved."""
        napi = self._napi_cpu(context, value)
        keeping = tuple(cpu for cpu in context.layout.housekeeping if cpu != napi)
        return context.layout.model_copy(
            update={"dut_napi": napi, "housekeeping": keeping or (context.layout.tester_tx,)}
        )

    def read(self, context: KnobContext) -> dict[str, str]:
        """The `threaded` file of each port; threads end with it."""
        return ThreadedNapi().read(context)

    def apply(self, context: KnobContext, value: Scalar) -> None:
        ThreadedNapi().apply(context, int(value != "inline"))

    def after_start(self, context: KnobContext, value: Scalar) -> None:
        """Pin the NAPI threads, which a driver may have replaced when XDP was attached."""
        cpu = self._napi_cpu(context, value)
        if cpu is None:
            return
        for pid in self._threads(context):
            context.host.run(["taskset", "--cpu-list", "--pid", str(cpu), str(pid)])
        self.verify(context, value)

    def verify(self, context: KnobContext, value: Scalar) -> None:
        """`threaded` as written; each NAPI thread allowed on its CPU only, once it has been pinned."""
        ThreadedNapi().verify(context, int(value != "inline"))
        cpu = self._napi_cpu(context, value)
        for pid in self._threads(context) if cpu is not None else ():
            allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)", context.host.read(f"/proc/{pid}/status"), re.MULTILINE)
            cpus = cpu_list(allowed.group(1)) if allowed else ()
            if len(cpus) == 1 and cpus != (cpu,):
                raise Unsupported(f"cpu_layout: NAPI thread {pid} is bound to CPU {cpus[0]}, not to {cpu}")

    def restore(self, context: KnobContext, saved: Any) -> None:
        """Threads off or on, as before."""
        ThreadedNapi().restore(context, saved)

    def describe(self, value: Scalar) -> str:
        return _VALUES[str(value)]

    @staticmethod
    def _missing(context: KnobContext, value: Scalar) -> str:
        here = len(context.host.cpus)
        need = {"1C2T": "a forwarder CPU with SMT", "2C2T": "three CPUs"}.get(str(value), "two CPUs")
        return f"cpu_layout {value} needs {need}; this machine has {here} CPUs"

    @staticmethod
    def _napi_cpu(context: KnobContext, value: Scalar) -> int | None:
        layout = context.layout
        if value == "1C1T":
            return layout.forwarder
        free = [cpu for cpu in context.cpus if cpu not in (*layout.tx_cpus, layout.forwarder)]
        siblings = _siblings(context.host, layout.forwarder)
        if value == "1C2T":
            return next((cpu for cpu in free if cpu in siblings), None)
        if value == "2C2T":
            return next((cpu for cpu in free if cpu not in siblings), None)
        return None

    @staticmethod
    def _threads(context: KnobContext) -> list[int]:
        found = napi_threads(context.host, (port.ifname for port in context.ports))
        if not found:
            raise Unsupported(
                f"cpu_layout: no kernel thread napi/{context.ports[0].ifname}-*: this driver has no threaded NAPI"
            )
        return found


def _siblings(host: Host, cpu: int) -> tuple[int, ...]:
    path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    return cpu_list(host.read(path)) if host.exists(path) else (cpu,)
