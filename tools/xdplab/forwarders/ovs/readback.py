# SPDX-License-Identifier: Apache-2.0
"""What a running Open vSwitch shows of itself: parsers of its commands' answers, for the record and for proofs.

Sources: `dpctl/show` (netdev_get_config), the status column of Interface, `netdev-afxdp/show` of our patches (JSON),
`dpif-netdev/pmd-rxq-show`. Statistics of ports are asked over OpenFlow: the column of Interface lags by 5 s.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from xdplab.forwarders.ovs.daemon import Ovs
from xdplab.model import Model, XdplabError

#: The command of our patches; a build is asked for it like for the key of an option.
SHOW = "netdev-afxdp/show"


class RxqPlace(Model):
    """Which core polls a receive queue."""

    port: str
    queue: int
    core: int


def ports_shown(ovs: Ovs, *, patched: bool) -> dict[str, dict[str, Any]]:
    """Port -> what it shows of itself: configuration, status, and `SHOW` where a build has it (`patched`)."""
    configs = port_configs(ovs.control("dpctl/show"))
    statuses = {name: ovsdb_map(status) for name, status in ovs.interfaces("status").items()}
    found: dict[str, dict[str, Any]] = {name: {**configs.get(name, {}), **statuses.get(name, {})} for name in ovs.names}
    if patched:
        shown = afxdp_show(ovs.control(SHOW))
        for name in ovs.names:
            show = shown.get(name, {})
            found[name] |= {**busy_polling(found[name], show), "show": show}
    return found


def queues(ovs: Ovs) -> tuple[RxqPlace, ...]:
    """Of all ports, where each is polled."""
    return rxq_places(ovs.control("dpif-netdev/pmd-rxq-show"))


def port_configs(dpctl_show: str) -> dict[str, dict[str, str]]:
    """Port -> its configuration, of `dpctl/show`: `port 1: b0 (afxdp: n_rxq=1, xdp-mode=native)`."""
    shown = re.findall(r"^ *port \d+: (\S+) \(([\w-]+): (.*)\)$", dpctl_show, re.MULTILINE)
    return {
        name: {"type": kind, **dict(item.split("=", 1) for item in text.split(", ") if "=" in item)}
        for name, kind, text in shown
    }


def missed_lookups(dpctl_show: str) -> int:
    """Frames that missed every megaflow, of `dpctl/show`: `lookups: hit:12 missed:3 lost:0`.

    Raises:
        XdplabError: it does not show them.
    """
    found = re.search(r"^ *lookups: hit:\d+ missed:(\d+) ", dpctl_show, re.MULTILINE)
    if found is None:
        raise XdplabError("dpctl/show has no line of lookups")
    return int(found[1])


def ovsdb_map(value: list[Any]) -> dict[str, str]:
    """`["map", [["n_rxq", "1"]]]` -> {"n_rxq": "1"} (RFC 7047 section 5.1)."""
    return {key: str(value) for key, value in value[1]}


def rxq_places(pmd_rxq_show: str) -> tuple[RxqPlace, ...]:
    """Every polled queue, of `dpif-netdev/pmd-rxq-show`."""
    places, core = [], None
    for line in pmd_rxq_show.splitlines():
        thread = re.match(r"pmd thread numa_id -?\d+ core_id (\d+):", line)
        queue = re.match(r" *port: (\S+) +queue-id: +(\d+) ", line)
        if thread:
            core = int(thread.group(1))
        elif queue and core is not None:
            places.append(RxqPlace(port=queue.group(1), queue=int(queue.group(2)), core=core))
    return tuple(places)


def afxdp_show(text: str) -> dict[str, Any]:
    """Port -> what `netdev-afxdp/show` tells of it; {} when it is no JSON (a build without our patches)."""
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def busy_polling(told: Mapping[str, str], show: Mapping[str, Any]) -> dict[str, str]:
    """Keys `napi-id` and `busy-poll-active` of a port as they are now; {} when `netdev-afxdp/show` does not tell.

    Its status keeps what was true when the link changed last; up to Linux 6.12 the first frame brings a socket its NAPI
    id. Asking for it by `netdev-afxdp/show` is also what makes the daemon see it.
    """
    napis = [queue["napi-id"] for queue in show.get("queues", ()) if queue and "napi-id" in queue]
    if not napis:
        return {}
    asked = told.get("busy-poll", "0") != "0" and told.get("prefer-busy-poll") == "true"
    return {"napi-id": ",".join(map(str, napis)), "busy-poll-active": str(asked and all(napis)).lower()}


def coverage_totals(coverage_show: str, prefix: str) -> dict[str, int]:
    """Event -> times since the daemon's start, of `coverage/show`."""
    found = re.findall(rf"^({prefix}\w*) .*total: (\d+)$", coverage_show, re.MULTILINE)
    return {event: int(total) for event, total in found}
