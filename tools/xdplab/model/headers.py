# SPDX-License-Identifier: Apache-2.0
"""What the frames of a profile, and of its streams, carry in their headers, and which flow each is of."""

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from xdplab.model.base import Model

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
