# SPDX-License-Identifier: Apache-2.0
"""A machine with cards on a PCI bus, whose drivers take and release them; interfaces come and go with these."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from xdplab.hosts.base import Completed
from xdplab.model import XdplabError

BUS = "/sys/bus/pci"


class Card:
    """A card, and what its kernel driver has set; a driver that takes it again begins with its own settings."""

    def __init__(self, address: str, ifname: str, driver: str = "igb") -> None:
        self.address = address
        self.own_driver = driver
        self.driver = driver
        self.override = "(null)"
        self.ifname = ifname
        self.mac = f"52:54:00:00:00:{address[-4:-2]}"
        self.own_mac = self.mac
        self.addresses: list[dict[str, Any]] = []
        self.defaults()

    def defaults(self) -> None:
        """As after its driver has taken it."""
        self.mac, self.mtu, self.flags = self.own_mac, 1500, {"BROADCAST"}
        self.features, self.queue_len, self.disable_ipv6 = {"gro": "on", "tso": "on"}, "1000", "0"


class PciHost:
    """Its operations are those that `testbed/cards.py` and `port_settings` use."""

    name = "B"
    reached_by = ""

    def __init__(self, *cards: Card, iommu: bool = True, vfio: bool = True) -> None:
        self.cards = {card.address: card for card in cards}
        self.iommu, self.vfio = iommu, vfio
        #: Of its files next to the cards': path -> text.
        self.files: dict[str, str] = {}
        #: Devices next to each card in its IOMMU group -> driver.
        self.beside: dict[str, str] = {}
        self.drivers = {"pcieport", "igb"} | ({"vfio-pci"} if vfio else set())
        self.calls: list[list[str]] = []
        #: A driver that takes nothing any more.
        self.broken = ""
        #: Processes that have a card through vfio-pci.
        self.users: list[int] = []

    def _by_name(self, ifname: str) -> Card | None:
        return next((card for card in self.cards.values() if card.ifname == ifname and self._has_interface(card)), None)

    @staticmethod
    def _has_interface(card: Card) -> bool:
        return card.driver == card.own_driver

    def _of(self, path: str) -> tuple[Card | None, str]:
        """The card and what of it a path is."""
        for prefix in (f"{BUS}/devices/", "/sys/class/net/"):
            if path.startswith(prefix):
                name, _, rest = path.removeprefix(prefix).partition("/")
                return (self.cards.get(name) if "bus" in prefix else self._by_name(name)), rest
        if path.startswith("/proc/sys/net/ipv6/conf/"):
            return self._by_name(path.split("/")[6]), "disable_ipv6"
        return None, path

    def exists(self, path: Any) -> bool:
        card, rest = self._of(str(path))
        if str(path) in self.files:
            return True
        if str(path).startswith(f"{BUS}/drivers/"):
            return str(path).rpartition("/")[2] in self.drivers
        if card is None:
            return str(path).startswith(f"{BUS}/devices/") and str(path).split("/")[5] in self.beside
        known = {"driver": bool(card.driver), "net": self._has_interface(card), "vfio-dev": card.driver == "vfio-pci"}
        return known.get(rest, self.iommu if rest.startswith("iommu_group") else rest == "disable_ipv6")

    def read_port(self, ifname: str) -> dict[str, Any]:
        card = self._by_name(ifname)
        assert card is not None, ifname
        return {
            "mac": card.mac,
            "mtu": card.mtu,
            "up": "UP" in card.flags,
            "promiscuous": "PROMISC" in card.flags,
            "disable_ipv6": card.disable_ipv6,
            "offloads": {name: state == "on" for name, state in card.features.items()},
            "addresses": {f"{each['local']}/{each['prefixlen']}": "" for each in card.addresses},
        }

    def put_port_back(self, ifname: str, was: Mapping[str, Any]) -> list[str]:
        card = self._by_name(ifname)
        assert card is not None, ifname
        card.mtu, card.disable_ipv6 = was["mtu"], was["disable_ipv6"]
        for flag, name in (("UP", "up"), ("PROMISC", "promiscuous")):
            (card.flags.add if was[name] else card.flags.discard)(flag)
        card.features = {name: "on" if state else "off" for name, state in was["offloads"].items()}
        card.addresses = [each for each in card.addresses if f"{each['local']}/{each['prefixlen']}" in was["addresses"]]
        return []

    def xdp(self, ifname: str) -> None:
        """None has a program."""

    def links(self) -> dict[str, None]:
        """By name; more is not asked."""
        return {card.ifname: None for card in self.cards.values() if self._has_interface(card)}

    def names(self, folder: Any) -> list[str]:
        card, rest = self._of(str(folder))
        assert card is not None, folder
        if rest == "net":
            return [card.ifname]
        if rest == "vfio-dev":
            return ["vfio0"]
        assert rest == "iommu_group/devices"
        return sorted([card.address, *self.beside])

    def read(self, path: Any) -> str:
        card, rest = self._of(str(path))
        if str(path) in self.files:
            return self.files[str(path)]
        if card is None:
            raise XdplabError(f"B: {path}: No such file or directory")
        if rest == "carrier" and "UP" not in card.flags:
            raise XdplabError(f"B: {path}: Invalid argument")
        found = {"driver_override": card.override, "tx_queue_len": card.queue_len, "carrier": "1"}
        return {**found, "disable_ipv6": card.disable_ipv6}[rest]

    def write(self, path: Any, text: str) -> None:
        """To a file that is there."""
        card, rest = self._of(str(path))
        if card is None:
            raise XdplabError(f"B: {path}: No such file or directory")
        if rest == "driver_override":
            card.override = text.strip() or "(null)"
        elif rest == "tx_queue_len":
            card.queue_len = text
        else:
            assert rest == "disable_ipv6", path
            card.disable_ipv6 = text

    def run(
        self, argv: Sequence[str], *, check: bool = True, stdin: str | None = None, timeout_s: float = 0
    ) -> Completed:
        self.calls.append(list(argv))
        code, out = getattr(self, f"_{argv[0]}")(list(argv[1:]), stdin or "")
        if check and code:
            raise XdplabError(f"B: {' '.join(argv)}: exit code {code}")
        return Completed(tuple(argv), code, out, "")

    def _readlink(self, argv: list[str], _: str) -> tuple[int, str]:
        card, rest = self._of(argv[-1])
        if rest == "iommu_group":
            return 0, "/sys/kernel/iommu_groups/7\n"
        if rest == "driver":
            name = card.driver if card else self.beside[argv[-1].split("/")[5]]
            return 0, f"{BUS}/drivers/{name}\n"
        return 0, f"/sys/devices/pci0000:00/{card.address}\n" if card else f"/sys/devices/virtual{argv[-1]}\n"

    def _tee(self, argv: list[str], stdin: str) -> tuple[int, str]:
        card = self.cards[stdin]
        if argv[0].endswith("/driver/unbind"):
            if self.users:
                raise XdplabError("B: tee: timed out after 20 s")  # the kernel waits for them
            card.driver = ""
            card.ifname = f"eth{stdin[-4]}"  # another one comes with the next driver
            return 0, ""
        assert argv[0] == f"{BUS}/drivers_probe"
        wanted = card.own_driver if card.override == "(null)" else card.override
        if wanted == self.broken or card.driver:
            return 1, ""
        card.driver = wanted
        card.defaults()
        return 0, ""

    def _find(self, argv: list[str], _: str) -> tuple[int, str]:
        assert argv[-9:-1] == ["-lname", "/dev/vfio/7", "-o", "-lname", "/dev/vfio/noiommu-7", "-o", "-lname",
                               "/dev/vfio/devices/vfio0"]  # fmt: skip
        return 1, "".join(f"/proc/{pid}/fd/9\n" for pid in self.users)

    def _modprobe(self, argv: list[str], _: str) -> tuple[int, str]:
        return 0, ""

    def _udevadm(self, argv: list[str], _: str) -> tuple[int, str]:
        raise XdplabError("B: program 'udevadm' not found")

    def _ethtool(self, argv: list[str], _: str) -> tuple[int, str]:
        flag, ifname, *rest = argv
        card = self._by_name(ifname)
        if flag == "-i":
            return (0, f"driver: {card.own_driver}\n") if card else (0, "driver: veth\n")
        assert card is not None, argv
        if flag == "-k":
            return 0, "".join(f"{name}: {value}\n" for name, value in card.features.items())
        assert flag == "-K", argv
        card.features.update(zip(rest[::2], rest[1::2], strict=True))
        return 0, ""

    def _ip(self, argv: list[str], _: str) -> tuple[int, str]:
        if "route" in argv:
            return 0, "[]"
        if argv[0] == "-json":
            shown = [
                {"ifname": card.ifname, "address": card.mac, "mtu": card.mtu, "flags": sorted(card.flags),
                 "addr_info": card.addresses, "promiscuity": int("PROMISC" in card.flags)}
                for card in self.cards.values()
                if self._has_interface(card) and argv[-1] in ("show", card.ifname)
            ]  # fmt: skip
            return (0, json.dumps(shown)) if shown else (1, "")
        words = argv[argv.index("dev") + 1 :]
        card = self._by_name(words[0])
        if card is None:
            return 1, ""
        if argv[0] == "address":
            card.addresses.clear()
            return 0, ""
        rest = iter(words[1:])
        for word in rest:
            if word in ("up", "down"):
                (card.flags.add if word == "up" else card.flags.discard)("UP")
            elif word == "promisc":
                (card.flags.add if next(rest) == "on" else card.flags.discard)("PROMISC")
            else:
                value = next(rest)
                setattr(
                    card,
                    {"name": "ifname", "address": "mac", "mtu": "mtu"}[word],
                    int(value) if word == "mtu" else value,
                )
        return 0, ""
