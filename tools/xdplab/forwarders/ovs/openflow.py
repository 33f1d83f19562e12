# SPDX-License-Identifier: Apache-2.0
"""A bridge's ports and rules over OpenFlow 1.5, without a start of ovs-ofctl, which takes longer than what is asked.

Sources: OpenFlow Switch Specification 1.5.1, sections 7.1.1, 7.3.5.1, 7.3.5.7, 7.3.5.8, for rules 7.2.3, 7.2.4,
7.3.4.1, 7.3.5.2, 7.3.9, for meters 7.3.5.12; for the statistics that a kind of port has for itself
include/openflow/intel-ext.h of Open vSwitch.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from xdplab.model import XdplabError

_VERSION = 6
_HELLO, _ERROR, _FLOW_MOD, _REQUEST, _REPLY, _BARRIER, _BARRIER_REPLY, _BUNDLE, _BUNDLE_ADD = (
    0,
    1,
    14,
    18,
    19,
    20,
    21,
    33,
    34,
)
_AGGREGATE, _PORT_STATS, _METER, _PORT_DESC, _ANY, _ANY_PORT = 2, 4, 9, 13, 0xFFFFFFFF, 0xFFFFFFFF
_OPEN, _COMMIT, _ATOMIC_IN_ORDER = 0, 4, 3
_ADD, _DELETE_STRICT = 0, 4
#: OXM of ETH_TYPE and IPV4_DST (openflow_basic), OXS of the number of rules and of their packets.
_ETH_TYPE, _IPV4_DST, _FLOW_COUNT, _PACKET_COUNT = 0x80000A02, 0x80001804, 0x80020604, 0x80020808
_ALL_TABLES, _NO_BUFFER, _ALL_METERS = 0xFF, 0xFFFFFFFF, 0xFFFFFFFF
_ETHERNET, _EXPERIMENTER, _INTEL, _CUSTOM = 0, 0xFFFF, 0xAA01, 2
_UNKNOWN = (1 << 64) - 1
#: In the order of struct ofp_port_stats, and of its Ethernet property, by the names that ovs-ofctl has for them.
_PORT = ("rx_pkts", "tx_pkts", "rx_bytes", "tx_bytes", "rx_drop", "tx_drop", "rx_errs", "tx_errs")
_WIRE = ("rx_frame", "rx_over", "rx_crc", "tx_coll")


def _message(kind: int, xid: int, body: bytes = b"") -> bytes:
    return struct.pack(">BBHI", _VERSION, kind, 8 + len(body), xid) + body


#: Greeting, names of the ports, their statistics; and what the answer ends with.
ASK = b"".join(
    (
        _message(_HELLO, 1),
        _message(_REQUEST, 2, struct.pack(">HH4xI4x", _PORT_DESC, 0, _ANY_PORT)),
        _message(_REQUEST, 3, struct.pack(">HH4xI4x", _PORT_STATS, 0, _ANY_PORT)),
        _message(_BARRIER, 4),
    )
)
END = _message(_BARRIER_REPLY, 4)


def _rule(command: Literal["add", "delete"], address: int, cookie: int, priority: int) -> bytes:
    """One of table 0 that drops what goes to an IPv4 address; without its header."""
    number = _ADD if command == "add" else _DELETE_STRICT
    head = struct.pack(">QQBBHHHIIIHH", cookie, 0, 0, number, 0, 0, priority, _NO_BUFFER, _ANY, _ANY, 0, 0)
    match = struct.pack(">HHIHII", 1, 18, _ETH_TYPE, 0x0800, _IPV4_DST, address)
    return head + match + bytes(-len(match) % 8)


def rule_changes(
    command: Literal["add", "delete"], addresses: Iterable[int], *, cookie: int, priority: int, bundle: bool
) -> bytes:
    """Rules by their IPv4 destination, in one atomic bundle or one after another; the message ends with `END`."""
    rules = [_rule(command, address, cookie, priority) for address in addresses]
    if bundle:
        added = [_message(_BUNDLE_ADD, 2, struct.pack(">IxxH", 1, 3) + _message(_FLOW_MOD, 2, each)) for each in rules]
        control = [_message(_BUNDLE, 2, struct.pack(">IHH", 1, way, _ATOMIC_IN_ORDER)) for way in (_OPEN, _COMMIT)]
        messages = [control[0], *added, control[1]]
    else:
        messages = [_message(_FLOW_MOD, 2, each) for each in rules]
    return b"".join((_message(_HELLO, 1), *messages, _message(_BARRIER, 4)))


@dataclass(frozen=True)
class RuleCounts:
    """What a bridge counts."""

    #: For each cookie asked for: rules that have it, and packets that they met.
    rules: list[tuple[int, int]]
    #: Packets that came to its meters.
    metered: int


def ask_rules(*cookies: int | None) -> bytes:
    """How many rules have each cookie, or any (None), and their packets; and of all meters."""
    asked = []
    for cookie in cookies:
        whose = (0, 0) if cookie is None else (cookie, (1 << 64) - 1)
        wanted = struct.pack(">B3xII4xQQHH4x", _ALL_TABLES, _ANY, _ANY, *whose, 1, 4)
        asked.append(_message(_REQUEST, 2, struct.pack(">HH4x", _AGGREGATE, 0) + wanted))
    meters = _message(_REQUEST, 3, struct.pack(">HH4xI4x", _METER, 0, _ALL_METERS))
    return b"".join((_message(_HELLO, 1), *asked, meters, _message(_BARRIER, 4)))


def refuse_errors(answer: bytes) -> None:
    """Raises XdplabError where one of its messages is an error."""
    for kind, body in _messages(answer):
        if kind == _ERROR:
            raise XdplabError(
                "OpenFlow: the bridge refuses it: type {}, code {}".format(*struct.unpack_from(">HH", body))
            )


def rule_counts(answer: bytes) -> RuleCounts:
    """Of an answer to `ask_rules`.

    Raises:
        XdplabError: it is an error, or no such answer.
    """
    refuse_errors(answer)
    try:
        messages = [(*struct.unpack_from(">H", body), body[8:]) for kind, body in _messages(answer) if kind == _REPLY]
        rules = [_statistics(body) for what, body in messages if what == _AGGREGATE]
        found = [(each[_FLOW_COUNT], each[_PACKET_COUNT]) for each in rules]
        if not found:
            raise KeyError(_AGGREGATE)
        return RuleCounts(found, sum(_metered(body) for what, body in messages if what == _METER))
    except (struct.error, KeyError):
        raise XdplabError("OpenFlow: the bridge's answer cannot be understood") from None


def rules_there(speak: Callable[[bytes], bytes], cookie: int | None = None) -> int:
    """How many have a cookie, or any; `speak`: what the bridge answers."""
    ((there, _),) = rule_counts(speak(ask_rules(cookie))).rules
    return there


def _statistics(data: bytes) -> dict[int, int]:
    """OXS header -> value, of those in struct ofp_stats."""
    (length,), found, at = struct.unpack_from(">H", data, 2), {}, 4
    while at < length:
        (header,) = struct.unpack_from(">I", data, at)
        size = header & 0xFF
        found[header] = int.from_bytes(data[at + 4 : at + 4 + size], "big")
        at += 4 + size
    return found


def _metered(data: bytes) -> int:
    """Packets over all entries, struct ofp_meter_stats."""
    packets = 0
    while data:
        (length,) = struct.unpack_from(">4xH", data)
        packets += struct.unpack_from(">Q", data, 16)[0]
        data = data[max(8, length) :]
    return packets


def port_counters(answer: bytes) -> dict[str, dict[str, int]]:
    """Port -> its counters, of an answer to `ASK`; those a port has not got are left out.

    Raises:
        XdplabError: it is an error, or no such answer.
    """
    try:
        refuse_errors(answer)
        names, counters = {}, {}
        for kind, body in _messages(answer):
            if kind != _REPLY:
                continue
            (what,) = struct.unpack_from(">H", body)
            for number, entry in _entries(body[8:], what):
                if what == _PORT_DESC:
                    names[number] = entry[16:32].rstrip(b"\0").decode()
                else:
                    counters[number] = _counters(entry)
        return {names[number]: found for number, found in counters.items()}
    except (struct.error, IndexError, KeyError, UnicodeDecodeError):
        raise XdplabError("OpenFlow: the bridge's answer cannot be understood") from None


def _messages(answer: bytes) -> Iterator[tuple[int, bytes]]:
    while answer:
        _, kind, length, _ = struct.unpack_from(">BBHI", answer)
        yield kind, answer[8 : max(8, length)]
        answer = answer[max(8, length) :]


def _entries(data: bytes, what: int) -> Iterator[tuple[int, bytes]]:
    """Number of the port -> its entry. Both kinds begin with length and number, in different orders."""
    while data:
        if what == _PORT_DESC:
            number, length = struct.unpack_from(">IH", data)
        else:
            length, number = struct.unpack_from(">H2xI", data)
        yield number, data[: max(8, length)]
        data = data[max(8, length) :]


def _counters(entry: bytes) -> dict[str, int]:
    found = dict(zip(_PORT, struct.unpack_from(">8Q", entry, 16), strict=True))
    rest = entry[80:]
    while rest:
        kind, length = struct.unpack_from(">HH", rest)
        if kind == _ETHERNET:
            found |= zip(_WIRE, struct.unpack_from(">4Q", rest, 8), strict=True)
        elif kind == _EXPERIMENTER and struct.unpack_from(">II", rest, 4) == (_INTEL, _CUSTOM):
            found |= _custom(rest[:length])
        rest = rest[max(8, -(-length // 8) * 8) :]
    return {name: value for name, value in found.items() if value != _UNKNOWN}


def _custom(data: bytes) -> Iterator[tuple[str, int]]:
    (count,), at = struct.unpack_from(">H", data, 14), 16
    for _ in range(count):
        end = at + 1 + data[at]
        (value,) = struct.unpack_from(">Q", data, end)
        yield data[at + 1 : end].decode(), value
        at = end + 8
