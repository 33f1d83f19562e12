# SPDX-License-Identifier: Apache-2.0
"""What a switch does with frames, in a word that all forwarders translate: `cross`, `route:1000`, `containers:2`."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from xdplab.model.base import Model
from xdplab.model.errors import meant

Kind = Literal[
    "cross", "bridge", "vlan", "vxlan", "meter", "mirror", "group", "route", "acl", "conntrack", "nat",
    "containers", "af-xdp-apps", "taps", "vhost-user", "vxlan-link", "geneve-link", "openflow",
]  # fmt: skip
#: Kind -> what it does. Those of `SIZED` take a number, `openflow` takes a file.
KINDS: dict[str, str] = {
    "cross": "what comes in by one port leaves by the other, unchanged and without a look at it",
    "bridge": "a learning bridge (IEEE 802.1D): floods what it has not learned, then sends to the port of the address",
    "vlan": "an access port on the tester's side, a trunk on the other: a tag is pushed there, popped back",
    "vxlan": "the end of a tunnel (RFC 7348): frames of the tester's side leave in VXLAN, and those in VXLAN leave it",
    "meter": "`cross` through a meter, or a policer, that lets everything pass",
    "mirror": "`cross` with a copy to the port that the frame came by: two outputs",
    "group": "`cross` through a select group of two buckets, which leave their number in the source address",
    "route": "a router: longest prefix, new addresses of Ethernet, TTL less one; N prefixes lead to each side",
    "acl": "`route` behind an access list of N rules in M masks for each direction; the last one lets the traffic pass,"
    " and what no rule knows is dropped",
    "conntrack": "`route` behind a stateful firewall: connections are opened from the tester's side only",
    "nat": "`conntrack` with the source address of the tester's side translated to one",
    "containers": "`cross` by way of N containers, one after another, each on two veth pairs",
    "af-xdp-apps": "the same, where in each an AF_XDP program without privileges passes frames on, not the kernel",
    "taps": "`containers`, where each has two tap devices of the switch",
    "vhost-user": "`containers`, where each is a program on two virtio-user ports, as a virtual machine has them",
    "vxlan-link": "`cross` through two ends of a VXLAN tunnel (RFC 7348), with a link between them",
    "geneve-link": "the same with Geneve (RFC 8926)",
    "openflow": "`cross` through the rules of a node of yours, which a file describes",
}
#: Those with containers in the path.
WITH_PODS = ("containers", "af-xdp-apps", "taps", "vhost-user")
#: Those in which frames cross the switch more than once, and leave it as they came.
TOPOLOGIES = (*WITH_PODS, "vxlan-link", "geneve-link")
#: Kind -> the most rules of it, or containers.
SIZED = {"route": 100_000, "acl": 10_000, **dict.fromkeys(WITH_PODS, 8)}
#: That leave frames as they came.
UNCHANGING = ("cross", "bridge", *TOPOLOGIES, "openflow")
#: That rewrite the addresses of Ethernet and TTL: frames are addressed to the switch.
ROUTED = ("route", "acl", "conntrack", "nat")
#: In which the other side cannot begin, or sends frames of another form.
ONE_WAY = ("vlan", "vxlan", "conntrack", "nat")
#: Kind -> bytes that a frame of the tester's side grows by: a tag; Ethernet, IPv4, UDP and VXLAN.
ADDED_BYTES = {"vlan": 4, "vxlan": 50}
#: Masks that an access list may have.
MAX_MASKS = 64
_TEXT = re.compile(r"(?P<kind>[a-z-]+)(?::(?P<rules>\d{1,7})(?:x(?P<masks>\d{1,3}))?)?")
_OF_FILE = re.compile(r"openflow:(?P<file>[^\x00-\x1f]+)")


class Pipeline(Model):
    """One piece of work; written `KIND`, `route:N`, `acl:N`, `acl:NxM`, `containers:N` or `openflow:FILE`."""

    #: What is done with a frame.
    kind: Kind = "cross"
    #: Prefixes, or rules, for each direction; or containers.
    rules: int = Field(default=1, ge=1)
    #: Different masks of these rules.
    masks: int = Field(default=1, ge=1, le=MAX_MASKS)
    #: Of `openflow`: the description of a node's rules.
    file: str = ""

    def __str__(self) -> str:
        """The pipeline as studies write it."""
        if self.kind not in SIZED:
            return f"{self.kind}:{self.file}" if self.file else self.kind
        return f"{self.kind}:{self.rules}" + (f"x{self.masks}" if self.masks > 1 else "")

    @property
    def routed(self) -> bool:
        """True when frames are addressed to the switch itself."""
        return self.kind in ROUTED

    @property
    def pods(self) -> int:
        """Containers that frames pass, one after another."""
        return self.rules if self.kind in WITH_PODS else 0

    @property
    def added_bytes(self) -> int:
        """By which a frame that leaves on the other side is longer than it came."""
        return ADDED_BYTES.get(self.kind, 0)

    @property
    def one_way(self) -> bool:
        """True when the tester may send from its own side only."""
        return self.kind in ONE_WAY


def _parsed(value: Any) -> Any:
    """A pipeline of its text.

    Raises:
        ValueError: there is none of that name, or its numbers are too large.
    """
    if isinstance(value, Pipeline | Mapping):
        return value
    if isinstance(value, str) and (file := _OF_FILE.fullmatch(value)):
        return {"kind": "openflow", "file": file["file"]}
    found = _TEXT.fullmatch(value) if isinstance(value, str) else None
    if found is None or found["kind"] not in KINDS:
        raise ValueError(f"a pipeline is expected: {', '.join(KINDS)}{meant(str(value).partition(':')[0], KINDS)}")
    kind, rules, masks = found["kind"], int(found["rules"] or 1), int(found["masks"] or 1)
    if kind == "openflow":
        raise ValueError("openflow:FILE takes the file that describes a node's rules (docs/pipelines.md)")
    if kind not in SIZED and found["rules"]:
        raise ValueError(f"{kind} takes no number; {' and '.join(SIZED)} do")
    if found["masks"] and kind != "acl":
        raise ValueError(f"{kind} takes one number; acl:NxM has masks")
    if not 1 <= rules <= SIZED.get(kind, 1):
        raise ValueError(f"{kind}:N takes 1 to {SIZED[kind]}")
    if masks > min(rules, MAX_MASKS) or not masks:
        raise ValueError(f"acl:NxM takes 1 to {MAX_MASKS} masks, and no more than rules")
    return {"kind": kind, "rules": rules, "masks": masks}


#: In studies and records it is text.
PipelineText = Annotated[
    Pipeline,
    BeforeValidator(_parsed),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": rf"^({'|'.join(KINDS)})(:[0-9]+(x[0-9]+)?)?$|^openflow:.+$"}),
]
