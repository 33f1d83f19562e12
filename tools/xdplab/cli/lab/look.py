# SPDX-License-Identifier: Apache-2.0
"""What the hosts of a lab have: interfaces that could be ports, CPUs for the data path, and cables between them."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from xdplab.cli.lab.wanted import Part
from xdplab.hosts import Host
from xdplab.hosts.kernel import cpu_list, driver_facts, text_of
from xdplab.model import InputError
from xdplab.model.errors import meant
from xdplab.model.testbed import PortRole
from xdplab.testbed.needs import needed, who_needs


class Card(NamedTuple):
    """An Ethernet interface of a host."""

    ifname: str
    driver: str
    firmware: str
    pci: str
    mac: str
    #: NUMA node; None: it is on none, or the machine has one only.
    node: int | None
    #: Of the link as it is now; None: it has none, or does not tell.
    speed_mbps: int | None
    up: bool
    #: Why it is not free, or "".
    needed: str

    @property
    def text(self) -> str:
        """`ens1f0 (ice, 25 Gbit/s, NUMA node 1)`."""
        speed = f"{self.speed_mbps / 1000:g} Gbit/s" if self.speed_mbps else ""
        node = f"NUMA node {self.node}" if self.node is not None else ""
        return f"{self.ifname} ({', '.join(filter(None, (self.driver, speed, node, self.needed)))})"


def cards(host: Host) -> dict[str, Card]:
    """Network cards and veth by name; other interfaces that are made of software are left out."""
    links = json.loads(host.run(["ip", "-json", "-details", "address", "show"]).stdout)
    return {
        link["ifname"]: _card(host, link)
        for link in links
        if link and link.get("link_type") == "ether" and link.get("linkinfo", {}).get("info_kind") in (None, "veth")
    }


def offered(part: str, there: dict[str, Card], wanted: tuple[str, ...], *, force: bool) -> list[Card]:
    """The cards of those names.

    Raises:
        InputError: one is not there, or somebody needs it and `force` is not given.
    """
    for name in wanted:
        if name not in there:
            raise InputError(f"{part}: no interface {name!r}{meant(name, there)}; there are {_listed(there) or 'none'}")
        if there[name].needed and not force:
            raise InputError(
                f"{part}: {name} {there[name].needed}, so it is in use and no test frame is sent from it; offer "
                "another interface, or give --force"
            )
    return [there[name] for name in dict.fromkeys(wanted)]


def none_offered(part: str, there: dict[str, Card]) -> InputError:
    """What to say where nobody can be asked."""
    free = [card.text for card in there.values() if not card.needed]
    return InputError(
        f"{part}: no interface is offered, and test frames are sent from offered ones only; give "
        f"--offer {part}=IFNAME,... (free: {', '.join(free) or 'none'})"
    )


def _listed(there: dict[str, Card]) -> str:
    return ", ".join(card.text for card in there.values())


def _card(host: Host, link: dict[str, Any]) -> Card:
    ifname = link["ifname"]
    about = driver_facts(host, ifname)
    node = text_of(host, f"/sys/class/net/{ifname}/device/numa_node")
    pci = about.get("bus-info", "")
    return Card(
        ifname=ifname,
        driver=about.get("driver", ""),
        firmware=about.get("firmware-version", ""),
        pci=pci if re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", pci) else "",
        mac=link["address"],
        node=int(node) if node.isdecimal() else None,
        speed_mbps=speed_of(host, ifname),
        up="UP" in link["flags"],
        needed=needed(who_needs(host, ifname)),
    )


def speed_of(host: Host, ifname: str) -> int | None:
    """Of the link as it is now, in Mbit/s."""
    output = text_of(host, f"/sys/class/net/{ifname}/speed")
    return int(output) if output.isdecimal() and int(output) else None


# Which CPUs a host's data path should have: on the card's NUMA node, not core 0, one thread of each core.
#
# And how many of the tester's send: as many as fill its link with the smallest frames, if there are so many.

_CPU = "/sys/devices/system/cpu"
_NODE = "/sys/devices/system/node"
FRAME_BYTES = 64
#: Preamble, start of frame and gap, which a frame takes on the line as well.
_BETWEEN_BYTES = 20
#: What a CPU of xdpgen is taken to send before it has been measured: 4.8 Mpps over veth on a machine of 2024.
_ASSUMED_PPS = 4e6
#: Of the testbed file (`TestbedSpec.senders`).
_MOST_SENDERS = 8


class Topology(NamedTuple):
    """CPUs of a host."""

    #: That a login session may run on.
    usable: tuple[int, ...]
    #: CPU -> the hardware threads of its core, itself among them.
    siblings: Mapping[int, tuple[int, ...]]
    #: NUMA node -> its CPUs.
    nodes: Mapping[int, tuple[int, ...]]
    #: Kept from other programs by the kernel (isolcpus).
    isolated: tuple[int, ...] = ()


class Proposal(NamedTuple):
    """CPUs in order of preference, and a sentence on why these."""

    cpus: tuple[int, ...]
    why: str


class Senders(NamedTuple):
    """How many CPUs send for each of the tester's ports, and a sentence on why."""

    number: int
    why: str


def senders(speed_mbps: int | None, sender_pps: float | None, cpus: int) -> Senders:
    """For a link of such a speed, of a tester that has so many CPUs, of which as many receive as send.

    `sender_pps`: measured of one CPU; None: it has not been. A power of two: bursts and flows can be divided by it.
    """
    if not speed_mbps:
        return Senders(1, "CPUs that send for each of the tester's ports")
    line_pps = speed_mbps * 1e6 / 8 / (FRAME_BYTES + _BETWEEN_BYTES)
    needed = math.ceil(line_pps / (sender_pps or _ASSUMED_PPS))
    number = 1
    while number < needed and 2 * number <= min(_MOST_SENDERS, cpus // 2):
        number *= 2
    each = f"{(sender_pps or _ASSUMED_PPS) / 1e6:.3g} Mpps a CPU, {'as measured' if sender_pps else 'assumed'}"
    why = f"{speed_mbps / 1000:g} Gbit/s are {line_pps / 1e6:.3g} Mpps of {FRAME_BYTES} bytes; {each}"
    return Senders(number, why if number >= needed else f"{why}: {needed} would fill it")


def topology(host: Host) -> Topology:
    siblings = {
        cpu: cpu_list(text_of(host, f"{_CPU}/cpu{cpu}/topology/thread_siblings_list")) or (cpu,) for cpu in host.cpus
    }
    names = host.names(_NODE) if host.exists(_NODE) else []
    nodes = {
        int(name[4:]): cpu_list(text_of(host, f"{_NODE}/{name}/cpulist"))
        for name in names
        if re.fullmatch(r"node\d+", name)
    }
    return Topology(host.cpus, siblings, nodes, cpu_list(text_of(host, f"{_CPU}/isolated")))


def propose(there: Topology, node: int | None, wanted: int) -> Proposal:
    """At the most `wanted` CPUs for cards on `node` (None: they are on none); what cannot be had is said."""
    local = there.nodes.get(node, there.usable) if node is not None and len(there.nodes) > 1 else there.usable
    chosen = _cores(there, [cpu for cpu in there.usable if cpu in local])
    if len(there.nodes) < 2:
        said = ["one NUMA node"]
    elif node is None:
        said = ["the card is on no NUMA node"]
    else:
        said = [f"on NUMA node {node} of the card"]
    if not chosen:
        chosen = _cores(there, there.usable)
        said = [f"none is free on NUMA node {node} of the card, these are on another"] if chosen else []
    if not chosen:
        chosen = sorted(there.usable, reverse=True)
        said = ["too few cores to leave out core 0 and second threads: figures will be disturbed"]
    else:
        said.append("one thread of each core, not core 0")
    if set(chosen[:wanted]) <= set(there.isolated):
        said.append("isolated from other programs")
    return Proposal(tuple(chosen[:wanted]), ", ".join(said))


def _cores(there: Topology, cpus: "list[int] | tuple[int, ...]") -> list[int]:
    """The first thread of each core but that of CPU 0; isolated ones first."""
    taken = {0, *there.siblings.get(0, ())}
    found = []
    for cpu in sorted(cpus, key=lambda cpu: (cpu not in there.isolated, cpu)):
        if cpu not in taken:
            found.append(cpu)
            taken.update(there.siblings.get(cpu, (cpu,)))
    return found


# From who hears whom to the roles of a testbed's ports, or to one line on what is cabled otherwise.


class End(NamedTuple):
    """An interface of a host of the lab."""

    part: Part
    ifname: str

    def __str__(self) -> str:
        return f"{self.part} {self.ifname}"


Heard = Mapping[End, set[End]]


def roles_of(heard: Heard, without_link: Sequence[End]) -> dict[PortRole, End]:
    """PortRole -> interface. `without_link`: offered, and with no carrier although they are up.

    One interface each of tester and forwarder, and one cable, are enough for path `hairpin`.

    Raises:
        InputError: a cable is missing or leads elsewhere.
    """
    _refuse_switches(heard)
    pairs = list(_pairs(heard))
    far: Part = "far" if any(end.part == "far" for end in (*heard, *without_link)) else "tester"
    near_links = _between(pairs, "tester", "forwarder")
    far_links = _between(pairs, far, "forwarder") if far == "far" else near_links[1:]
    if near_links and set(near_links[0]) == {*heard, *without_link}:
        return {"a0": near_links[0][0], "b0": near_links[0][1]}
    if not near_links or not far_links:
        lacking = "tester" if not near_links else far
        count = "a second cable" if near_links and far == "tester" else "a cable"
        raise InputError(
            f"lab init: {count} between {lacking} and forwarder is missing; {_found(heard, pairs, without_link)}; move "
            "the cables, or offer the interfaces that are cabled to each other (--offer)"
        )
    (a0, b0), (c0, b1) = near_links[0], far_links[0]
    roles: dict[PortRole, End] = {"a0": a0, "b0": b0, "b1": b1, "c0": c0}
    direct = _between(pairs, "tester", far)
    return {**roles, "d0": direct[0][0], "d1": direct[0][1]} if direct else roles


def _refuse_switches(heard: Heard) -> None:
    for end, by in heard.items():
        if len(by) > 1:
            raise InputError(
                f"lab init: {end} reaches {_and(by)}: there is a switch or bridge between them; join ports by cables"
            )
        for other in by:
            if end not in heard.get(other, set()):
                raise InputError(
                    f"lab init: {other} hears {end}, and not the other way round; check the cable and {other}"
                )


def _pairs(heard: Heard) -> Iterator[tuple[End, End]]:
    for left, right in combinations(sorted(heard), 2):
        if right in heard[left]:
            yield left, right


def _between(pairs: Sequence[tuple[End, End]], left: Part, right: Part) -> list[tuple[End, End]]:
    """Those from one part to another, in that order."""
    found = []
    for pair in pairs:
        for one, other in (pair, pair[::-1]):
            if (one.part, other.part) == (left, right) and (other, one) not in found:
                found.append((one, other))
    return sorted(found)


def _found(heard: Heard, pairs: Sequence[tuple[End, End]], without_link: Sequence[End]) -> str:
    lines = [f"{left} faces {right}" for left, right in pairs]
    lines += [
        f"{end} sent test frames, and none arrived at an offered interface" for end in sorted(heard) if not heard[end]
    ]
    lines += [f"{end} has no link" for end in sorted(without_link)]
    return ", ".join(lines) or "nothing was offered"


def _and(ends: set[End]) -> str:
    return " and ".join(map(str, sorted(ends)))
