# SPDX-License-Identifier: Apache-2.0
"""What is done at a point: the face of a method, and finding it. Each method is a folder here, or elsewhere."""

from xdplab.methods.base import Counted as Counted, Method as Method, Session as Session
from xdplab.methods.column import Column as Column
from xdplab.methods.figure import (
    P50 as P50,
    P99 as P99,
    Figure as Figure,
    LimitedBy as LimitedBy,
    PointFigures as PointFigures,
)
from xdplab.methods.registry import (
    figure as figure,
    make_method as make_method,
    method_class as method_class,
    method_names as method_names,
)
