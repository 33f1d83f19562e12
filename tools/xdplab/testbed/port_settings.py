# SPDX-License-Identifier: Apache-2.0
"""What a run changes on interfaces that were there before it, and how each comes to be as it was.

A port is up and promiscuous, without offloads that merge or split frames, and silent (no IPv6 of the kernel's own).
"""

import itertools
import json
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from xdplab.hosts import Host
from xdplab.hosts.kernel import driver_facts, is_veth
from xdplab.hosts.waiting import comes_true
from xdplab.model import InputError, XdplabError, do_each
from xdplab.testbed.base import Port
from xdplab.testbed.needs import BENCHMARK

_OFFLOADS_OFF = ("rx-checksumming", "tx-checksumming", "scatter-gather", "tcp-segmentation-offload",
                 "generic-segmentation-offload", "generic-receive-offload", "large-receive-offload",
                 "rx-vlan-offload", "tx-vlan-offload")  # fmt: skip
#: veth takes segmentation offload back a moment after its peer's XDP program is gone.
_RESTORE_S = 3.0
#: From linux/if.h.
_UP, _PROMISC = "UP", "PROMISC"


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
    """Everything that `prepare` may change, in a form that JSON keeps."""
    link = read_link(host, ifname)
    return {
        "mac": link["address"],
        "bus": driver_facts(host, ifname).get("bus-info", ""),
        "mtu": link["mtu"],
        "up": _UP in link["flags"],
        "promisc": link.get("promiscuity", 0) > 0 and _PROMISC in link["flags"],
        "features": features(host, ifname),
        "disable_ipv6": host.read(ipv6_switch(ifname)) if host.exists(ipv6_switch(ifname)) else None,
    }


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


def changed_since(host: Host, ifname: str, saved: dict[str, Any], ours: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What somebody has set since a run: neither what that found nor one of `ours`; with its value.

    Not offloads: one that is neither on nor off is none.
    """
    now = snapshot(host, ifname)
    # IPv6 is switched off where the MTU lets it be: see `restore`
    of_a_run = [saved, *ours, {"disable_ipv6": None}, {"disable_ipv6": "1"}]
    return {
        key: now[key]
        for key in ("mtu", "up", "promisc", "disable_ipv6")
        if now[key] not in [each[key] for each in of_a_run if key in each]
    }


def restore(host: Host, ifname: str, saved: dict[str, Any]) -> None:
    """Put everything back and verify it, each setting even if another fails.

    Raises:
        XdplabError: something stays changed, or it is another card.
    """
    refuse_other_card(host, ifname, saved)
    state = ["up" if saved["up"] else "down", "promisc", "on" if saved["promisc"] else "off"]

    def verify() -> None:
        changed: list[str] = []

        def is_as_before() -> bool:
            _switch(host, ifname, saved["features"])
            changed[:] = _differences(snapshot(host, ifname), saved)
            return not changed

        if not comes_true(is_as_before, _RESTORE_S, 0.1):
            raise XdplabError(f"{host.name}: {ifname}: not as before the run: {'; '.join(changed)}")

    ipv6 = saved["disable_ipv6"]
    do_each(
        f"{host.name}: {ifname}",
        # IPv6 takes no MTU below 1280: its folder of settings goes with one, and is a new one after it (addrconf.c)
        partial(host.run, ["ip", "link", "set", "dev", ifname, "mtu", str(saved["mtu"])]),
        *([] if ipv6 is None else [partial(host.write, ipv6_switch(ifname), ipv6)]),
        partial(host.run, ["ip", "address", "flush", "dev", ifname, "to", str(BENCHMARK)]),
        partial(host.run, ["ip", "link", "set", "dev", ifname, *state]),
        verify,
    )


def _differences(now: dict[str, Any], saved: dict[str, Any]) -> list[str]:
    changed = [f"{key}: {now[key]}, was {saved[key]}" for key in saved if key != "features" and now[key] != saved[key]]
    changed += [
        f"{name}: {now['features'].get(name)}, was {value}"
        for name, value in saved["features"].items()
        if now["features"].get(name) != value
    ]
    return changed


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


def ipv6_switch(ifname: str) -> str:
    """File that switches IPv6 off on an interface; there is none while its MTU is below 1280."""
    # a dot in a name is no separator in a path below /proc/sys
    return f"/proc/sys/net/ipv6/conf/{ifname}/disable_ipv6"
