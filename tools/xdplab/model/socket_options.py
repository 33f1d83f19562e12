# SPDX-License-Identifier: Apache-2.0
"""Options of a socket of `bpf/xsk` that forwarder and tester have in common."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from xdplab.model.base import Model


def power_of_two(value: int) -> int:
    """A validator of ring sizes."""
    if value & (value - 1):
        raise ValueError("should be a power of two")
    return value


RingSize = Annotated[int, Field(ge=8, le=32768), AfterValidator(power_of_two)]


#: What a program tells of a socket again when it counts: up to Linux 6.12 the first frame brings its NAPI id.
LATER = ("napi_id", "busy_poll_active")


class SocketOptions(Model):
    """Under the names that they have in `bpf/xsk` (`mode` is its `xdp_mode`)."""

    backend: Literal["af_xdp", "af_packet"] = "af_xdp"
    mode: Literal["native", "generic"] = "native"
    bind: Literal["auto", "copy", "zero-copy"] = "auto"
    rx_ring: RingSize = 2048
    tx_ring: RingSize = 2048
    fill_ring: RingSize = 2048
    completion_ring: RingSize = 2048
    #: Chunks of a UMEM; 0: enough for all rings.
    frames: int = Field(default=0, ge=0, le=4_194_304)
    chunk_bytes: int = Field(default=4096, ge=2048, le=4096)
    headroom: int = Field(default=0, ge=0, le=3584)
    unaligned: bool = False
    need_wakeup: bool = True
    #: What the thread does when there is nothing to do.
    wait: Literal["spin", "poll"] = "spin"
    #: The system calls that wake the kernel.
    wake_rx: Literal["recvfrom", "poll", "none"] = "recvfrom"
    wake_tx: Literal["sendto", "poll", "none"] = "sendto"
    busy_poll_us: int = Field(default=0, ge=0, le=1_000_000)
    #: 0: the kernel's.
    busy_poll_budget: int = Field(default=0, ge=0, le=65_535)
    prefer_busy_poll: bool = False
    #: Frames that one system call sends in copy mode (Linux 6.17); 0: the kernel's 32.
    tx_skb_budget: int = Field(default=0, ge=0, le=32768)
    packet_version: Literal[2, 3] = 2
    qdisc_bypass: bool = True
    #: TPACKET_V3 hands a block over when it is full or after this time.
    block_timeout_ms: int = Field(default=1, ge=1, le=10_000)
    policy: Literal["other", "fifo", "rr"] = "other"
    priority: int = Field(default=1, ge=1, le=99)

    @model_validator(mode="before")
    @classmethod
    def _version_from_text(cls, value: Any) -> Any:
        """On a command line `packet_version` is text; a Literal takes only the number."""
        if isinstance(value, dict) and value.get("packet_version") in ("2", "3"):
            return {**value, "packet_version": int(value["packet_version"])}
        return value

    @model_validator(mode="after")
    def _budget_in_range(self) -> Self:
        if self.tx_skb_budget and not 32 <= self.tx_skb_budget <= self.tx_ring:
            raise ValueError("tx_skb_budget should be 0, or from 32 to tx_ring")
        return self

    @property
    def wants_tx_skb_budget(self) -> bool:
        """Whether the kernel is asked for one (AF_PACKET has none: the program refuses it)."""
        return self.tx_skb_budget > 0 and self.backend == "af_xdp"

    def not_in_force(self, sockets: Iterable[Mapping[str, Any]]) -> str | None:
        """Why what was asked for does not work, though the kernel took it; `sockets` as reported once frames have come.

        Busy polling may be set on a socket that the kernel never polls.
        """
        if self.busy_poll_us and not any(sock["busy_poll_active"] for sock in sockets):
            return (
                f"busy_poll_us={self.busy_poll_us} is not in force: the kernel reports no NAPI id for these sockets, "
                "also after traffic (since Linux 6.13 those of veth, ixgbe and i40e have none)"
            )
        return None
