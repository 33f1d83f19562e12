# SPDX-License-Identifier: Apache-2.0
"""NAPI settings of the forwarder's ports (Documentation/networking/napi.rst). They are live on veth with NAPI on."""

import time
from typing import Any, ClassVar

from xdplab.knobs.base import KnobContext, PortFileKnob
from xdplab.knobs.ethtool import driver

#: A closed zero-copy socket leaves its queue some time later; virtio_net then waits for the lock that a writer of
#: `threaded` holds, who waits for it: both hang for good (Linux 7.2).
_VIRTIO_SETTLES_S = 1.0


class NapiDeferHardIrqs(PortFileKnob):
    """How many empty polls NAPI makes before interrupts are enabled again."""

    name: ClassVar[str] = "napi_defer_hard_irqs"
    file: ClassVar[str] = "napi_defer_hard_irqs"
    high: ClassVar[int] = 2**31 - 1
    summary: ClassVar[str] = "empty NAPI polls before interrupts are enabled"


class GroFlushTimeout(PortFileKnob):
    """Timer in ns after which a deferred NAPI is polled again."""

    name: ClassVar[str] = "gro_flush_timeout"
    file: ClassVar[str] = "gro_flush_timeout"
    high: ClassVar[int] = 1_000_000_000
    summary: ClassVar[str] = "timer (ns) of a deferred NAPI"


class ThreadedNapi(PortFileKnob):
    """NAPI in kernel threads of its own instead of softirq context."""

    name: ClassVar[str] = "threaded_napi"
    file: ClassVar[str] = "threaded"
    high: ClassVar[int] = 1
    summary: ClassVar[str] = "NAPI in a kernel thread (0, 1)"

    def restore(self, context: KnobContext, saved: Any) -> None:
        """As other files, once sockets are gone that were closed just now."""
        if any(driver(context.host, ifname) == "virtio_net" for ifname in saved):
            time.sleep(_VIRTIO_SETTLES_S)
        super().restore(context, saved)
