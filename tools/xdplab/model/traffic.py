# SPDX-License-Identifier: Apache-2.0
"""The traffic of a point: frames, their sizes and headers, and how many per second."""

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from xdplab.model.base import Model

# What the frames of a profile, and of its streams, carry in their headers, and which flow each is of.

#: UDP source ports that the flows of one pair of addresses may have: from 10,000 on.
PORTS = 65_536 - 10_000
#: `paced`: evenly spaced; `poisson`: gaps are exponential, and drawn as flows are, from the same seed; `burst:N`: N
#: frames are due together, at N times the interval.
Departures = Annotated[str, Field(pattern=r"^(paced|poisson|burst:([2-9]|[1-9][0-9]{1,3}))$")]


#: Ethernet, IP and UDP, by the version of IP; and a frame's check sequence.
HEADER_BYTES, FCS_BYTES = {4: 14 + 20 + 8, 6: 14 + 40 + 8}, 4
#: Bytes of a frame that identify it (bpf/common/trailer.h), and what stands for them in `request`.
IDENTITY_BYTES, IDENTITY = 18, "{id}"
#: Longest request (`GEN_REQUEST` of bpf/common/gen.h).
REQUEST_BYTES = 256


class FlowSpec(Model):
    """Flows and headers; frame n of a stream, from 0 on, is of the same flow in each trial."""

    #: UDP flows. Each has a pair of addresses and a source port, in this order: target n mod D of D, then source
    #: (n / D) mod S of S, then port 10000 + n / (D x S).
    flows: int = Field(default=1, ge=1, le=100_000)
    #: Which of them a frame is of. `round-robin`: frame n is of flow n mod `flows`; `uniform`: each is drawn as often
    #: (SplitMix64, Steele, Lea and Flood 2014, OOPSLA); `zipf`: flow k, from 0 on, is drawn with the probability
    #: (k + 1)^-s / H, where H is the sum of (i + 1)^-s over all flows, by the alias method (Vose 1991, IEEE TSE 17(9)).
    flow_choice: Literal["round-robin", "uniform", "zipf"] = "round-robin"
    #: s of `zipf`; None: 1.
    zipf_exponent: float | None = Field(default=None, ge=0, le=10)
    #: What `uniform` and `zipf` draw from: one seed, one sequence, in each trial and repetition. Streams of one trial
    #: draw different ones.
    flow_seed: int = Field(default=1, ge=0, le=2**32 - 1)
    #: Source addresses, one after another, that flows have.
    src_addresses: int = Field(default=1, ge=1, le=250)
    #: Target addresses, likewise.
    dst_addresses: int = Field(default=1, ge=1, le=250)
    #: Which rules of the pipeline frames meet: `last`, the traffic's own; `all`: flows have an address for each prefix
    #: of `route:N`, or for each rule of `acl:N`, in turns, the traffic's own first.
    rule_match: Literal["last", "all"] = "last"
    #: VLAN id of the frames; None: no tag.
    vlan: int | None = Field(default=None, ge=1, le=4094)
    #: VLAN id of a tag in front of that one (IEEE 802.1ad, QinQ); None: none.
    outer_vlan: int | None = Field(default=None, ge=1, le=4094)
    #: Priority code point of the tags.
    pcp: int = Field(default=0, ge=0, le=7)
    #: Drop eligible indicator of the tags.
    dei: bool = False
    #: Differentiated services code point (RFC 2474).
    dscp: int = Field(default=0, ge=0, le=63)
    #: Version of IP.
    ip: Literal[4, 6] = 4
    #: UDP payload of each frame, in hex digits; `{id}` in it are the 18 bytes by which the tester knows a frame, which
    #: the answer to it must repeat. None: zeros, with these 18 bytes at the end.
    request: str | None = None
    #: UDP port that requests go to; None: 20000.
    udp_port: int | None = Field(default=None, ge=1, le=65535)
    #: Where the 18 bytes of `{id}` are in the answer's payload; None: where they are in the request.
    answer_at: int | None = Field(default=None, ge=0, le=REQUEST_BYTES)

    def flows_left(self, pairs: int) -> int:
        """Flows that so many pairs of addresses have next to these, with ports behind theirs."""
        return min(pairs * PORTS, 2**32 - 1) - self.flows

    @property
    def tag_bytes(self) -> int:
        """Length of the tags."""
        return 4 * ((self.vlan is not None) + (self.outer_vlan is not None))

    @property
    def request_at(self) -> int | None:
        """Where the identity begins in the request, in bytes."""
        return None if self.request is None else self.request.index(IDENTITY) // 2

    @property
    def request_hex(self) -> str:
        """The payload with zeros for the identity; empty where there is no request."""
        return "" if self.request is None else self.request.replace(IDENTITY, "00" * IDENTITY_BYTES)

    @field_validator("request")
    @classmethod
    def _bytes_and_identity(cls, given: str | None) -> str | None:
        if given is None:
            return None
        text = "".join(given.split()).lower()
        if not re.fullmatch(r"([0-9a-f]{2})*\{id\}([0-9a-f]{2})*", text):
            raise ValueError("request: must be pairs of hex digits with one {id} between two of them")
        size = (len(text) - len(IDENTITY)) // 2 + IDENTITY_BYTES
        if size > REQUEST_BYTES:
            raise ValueError(f"request: {size} bytes, of which {{id}} has {IDENTITY_BYTES}: at most {REQUEST_BYTES}")
        return text

    @property
    def headers(self) -> dict[str, object]:
        """All of these, as another model of them takes them."""
        return {name: getattr(self, name) for name in FlowSpec.model_fields}

    @model_validator(mode="after")
    def _flows_have_addresses(self) -> "FlowSpec":
        pairs = self.src_addresses * self.dst_addresses
        if self.rule_match == "all" and pairs > 1:
            raise ValueError("rule_match: all chooses the addresses; leave src_addresses and dst_addresses out")
        if self.rule_match != "all" and self.flows > pairs * PORTS:
            raise ValueError(
                f"flows: {self.flows:,} are more than {self.src_addresses} x {self.dst_addresses} addresses have, "
                f"{PORTS:,} ports each; raise src_addresses or dst_addresses"
            )
        return self

    @model_validator(mode="after")
    def _nothing_idle(self) -> "FlowSpec":
        if self.zipf_exponent is not None and self.flow_choice != "zipf":
            raise ValueError(f"zipf_exponent needs flow_choice: zipf, not {self.flow_choice}")
        if self.flow_seed != 1 and self.flow_choice == "round-robin":
            raise ValueError("flow_seed needs flow_choice: uniform or zipf; round-robin draws nothing")
        if self.vlan is None and (self.outer_vlan is not None or self.pcp or self.dei):
            raise ValueError("outer_vlan, pcp and dei need a tag: give vlan")
        if self.request is None and (self.answer_at is not None or self.udp_port is not None):
            raise ValueError("answer_at and udp_port need request")
        if self.request is not None and self.vlan is not None:
            raise ValueError("request: frames with a VLAN tag cannot have one; leave vlan out")
        return self


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
