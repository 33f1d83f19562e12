# SPDX-License-Identifier: Apache-2.0
"""The kernel as a router: its routes, and nftables for access lists, connections and translation."""

import json
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from xdplab.forwarders.base import Dut, Forwarder
from xdplab.forwarders.work import NAT_ADDRESS, TRAP, Side, acl_rules, prefixes, sides
from xdplab.hosts import Host
from xdplab.model import MissingProgram, Model
from xdplab.model.pipeline import ROUTED

_TABLE = "xdplab"
#: Of a port: forwards, and takes frames from anywhere (Documentation/networking/ip-sysctl.rst).
_SYSCTLS = {"forwarding": "1", "rp_filter": "0"}
#: Of connection tracking (nf_conntrack_zones_common.h: 16 bits), but the one that everything else is in.
_ZONES = 0xFFFF
#: Counters of the traffic's rules, as `Forwarder.rule_hits` calls them.
_COUNTERS = ("forth", "back")


_FLOWTABLE = "flowtable known {{\nhook ingress priority filter\ndevices = {{ {devices} }}\n}}"
_CONNECTIONS = "/proc/net/nf_conntrack"


class RouterOptions(Model):
    """What of the kernel is used beside routes and rules."""

    #: Connections that are known pass by nftables' flowtable, before rules and routes are looked at.
    flowtable: bool = False


class LinuxRouter(Forwarder[RouterOptions]):
    """Routes of a namespace, in softirq context."""

    name: ClassVar[str] = "linux-router"
    options_model: ClassVar[type[Model]] = RouterOptions
    in_kernel: ClassVar[bool] = True
    pipelines: ClassVar[tuple[str, ...]] = ROUTED

    def __init__(self, options: RouterOptions) -> None:
        super().__init__(options)
        self._dut: Dut | None = None
        self._found: dict[str, str] = {}

    def supported(self, dut: Dut) -> str | None:
        """In a namespace of the run, which goes with all that is set there."""
        if any(port.lasting for port in dut.ports):
            return "linux-router sets routes and rules of a whole host, which only a namespace of the run loses again"
        if not self._takes_nft(dut):
            return None
        if self.options.flowtable and dut.pipeline.kind == "acl":
            return "flowtable=true: a connection that is known meets no access list any more"
        try:
            table = f"table ip {_TABLE} {{\n{_FLOWTABLE.format(devices='lo') if self.options.flowtable else ''}\n}}\n"
            done = dut.host.run(["nft", "--check", "-f", "-"], stdin=table, check=False)
        except MissingProgram:
            return f"pipeline {dut.pipeline.kind} takes nft: apt install nftables"
        if done.returncode and self.options.flowtable:
            return "flowtable=true: this kernel has no flowtables (CONFIG_NF_FLOW_TABLE)"
        return None

    def start(self, dut: Dut) -> None:
        """Addresses, neighbours, routes, rules."""
        self._dut = dut
        both = sides(dut)
        for side in both:
            for key, value in _SYSCTLS.items():
                path = f"/proc/sys/net/ipv4/conf/{side.ifname}/{key}"
                self._found[path] = dut.host.read(path)
                dut.host.write(path, value)
        routes = [line for side in both for line in _routes(dut, side)]
        dut.host.run(["ip", "-batch", "-"], stdin="\n".join([*routes, f"route add blackhole {TRAP}"]) + "\n")
        rules = "\n".join(_rules(dut, *both, flowtable=self.options.flowtable))
        if rules:
            dut.host.run(["nft", "-f", "-"], stdin=f"table ip {_TABLE} {{\n{rules}\n}}\n", timeout_s=120.0)

    def stop(self) -> None:
        """Rules and routes."""
        if self._dut is None:
            return
        dut, self._dut = self._dut, None
        if self._takes_nft(dut):
            dut.host.run(["nft", "delete", "table", "ip", _TABLE], check=False)
        dut.host.run(["ip", "route", "delete", "blackhole", str(TRAP)], check=False)
        for side in sides(dut):
            dut.host.run(["ip", "route", "flush", "dev", side.ifname], check=False)
            dut.host.run(["ip", "address", "flush", "dev", side.ifname], check=False)
            dut.host.run(["ip", "neigh", "flush", "dev", side.ifname, "nud", "permanent"], check=False)
        for path, value in self._found.items():
            dut.host.write(path, value)

    def mode(self) -> dict[str, Any]:
        """It forwards skbs."""
        return {"label": "kernel router, flowtable" if self.options.flowtable else "kernel router"}

    def ineffective(self) -> str | None:
        """A flowtable must have taken a connection of the traffic."""
        if not self.options.flowtable or self._dut is None:
            return None
        told = self._dut.host.run(["grep", "-c", "OFFLOAD", _CONNECTIONS], check=False)
        return f"flowtable=true is not in force: {_CONNECTIONS} shows none of its own" if told.returncode else None

    def counters(self) -> dict[str, Any]:
        """Interface counters of the ports."""
        return {port.role: link_counters(self._dut.host, port.ifname) for port in self._dut.ports} if self._dut else {}

    def rule_hits(self) -> dict[str, int]:
        """By named counters; routes have none, and a connection in a flowtable meets no rule."""
        if self._dut is None or self._dut.pipeline.kind == "route" or self.options.flowtable:
            return {}
        told = json.loads(self._dut.host.run(["nft", "-j", "list", "counters", "table", "ip", _TABLE]).stdout)
        found = {each["counter"]["name"]: each["counter"]["packets"] for each in told["nftables"] if "counter" in each}
        return {name: found[name] for name in _COUNTERS}

    def _takes_nft(self, dut: Dut) -> bool:
        return dut.pipeline.kind != "route" or self.options.flowtable

    @classmethod
    def versions(cls, host: Host) -> Mapping[str, str]:
        """Of what sets it up."""
        try:
            return {"nft": host.run(["nft", "--version"]).stdout.split()[1]}
        except MissingProgram:
            return {"nft": "not installed"}


def link_counters(host: Host, ifname: str) -> dict[str, Any]:
    """What the kernel counts of an interface."""
    (link,) = json.loads(host.run(["ip", "-json", "-s", "link", "show", "dev", ifname]).stdout)
    return dict(link["stats64"])


def _routes(dut: Dut, side: Side) -> Iterator[str]:
    yield f"addr replace {side.address}/32 dev {side.ifname}"
    yield f"neigh replace {side.next_hop} lladdr {side.peer_mac} dev {side.ifname} nud permanent"
    for prefix in prefixes(dut.pipeline, side):
        yield f"route add {prefix} via {side.next_hop} dev {side.ifname} onlink"


def _rules(dut: Dut, here: Side, there: Side, *, flowtable: bool) -> Iterator[str]:
    """What stands within the table; each frame of the traffic is counted once."""
    kind = dut.pipeline.kind
    if flowtable:
        yield _FLOWTABLE.format(devices=f'"{here.ifname}", "{there.ifname}"')
    if kind == "route":
        if flowtable:
            yield "chain forward {\ntype filter hook forward priority filter\nip protocol udp flow add @known\n}"
        return
    yield from (f"counter {name} {{ }}" for name in _COUNTERS)
    yield "chain forward {"
    yield "type filter hook forward priority filter; policy drop;"
    if kind == "acl":
        for source, target, name in ((here, there, "forth"), (there, here, "back")):
            rules = acl_rules(dut.pipeline, source, target)
            for number, rule in enumerate(rules, start=1):
                count = f"counter name {name} " if number == len(rules) else ""
                yield (
                    f'iifname "{source.ifname}" ip saddr {rule.source} ip daddr {rule.target} '
                    f"udp dport {rule.udp_dst} {count}accept"
                )
    else:
        if flowtable:
            yield "ct state established flow add @known"
        yield f'iifname "{here.ifname}" ct state new,established counter name forth accept'
        yield f'iifname "{there.ifname}" ct state established counter name back accept'
    yield "}"
    if kind != "acl":  # connections of the repetition before are still known, in another zone
        yield "chain prerouting {"
        yield "type filter hook prerouting priority raw; policy accept;"
        yield f"ct zone set {1 + secrets.randbelow(_ZONES)}"
        yield "}"
    if kind == "nat":
        yield "chain postrouting {"
        yield "type nat hook postrouting priority srcnat; policy accept;"
        yield f'oifname "{there.ifname}" snat to {NAT_ADDRESS}'
        yield "}"
