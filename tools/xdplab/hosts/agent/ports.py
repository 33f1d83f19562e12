# SPDX-License-Identifier: Apache-2.0
"""What a network interface is set to, and how it is set back to that, in the network namespace of the caller.

By netlink (linux/if_link.h, linux/if_addr.h, linux/rtnetlink.h), the ioctl of linux/ethtool.h and /sys/class/net, all
in one to two milliseconds: a program such as ethtool(8) takes longer to start. What a driver has not got is not in the
answer.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import functools
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

from xdplab.hosts.agent.netlink import HEADER, ROUTE, ask, attribute, number_of, xdp

_RTM_GETLINK, _RTM_SETLINK = 18, 19
_RTM_NEWADDR, _RTM_DELADDR, _RTM_GETADDR = 20, 21, 22
_RTM_NEWQDISC, _RTM_DELQDISC, _RTM_GETQDISC, _RTM_DELTFILTER, _RTM_GETTFILTER = 36, 37, 38, 45, 46
_CREATE = 0x400
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_MASTER, _IFLA_XDP, _IFLA_XDP_FD, _IFLA_XDP_FLAGS = 1, 3, 4, 10, 43, 1, 3
#: Name -> bit of linux/if.h, and the value that `True` stands for.
_FLAGS = {"up": (0x1, True), "promiscuous": (0x100, True), "all-multicast": (0x200, True), "arp": (0x80, False)}
_XDP_MODES = (1 << 1, 1 << 2)
#: Of an address what says which it is: local, peer, label and broadcast.
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_IFA_KEPT = (_IFA_ADDRESS, _IFA_LOCAL, 3, 4)
_IFA_F_PERMANENT = 0x80
_TCA_KIND, _TCA_OPTIONS = 1, 2
_ROOT, _INGRESS, _CLSACT_INGRESS, _CLSACT_EGRESS = 0xFFFFFFFF, 0xFFFF0000, 0xFFFFFFF2, 0xFFFFFFF3

_SIOCETHTOOL = 0x8946
_GSTRINGS, _GSSET_INFO, _GFEATURES, _SFEATURES, _SS_FEATURES = 0x1B, 0x37, 0x3A, 0x3B, 4
_GRSSH, _SRSSH, _RSS_HEADER, _SAME_TABLE, _AS_IT_IS = 0x46, 0x47, "=4I2BHI", 0xFFFFFFFF, 0
_RULE_COUNT, _GET_RULE, _GET_RULES, _DELETE_RULE, _INSERT_RULE = 0x2E, 0x2F, 0x30, 0x31, 0x32
#: struct ethtool_rxnfc: where a rule's place is, how many there are, and their places; its size.
_RULE_PLACE, _RULES, _RULE_PLACES, _RULE_BYTES = 176, 184, 188, 192
#: Structures of 32-bit numbers: name -> how they are read, how set, and their members after the command; those without
#: a name are no settings.
_STRUCTURES = {
    "channels": (0x3C, 0x3D, ("", "", "", "", "rx", "tx", "other", "combined")),
    "rings": (0x10, 0x11, ("", "", "", "", "rx", "rx-mini", "rx-jumbo", "tx")),
    "coalescing": (0x0E, 0x0F, (
        "rx-usecs", "rx-frames", "rx-usecs-irq", "rx-frames-irq", "tx-usecs", "tx-frames", "tx-usecs-irq",
        "tx-frames-irq", "stats-block-usecs", "adaptive-rx", "adaptive-tx", "pkt-rate-low", "rx-usecs-low",
        "rx-frames-low", "tx-usecs-low", "tx-frames-low", "pkt-rate-high", "rx-usecs-high", "rx-frames-high",
        "tx-usecs-high", "tx-frames-high", "sample-interval")),
    "pause": (0x12, 0x13, ("autoneg", "rx", "tx")),
}  # fmt: skip
#: Members that a driver sets itself while another one is on.
_ADAPTIVE = {"adaptive-rx": ("rx-usecs", "rx-frames"), "adaptive-tx": ("tx-usecs", "tx-frames")}
_NAPI_FILES = ("napi_defer_hard_irqs", "gro_flush_timeout", "threaded")
#: virtio_net hangs for good where `threaded` is written while a zero-copy socket that was just closed leaves its queue
#: (Linux 7.2).
_VIRTIO_SETTLES_S = 1.0
#: Kinds of settings that are things with a name, and a message that makes them.
THINGS = ("addresses", "qdiscs", "filters", "rules")
_MOST_NAMES = 64
#: What an operation may raise, also where a driver's answer has another form than the kernel's headers say.
_ODD = (OSError, struct.error, LookupError, ValueError, TypeError)


def read(ifname: str) -> dict[str, Any]:
    """What it is set to: a value, or name -> value, for each kind of setting.

    Raises:
        OSError: there is no interface of that name.
    """
    body = bytes(16) + attribute(_IFLA_IFNAME, ifname.encode() + b"\0")
    (link,) = ask(ROUTE, _RTM_GETLINK, body, 16)
    flags = number_of(link[HEADER][8:12])
    program = xdp(ifname)
    found: dict[str, Any] = {
        "mtu": number_of(link[_IFLA_MTU]),
        "mac": link.get(_IFLA_ADDRESS, b"").hex(":"),
        "master": socket.if_indextoname(number_of(link[_IFLA_MASTER])) if _IFLA_MASTER in link else "",
        "xdp": f"{program.mode} {program.prog_name}" if program else "",
        **{name: bool(flags & bit) is meaning for name, (bit, meaning) in _FLAGS.items()},
    }
    for name, (reads, _) in _KINDS.items():
        with contextlib.suppress(*_ODD):  # this driver, or kernel, has it not
            found[name] = reads(ifname)
    return found


def names(ifname: str) -> dict[str, list[str]]:
    """What of `THINGS` it has, for a lock file: a kind of which it has very many is left out."""
    try:
        found = read(ifname)
    except _ODD:  # it has just gone
        return {}
    return {kind: sorted(found[kind]) for kind in THINGS if len(found.get(kind, ())) <= _MOST_NAMES and kind in found}


def put_back(ifname: str, wanted: dict[str, Any]) -> list[str]:
    """Set what differs to what `read` gave; what could not be. Whether it is in force, the next `read` says.

    Raises:
        OSError: there is no interface of that name.
    """
    found, failed = read(ifname), []
    for name, sets in _IN_ORDER.items():
        if name in wanted and found.get(name) != wanted[name]:
            try:
                sets(ifname, wanted[name], found.get(name))
            except _ODD as exc:
                failed.append(f"{name}: {getattr(exc, 'strerror', None) or exc}")
    return failed


# -- the link itself


def _set_link(ifname: str, *attributes: bytes, flags: int = 0, mask: int = 0) -> None:
    body = struct.pack("=BxHiII", 0, 0, socket.if_nametoindex(ifname), flags, mask) + b"".join(attributes)
    list(ask(ROUTE, _RTM_SETLINK, body, 16, acknowledged=True))


def _set_mtu(ifname: str, wanted: int, _: object) -> None:
    _set_link(ifname, attribute(_IFLA_MTU, struct.pack("=I", wanted)))


def _set_mac(ifname: str, wanted: str, _: object) -> None:
    address = attribute(_IFLA_ADDRESS, bytes.fromhex(wanted.replace(":", "")))
    try:
        _set_link(ifname, address)
    except OSError as exc:
        if exc.errno != errno.EBUSY:
            raise
        _set_link(ifname, mask=1)  # some drivers take one only while the link is down
        try:
            _set_link(ifname, address)
        finally:
            _set_link(ifname, flags=1, mask=1)


def _set_master(ifname: str, wanted: str, _: object) -> None:
    _set_link(ifname, attribute(_IFLA_MASTER, struct.pack("=I", socket.if_nametoindex(wanted) if wanted else 0)))


def _set_xdp(ifname: str, wanted: str, _: object) -> None:
    if wanted:
        raise OSError(errno.ENOENT, "the program that was there is gone")
    for mode in _XDP_MODES:
        parts = attribute(_IFLA_XDP_FD, struct.pack("=i", -1)) + attribute(_IFLA_XDP_FLAGS, struct.pack("=I", mode))
        with contextlib.suppress(OSError):  # the other mode; one that is attached by a link goes with its process
            _set_link(ifname, attribute(_IFLA_XDP | 0x8000, parts))


def _set_flag(name: str) -> Callable[[str, bool, object], None]:
    bit, meaning = _FLAGS[name]
    return lambda ifname, wanted, _: _set_link(ifname, flags=bit * (wanted is meaning), mask=bit)


# -- ethtool


def _ethtool(ifname: str, data: bytes | bytearray) -> bytes:
    """What a structure holds after the kernel has been asked with it."""
    buffer = array.array("B", data)
    request = struct.pack("=16sQ16x", ifname.encode(), buffer.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCETHTOOL, request)
    return buffer.tobytes()


def _structure(ifname: str, name: str) -> list[int]:
    get, _, members = _STRUCTURES[name]
    size = 4 * (1 + len(members))
    return list(struct.unpack(f"={size // 4}I", _ethtool(ifname, struct.pack("=I", get).ljust(size, b"\0"))))


def _read_structure(name: str) -> Callable[[str], dict[str, int]]:
    def read_it(ifname: str) -> dict[str, int]:
        members = zip(_STRUCTURES[name][2], _structure(ifname, name)[1:])  # noqa: B905 - Python 3.9 on hosts
        found = {member: value for member, value in members if member}
        by_driver = [member for switch, members in _ADAPTIVE.items() if found.get(switch) for member in members]
        return {member: value for member, value in found.items() if member not in by_driver}

    return read_it


def _set_structure(name: str) -> Callable[[str, dict[str, int], object], None]:
    def set_it(ifname: str, wanted: dict[str, int], _: object) -> None:
        _, put, members = _STRUCTURES[name]
        now = _structure(ifname, name)[1:]
        values = [wanted.get(member, value) for member, value in zip(members, now)]  # noqa: B905 - as above
        _ethtool(ifname, struct.pack(f"={1 + len(values)}I", put, *values))

    return set_it


@functools.lru_cache(maxsize=16)
def _feature_names(ifname: str) -> list[str]:
    asked = struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _SS_FEATURES, 0)
    count = number_of(_ethtool(ifname, asked)[16:20])
    text = _ethtool(ifname, struct.pack("=III", _GSTRINGS, _SS_FEATURES, count).ljust(12 + 32 * count, b"\0"))
    return [text[at : at + 32].rstrip(b"\0").decode() for at in range(12, 12 + 32 * count, 32)]


def _read_offloads(ifname: str) -> dict[str, bool]:
    """As they were asked for: what is active also depends on the other end of a veth, and on its XDP program."""
    names = _feature_names(ifname)
    blocks = -(-len(names) // 32)
    answer = _ethtool(ifname, struct.pack("=II", _GFEATURES, blocks).ljust(8 + 16 * blocks, b"\0"))
    asked = [number_of(answer[at + 4 : at + 8]) for at in range(8, 8 + 16 * blocks, 16)]
    return {name: bool(asked[bit // 32] >> bit % 32 & 1) for bit, name in enumerate(names) if name}


def _set_offloads(ifname: str, wanted: dict[str, bool], found: dict[str, bool] | None) -> None:
    names = _feature_names(ifname)
    blocks = [[0, 0] for _ in range(-(-len(names) // 32))]
    for bit, name in enumerate(names):
        if name in wanted and wanted[name] != (found or {}).get(name):
            blocks[bit // 32][0] |= 1 << bit % 32
            blocks[bit // 32][1] |= wanted[name] << bit % 32
    numbers = [each for block in blocks for each in block]
    _ethtool(ifname, struct.pack(f"={2 + len(numbers)}I", _SFEATURES, len(blocks), *numbers))


def _read_rss(ifname: str) -> dict[str, Any]:
    size = struct.calcsize(_RSS_HEADER)
    sizes = _ethtool(ifname, struct.pack("=I", _GRSSH).ljust(size, b"\0"))
    _, _, rows, key, *_ = struct.unpack(_RSS_HEADER, sizes)
    asked = struct.pack(_RSS_HEADER, _GRSSH, 0, rows, key, 0, 0, 0, 0)
    answer = _ethtool(ifname, asked.ljust(size + 4 * rows + key, b"\0"))
    table = struct.unpack_from(f"={rows}I", answer, size)
    key, function, transform = answer[size + 4 * rows :].hex(), answer[16], answer[17]
    return {"table": list(table), "key": key, "function": function, "transform": transform}


def _set_rss(ifname: str, wanted: dict[str, Any], found: dict[str, Any] | None) -> None:
    """The driver's own table is asked for first: one that is given is kept when the number of channels changes."""
    differs = {name for name, value in wanted.items() if (found or {}).get(name) != value}
    key = bytes.fromhex(wanted["key"]) if "key" in differs else b""
    function = wanted["function"] if "function" in differs else _AS_IT_IS
    tables: tuple[list[int] | None, ...] = ([], wanted["table"]) if "table" in differs else (None,)
    for table in tables:
        rows = _SAME_TABLE if table is None else len(table)
        header = struct.pack(_RSS_HEADER, _SRSSH, 0, rows, len(key), function, wanted["transform"], 0, 0)
        _ethtool(ifname, header + struct.pack(f"={len(table or ())}I", *(table or ())) + key)
        if _read_rss(ifname)["table"] == wanted["table"]:
            return


def _read_rules(ifname: str) -> dict[str, str]:
    """Place -> rule, as struct ethtool_rxnfc has it."""
    count = number_of(_rules(ifname, _RULE_COUNT)[_RULES : _RULES + 4])
    answer = _rules(ifname, _GET_RULES, count=count, more=4 * count)
    places = struct.unpack_from(f"={count}I", answer, _RULE_PLACES)
    return {str(place): _rules(ifname, _GET_RULE, place)[:_RULE_BYTES].hex() for place in sorted(places)}


def _rules(ifname: str, command: int, place: int = 0, count: int = 0, more: int = 0) -> bytes:
    asked = bytearray(_RULE_BYTES + more)
    struct.pack_into("=I", asked, 0, command)
    struct.pack_into("=I", asked, _RULE_PLACE, place)
    struct.pack_into("=I", asked, _RULES, count)
    return _ethtool(ifname, asked)


def _set_rules(ifname: str, wanted: dict[str, str], found: dict[str, str] | None) -> None:
    found = found or {}
    for place in [each for each, rule in found.items() if wanted.get(each) != rule]:
        _rules(ifname, _DELETE_RULE, int(place))
    for place in [each for each, rule in wanted.items() if found.get(each) != rule]:
        _ethtool(ifname, struct.pack("=I", _INSERT_RULE) + bytes.fromhex(wanted[place])[4:])


# -- addresses, qdiscs and filters: name -> the message that made them


def _read_addresses(ifname: str) -> dict[str, str]:
    """Those without a lifetime: DHCP and router advertisements usually give one, and renew it."""
    index, found = socket.if_nametoindex(ifname), {}
    for each in ask(ROUTE, _RTM_GETADDR, bytes(8), 8, dump=True):
        family, length, flags, _, of = struct.unpack("=4BI", each[HEADER])
        if of == index and flags & _IFA_F_PERMANENT:
            local = socket.inet_ntop(family, each.get(_IFA_LOCAL, each.get(_IFA_ADDRESS)))  # type: ignore[arg-type]
            kept = b"".join(attribute(kind, each[kind]) for kind in _IFA_KEPT if kind in each)
            # flags, which are not the setter's, and the index, which may be another one then
            found[f"{local}/{length}"] = (each[HEADER][:2] + b"\0" + each[HEADER][3:4] + bytes(4) + kept).hex()
    return found


def _set_addresses(ifname: str, wanted: dict[str, str], found: dict[str, str] | None) -> None:
    _make_and_remove(ifname, wanted, found or {}, 4, _RTM_NEWADDR, _RTM_DELADDR)


def _read_qdiscs(ifname: str) -> dict[str, str]:
    """Those with a handle: the others are the kernel's own, and come with the first `up` and where a root is gone."""
    found = {}
    for each in _of_traffic_control(ifname, _RTM_GETQDISC):
        handle, parent = struct.unpack("=II", each[HEADER][8:16])
        if not handle:
            continue
        name = f"{_text(each[_TCA_KIND])} {_handle(handle)} at {_handle(parent)}"
        options = attribute(_TCA_OPTIONS, each[_TCA_OPTIONS]) if each.get(_TCA_OPTIONS) else b""
        found[name] = (each[HEADER][:4] + bytes(4) + each[HEADER][8:16] + bytes(4) + _kind(each) + options).hex()
    return found


def _set_qdiscs(ifname: str, wanted: dict[str, str], found: dict[str, str] | None) -> None:
    _make_and_remove(ifname, wanted, found or {}, 4, _RTM_NEWQDISC, _RTM_DELQDISC)


def _read_filters(ifname: str) -> dict[str, str]:
    """With the handles of each, and not what they do: that has counters in it."""
    if not _read_qdiscs(ifname):
        return {}  # the kernel's own have none
    found: dict[str, str] = {}
    for parent in (0, _INGRESS, _CLSACT_INGRESS, _CLSACT_EGRESS):
        with contextlib.suppress(OSError):
            for each in _of_traffic_control(ifname, _RTM_GETTFILTER, parent):
                handle, above, info = struct.unpack("=III", each[HEADER][8:20])
                name = f"{_text(each[_TCA_KIND])} at {_handle(above)} pref {info >> 16}"
                whole = (each[HEADER][:4] + bytes(8) + each[HEADER][12:20] + _kind(each)).hex()
                found[name] = f"{found.get(name, whole)} {handle:x}"
    return found


def _set_filters(ifname: str, wanted: dict[str, str], found: dict[str, str] | None) -> None:
    found = found or {}
    new = {name: text.split()[0] for name, text in found.items() if name not in wanted}
    _make_and_remove(ifname, {}, new, 4, 0, _RTM_DELTFILTER)
    if gone := [name for name in wanted if wanted[name] != found.get(name)]:
        raise OSError(errno.ENOENT, f"{', '.join(gone)}: what it did is not known")


def _of_traffic_control(ifname: str, kind: int, parent: int = 0) -> Iterator[dict[int, bytes]]:
    """By struct tcmsg: family, padding, index, handle, parent, info."""
    index = socket.if_nametoindex(ifname)
    body = struct.pack("=B3xiIII", 0, index, 0, parent, 0)
    return (each for each in ask(ROUTE, kind, body, 20, dump=True) if number_of(each[HEADER][4:8]) == index)


def _make_and_remove(
    ifname: str, wanted: dict[str, str], found: dict[str, str], index_at: int, make: int, remove: int
) -> None:
    """By the messages of those that are there and should not be, and the other way round."""
    index = struct.pack("=i", socket.if_nametoindex(ifname))
    for names, kind, texts in (
        ([name for name in found if wanted.get(name) != found[name]], remove, found),
        ([name for name in wanted if wanted[name] != found.get(name)], make, wanted),
    ):
        for name in names:
            body = bytearray.fromhex(texts[name])
            body[index_at : index_at + 4] = index
            with contextlib.suppress(FileNotFoundError, FileExistsError):  # it went, or came, with another one
                list(ask(ROUTE, kind, bytes(body), 16, flags=_CREATE * (kind == make), acknowledged=True))


def _kind(each: dict[int, bytes]) -> bytes:
    return attribute(_TCA_KIND, each[_TCA_KIND])


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode()


def _handle(number: int) -> str:
    minor = f"{number & 0xFFFF:x}" if number & 0xFFFF else ""
    return "root" if number == _ROOT else f"{number >> 16:x}:{minor}"


# -- files


def _read_napi(ifname: str) -> dict[str, str]:
    found = {}
    for name in _NAPI_FILES:
        with contextlib.suppress(OSError), open(f"/sys/class/net/{ifname}/{name}", encoding="ascii") as file:
            found[name] = file.read().strip()
    return found


def _set_napi(ifname: str, wanted: dict[str, str], found: dict[str, str] | None) -> None:
    for name, value in wanted.items():
        if (found or {}).get(name) != value:
            driver = os.path.realpath(f"/sys/class/net/{ifname}/device/driver")
            if name == "threaded" and os.path.basename(driver) == "virtio_net":
                time.sleep(_VIRTIO_SETTLES_S)
            _write(f"/sys/class/net/{ifname}/{name}", value)


def ipv6_switch(ifname: str) -> str:
    """File that switches IPv6 off on an interface; there is none while its MTU is below 1280.

    A dot in a name is no separator in a path below /proc/sys.
    """
    return f"/proc/sys/net/ipv6/conf/{ifname}/disable_ipv6"


def _read_ipv6(ifname: str) -> str:
    with open(ipv6_switch(ifname), encoding="ascii") as file:
        return file.read().strip()


def _set_ipv6(ifname: str, wanted: str, _: object) -> None:
    _write(ipv6_switch(ifname), wanted)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


#: Next to what a link's own message has: kind -> how it is read, and how set.
_KINDS: dict[str, tuple[Callable[[str], Any], Callable[[str, Any, Any], None]]] = {
    "disable_ipv6": (_read_ipv6, _set_ipv6),
    "offloads": (_read_offloads, _set_offloads),
    **{name: (_read_structure(name), _set_structure(name)) for name in _STRUCTURES},
    "rss": (_read_rss, _set_rss),
    "rules": (_read_rules, _set_rules),
    "qdiscs": (_read_qdiscs, _set_qdiscs),
    "filters": (_read_filters, _set_filters),
    "addresses": (_read_addresses, _set_addresses),
    "napi": (_read_napi, _set_napi),
}
#: A program keeps a link from other channels and a large MTU, IPv6 is gone below an MTU of 1280, a table is as wide as
#: there are channels, and rules name them.
_IN_ORDER: dict[str, Callable[[str, Any, Any], None]] = {
    "xdp": _set_xdp,
    "master": _set_master,
    "mac": _set_mac,
    **{name: _set_flag(name) for name in _FLAGS},
    "mtu": _set_mtu,
    **{name: sets for name, (_, sets) in _KINDS.items()},
}
