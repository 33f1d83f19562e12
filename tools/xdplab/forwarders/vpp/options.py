# SPDX-License-Identifier: Apache-2.0
"""Options of the VPP forwarders, and how many buffers they need."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from xdplab.forwarders.dpdk import PortOptions
from xdplab.forwarders.options import Key, RawOptions, power_of_two
from xdplab.model import NamesProgram

LEAST_BUFFERS, MOST_BUFFERS = 16384, 1_000_000
#: Places of keys: the messages that make interfaces, and variables of `vpp/startup.conf.j2`.
AF_XDP, AF_PACKET, STARTUP = "af_xdp_create_v3", "af_packet_create_v3", "startup"
_MODES = {"auto": 0, "copy": 1, "zero-copy": 2}

RingSize = Annotated[int, Field(ge=256, le=32768), AfterValidator(power_of_two)]


class VppOptions(RawOptions):
    """What every VPP forwarder takes."""

    raw_places: ClassVar[Mapping[str, str]] = {"startup": "a section of startup.conf, and the words in it"}

    #: The program, or the prefix that it is installed in; empty: XDPLAB_VPP, else `vpp` on PATH.
    vpp: Annotated[str, NamesProgram()] = ""
    rx_mode: Literal["polling", "interrupt", "adaptive"] = "polling"
    n_rxq: Annotated[
        Annotated[int, Field(ge=1, le=64)],
        Key(AF_XDP, ("rxq_num",)),
        Key(AF_PACKET, ("num_rx_queues",)),
        Key(STARTUP, ("queues",)),
    ] = 1
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


class VppAfxdpOptions(VppOptions):
    """What `af_xdp_create_v3` takes."""

    raw_places: ClassVar[Mapping[str, str]] = {**VppOptions.raw_places, AF_XDP: "a field of this message, as prog"}

    zero_copy: Annotated[Literal["auto", "copy", "zero-copy"], Key(AF_XDP, ("mode",), value=_MODES.__getitem__)] = (
        "auto"
    )
    rx_queue_size: Annotated[RingSize, Key(AF_XDP, ("rxq_size",))] = 512
    tx_queue_size: Annotated[RingSize, Key(AF_XDP, ("txq_size",))] = 512
    multi_buffer: bool = False

    @property
    def ring_size(self) -> int:
        return self.rx_queue_size


class VppAfpacketOptions(VppOptions):
    """What `af_packet_create_v3` takes. VPP's own default is to take interrupts on a ring of TPACKET_V3."""

    raw_places: ClassVar[Mapping[str, str]] = {**VppOptions.raw_places, AF_PACKET: "a field of this message"}

    rx_mode: Literal["polling", "interrupt", "adaptive"] = "interrupt"
    tpacket: int = Field(default=3, ge=2, le=3)
    qdisc_bypass: bool = True
    #: Frames of a block of the receive and transmit rings; 0: VPP's default (32 with TPACKET_V3, else 1024).
    rx_frames: Annotated[Annotated[int, Field(ge=0, le=65536)], Key(AF_PACKET, ("rx_frames_per_block",))] = 0
    tx_frames: Annotated[Annotated[int, Field(ge=0, le=65536)], Key(AF_PACKET, ("tx_frames_per_block",))] = 0


class VppDpdkOptions(PortOptions, VppOptions):
    """Ports of VPP's dpdk plugin: which vdev or card, and its rings."""

    raw_places: ClassVar[Mapping[str, str]] = {**VppOptions.raw_places, **PortOptions.raw_places}

    hugepages_by: ClassVar[str] = "page_size=2M"
    rx_queue_size: Annotated[RingSize, Key(STARTUP, ("rx_desc",))] = 1024
    tx_queue_size: Annotated[RingSize, Key(STARTUP, ("tx_desc",))] = 1024

    @property
    def ring_size(self) -> int:
        return self.rx_queue_size

    @property
    def on_hugepages(self) -> bool:
        return self.page_size == "2M"
