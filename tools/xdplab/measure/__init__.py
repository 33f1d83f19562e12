# SPDX-License-Identifier: Apache-2.0
"""What a measurement is, and the face of a method, which is what a study does at a point.

`figure`, `measured`, `point`, `comparison` are the data; `distribution` reads latencies of trials; `method`, which
also finds it, and `page` are what a method is written against. The methods themselves are in `xdplab.methods`.
"""

from xdplab.measure.comparison import Answer as Answer, Comparison as Comparison
from xdplab.measure.figure import (
    P50 as P50,
    P99 as P99,
    CountedFigures as CountedFigures,
    Figure as Figure,
    LimitedBy as LimitedBy,
    PointFigures as PointFigures,
    TrialFigures as TrialFigures,
)
from xdplab.measure.measured import Measured as Measured, RepetitionFigures as RepetitionFigures
from xdplab.measure.method import (
    Method as Method,
    MethodResult as MethodResult,
    Session as Session,
    figure as figure,
    make_method as make_method,
    method_class as method_class,
    method_names as method_names,
)
from xdplab.measure.page import Column as Column
from xdplab.measure.point import PointSummary as PointSummary
