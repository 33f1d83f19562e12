# SPDX-License-Identifier: Apache-2.0
"""What became of each flow of a stream: columns with an entry for each flow, so that a record stays small."""

from typing import Annotated

from pydantic import Field, model_validator

from xdplab.model.base import Model

#: Flows that a stream may have; a record of as many takes some 0.4 MB for each stream.
MAX_FLOWS = 10_000

_Frames = Annotated[int, Field(ge=0)]
_Column = Annotated[tuple[_Frames, ...], Field(min_length=1, max_length=MAX_FLOWS)]
_Times = Annotated[tuple[_Frames | None, ...], Field(min_length=1, max_length=MAX_FLOWS)]


class FlowFigures(Model):
    """Frames and latencies (ns) by flow; no latency of a flow of which nothing arrived, nor of a load stream's.

    Flow n has the stream's first UDP source port + n, and of each `flows` frames the one with number n. What the
    tester's own card dropped (`tx_drops` of the stream) is in `sent` and in `lost`: it is not known by flow.
    """

    #: Frames that left.
    sent: _Column
    #: Frames that arrived.
    received: _Column
    #: The difference of the two.
    lost: Annotated[tuple[int, ...], Field(min_length=1, max_length=MAX_FLOWS)]
    #: Shortest latency.
    min_ns: _Times
    #: Mean latency.
    mean_ns: _Times
    #: Longest latency.
    max_ns: _Times

    @model_validator(mode="after")
    def _one_entry_each(self) -> "FlowFigures":
        if len({len(column) for column in self.__dict__.values()}) > 1:
            raise ValueError("flow figures: columns of different lengths")
        return self
