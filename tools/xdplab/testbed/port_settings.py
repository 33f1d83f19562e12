# SPDX-License-Identifier: Apache-2.0
"""What a run changes on interfaces that were there before it, and how each comes to be as it was.

A port is up and promiscuous, without offloads that merge or split frames, and silent (no IPv6 of the kernel's own).
"""

import ipaddress
import itertools
import json
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from xdplab.hosts import Host
from xdplab.hosts.agent.ports import THINGS, ipv6_switch as ipv6_switch
from xdplab.hosts.kernel import driver_facts, is_veth, xdp_held
from xdplab.hosts.waiting import comes_true
from xdplab.model import InputError, XdplabError
from xdplab.testbed.base import Port
from xdplab.testbed.needs import BENCHMARK

_OFFLOADS_OFF = ("rx-checksumming", "tx-checksumming", "scatter-gather", "tcp-segmentation-offload",
                 "generic-segmentation-offload", "generic-receive-offload", "large-receive-offload",
                 "rx-vlan-offload", "tx-vlan-offload")  # fmt: skip
#: How long what goes by itself may take, and how long is tried to put back what does not.
_SETTLES_S, _RESTORE_S = 0.1, 1.0
#: Of a snapshot: which card it is, and what `prepare` changes.
PREPARED = ("bus", "mac", "mtu", "up", "promiscuous", "disable_ipv6", "offloads", "addresses")
#: Characters of a value that are shown, such as those of a table.
_SHOWN = 60


def read_link(host: Host, ifname: str) -> dict[str, Any]:
    """`ip -json -details address show` of one interface.

    Raises:
        InputError: there is none of that name.
    """
    done = host.run(["ip", "-json", "-details", "address", "show", "dev", ifname], check=False)
    if done.returncode:
        raise InputError(f"{host.name}: no interface {ifname!r} ({done.complaint}); `ip link` there shows them")
    (link,) = [link for link in json.loads(done.stdout) if link]
    assert isinstance(link, dict)
    return link


def features(host: Host, ifname: str) -> dict[str, str]:
    """Offloads that can be changed -> `on` or `off`."""
    shown = host.run(["ethtool", "-k", ifname]).stdout
    return dict(re.findall(r"^\s*([\w-]+): (on|off)(?: \[requested \w+\])?$", shown, re.MULTILINE))


def snapshot(host: Host, ifname: str) -> dict[str, Any]:
    """All that it is set to, and which card it is, in a form that JSON keeps."""
    return {"bus": driver_facts(host, ifname).get("bus-info", ""), **host.read_port(ifname)}


def prepare(port: Port, *, napi: bool) -> None:
    """Make a port fit for tests. `napi`: frames are redirected to it by XDP, which veth takes only with NAPI on."""
    host, ifname = port.host, port.ifname
    host.run(["ip", "link", "set", "dev", ifname, "mtu", str(port.mtu)])
    if host.exists(ipv6_switch(ifname)):  # after the MTU: see `restore`
        host.write(ipv6_switch(ifname), "1")
    _switch(host, ifname, dict.fromkeys(_OFFLOADS_OFF, "off"))
    host.run(["ip", "link", "set", "dev", ifname, "up", "promisc", "on"])
    if napi and is_veth(host, ifname):  # it starts when gro changes while the link is up
        host.run(["ethtool", "-K", ifname, "gro", "on"])


def refuse_other_card(host: Host, ifname: str, saved: dict[str, Any]) -> None:
    """What is saved of one card is not put on another that has its name now.

    Raises:
        XdplabError: it is another one.
    """
    found = {"mac": ("MAC", read_link(host, ifname)["address"])}
    if saved.get("bus"):
        found["bus"] = ("bus address", driver_facts(host, ifname).get("bus-info", ""))
    for key, (what, now) in found.items():
        if now != saved[key]:
            raise XdplabError(
                f"{host.name}: {ifname} has {what} {now}, but what is to be put back is of {saved[key]}: "
                f"give that card its name again, reboot the host, which resets it, or `xdplab restore --forget ROLE`"
            )


def theirs(now: Any, *ours: Any) -> frozenset[str] | None:
    """Of which parts it is none of `ours`, what a run found and set; None: of the whole, which has no parts.

    A run that had begun to put it back has done so on some of them.
    """
    if not all(isinstance(each, dict) for each in (now, *ours)):
        return frozenset() if now in ours else None
    return frozenset(
        name for name in now if theirs(now[name], *(each[name] for each in ours if name in each)) != frozenset()
    )


def not_ours(what: str, now: Any, found: Any, was_set: Any, so: str = "left alone") -> str:
    """The sentence on it."""
    return f"{what} is {now}, which is neither what the run found ({found}) nor what it set ({was_set}): {so}"


def changed_since(host: Host, ifname: str, *ours: dict[str, Any]) -> dict[str, Any]:
    """What somebody has set since a run, with its value; of the rest nobody knows what a killed forwarder had set."""
    read = host.read_port(ifname)
    now = {key: read[key] for key in ("mtu", "up", "promiscuous", "disable_ipv6") if key in read}
    # IPv6 is switched off where the MTU lets it be: see `restore`
    changed = theirs(now, *ours, {"disable_ipv6": "1"}) or ()
    return {key: value for key, value in now.items() if key in changed}


def changed_after(host: Host, ifname: str, found: dict[str, Any], at_end: dict[str, Any]) -> dict[str, set[str]]:
    """Addresses, qdiscs, filters and rules that came or went after the run's last session: kind -> names.

    `at_end`: those that were there then. A qdisc stays with a filter that came to it.
    """
    now, changed = host.read_port(ifname), dict[str, set[str]]()
    for kind in THINGS:
        if kind in found and kind in now and kind in at_end:
            differing = found[kind].keys() ^ now[kind].keys()
            changed[kind] = {name for name in differing if (name in now[kind]) != (name in at_end[kind])}
    if changed.get("filters", set()) & now.get("filters", {}).keys():
        changed["qdiscs"] = changed.get("qdiscs", set()) | (now["qdiscs"].keys() - found.get("qdiscs", {}).keys())
    return {kind: names for kind, names in changed.items() if names}


def restore(
    host: Host, ifname: str, saved: dict[str, Any], theirs: Mapping[str, Collection[str]] = MappingProxyType({})
) -> None:
    """Put everything of a `snapshot` back and verify it, each setting even if another fails.

    What `theirs` names (`changed_after`) stays as it is. Addresses that are there are somebody else's, but for those of
    benchmarks.

    Raises:
        XdplabError: something stays changed, or it is another card.
    """
    refuse_other_card(host, ifname, saved)
    wanted, there = {kind: value for kind, value in saved.items() if kind != "bus"}, host.read_port(ifname)
    new = there.get("addresses", {}).keys() - saved.get("addresses", {}).keys()
    others = [name for name in new if ipaddress.ip_interface(name) not in BENCHMARK]
    for kind, names in (("addresses", others), *theirs.items()):
        was, now = wanted.get(kind, {}), there.get(kind, {})
        kept = {name: now[name] for name in names if name in now}
        wanted[kind] = {**{name: each for name, each in was.items() if name not in names}, **kept}
    put_back(host, ifname, wanted)


def put_back(host: Host, ifname: str, was: dict[str, Any]) -> None:
    """Have an interface as `read_port` found it, verified.

    Raises:
        XdplabError: something stays changed.
    """
    left, failed = dict[str, str](), list[str]()

    def is_as_before() -> bool:
        nonlocal left, failed
        failed = host.put_port_back(ifname, was)
        left = differences(host.read_port(ifname), was)
        return not left

    if not comes_true(is_as_before, _RESTORE_S, 0.1):
        stays = [f"{what}: {change}" for what, change in left.items()]
        if "xdp" in left and (program := host.xdp(ifname)) is not None:
            stays.append(f"{program.prog_name} cannot be detached{xdp_held(host, ifname, program.prog_id)}")
        raise XdplabError(f"{host.name}: {ifname}: could not be put back: {'; '.join([*stays, *failed])}")


def changed(host: Host, ifname: str, was: dict[str, Any]) -> dict[str, str]:
    """What is not as `read_port` found it, as `differences`, once what goes by itself is gone.

    Such as an XDP program that a process held which has ended.
    """
    found = differences(host.read_port(ifname), was)

    def is_as_before() -> bool:
        nonlocal found
        found = differences(host.read_port(ifname), was)
        return not found

    if found:
        comes_true(is_as_before, _SETTLES_S, 0.02)
    return found


def differences(now: dict[str, Any], was: dict[str, Any]) -> dict[str, str]:
    """Of what `read_port` gives: setting -> `1500 to 3542`."""
    found = {}
    for kind, before in was.items():
        after = now.get(kind)
        values: dict[str, Any] = after if isinstance(after, dict) else {}
        if kind in THINGS:
            gone, new = (
                [name for name in a if a[name] != b.get(name)] for a, b in ((before, values), (values, before))
            )
            if gone or new:
                found[kind] = f"{', '.join(gone) or 'none'} to {', '.join(new) or 'none'}"
        elif isinstance(before, dict):
            found |= {
                f"{kind} {name}": f"{_shown(before.get(name))} to {_shown(values.get(name))}"
                for name in [*before, *(values.keys() - before.keys())]
                if before.get(name) != values.get(name)
            }
        elif before != after:
            found[kind] = f"{_shown(before)} to {_shown(after)}"
    return found


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return "none" if value in (None, "") else text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _switch(host: Host, ifname: str, wanted: dict[str, str]) -> None:
    """Bring offloads to what is wanted.

    All at once; what is left one at a time, because ethtool gives up at the first that is fixed; some of that twice,
    because a group's name switches all of it.
    """
    for at_once in (True, False, False):
        present = features(host, ifname)
        differing = [(name, value) for name, value in wanted.items() if present.get(name, value) != value]
        if not differing:
            return
        for some in [differing] if at_once else [[each] for each in differing]:
            host.run(["ethtool", "-K", ifname, *itertools.chain(*some)], check=False)
