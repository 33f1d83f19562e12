# SPDX-License-Identifier: Apache-2.0
"""What the methods that follow frames through a forwarder have in common."""

from typing import Annotated

from pydantic import Field

from xdplab.model import MethodSpec


class TracedSpec(MethodSpec):
    """What the methods that trace have in common: at each rate, trials with it beside trials without."""

    rates_pps: tuple[Annotated[float, Field(gt=0, le=10e6)], ...] = Field(default=(10e3, 50e3, 100e3), min_length=1)
    pairs: int = Field(default=3, ge=1, le=100)
    duration_s: float = Field(default=0.5, ge=0.05, le=60)
    warmup_s: float = Field(default=0.1, ge=0, le=10)
    drain_s: float = Field(default=0.1, ge=0.01, le=10)
