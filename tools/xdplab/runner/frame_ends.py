# SPDX-License-Identifier: Apache-2.0
"""Where frames ended that did not come through: what every hop counts of some hundred of them.

Asked only where a proof fails or a trial has lost frames: nothing is read and nothing is attached before that.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from xdplab.forwarders import Dut, Forwarder
from xdplab.forwarders.base import Counting, Explaining, Losing, sockets_in_use
from xdplab.hosts import Host
from xdplab.hosts.frames import XdpEnds, by_queue, driver_counters, moved, watched
from xdplab.hosts.kernel import link_counters
from xdplab.model import LinkLost, TrialResult, TrialSpec, XdplabError
from xdplab.runner.disturbance import added
from xdplab.testbed import Port, TesterPorts

#: What a failed proof sends in each direction.
FRAMES, FRAMES_PPS = 200, 2000
#: How often, where the tester left out half of them because its CPU was taken away.
_TRIES = 3
#: Share of the missing frames from which on a count belongs to the cause.
_CAUSE = 0.1
#: Names of counters, and of fields of counters, of frames that are lost.
_LOSS = re.compile(r"drop|err|miss|fail|discard|invalid|full|empty_descs|no_buf|nobuf|lost|refused|overrun|aborted")
#: What goes on all the time where everybody is well: a socket that has nothing to send (XDP_STATISTICS), and of VPP's
#: error counters those of frames that come through (vnet/l2, acl, vxlan and af_xdp of VPP 26.10).
_NO_LOSS = re.compile(
    r"tx_ring_empty_descs|upcall_flow_limit|no_errors?$|tx_full$|"
    r"/(L2 [\w ]+ packets|L2 (forward|learn) (misses|hit)|L2 replication complete|valid \w+ ACL|[\w ]+ hits\b|"
    r"ACL permit|new sessions|existing session|checked|good packets|syscall required)"
)
#: Counters of IP and UDP that say why the kernel's own stack keeps a frame (RFC 4293, RFC 4113).
_SNMP = ("InHdrErrors", "InAddrErrors", "InUnknownProtos", "InDiscards", "OutDiscards", "OutNoRoutes", "FragFails",
         "NoPorts", "InErrors", "InNoRoutes", "InTruncatedPkts", "InCsumErrors")  # fmt: skip
_NO_NAPI = (
    "the other end takes no redirected frames, which on veth needs NAPI (ethtool -K PEER gro on) or an XDP program"
)
#: Why a redirect fails, or a port does not take its frames (net/core/filter.c, net/xdp/xsk.c, drivers' ndo_xdp_xmit).
_ERRORS = {
    "ENXIO": _NO_NAPI,
    "EOPNOTSUPP": f"the port cannot send redirected frames, or {_NO_NAPI}",
    "ENETDOWN": "the port is down",
    "EMSGSIZE": "they are larger than its MTU",
    "ENOSPC": "a ring is full",
    "ENOBUFS": "the socket's RX ring is full",
    "ENOMEM": "the socket's fill ring is empty",
    "EINVAL": "there is no such interface, or the socket is bound to another queue",
}


#: XDP_STATISTICS (Documentation/networking/af_xdp.rst) -> what it means, the first cause first.
_STATISTICS = {
    "rx_fill_ring_empty_descs": "the fill ring was empty: a larger one, or a program that fills it sooner",
    "rx_ring_full": "the RX ring was full: a larger one, or a program that reads it sooner",
    "rx_dropped": "the frames did not fit into the UMEM's chunks, or their queue has no free one",
    "rx_invalid_descs": "the fill ring held addresses outside of the UMEM",
    "tx_invalid_descs": "the TX ring held addresses outside of the UMEM, or frames that are too long",
}


@dataclass(frozen=True)
class Path:
    """Ports of a direction, in the order in which its frames meet them."""

    first: Port
    ingress: Port | None
    egress: Port | None
    last: Port
    #: Whether the last port sends frames back to the first.
    reflects: bool = False

    @property
    def name(self) -> str:
        return f"{self.first.role[0].upper()}→{self.last.role[0].upper()}"

    def in_general(self, text: str) -> str:
        """Without the names that the other direction has otherwise."""
        names = {
            self.first.mac: "this MAC",
            self.last.mac: "that MAC",
            self.first.role: "first",
            self.last.role: "last",
        }
        names |= {port.role: place for port, place in ((self.ingress, "in"), (self.egress, "out")) if port}
        for name, place in names.items():
            text = text.replace(name, f"<{place}>")
        return text


def path_of(direction: str, tester: TesterPorts, dut: Dut) -> Path:
    """On `reflect` up to the port that sends frames back, from which no way leads to a tester."""
    ends = (tester.first, tester.mirror or tester.last)
    ports: tuple[Port | None, Port | None] = (dut.ports[0], dut.ports[-1]) if dut.ports else (None, None)
    if direction == "backward":
        ends, ports = ends[::-1], ports[::-1]
    return Path(ends[0], *ports, ends[1], reflects=tester.mirror is not None)


class Sent(NamedTuple):
    """Frames of one direction."""

    #: That were asked for; a tester leaves out what it is late for.
    intended: int
    sent: int
    received: int


@dataclass(frozen=True)
class _Counts:
    """All that is counted at one moment."""

    #: By role.
    links: dict[str, dict[str, Any]]
    drivers: dict[str, dict[str, int]]
    snmp: dict[str, int]
    sockets: list[dict[str, Any]]
    own: dict[str, Any]
    lost: dict[str, int]


def _read(forwarder: Forwarder[Any], dut: Dut, ports: Sequence[Port]) -> _Counts:
    return _Counts(
        {port.role: link_counters(port.host, port.ifname) for port in ports},
        {port.role: driver_counters(port.host, port.ifname) for port in ports},
        _snmp(dut.host) if dut.ports else {},
        sockets_in_use(forwarder, dut),
        forwarder.monotonic(forwarder.counters()) if isinstance(forwarder, Counting) else {},
        forwarder.frames_lost() if isinstance(forwarder, Losing) else {},
    )


def _snmp(host: Host) -> dict[str, int]:
    """`Ip InAddrErrors` -> count."""
    found: dict[str, int] = {}
    for path in ("/proc/net/snmp", "/proc/net/netstat"):
        lines = host.read(path).splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            group, *words = names.split()
            numbers = zip(words, values.split()[1:], strict=False)
            found |= {f"{group[:-1]} {word}": int(number) for word, number in numbers if word in _SNMP}
    return found


@dataclass
class _Way:
    """One direction: what was sent, and what every hop counted of it."""

    path: Path
    sent: int
    received: int
    forwarder: Forwarder[Any]
    dut: Dut
    #: By role.
    links: dict[str, dict[str, Any]]
    drivers: dict[str, dict[str, int]]
    queues: dict[str, Mapping[Any, Mapping[int, int]]]
    snmp: dict[str, int]
    sockets: list[dict[str, int]]
    own: dict[str, Any]
    counted: dict[str, int]
    ends: XdpEnds

    @property
    def least(self) -> float:
        """A count below it is no cause."""
        return max(1.0, _CAUSE * (self.sent - self.received))

    def frames(self, port: Port | None, way: str) -> int:
        """That passed a port: drivers count frames of XDP by queue, and not all of them in the link's own counters."""
        if port is None or port.role not in self.links:
            return 0
        by_queues = sum(self.queues[port.role].get(way, {}).values())
        return max(int(self.links[port.role][way]["packets"]), by_queues)

    def many(self, frames: float) -> bool:
        return frames >= self.least

    def only_missing(self, frames: float) -> bool:
        """Frames that came through are not among them: of AF_PACKET's, the stack drops what a socket has a copy of."""
        return self.many(frames) and frames <= self.sent - self.received / 2

    @property
    def into_sockets(self) -> int:
        """Frames that the ingress port's program has redirected to AF_XDP sockets."""
        of_port = self.ends.of("redirect", self.path.ingress.ifname) if self.path.ingress else []
        return sum(each["frames"] for each in of_port if each.get("map_type") == "xskmap" and not each["error"])

    def role_of(self, ifname: str) -> str:
        """Of a port of B; another interface by its name, "" is one of another namespace."""
        names = {port.ifname: port.role for port in self.dut.ports}
        return names.get(ifname, ifname or "an interface of another namespace")


def where_frames_end(
    forwarder: Forwarder[Any],
    dut: Dut,
    tester: TesterPorts,
    send: Callable[[TrialSpec], TrialResult],
    spec: TrialSpec,
) -> str:
    """Send each direction of a trial once more by itself, and say what became of it; "": all of it came through."""
    ports = {
        port.role: port
        for port in (tester.first, tester.last, tester.mirror, *dut.ports)
        if port is not None and port.in_kernel
    }
    sentences: dict[str, str] = {}
    hints: dict[str, None] = {}
    for direction in dict.fromkeys(stream.direction for stream in spec.streams):
        streams = tuple(stream for stream in spec.streams if stream.direction == direction)
        path = path_of(direction, tester, dut)
        one = spec.model_copy(update={"streams": streams})
        try:
            way = _sent(path, forwarder, dut, [*ports.values()], partial(_trial, send, one))
            if way.received >= way.sent:
                continue
            said = ", ".join(_story(way))
            hints |= dict.fromkeys(_hints(way))
        except LinkLost:
            raise
        except XdplabError as exc:
            return f"what hops count of frames {path.name} cannot be read: {exc}"
        alike = re.sub(r"[\d,]+", "", path.in_general(said))
        sentences[alike] = (
            f"{sentences[alike]}; frames {path.name} likewise" if alike in sentences else _sentence(way, said)
        )
    return "; ".join([*sentences.values(), *hints])


def where_a_frame_ends(
    forwarder: Forwarder[Any], dut: Dut, from_side: int, to_side: int, send: Callable[[], Sent]
) -> str:
    """The same of one frame, which `send` sends many times from a peer of B's ports; "": each came out at `to_side`."""
    sides = (dut.ports[0], dut.ports[-1])
    path = Path(dut.peers[from_side], sides[from_side], sides[to_side], dut.peers[to_side])
    ports = {port.role: port for port in (*dut.peers, *dut.ports) if port.in_kernel}
    try:
        way = _sent(path, forwarder, dut, [*ports.values()], send)
        if way.received >= way.sent:
            return ""
        return "; ".join([_sentence(way, ", ".join(_story(way))), *_hints(way)])
    except LinkLost:
        raise
    except XdplabError as exc:
        return f"what hops count of frames {path.name} cannot be read: {exc}"


def _sentence(way: _Way, said: str) -> str:
    lost = f" {way.sent - way.received:,} were lost" if way.received else ""
    colon = ":" if lost and said else ","
    return f"of {way.sent:,} frames {way.path.name}{lost}{colon} {said or 'and no hop counts them'}"


def _trial(send: Callable[[TrialSpec], TrialResult], spec: TrialSpec) -> Sent:
    result = send(spec)
    return Sent(
        result.intended, result.sent + _of_warmup(result, "sent"), result.received + _of_warmup(result, "received")
    )


def _sent(path: Path, forwarder: Forwarder[Any], dut: Dut, ports: Sequence[Port], send: Callable[[], Sent]) -> _Way:
    """Send, with everything read before and after."""
    watch = [port.ifname for port in dut.ports if port.in_kernel]
    with watched(dut.host, watch, dut.rundir / "ends") as ends:
        before = _read(forwarder, dut, ports)
        results = [send()]
        while len(results) < _TRIES and 2 * sum(each.sent for each in results) < results[0].intended:
            results.append(send())
        after = _read(forwarder, dut, ports)
    drivers = before.drivers.items()
    sockets = zip(before.sockets, after.sockets, strict=False)
    return _Way(
        path,
        sum(each.sent for each in results),
        sum(each.received for each in results),
        forwarder,
        dut,
        links=added(before.links, after.links),
        drivers=added(before.drivers, after.drivers),
        queues={role: moved(by_queue(old), by_queue(after.drivers[role])) for role, old in drivers},
        snmp=added(before.snmp, after.snmp),
        sockets=[added(old["statistics"], new["statistics"]) for old, new in sockets],
        own=added(before.own, after.own),
        counted=added(before.lost, after.lost),
        ends=ends,
    )


def _of_warmup(result: TrialResult, what: str) -> int:
    """Frames before the trial, which hops count too: a card's link may come up only meanwhile."""
    return int(result.detail.get("warmup", {}).get(what, 0))


def _story(way: _Way) -> list[str]:
    """Hop after hop, as far as frames came."""
    path = way.path
    if path.ingress is None:
        return [
            *_counted_at(way, path.first, path.last),
            _arrived(way, path.last),
        ]
    if not path.ingress.in_kernel:
        return [*_own(way), *_at_the_end(way)]
    came = way.frames(path.ingress, "rx")
    if not way.received and not way.many(came):
        left = [f"{path.first.role} sent {way.frames(path.first, 'tx'):,}"] if path.first.role in way.links else []
        return [_arrived(way, path.ingress), *left, *_counted_at(way, path.first, path.ingress)]
    causes = [*_elsewhere(way), *_at_the_program(way)]
    causes += [*_in_sockets(way), *_own(way)]
    causes = causes or [*_counted_at(way, path.ingress)]
    if not causes and not way.received:
        causes = [_arrived(way, path.ingress)]
    return [*causes, *_counted_at(way, path.egress if path.egress is not path.ingress else None), *_at_the_end(way)]


def _queues(way: _Way, port: Port) -> dict[int, int]:
    """Receive queue -> frames, of those that moved, where the driver counts them."""
    return {queue: count for queue, count in sorted(way.queues.get(port.role, {}).get("rx", {}).items()) if count}


def _arrived(way: _Way, port: Port) -> str:
    by_queue = ", ".join(f"queue {queue}: {count:,}" for queue, count in _queues(way, port).items())
    return f"{way.frames(port, 'rx'):,} arrived at {port.role}{by_queue and f' ({by_queue})'}"


def _elsewhere(way: _Way) -> Iterator[str]:
    """In a queue that the switch does not serve."""
    port = way.path.ingress
    assert port is not None
    queues = way.queues[port.role].get("rx", {})
    served = way.dut.host.xsk_queues(port.ifname)
    missed = {queue: count for queue, count in queues.items() if served and queue not in served}
    if served and way.many(sum(missed.values())):
        on = ", ".join(f"{count:,} arrived at queue {queue}" for queue, count in sorted(missed.items()))
        by_file = f" (queues: {way.dut.queues} in the testbed file)" if max(missed) >= way.dut.queues else ""
        yield f"{on} of {port.role}, and its AF_XDP sockets are at queue {', '.join(map(str, served))}{by_file}"


def _at_the_program(way: _Way) -> Iterator[str]:
    """What the XDP program did with them, by tracepoints and by what its driver counts."""
    port = way.path.ingress
    assert port is not None
    attached = way.dut.host.xdp(port.ifname)
    if attached is None:
        # what the switch counts it has had: AF_PACKET takes a copy, and the stack drops the frame itself
        ended = "" if any(map(way.many, way.counted.values())) else " ".join(_in_the_stack(way))
        if ended:
            yield f"{way.frames(port, 'rx'):,} met no XDP program at {port.role} {ended}"
        return
    for action, frames in _actions(way, port, attached.mode).items():
        if not way.many(frames) or (action == "XDP_REDIRECT" and way.received):
            continue
        no_action = "" if action.startswith("XDP_") else ", which is no action of XDP,"
        passed = [*_in_the_stack(way)] if action == "XDP_PASS" else []
        into = " into AF_XDP sockets" if action == "XDP_REDIRECT" and way.many(way.into_sockets) else ""
        yield " ".join([f"{frames:,} got {action}{into}{no_action} at {port.role}", *passed])
    yield from _redirects(way, port)
    maps = way.ends.ports.get(port.ifname, {}).get("maps", ())
    of_sockets = any(each["type"] == "xskmap" for each in maps)
    if not way.received and of_sockets and way.dut.host.xsk_queues(port.ifname) == []:
        yield f"there is no AF_XDP socket at {port.role}"


def _actions(way: _Way, port: Port, mode: str) -> dict[str, int]:
    """Action -> frames.

    What is handed to the stack after a native program was passed; a generic program runs after that, and what is left
    of its runs was passed.
    """
    driver = way.drivers.get(port.role, {})
    if way.ends.unknown:
        return _actions_of_driver(driver)
    found = {"XDP_ABORTED": 0, "XDP_REDIRECT": sum(each["frames"] for each in way.ends.of("redirect", port.ifname))}
    for each in way.ends.of("exception", port.ifname):
        found[each["action"]] = found.get(each["action"], 0) + each["frames"]
    runs = way.ends.ports[port.ifname]["runs"] or way.frames(port, "rx")
    sent_back = 0 if way.path.reflects or way.path.first is way.path.last else way.frames(way.path.first, "rx")
    sent_back = max(sent_back, sum(count for name, count in driver.items() if name.endswith("_xdp_tx")))
    redirected_back = sum(each["frames"] for each in way.ends.of("sent", port.ifname) if each["to"] == port.ifname)
    passed = sum(each["frames"] for each in way.ends.of("stack", port.ifname)) if mode == "native" else 0
    left = max(0, runs - sum(found.values()) - passed)  # what came back otherwise was sent by a socket
    found["XDP_TX"] = min(left, max(0, sent_back - redirected_back))
    known = sum(found.values())
    if mode == "generic":
        dropped = [each for each in way.ends.of("drop", port.ifname) if "_xdp" in each["function"]]
        found["XDP_DROP"] = max(0, sum(each["frames"] for each in dropped) - found["XDP_ABORTED"])
        found["XDP_PASS"] = max(0, runs - known - found["XDP_DROP"])
    else:
        found["XDP_PASS"] = passed
        found["XDP_DROP"] = max(0, runs - known - found["XDP_PASS"])
    return found


def _actions_of_driver(driver: Mapping[str, int]) -> dict[str, int]:
    """Of veth, which counts them by queue; nothing of others. What it drops may also be a redirect that failed."""

    def total(what: str) -> int:
        return sum(count for name, count in driver.items() if re.fullmatch(rf"rx_queue_\d+_{what}", name))

    found = {"XDP_REDIRECT": total("xdp_redirect"), "XDP_TX": total("xdp_tx"), "XDP_DROP": total("xdp_drops")}
    return {**found, "XDP_PASS": max(0, total("xdp_packets") - sum(found.values()))}


def _why(error: str) -> str:
    return f": {error} ({_ERRORS[error]})" if error in _ERRORS else f": {error}"


def _redirects(way: _Way, port: Port) -> Iterator[str]:
    """Where to, which of them failed, and who did not take them."""
    for each in way.ends.of("redirect", port.ifname):
        if each["error"] and way.many(each["frames"]):
            to = f"by map {each['map']} at key" if each.get("map") else "to interface"
            yield f"{each['frames']:,} redirects {to} {each['key']} failed{_why(each['error'])}"
    for each in way.ends.of("refused", port.ifname):
        if way.many(each["frames"]):
            yield f"{way.role_of(each['to'])} refused {each['frames']:,}{_why(each['error'] or 'ENOSPC')}"
    for each in way.ends.of("sent", port.ifname):
        other = way.path.egress is None or each["to"] != way.path.egress.ifname
        if other and way.many(each["frames"]):
            yield f"{each['frames']:,} were sent out of {way.role_of(each['to'])}"


def _in_the_stack(way: _Way) -> Iterator[str]:
    """What the host's own stack did with them."""
    if way.many(way.frames(way.path.egress, "tx")) and not way.received:
        return
    drops = [each for each in way.ends.ends if each["kind"] == "drop" and way.only_missing(each["frames"])]
    reasons = [
        f"{each['frames']:,} {each['reason'].removeprefix('SKB_DROP_REASON_') or 'without a reason'}"
        f"{' in ' + each['function'] if each['function'] else ''}"
        for each in drops
    ]
    reasons += [f"{name} {count:,}" for name, count in way.snmp.items() if way.only_missing(count)]
    if reasons or not way.received:
        why = f" ({', '.join(reasons)})" if reasons else ""
        yield f"and ended in B's own stack{why}"


def _in_sockets(way: _Way) -> Iterator[str]:
    """The kernel's six counters of each AF_XDP socket."""
    return _of_sockets(way.sockets, way.least)


def _of_sockets(sockets: Sequence[Mapping[str, int]], least: float) -> Iterator[str]:
    for number, counters in enumerate(sockets):
        lost = {name: count for name, count in counters.items() if count >= least and not _NO_LOSS.search(name)}
        if lost:
            said = " and ".join(f"{name} {count:,}" for name, count in lost.items())
            hint = next((f" ({why})" for name, why in _STATISTICS.items() if name in lost), "")
            yield f"AF_XDP socket {number + 1} of {len(sockets)} counted {said}{hint}"


def sockets_lost(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], result: TrialResult) -> str:
    """What the sockets counted in a trial, which they are read at both ends of; "": nothing that tells of its loss."""
    grown = [added(old["statistics"], new["statistics"]) for old, new in zip(before, after, strict=False)]
    said = ", ".join(_of_sockets(grown, max(1.0, _CAUSE * result.lost)))
    return f"of {result.sent:,} frames {result.lost:,} were lost: {said}" if said else ""


def _own(way: _Way) -> Iterator[str]:
    """The switch's own counters of what it loses, by rule or table where it says so."""
    said = [f"{name} {count:,}" for name, count in way.counted.items() if way.many(count)]
    known = _STATISTICS.keys() if way.sockets else ()  # those that the kernel was asked for already
    losses = ((name, count) for name, count in _losses(way.own) if name.rpartition(" ")[2] not in known)
    said += [f"{name} {count:,}" for name, count in losses if way.many(count)]
    if said:
        yield f"{way.forwarder.name} itself counted {' and '.join(said[:4])}"


def _losses(counters: Mapping[str, Any], of: str = "") -> Iterator[tuple[str, int]]:
    """Those whose name says that frames are lost, at any depth."""
    for name, value in counters.items():
        whole = f"{of} {name}".strip()
        if isinstance(value, Mapping):
            yield from _losses(value, whole)
        elif isinstance(value, int) and _LOSS.search(whole.lower()) and not _NO_LOSS.search(name):
            yield whole, value


def _counted_at(way: _Way, *ports: Port | None) -> Iterator[str]:
    """What ports lost, by the link's counters and the driver's; a tester's program drops each frame that it has had."""
    for port in dict.fromkeys(filter(None, ports)):
        links = way.links.get(port.role, {})
        found = {f"{side}_{name}": count for side, fields in links.items() for name, count in fields.items()}
        found |= way.drivers.get(port.role, {})
        testers = port in (way.path.first, way.path.last)
        losses = [each for each in _losses(found) if not (testers and each[0].endswith("xdp_drops"))]
        said = [f"{name} {count:,}" for name, count in losses if way.many(count)]
        if said:
            yield f"{port.role} counted {' and '.join(said[:4])}"


def _at_the_end(way: _Way) -> Iterator[str]:
    """What left B, arrived at C, came back at A."""
    path = way.path
    assert path.ingress is not None
    left, arrived, back = way.frames(path.egress, "tx"), way.frames(path.last, "rx"), way.frames(path.first, "rx")
    if not way.received and path.egress is not None and way.many(max(left, way.into_sockets)):
        yield f"{path.egress.role} sent {left:,}"
    yield from _counted_at(way, path.last)
    if path.reflects:  # the same ports again, in the other direction
        yield from (_arrived(way, port) for port in (path.last, path.first) if port.role in way.links)
        return
    if not way.received and path.last.role in way.links and (way.many(left) or way.many(arrived)):
        yield _arrived(way, path.last)
        if way.many(arrived):
            yield "none of them as a frame of the tester's: they were changed"
    if path.first is not path.last and path.first.role in way.links and way.many(back):
        yield (
            f"{back:,} came back at {path.first.role}: it sends them out of the port where they came in, or chooses "
            f"the port by a MAC address, and these are {path.first.mac} and {path.last.mac}"
        )


def _hints(way: _Way) -> Iterator[str]:
    """Of both directions: maps of the program without an entry, what the forwarder knows, where nothing was sent."""
    port = way.path.ingress
    if way.received or port is None or way.many(way.frames(way.path.egress, "tx")):
        return
    for each in way.ends.ports.get(port.ifname, {}).get("maps", ()):
        if each["entries"] == 0 and each["type"] != "percpu_array":
            yield f"map {each['name']} is {'all zeros' if each['type'] == 'array' else 'empty'}"
    if isinstance(way.forwarder, Explaining) and (why := way.forwarder.why_silent()):
        yield why
