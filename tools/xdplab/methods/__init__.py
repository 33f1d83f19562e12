# SPDX-License-Identifier: Apache-2.0
"""What is done at a point."""

from xdplab.methods.base import Method, Session
from xdplab.methods.latency import Latency

__all__ = ["Latency", "Method", "Session"]
