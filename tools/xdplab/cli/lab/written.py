# SPDX-License-Identifier: Apache-2.0
"""The testbed file that `xdplab lab init` writes, with what was found next to each line."""

from collections.abc import Mapping, Sequence

import yaml

from xdplab.cli.lab.look import Card, End, Proposal, Senders
from xdplab.cli.lab.wanted import LabHosts, Part
from xdplab.model import InputError
from xdplab.model.testbed import LINKS, PortRole

_VIRTUAL = "veth"
_PARTS = {
    "tester": "A: sends and measures",
    "forwarder": "B: the switch under test",
    "far": "C: sends frames back; with clocks of its own round trips only (path reflect)",
}


def testbed_text(
    lab: LabHosts,
    roles: Mapping[PortRole, End],
    found: Mapping[End, Card],
    cpus: Mapping[Part, Proposal | None],
    sending: Senders,
    trex: str | None,
) -> str:
    """YAML of a testbed of kind `hosts`; with the folder of a TRex the tester's ports are its cards."""
    owned = numbers(roles) if trex else {}
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        "# Written by `xdplab lab init`: what it found, for you to correct. `xdplab doctor --testbed` with this file",
        "# checks it, `xdplab schema` prints every key. Cables, as frames showed them:",
        *(f"#     {roles[left]} ({left}) ---- ({right}) {roles[right]}" for left, right in LINKS if left in roles),
        "schema: 1",
        f"name: {lab.name}",
        "kind: hosts",
        "mtu: 1500                        # of all ports; up to 9702, above 3498 only for what docs/first-lab.md says",
        "queues: 1                        # of the forwarder's ports; more need flows (traffic.flows) to spread",
        f"senders: {sending.number}                       # {sending.why}",
        "hosts:",
    ]
    for part, host in lab.hosts.items():
        given = host.model_dump(mode="json", exclude_unset=True, exclude={"offer", "cpus"})
        lines += [f"  {part}:  # {_PARTS[part]}", *_keys(given), *_cpus(host.cpus, cpus[part])]
    if trex:
        lines.append(f"trex: {{folder: {trex}, config: {CONFIG}}}  # both on the tester")
    lines.append("ports:")
    lines += [_port(role, end, found[end], owned.get(role)) for role, end in roles.items()]
    if "d0" not in roles:
        lines += [
            "  # d0, d1: two more ports of the tester, cabled to each other, on which it measures itself before a run;",
            "  # without them the top load is speed_mbps of the ports, and the tester's own share is not known",
        ]
    return "\n".join([*lines, ""])


def _keys(given: Mapping[str, object]) -> list[str]:
    text = yaml.safe_dump(dict(given), sort_keys=False, default_flow_style=False)
    return [f"    {line}" for line in text.splitlines()]


def _cpus(given: tuple[int, ...] | None, proposal: Proposal | None) -> list[str]:
    if given is not None:
        return [f"    cpus: {list(given)}  # as given"]
    if proposal is None:
        return ["    # cpus: left to xdplab, because another host is the same machine; give each its own, e.g. [2, 3]"]
    return [f"    cpus: {list(proposal.cpus)}  # {proposal.why}"]


def _port(role: PortRole, end: End, card: Card, trex: int | None) -> str:
    keys = {
        "host": end.part,
        **({"ifname": end.ifname} if trex is None else {"trex": str(trex)}),
        "mac": f'"{card.mac}"',
        "driver": card.driver,
        "pci": f'"{card.pci}"',
    }
    if card.driver != _VIRTUAL:
        keys["speed_mbps"] = str(card.speed_mbps or "")
    given = ", ".join(f"{key}: {value}" for key, value in keys.items() if value.strip('"'))
    beside = [
        "" if trex is None else f"{end.ifname} of the kernel",
        f"firmware {card.firmware}" if card.firmware else "",
        "" if card.node is None else f"NUMA node {card.node}",
    ]
    if card.driver != _VIRTUAL and not card.speed_mbps:
        beside.append("its speed is unknown: give speed_mbps")
    comment = ", ".join(filter(None, beside))
    return f"  {role}: {{{given}}}" + (f"  # {comment}" if comment else "")


# The configuration of a TRex that has the tester's cards: by address on the bus, because their interfaces vanish.

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
