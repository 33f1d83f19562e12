# SPDX-License-Identifier: Apache-2.0
"""What is done at a point: the face of a method, and finding it. Each method is a folder here, or elsewhere."""

from xdplab.methods.base import Counted, Method, Part, Session
from xdplab.methods.column import Column
from xdplab.methods.figure import P50, P99, Figure, LimitedBy, PointFigures
from xdplab.methods.registry import figure, make_method, method_class, method_names
