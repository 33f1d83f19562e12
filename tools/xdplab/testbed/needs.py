# SPDX-License-Identifier: Apache-2.0
"""Who needs this interface, this datapath: asked before a run, `restore`, `lab init` or DPDK's own driver takes it."""

import ipaddress
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from xdplab.hosts import Host
from xdplab.hosts.kernel import DATAPATH, link_names
from xdplab.model import InputError, XdplabError

#: Kinds whose `link` is the other end of a pair, and nothing below them.
_PAIRS = ("veth", "netkit")
#: Kinds of queue pairs that the kernel makes for each RDMA device (rdma-resource(8)).
_OF_RDMA_ITSELF = ("SMI", "GSI")
#: Of benchmarks (RFC 2544 appendix C.2.2): what a run gives to a port of the tester.
BENCHMARK = ipaddress.ip_network("198.18.0.0/15")


class Need(NamedTuple):
    """Why an interface is not free, and the command that frees it; empty: only somebody else can."""

    what: str
    frees: str


class Ours(NamedTuple):
    """What the state file says that a killed run left on an interface: nobody else needs it."""

    masters: Collection[str] = ()
    xdp_program: int = 0


def who_needs(host: Host, ifname: str, ours: Ours | None = None) -> list[Need]:
    """Everybody who needs an interface; nobody: it is free. `ours`: of a run that was killed.

    Raises:
        InputError: there is none of that name.
    """
    shown = json.loads(host.run(["ip", "-json", "-details", "address", "show"]).stdout)
    links = {link["ifname"]: link for link in shown if link}
    if ifname not in links:
        raise InputError(f"{host.name}: no interface {ifname!r}; `ip link` there shows them")
    return [
        *_by_addresses(links[ifname], ours),
        *_by_routes(host, ifname),
        *_by_links(links, ifname, ours),
        *_by_xdp(host, ifname, ours),
        *_by_functions(host, ifname),
        *_by_ssh(host, links, ifname),
    ]


def refuse_if_needed(host: Host, ifname: str, ours: Ours | None = None) -> None:
    """An interface that somebody needs is not taken.

    Raises:
        InputError: who needs it, and how it is freed.
    """
    if needs := who_needs(host, ifname, ours):
        raise InputError(f"{host.name}: {ifname} {needed(needs)}: it is in use; {how_freed(needs)}")


def needed(needs: Collection[Need]) -> str:
    """`has address 192.0.2.1/24, belongs to br0`."""
    return ", ".join(need.what for need in needs)


def how_freed(needs: Collection[Need]) -> str:
    if not all(need.frees for need in needs):
        return "give the testbed another interface"
    return f"{', '.join(f'`{frees}`' for frees in dict.fromkeys(need.frees for need in needs))} if nobody needs it"


def who_has(host: Host, forwarder: str, names: Collection[str]) -> str | None:
    """None, or which links or datapaths that a forwarder makes are there already, and are then somebody else's."""
    there = set(names) & link_names(host) if names else set()
    if DATAPATH in names:  # a daemon's start deletes every datapath of the kernel but that one (ofproto-dpif.c)
        shown = host.run(["ip", "-json", "link", "show", "type", "openvswitch"], check=False).stdout
        there |= {link["ifname"] for link in json.loads(shown.strip() or "[]") if link}
    if not there:
        return None
    what = f"{', '.join(sorted(there))} of somebody else is there, which {forwarder} would take over and remove"
    return f"{host.name}: {what}; give it another host"


def _by_ssh(host: Host, links: Mapping[str, Any], ifname: str) -> Iterator[Need]:
    """Whatever is below or above the interface that the connection comes in by, or that answers go out by."""
    through = _ssh_interfaces(host, links)
    if ifname in through:
        yield Need("carries the SSH connection", "")
        return
    for each in sorted(through):
        if ifname in _stacked(links, each):
            yield Need(f"is below or above {each}, which carries the SSH connection", "")


def _ssh_interfaces(host: Host, links: Mapping[str, Any]) -> set[str]:
    if not host.reached_by:
        return set()
    client, _, server, _ = host.reached_by.split()
    address, _, zone = server.partition("%")
    has_it = {
        name for name, link in links.items() if any(each["local"] == address for each in link.get("addr_info", ()))
    }
    peer, _, via = client.partition("%")
    asked = ["ip", "-json", "route", "get", peer, *(["oif", via] if via else [])]
    routes = json.loads(host.run(asked, check=False).stdout.strip() or "[]")
    return (({zone} if zone else has_it) | {route["dev"] for route in routes if "dev" in route}) - {"lo"}


def _stacked(links: Mapping[str, Any], first: str) -> set[str]:
    """All that is connected with a link by `master` and `link`, up and down."""
    edges = [
        (name, other)
        for name, link in links.items()
        for other in (link.get("master"), _below(link))
        if other is not None
    ]
    found, more = set(), {first}
    while more:
        found |= more
        more = {b for edge in edges for a, b in (edge, edge[::-1]) if a in found} - found
    return found


def _below(link: Mapping[str, Any]) -> str | None:
    """The lower link of a VLAN, a macvlan and the like, where it is in this namespace."""
    paired = link.get("linkinfo", {}).get("info_kind") in _PAIRS
    return None if paired or "link_netnsid" in link else link.get("link")


def _by_addresses(link: Mapping[str, Any], ours: Ours | None) -> Iterator[Need]:
    for each in link.get("addr_info", ()):
        local = ipaddress.ip_address(each["local"])
        of_a_run = ours is not None and local in BENCHMARK
        if (each["scope"] != "link" or local.version == 4) and not of_a_run:
            address = f"{each['local']}/{each['prefixlen']}"
            yield Need(f"has address {address}", f"ip address delete {address} dev {link['ifname']}")


def _by_routes(host: Host, ifname: str) -> Iterator[Need]:
    """But for those that the kernel gives to each address, and to a link without one."""
    for family in ("-4", "-6"):
        for route in _routes(host, family, ifname):
            hops = [hop.get("dev") for hop in route.get("nexthops", ())]
            if route.get("protocol") != "kernel" and ifname in (route.get("dev"), *hops):
                what = "the default route" if route["dst"] == "default" else f"route {route['dst']}"
                metric = f" metric {route['metric']}" if "metric" in route else ""
                one = f"delete {route['dst']} table {route.get('table', 'main')}{metric}"
                yield Need(f"carries {what}", f"ip {family} route {one if hops else f'flush dev {ifname}'}")


def _routes(host: Host, family: str, ifname: str) -> list[dict[str, Any]]:
    """All of the host: of `dev IFNAME`, ip(8) leaves out those with several next hops."""
    asked = ["ip", "-json", family, "route", "show", "table", "all"]
    try:
        shown = host.run(asked, check=False).stdout
    except XdplabError:  # a router's whole table is longer than an answer may be
        shown = host.run([*asked, "dev", ifname], check=False).stdout
    found: list[dict[str, Any]] = json.loads(shown.strip() or "[]")
    return found


def _by_links(links: Mapping[str, Any], ifname: str, ours: Ours | None) -> Iterator[Need]:
    master = links[ifname].get("master")
    if master and master not in (ours.masters if ours else ()):
        yield Need(f"belongs to {master}", f"ip link set {ifname} nomaster")
    for name, link in links.items():
        if _below(link) == ifname:
            kind = link.get("linkinfo", {}).get("info_kind", "link")
            yield Need(f"carries {name} ({kind})", f"ip link delete dev {name}")


def _by_xdp(host: Host, ifname: str, ours: Ours | None) -> Iterator[Need]:
    found = host.xdp(ifname)
    if found and found.prog_id != (ours.xdp_program if ours else 0):
        frees = f"ip link set dev {ifname} {'xdpgeneric' if found.mode == 'generic' else 'xdp'} off"
        yield Need(f"carries XDP program {found.prog_name!r} ({found.mode})", frees)


def _by_functions(host: Host, ifname: str) -> Iterator[Need]:
    """Virtual functions of a card, and programs that use it for RDMA."""
    device = f"/sys/class/net/{ifname}/device"
    functions = host.read(f"{device}/sriov_numvfs") if host.exists(f"{device}/sriov_numvfs") else "0"
    if functions != "0":
        yield Need(f"has {functions} virtual functions", f"echo 0 > {device}/sriov_numvfs")
    for name in host.names(f"{device}/infiniband") if host.exists(f"{device}/infiniband") else ():
        shown = host.run(["rdma", "-j", "resource", "show", "qp", "link", name], check=False).stdout.strip()
        for user in sorted({pair["comm"] for pair in json.loads(shown or "[]") if pair["type"] not in _OF_RDMA_ITSELF}):
            yield Need(f"is used for RDMA by {user}", "")
