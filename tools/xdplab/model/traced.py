# SPDX-License-Identifier: Apache-2.0
"""Methods that follow frames through a forwarder."""

from typing import Annotated, Literal, get_args

from pydantic import Field, field_validator

from xdplab.model.base import Model


class TracedSpec(Model):
    """What the methods that trace have in common: at each rate, trials with it beside trials without."""

    rates_pps: tuple[Annotated[float, Field(gt=0, le=10e6)], ...] = Field(default=(10e3, 50e3, 100e3), min_length=1)
    pairs: int = Field(default=3, ge=1, le=100)
    duration_s: float = Field(default=0.5, ge=0.05, le=60)
    warmup_s: float = Field(default=0.1, ge=0, le=10)
    drain_s: float = Field(default=0.1, ge=0.01, le=10)


class BreakdownSpec(TracedSpec):
    """Method `breakdown`: where a frame's latency goes, by the forwarder's own probes; with and without them."""

    name: Literal["breakdown"]


TraceWay = Literal["in-band", "bpf", "perf"]


class TracingSpec(TracedSpec):
    """Method `tracing`: what each way of following a frame costs it, beside trials without any.

    `in-band`: the forwarder stamps batches itself; `bpf`: static probes, recorded by `bpf/ovsprobe`; `perf`: static
    probes, recorded by perf.
    """

    name: Literal["tracing"]
    ways: tuple[TraceWay, ...] = Field(default=get_args(TraceWay), min_length=1)
    #: What a way may cost at p50.
    goal_us: float = Field(default=0.2, gt=0)
    #: `xdplab/report/published/NAME.yaml`, whose authors tell what their tracing cost.
    published: str | None = None

    @field_validator("ways")
    @classmethod
    def _different_ways(cls, value: tuple[TraceWay, ...]) -> tuple[TraceWay, ...]:
        if len(set(value)) < len(value):
            raise ValueError("a way is there twice")
        return value
