# SPDX-License-Identifier: Apache-2.0
"""What is done at a point."""

from xdplab.methods.base import Method, Session
from xdplab.methods.breakdown import Breakdown
from xdplab.methods.latency import Latency
from xdplab.methods.rfc2544 import Rfc2544
from xdplab.methods.tracing import Tracing
from xdplab.model import BreakdownSpec, LatencySpec, MethodSpec, TracingSpec

__all__ = ["Breakdown", "Latency", "Method", "Rfc2544", "Session", "Tracing", "make_method"]


def make_method(spec: MethodSpec) -> Method:
    """The method that a study asks for."""
    if isinstance(spec, BreakdownSpec):
        return Breakdown(spec)
    if isinstance(spec, TracingSpec):
        return Tracing(spec)
    return Latency(spec) if isinstance(spec, LatencySpec) else Rfc2544(spec)
