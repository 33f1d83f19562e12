# SPDX-License-Identifier: Apache-2.0
"""NAPI settings of the forwarder's ports (Documentation/networking/napi.rst). They are live on veth with NAPI on."""

import time
from typing import Any, ClassVar

from xdplab.hosts import Host
from xdplab.knobs.base import KnobContext, PortFileKnob, ValueKnob, whole_number
from xdplab.knobs.ethtool import driver
from xdplab.model import Unsupported
from xdplab.model.design import Scalar

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
