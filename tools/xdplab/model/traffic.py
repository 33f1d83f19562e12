# SPDX-License-Identifier: Apache-2.0
"""The traffic of a point: frames, their sizes and headers, and how many per second."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from xdplab.model.headers import FCS_BYTES, HEADER_BYTES, Departures, FlowSpec

#: The largest frame of one buffer, a page with what the kernel keeps beside it (veth_xdp_set() in drivers/net/veth.c).
ONE_BUFFER_BYTES = 3516
#: Up to that of an MTU of 9702 bytes, with a tag: beyond one buffer both tester and forwarder must take several.
FrameBytes = Annotated[int, Field(ge=64, le=9724)] | Literal["imix"]
#: Frames per second; or a share of the tester's calibrated top rate on the direct link, as `80%`, at the most of what
#: the medium carries.
Rate = Annotated[
    Annotated[float, Field(gt=0, le=100e6)]
    | Annotated[str, Field(pattern=r"^(100|[1-9][0-9]?(\.[0-9]+)?|0\.[0-9]*[1-9][0-9]*)%$")],
    Field(union_mode="left_to_right"),
]
#: Sizes and shares of the simple IMIX that FD.io CSIT and TRex use (7 : 4 : 1); every size counts the FCS.
IMIX: dict[int, float] = {64: 7 / 12, 570: 4 / 12, 1518: 1 / 12}


class TrafficSpec(FlowSpec):
    """One traffic profile. Frame sizes include the 4-byte FCS as in RFC 2544 §9."""

    #: Size of each frame, or `imix`: 64, 570 and 1518 bytes as 7 : 4 : 1.
    frame_bytes: FrameBytes = 64
    #: Frames per second and direction that carry the time of their departure.
    probe_pps: Rate = 100_000.0
    #: Load next to the probes, in frames per second and direction.
    load_pps: float | None = Field(default=None, gt=0, le=1e9)
    #: Load as a share of the rate this forwarder was measured to forward when offered the tester's top rate.
    load_share: float | None = Field(default=None, gt=0, le=1.5)
    #: Load as a share of what fits on a medium of this speed; a frame takes its size plus 20 bytes of preamble and gap.
    load_of_line: float | None = Field(default=None, gt=0, le=1)
    #: That speed, also a bound of the top load; None: that of the testbed file's ports (`speed_mbps`).
    line_rate_bps: float | None = Field(default=None, gt=0)
    #: New flows per second and direction: as many frames, each the first and only one of its flow. The flows are those
    #: behind `flows`, one after another, and come again only when all that the addresses have were there. They are part
    #: of the load, or next to the probes where there is none; evenly spaced, of the smallest size, and time-stamped.
    new_flows_pps: float | None = Field(default=None, gt=0, le=10e6)
    #: When frames of the load leave: `paced`, `poisson` or `burst:N`. Probes are paced.
    departures: Departures = "paced"
    #: Source and destination address pairs; the load is shared between them.
    address_pairs: int = Field(default=1, ge=1, le=4)
    #: Whether both directions are loaded.
    bidirectional: bool = False

    @model_validator(mode="after")
    def _size_of_request(self) -> "TrafficSpec":
        if self.request is None:
            return self
        size = HEADER_BYTES[self.ip] + len(self.request_hex) // 2 + FCS_BYTES
        if self.frame_bytes != size and "frame_bytes" in self.model_fields_set:
            raise ValueError(f"frame_bytes: frames with this request have {size} bytes; give {size}, or leave it out")
        object.__setattr__(self, "frame_bytes", size)
        return self

    @property
    def sizes(self) -> dict[int, float]:
        """Frame size -> its share of the frames."""
        return IMIX if self.frame_bytes == "imix" else {self.frame_bytes: 1.0}

    @property
    def smallest(self) -> int:
        """Smallest frame of the profile, which the probes have."""
        return min(self.sizes)

    @property
    def directions(self) -> tuple[Literal["forward", "backward"], ...]:
        """Directions that are loaded."""
        return ("forward", "backward") if self.bidirectional else ("forward",)

    @model_validator(mode="after")
    def _one_load(self) -> "TrafficSpec":
        if sum(load is not None for load in (self.load_pps, self.load_share, self.load_of_line)) > 1:
            raise ValueError("load_pps, load_share and load_of_line exclude each other")
        if self.load_of_line is not None and self.line_rate_bps is None:
            raise ValueError("load_of_line needs line_rate_bps, the speed of the medium")
        if self.new_flows_pps and self.new_flows_pps > (self.stated_load_pps or self.new_flows_pps):
            raise ValueError(
                f"new_flows_pps: {self.new_flows_pps:,.10g} are more than the load of {self.stated_load_pps:,.10g} "
                "frames per second, of which they are part"
            )
        return self

    def line_pps(self, line_rate_bps: float) -> float:
        """Frames of this profile per second on a medium of that speed (RFC 2544 §20)."""
        return line_rate_bps / sum(share * (size + 20) * 8 for size, share in self.sizes.items())

    def top_pps(self, tester_pps: float, line_rate_bps: float | None) -> float:
        """Highest load over all directions: what the tester sends and the medium carries; 0.0 where neither is known.

        `tester_pps`: 0.0 where it was not calibrated; `line_rate_bps`: of a testbed, where the profile has none.
        """
        speed_bps = self.line_rate_bps or line_rate_bps
        line_pps = self.line_pps(speed_bps) * len(self.directions) if speed_bps else 0.0
        return min(filter(None, (tester_pps, line_pps)), default=0.0)

    def on_line(self, line_rate_bps: float | None) -> "TrafficSpec":
        """The same on a medium of that speed, unless it has one of its own."""
        given = self.line_rate_bps or line_rate_bps
        return self if given == self.line_rate_bps else self.model_copy(update={"line_rate_bps": given})

    def at(self, top_pps: float) -> "TrafficSpec":
        """The same with its rate in frames per second; see `top_pps`."""
        if isinstance(self.probe_pps, float):
            return self
        pps = float(self.probe_pps.removesuffix("%")) / 100 * top_pps / len(self.directions)
        return self.model_copy(update={"probe_pps": pps})

    @property
    def probes_per_s(self) -> float:
        """Of a profile without shares; see `at`.

        Raises:
            ValueError: the rate is a share.
        """
        return float(self.probe_pps)

    @property
    def probes_text(self) -> str:
        """`100,000 pps`, `80% of the tester's top rate`, or `80% of the top rate on 25 Gbit/s`."""
        top = (
            "the tester's top rate"
            if self.line_rate_bps is None
            else f"the top rate on {self.line_rate_bps / 1e9:g} Gbit/s"
        )
        share = isinstance(self.probe_pps, str)
        return f"{self.probe_pps} of {top}" if share else f"{self.probes_per_s:,.10g} pps"

    @property
    def stated_load_pps(self) -> float | None:
        """The load as far as the profile itself says it; None when there is none or it is still to be measured."""
        if self.load_of_line is not None and self.line_rate_bps is not None:
            return self.load_of_line * self.line_pps(self.line_rate_bps)
        return self.load_pps
