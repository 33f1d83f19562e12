# SPDX-License-Identifier: Apache-2.0
"""The configuration of a TRex that has the tester's cards: by address on the bus, because their interfaces vanish."""

from collections.abc import Mapping, Sequence

import yaml

from xdplab.cli.lab.cabling import End
from xdplab.cli.lab.look import Card
from xdplab.model import InputError
from xdplab.model.inventory import PortRole

#: Where the testbed file says that it is, on the tester.
CONFIG = "/etc/xdplab_trex_cfg.yaml"
#: TRex's ports are numbered in this order, and belong together two by two.
_ORDER: tuple[PortRole, ...] = ("a0", "c0", "d0", "d1")
#: CPUs of its own: the master and the thread that receives; each pair of ports has one that sends at the least.
_OWN_CPUS = 2
CPUS = _OWN_CPUS + len(_ORDER) // 2


def numbers(roles: Mapping[PortRole, End]) -> dict[PortRole, int]:
    """The tester's ports as TRex numbers them."""
    return {role: number for number, role in enumerate(each for each in _ORDER if each in roles)}


def trex_config(roles: Mapping[PortRole, End], found: Mapping[End, Card], cpus: Sequence[int]) -> str:
    """YAML that `t-rex-64 --cfg` reads.

    Raises:
        InputError: a port is no PCI card, or has none that it belongs to, or the tester has too few CPUs.
    """
    cards = [found[roles[role]] for role in numbers(roles)]
    if len(cards) == 1:
        raise InputError(
            f"lab init: --trex: TRex uses its ports in pairs, and {cards[0].ifname} has no partner; "
            "connect a second cable, or leave --trex out"
        )
    for card in cards:
        if not card.pci:
            raise InputError(
                f"lab init: --trex: tester {card.ifname} is not a PCI device, so DPDK has no driver for it"
            )
    pairs = len(cards) // 2
    if len(cpus) < _OWN_CPUS + pairs:
        raise InputError(
            f"lab init: --trex: TRex takes {_OWN_CPUS + pairs} CPUs for {len(cards)} ports, and the tester has "
            f"{len(cpus)} to give: {list(cpus)}; give it more with `cpus` (--from)"
        )
    macs = [card.mac for card in cards]
    section = {
        "version": 2,
        "port_limit": len(cards),
        "interfaces": [card.pci for card in cards],
        "port_info": [{"src_mac": mac, "dest_mac": macs[at ^ 1]} for at, mac in enumerate(macs)],
        "platform": {
            "master_thread_id": cpus[0],
            "latency_thread_id": cpus[1],
            "dual_if": [
                {"socket": cards[2 * pair].node or 0, "threads": list(cpus[_OWN_CPUS + pair :: pairs])}
                for pair in range(pairs)
            ],
        },
    }
    names = ", ".join(f"{card.ifname} ({role})" for role, card in zip(numbers(roles), cards, strict=True))
    return (
        "# SPDX-License-Identifier: Apache-2.0\n"
        f"# Written by `xdplab lab init --trex`: {names} as the kernel called them.\n"
        f"{yaml.safe_dump([section], sort_keys=False, default_flow_style=None)}"
    )
