# SPDX-License-Identifier: Apache-2.0
"""What ethtool sets on a card is read and set back: on a played card, because veth has only some of it.

Its structures are those of linux/ethtool.h; what it refuses is what drivers of cards refuse.
"""

import ctypes
import errno
import struct
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from xdplab.hosts import Host
from xdplab.hosts.agent import ports
from xdplab.model import XdplabError
from xdplab.runner.ports import KeptPorts
from xdplab.testbed import Port, port_settings


class Card:
    """A card behind ioctl(2): command -> what it keeps."""

    def __init__(self) -> None:
        self.kept = {
            0x3C: [8, 8, 1, 8, 0, 0, 1, 8],
            0x10: [4096, 0, 0, 4096, 512, 0, 0, 512],
            0x0E: [3, 0, 0, 0, 50, 256, *[0] * 16],
            0x12: [0, 1, 0],
        }
        self.default = [index % 8 for index in range(16)]
        self.table, self.is_own = list(self.default), True
        self.key, self.rules = b"\x01" * 40, dict[int, bytes]()
        self.features = ["tx-scatter-gather", "rx-gro", "rx-ntuple-filter"]
        self.wanted = 0b011

    def ioctl(self, _: int, __: int, request: bytes) -> None:
        _, address = struct.unpack("=16sQ16x", request)
        (command,) = struct.unpack("=I", ctypes.string_at(address, 4))
        for get, values in self.kept.items():
            if command == get:
                return self._give(address + 4, struct.pack(f"={len(values)}I", *values))
            if command == get + 1:
                values[:] = struct.unpack(f"={len(values)}I", ctypes.string_at(address + 4, 4 * len(values)))
                return None
        return getattr(self, f"_{command:02x}")(address)

    @staticmethod
    def _give(address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def _37(self, address: int) -> None:
        self._give(address + 16, struct.pack("=I", len(self.features)))

    def _1b(self, address: int) -> None:
        self._give(address + 12, b"".join(name.encode().ljust(32, b"\0") for name in self.features))

    def _3a(self, address: int) -> None:
        self._give(address + 8, struct.pack("=4I", 0b111, self.wanted, 0, 0))

    def _3b(self, address: int) -> None:
        valid, wanted = struct.unpack("=2I", ctypes.string_at(address + 8, 8))
        self.wanted = self.wanted & ~valid | wanted & valid

    def _46(self, address: int) -> None:
        _, _, rows, key, *_ = struct.unpack("=4I2BHI", ctypes.string_at(address, 24))
        self._give(address, struct.pack("=4I2BHI", 0x46, 0, len(self.table), len(self.key), 1, 0, 0, 0))
        if rows:
            self._give(address + 24, struct.pack(f"={rows}I", *self.table) + self.key[:key])

    def _47(self, address: int) -> None:
        _, _, rows, key, function, _, _, _ = struct.unpack("=4I2BHI", ctypes.string_at(address, 24))
        assert function == 0, "it is not changed"
        data = ctypes.string_at(address + 24, 4 * (rows if rows != 0xFFFFFFFF else 0) + key)
        if rows == 0:
            self.table, self.is_own = list(self.default), True
        elif rows != 0xFFFFFFFF:
            self.table, self.is_own = list(struct.unpack(f"={rows}I", data[: 4 * rows])), False
        self.key = data[len(data) - key :] if key else self.key

    def _2e(self, address: int) -> None:
        self._give(address + 184, struct.pack("=I", len(self.rules)))

    def _30(self, address: int) -> None:
        self._give(address + 188, struct.pack(f"={len(self.rules)}I", *self.rules))

    def _2f(self, address: int) -> None:
        (place,) = struct.unpack("=I", ctypes.string_at(address + 176, 4))
        self._give(address + 4, self.rules[place])

    def _31(self, address: int) -> None:
        (place,) = struct.unpack("=I", ctypes.string_at(address + 176, 4))
        del self.rules[place]

    def _32(self, address: int) -> None:
        (place,) = struct.unpack("=I", ctypes.string_at(address + 176, 4))
        self.rules[place] = ctypes.string_at(address + 4, 180)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[Card]:
    made = Card()
    monkeypatch.setattr(ports.fcntl, "ioctl", made.ioctl)
    ports._feature_names.cache_clear()
    yield made
    ports._feature_names.cache_clear()


def rule(place: int, queue: int) -> bytes:
    """As `ethtool -N` gives it, without the command."""
    made = bytearray(180)
    struct.pack_into("=QI", made, 160 + 4 - 8, queue, place)
    struct.pack_into("=I", made, 172, place)
    return bytes(made)


CHANGES: dict[str, tuple[Any, str]] = {
    "channels": (lambda card: card.kept[0x3C].__setitem__(7, 2), "channels combined: 8 to 2"),
    "rings": (lambda card: card.kept[0x10].__setitem__(4, 64), "rings rx: 512 to 64"),
    "coalescing": (lambda card: card.kept[0x0E].__setitem__(0, 100), "coalescing rx-usecs: 3 to 100"),
    "pause": (lambda card: card.kept[0x12].__setitem__(1, 0), "pause rx: 1 to 0"),
    "offloads": (lambda card: setattr(card, "wanted", 0b101), "offloads rx-gro: on to off"),
    "rss": (lambda card: setattr(card, "table", [0] * 16), "rss table: 0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7 to 0,0,"),
    "rules": (lambda card: card.rules.update({7: rule(7, 1), 9: rule(9, 2)}), "rules: none to 7, 9"),
}


def read(card: Card) -> dict[str, Any]:
    """What of a port is ethtool's."""
    kinds = ("channels", "rings", "coalescing", "pause", "offloads", "rss", "rules")
    return {kind: ports._KINDS[kind][0]("p0") for kind in kinds}


def put_back(was: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for kind in was:
        if was[kind] != now[kind]:
            ports._KINDS[kind][1]("p0", was[kind], now[kind])


@pytest.mark.parametrize("kind", CHANGES)
def test_each_setting_of_a_card_is_named_and_put_back(card: Card, kind: str) -> None:
    change, said = CHANGES[kind]
    card.rules[3] = rule(3, 4)
    was = read(card)
    change(card)
    now = read(card)
    differing = [f"{setting}: {text}" for setting, text in port_settings.differences(now, was).items()]
    assert any(each.startswith(said) for each in differing), differing
    put_back(was, now)
    assert read(card) == was
    assert card.is_own, "the table is the driver's own again, so that channels can change"


def test_a_rule_that_is_gone_and_a_table_of_the_user_come_back(card: Card) -> None:
    card.rules[3], card.table = rule(3, 4), [1] * 16
    was = read(card)
    card.rules.clear()
    card.table, card.key = list(card.default), b"\x02" * 40
    put_back(was, read(card))
    assert read(card) == was


def test_times_that_the_driver_chooses_are_none_of_its_settings(card: Card) -> None:
    card.kept[0x0E][9] = 1
    was = read(card)
    card.kept[0x0E][0] = 77
    assert read(card) == was


def test_what_a_driver_has_not_got_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(ports.fcntl, "ioctl", refuses)
    assert not {"rings", "rss", "rules", "channels", "pause"} & ports.read("lo").keys()


class Stubborn:
    """A host whose port takes its MTU back, and nothing else."""

    name = "dut"

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"mtu": 1500, "rings": {"rx": 512}}

    def read_port(self, _: str) -> dict[str, Any]:
        return {**self.state}

    def put_port_back(self, _: str, wanted: Mapping[str, Any]) -> list[str]:
        self.state["mtu"] = wanted["mtu"]
        return ["rings: Invalid argument"] if self.state["rings"] != wanted["rings"] else []


def test_what_cannot_be_put_back_is_said_with_what_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_settings, "_RESTORE_S", 0.0)
    host = Stubborn()
    port = Port("b0", cast(Host, host), "ens1", mac="", mtu=1500)
    kept = KeptPorts()
    kept.look([port])
    host.state = {"mtu": 3542, "rings": {"rx": 512}}
    kept.put_back("vpp-dpdk")
    assert kept.changed == ["vpp-dpdk changed mtu of b0: 1500 to 3542; put back"]
    kept.look([port])
    host.state = {"mtu": 9000, "rings": {"rx": 64}}
    with pytest.raises(XdplabError) as failed:
        kept.put_back("vpp-dpdk")
    assert str(failed.value) == (
        "vpp-dpdk changed mtu of b0: 1500 to 9000; vpp-dpdk changed rings rx of b0: 512 to 64; "
        "b0: dut: ens1: could not be put back: rings rx: 512 to 64; rings: Invalid argument"
    )
    assert len(kept.changed) == 1


def test_a_port_that_is_not_the_kernels_is_not_asked() -> None:
    kept = KeptPorts()
    kept.look([Port("b0", cast(Host, SimpleNamespace()), "fake", mac="", mtu=1500, simulated=True)])
    kept.put_back("fake")
    assert kept.changed == []


def test_a_kind_of_setting_with_an_odd_answer_keeps_no_other_from_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(_: str) -> None:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    before = ports.read("lo")
    kinds = {"features": (odd, None), **{name: kind for name, kind in ports._KINDS.items() if name != "features"}}
    monkeypatch.setattr(ports, "_KINDS", kinds)
    assert ports.read("lo") == {name: was for name, was in before.items() if name != "features"}


def test_a_driver_with_an_odd_answer_keeps_no_other_setting_from_being_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []

    def odd(*_: Any) -> None:
        raise struct.error("unpack requires a buffer of 8 bytes")

    monkeypatch.setattr(ports, "read", lambda _: {"pause": 1, "mtu": 1500, "promiscuous": True})
    monkeypatch.setattr(
        ports, "_IN_ORDER", {"pause": odd, "mtu": lambda *given: made.append(given), "promiscuous": odd}
    )
    failed = ports.put_back("ens1", {"pause": 0, "mtu": 9000, "promiscuous": True})
    assert (made, failed) == ([("ens1", 9000, 1500)], ["pause: unpack requires a buffer of 8 bytes"])
