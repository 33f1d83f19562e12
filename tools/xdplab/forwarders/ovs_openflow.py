# SPDX-License-Identifier: Apache-2.0
"""Statistics of a bridge's ports over OpenFlow 1.5, as `ovs-ofctl dump-ports` asks for them, without starting that.

Sources: OpenFlow Switch Specification 1.5.1, sections 7.1.1, 7.3.5.1, 7.3.5.7, 7.3.5.8; for the statistics that a kind
of port has for itself include/openflow/intel-ext.h of Open vSwitch.
"""

import struct
from collections.abc import Iterator

from xdplab.model import XdplabError

_VERSION = 6
_HELLO, _ERROR, _REQUEST, _REPLY, _BARRIER, _BARRIER_REPLY = 0, 1, 18, 19, 20, 21
_PORT_STATS, _PORT_DESC, _ANY_PORT = 4, 13, 0xFFFFFFFF
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


def port_counters(answer: bytes) -> dict[str, dict[str, int]]:
    """Port -> its counters, of an answer to `ASK`; those a port has not got are left out.

    Raises:
        XdplabError: it is an error, or no such answer.
    """
    try:
        names, counters = {}, {}
        for kind, body in _messages(answer):
            if kind == _ERROR:
                kind, code = struct.unpack_from(">HH", body)
                raise XdplabError(f"OpenFlow: the bridge refuses it: type {kind}, code {code}")
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
