# SPDX-License-Identifier: Apache-2.0
"""NAPI settings of the forwarder's ports (Documentation/networking/napi.rst). They are live on veth with NAPI on."""

from typing import ClassVar

from xdplab.knobs.base import PortFileKnob


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
