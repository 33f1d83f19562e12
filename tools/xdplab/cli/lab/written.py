# SPDX-License-Identifier: Apache-2.0
"""The testbed file that `xdplab lab init` writes, with what was found next to each line."""

from collections.abc import Mapping

import yaml

from xdplab.cli.lab.cabling import End
from xdplab.cli.lab.cpus import Proposal, Senders
from xdplab.cli.lab.look import Card
from xdplab.cli.lab.trex import CONFIG, numbers
from xdplab.cli.lab.wanted import LabHosts, Part
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
