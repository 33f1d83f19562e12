# SPDX-License-Identifier: Apache-2.0
"""The interfaces of a host that could be ports, and whether somebody needs them."""

import json
import re
from typing import Any, NamedTuple

from xdplab.hosts import Host
from xdplab.hosts.kernel import driver_facts, text_of
from xdplab.model import InputError
from xdplab.model.errors import meant
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
