# SPDX-License-Identifier: Apache-2.0
"""What a study may ask of method `tracing`."""

from typing import Literal, get_args

from pydantic import Field, field_validator

from xdplab.methods.shared.traced import TracedSpec

CLAUSE = "tracing"
TraceWay = Literal["in-band", "bpf", "perf"]


class TracingSpec(TracedSpec):
    """Method `tracing`: what each way of following a frame costs it, beside trials without any.

    `in-band`: the forwarder stamps batches itself; `bpf`: static probes, recorded by `bpf/ovsprobe`; `perf`: static
    probes, recorded by perf.
    """

    name: Literal["tracing"]
    #: Those that are measured.
    ways: tuple[TraceWay, ...] = Field(default=get_args(TraceWay), min_length=1)
    #: What a way may cost at p50.
    goal_us: float = Field(default=0.2, gt=0)
    #: `xdplab/model/published/NAME.yaml`, whose authors tell what their tracing cost.
    published: str | None = None

    @field_validator("ways")
    @classmethod
    def _different_ways(cls, value: tuple[TraceWay, ...]) -> tuple[TraceWay, ...]:
        if len(set(value)) < len(value):
            raise ValueError("a way is there twice")
        return value
