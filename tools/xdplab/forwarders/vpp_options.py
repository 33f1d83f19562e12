# SPDX-License-Identifier: Apache-2.0
"""Options that every VPP forwarder takes, and how many buffers they need."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from xdplab.model import Model, NamesProgram

LEAST_BUFFERS, MOST_BUFFERS = 16384, 1_000_000


class VppOptions(Model):
    """What every VPP forwarder takes."""

    #: The program; empty: XDPLAB_VPP, else `vpp` on PATH.
    vpp: Annotated[str, NamesProgram()] = ""
    rx_mode: Literal["polling", "interrupt", "adaptive"] = "polling"
    n_rxq: int = Field(default=1, ge=1, le=64)
    #: Worker threads; 0: the main thread forwards, on the forwarder's CPU.
    workers: int = Field(default=1, ge=0, le=64)
    #: Without it as many as the receive rings of two ports take, and as many again for frames on their way.
    buffers: int | None = Field(default=None, ge=1024, le=MOST_BUFFERS)
    page_size: Literal["4K", "2M"] = "4K"

    @property
    def ring_size(self) -> int:
        """Buffers that VPP keeps in one receive queue; 0 where the ring has memory of its own, as AF_PACKET's."""
        return 0

    @property
    def buffer_count(self) -> int:
        """As `buffers` says, or as the rings need."""
        return self.buffers or max(LEAST_BUFFERS, 2 * self._in_rings)

    @property
    def _in_rings(self) -> int:
        return 2 * self.n_rxq * self.ring_size

    @model_validator(mode="after")
    def _leaves_some(self) -> "VppOptions":
        if self.buffer_count > MOST_BUFFERS or self.buffer_count <= self._in_rings:
            raise ValueError(
                f"buffers: the receive rings of two ports take {self._in_rings}, and {MOST_BUFFERS} is the most there "
                f"can be; raise buffers, or ask for smaller rings (rx_queue_size) or fewer queues (n_rxq)"
            )
        return self
