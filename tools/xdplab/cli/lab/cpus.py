# SPDX-License-Identifier: Apache-2.0
"""Which CPUs a host's data path should have: on the card's NUMA node, not core 0, one thread of each core.

And how many of the tester's send: as many as fill its link with the smallest frames, if there are so many.
"""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from xdplab.hosts import Host
from xdplab.hosts.kernel import cpu_list, text_of

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
