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
from xdplab.forwarders.scrape import Line
from xdplab.model import Model, PointFailed

#: The command of our patches; a build is asked for it like for the key of an option.
SHOW = "netdev-afxdp/show"

#: `port 1: b0 (afxdp: n_rxq=1, xdp-mode=native)`, `port 0: xdplab0 (tap)`; of a system port `port 2: b1`.
_PORT = Line("dpctl/show", r" *port \d+:", r" (?P<name>\S+)( \((?P<type>[\w-]+)(: (?P<config>.*))?\))?")
_LOOKUPS = Line("dpctl/show", " *lookups:", r" hit:(?P<hit>\d+) missed:(?P<missed>\d+) lost:(?P<lost>\d+)")
_THREAD = Line("pmd-rxq-show", "pmd thread", r" numa_id -?\d+ core_id (?P<core>\d+):")
_QUEUE = Line("pmd-rxq-show", " *port:", r" (?P<port>\S+) +queue-id: +(?P<queue>\d+) .*")
_DROP = Line("coverage/show", r"(?P<name>\w*drop\w*)", r" .*total: (?P<total>\d+)")
_EVENT = Line("coverage/show", r"(?P<name>afxdp_\w+)", r" .*total: (?P<total>\d+)")


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
    """Port -> its configuration, of `dpctl/show`."""
    found = {}
    for port in _PORT.each(dpctl_show):
        items = [item.split("=", 1) for item in (port["config"] or "").split(", ") if "=" in item]
        found[str(port["name"])] = {**({"type": port["type"]} if port["type"] else {}), **dict(items)}
    return found


def datapath_lookups(dpctl_show: str) -> dict[str, int]:
    """Frames that a megaflow took (`hit`), that none took (`missed`), and of these the `lost`; of `dpctl/show`."""
    return {name: int(number or 0) for name, number in _LOOKUPS.one(dpctl_show).items()}


def ovsdb_map(value: list[Any]) -> dict[str, str]:
    """`["map", [["n_rxq", "1"]]]` -> {"n_rxq": "1"} (RFC 7047 section 5.1)."""
    return {key: str(value) for key, value in value[1]}


def rxq_places(pmd_rxq_show: str) -> tuple[RxqPlace, ...]:
    """Every polled queue, of `dpif-netdev/pmd-rxq-show`."""
    places, core = [], None
    for line in pmd_rxq_show.splitlines():
        if thread := _THREAD.read(line):
            core = thread["core"]
        elif queue := _QUEUE.read(line):
            if core is None:
                raise PointFailed(f"pmd-rxq-show: no thread above {line.strip()!r}")
            places.append(RxqPlace.model_validate({**queue, "core": core}))
    return tuple(places)


def afxdp_show(text: str) -> dict[str, Any]:
    """Port -> what `netdev-afxdp/show` tells of it; {} when it is no JSON (a build without our patches)."""
    try:
        asked_for = json.loads(text)
    except ValueError:
        return {}
    return asked_for if isinstance(asked_for, dict) else {}


def busy_polling(asked_for: Mapping[str, str], show: Mapping[str, Any]) -> dict[str, str]:
    """Keys `napi-id` and `busy-poll-active` of a port as they are now; {} when `netdev-afxdp/show` does not tell.

    Its status keeps what was true when the link changed last; up to Linux 6.12 the first frame brings a socket its NAPI
    id. Asking for it by `netdev-afxdp/show` is also what makes the daemon see it.
    """
    napis = [queue["napi-id"] for queue in show.get("queues", ()) if queue and "napi-id" in queue]
    if not napis:
        return {}
    asked = asked_for.get("busy-poll", "0") != "0" and asked_for.get("prefer-busy-poll") == "true"
    return {"napi-id": ",".join(map(str, napis)), "busy-poll-active": str(asked and all(napis)).lower()}


def coverage_totals(coverage_show: str) -> dict[str, int]:
    """Event of netdev-afxdp -> times since the daemon's start, of `coverage/show`."""
    return {str(event["name"]): int(event["total"] or 0) for event in _EVENT.each(coverage_show)}


def drops(coverage_show: str) -> dict[str, int]:
    """Reason for which the datapath or the rules drop frames -> their number so far, of `coverage/show`."""
    return {str(event["name"]): int(event["total"] or 0) for event in _DROP.each(coverage_show)}


def free_mbufs(mempool_info: str) -> int | None:
    """Of all mempools, of `netdev-dpdk/get-mempool-info` (DPDK's rte_mempool_dump); None where it tells of none."""
    found = re.findall(r"^ *(?:total_cache_count|common_pool_count)=(\d+)$", mempool_info, re.MULTILINE)
    return sum(map(int, found)) if found else None


def rules_without_output(dump_flows: str) -> dict[str, int]:
    """Rule of which frames go nowhere -> how many have met it, of `ovs-ofctl dump-flows`."""
    found = {}
    for line in dump_flows.splitlines():
        match = re.search(r"table=(\d+), n_packets=(\d+), .*?(?:idle_age=\d+, )?(\S*) actions=drop$", line.strip())
        if match:
            found[f"rule {match[3]!r} of table {match[1]}, which drops:"] = int(match[2])
    return found


def misses(dump_tables: str) -> dict[str, int]:
    """Table -> frames that met no rule in it, of `ovs-ofctl dump-tables`; `ditto` is what the one before has."""
    found, missed = {}, 0
    for number, counts in re.findall(r"^ +tables? (\d+)[^:]*:(?: ditto|[^\n]*\n +([^\n]*))", dump_tables, re.MULTILINE):
        read = re.search(r"lookup=(\d+), matched=(\d+)", counts)
        missed = int(read[1]) - int(read[2]) if read else missed
        found[f"no rule of table {number}:"] = missed
    return found
