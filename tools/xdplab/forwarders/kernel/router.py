# SPDX-License-Identifier: Apache-2.0
"""The kernel as a router: its routes, and nftables for access lists, connections and translation."""

import json
import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from ipaddress import IPv4Address
from typing import Any, ClassVar

from xdplab.forwarders.base import Counting, Dut
from xdplab.forwarders.changes import SPARE, Change, Changing, Step, count_differs, spare_addresses
from xdplab.forwarders.process import Instance, InstanceForwarder
from xdplab.forwarders.work import NAT_ADDRESS, TRAP, Side, acl_rules, prefixes, sides
from xdplab.hosts import Host
from xdplab.hosts.kernel import ip_batch
from xdplab.model import MissingProgram, Model, do_each
from xdplab.model.pipeline import ROUTED

_TABLE = "xdplab"
#: Of rules that come and go: frames are looked at there that come from their network, which are none.
_SPARE_TABLE = "xdplab-spare"
_SPARE_CHAINS = f"""add table ip {_SPARE_TABLE}
add chain ip {_SPARE_TABLE} spare
add chain ip {_SPARE_TABLE} forward {{ type filter hook forward priority filter - 1; policy accept; }}
add rule ip {_SPARE_TABLE} forward ip saddr {SPARE} jump spare
"""
#: Who sets a route (rt_protos of iproute2): a number that nobody has.
_OTHER = "99"
#: Of a port: forwards, and takes frames from anywhere (Documentation/networking/ip-sysctl.rst).
_SYSCTLS = {"forwarding": "1", "rp_filter": "0"}
#: Of connection tracking (nf_conntrack_zones_common.h: 16 bits), but the one that everything else is in.
_ZONES = 0xFFFF
#: Counters of the traffic's rules, as `Forwarder.rule_hits` calls them.
_COUNTERS = ("forth", "back")


_FLOWTABLE = "flowtable known {{\nhook ingress priority filter\ndevices = {{ {devices} }}\n}}"
_CONNECTIONS = "/proc/net/nf_conntrack"


class RouterOptions(Model):
    """What of the kernel is used next to routes and rules."""

    #: Connections that are known pass by nftables' flowtable, before rules and routes are looked at.
    flowtable: bool = False


class _Router(Instance):
    """Routes and rules over the ports of a DUT."""

    def __init__(self, dut: Dut, *, flowtable: bool) -> None:
        super().__init__("linux-router", dut)
        self._flowtable = flowtable
        #: Files of /proc/sys -> what they had.
        self._found: dict[str, str] = {}

    @property
    def takes_nft(self) -> bool:
        """Whether rules of nftables are part of it."""
        return self.dut.pipeline.kind != "route" or self._flowtable

    def rules(self) -> list[str]:
        return list(_rules(self.dut, *sides(self.dut), flowtable=self._flowtable))

    def start(self) -> None:
        dut, both = self.dut, sides(self.dut)
        for side in both:
            for key, value in _SYSCTLS.items():
                path = f"/proc/sys/net/ipv4/conf/{side.ifname}/{key}"
                self._found[path] = dut.host.read(path)
                dut.host.write(path, value)
        routes = [line for side in both for line in _routes(dut, side)]
        ip_batch(dut.host, [*routes, f"route add blackhole {TRAP}"])
        rules = "\n".join(self.rules())
        if rules:
            dut.host.run(["nft", "-f", "-"], stdin=f"table ip {_TABLE} {{\n{rules}\n}}\n", timeout_s=120.0)

    def stop(self) -> None:
        host = self.dut.host
        commands = [["nft", "delete", "table", "ip", _TABLE]] if self.takes_nft else []
        commands.append(["ip", "route", "delete", "blackhole", str(TRAP)])
        for side in sides(self.dut):
            commands.append(["ip", "route", "flush", "dev", side.ifname])
            commands.append(["ip", "address", "flush", "dev", side.ifname])
            commands.append(["ip", "neigh", "flush", "dev", side.ifname, "nud", "permanent"])
        do_each(
            self.name,
            *(partial(host.run, command, check=False) for command in commands),
            *(partial(host.write, path, value) for path, value in self._found.items()),
        )


class LinuxRouter(InstanceForwarder[RouterOptions, _Router], Counting, Changing):
    """Routes of a namespace, in softirq context."""

    name: ClassVar[str] = "linux-router"
    plain: ClassVar[str] = "Linux router"
    options_model: ClassVar[type[Model]] = RouterOptions
    pipelines: ClassVar[tuple[str, ...]] = ROUTED
    changes: ClassVar[tuple[str, ...]] = ("rules", "rule-stream", "hit-rule")

    def unsupported(self, dut: Dut) -> str | None:
        """In a namespace of the run, which goes with all that is set there."""
        if any(port.lasting for port in dut.ports):
            return "linux-router sets host-wide routes and rules, which only go away with a namespace of the run"
        if not _Router(dut, flowtable=self.options.flowtable).takes_nft:
            return None
        if self.options.flowtable and dut.pipeline.kind == "acl":
            return "flowtable=true: established connections bypass the access list"
        return _no_nft(dut.host, f"pipeline {dut.pipeline.kind}") or self._no_flowtable(dut)

    def start(self, dut: Dut) -> None:
        self.instance = _Router(dut, flowtable=self.options.flowtable)
        self.instance.start()

    def mode(self) -> dict[str, Any]:
        return {"label": "kernel router, flowtable" if self.options.flowtable else "kernel router"}

    def ineffective(self) -> str | None:
        """A flowtable must have taken a connection of the traffic."""
        if not self.options.flowtable:
            return None
        output = self.instance.dut.host.run(["grep", "-c", "OFFLOAD", _CONNECTIONS], check=False)
        return f"flowtable=true is not in force: {_CONNECTIONS} shows none of its own" if output.returncode else None

    def counters(self) -> dict[str, Any]:
        return self.instance.link_counters()

    def rule_count(self) -> tuple[int, int]:
        """Of the access list; the routes that were given are counted where there is none."""
        dut = self.instance.dut
        if dut.pipeline.kind == "route":
            output = dut.host.run(["ip", "-4", "route", "show", "scope", "global"], timeout_s=120.0).stdout
            return output.count(" via "), sum(1 for side in sides(dut) for _ in prefixes(dut.pipeline, side))
        output = dut.host.run(["nft", "list", "chain", "ip", _TABLE, "forward"], timeout_s=120.0).stdout
        return output.count(" accept\n"), sum(line.endswith(" accept") for line in self.instance.rules())

    def rule_hits(self) -> dict[str, int]:
        """By named counters; routes have none, and a connection in a flowtable meets no rule."""
        dut = self.instance.dut
        if dut.pipeline.kind == "route" or self.options.flowtable:
            return {}
        output = json.loads(dut.host.run(["nft", "-j", "list", "counters", "table", "ip", _TABLE]).stdout)
        found = {
            each["counter"]["name"]: each["counter"]["packets"] for each in output["nftables"] if "counter" in each
        }
        return {name: found[name] for name in _COUNTERS}

    def cannot_change(self, kind: str, dut: Dut) -> str | None:
        """Rules in one transaction are those of nftables."""
        return super().cannot_change(kind, dut) or (_no_nft(dut.host, f"change {kind}") if kind == "rules" else None)

    def flows_met(self) -> int:
        return int(self.instance.dut.host.read("/proc/sys/net/netfilter/nf_conntrack_count"))

    def change(self, kind: str, count: int) -> Change:
        """Rules of nftables behind one for their network, routes one after another, or the routes in use."""
        host, numbers = self.instance.dut.host, list(spare_addresses(count))
        if kind == "hit-rule":
            return self._same_routes(self.instance.dut)
        if kind == "rules":
            rules = "\n".join(f"add rule ip {_SPARE_TABLE} spare ip saddr {IPv4Address(each)} drop" for each in numbers)

            def act(text: str) -> None:
                host.run(["nft", "-f", "-"], stdin=text, timeout_s=120.0)

            def there() -> int:
                return host.run(["nft", "list", "chain", "ip", _SPARE_TABLE, "spare"]).stdout.count(" drop")

            act(_SPARE_CHAINS)
            output = (("installed", rules, count), ("removed", f"flush chain ip {_SPARE_TABLE} spare", 0))
            steps = [
                Step(name, count, partial(act, text + "\n"), count_differs("rules", left, there))
                for name, text, left in output
            ]
            return Change(steps, lambda: _forget(host), often=True)

        def batch(verb: str) -> None:
            ip_batch(host, (f"route {verb} blackhole {IPv4Address(each)}" for each in numbers))

        def routes() -> int:
            return host.run(["ip", "route", "show", "root", str(SPARE)]).stdout.count("blackhole")

        ways = (("installed", "add", count), ("removed", "delete", 0))
        steps = [Step(n, count, partial(batch, v), count_differs("routes", left, routes)) for n, v, left in ways]
        return Change(steps, lambda: _flush(host), often=True)

    def _same_routes(self, dut: Dut) -> Change:
        """The routes in use, each replaced by one that differs in who has set it (`proto`)."""
        networks = [(str(side.network), f"via {side.next_hop} dev {side.ifname} onlink") for side in sides(dut)]

        def to(proto: str) -> None:
            ip_batch(dut.host, (f"route replace {network} {way} proto {proto}" for network, way in networks))

        def theirs() -> int:
            return len(dut.host.run(["ip", "route", "show", "proto", _OTHER]).stdout.splitlines())

        ways = (("replaced", _OTHER, len(networks)), ("replaced-back", "boot", 0))
        found = [
            Step(n, len(networks), partial(to, p), count_differs("new routes", left, theirs)) for n, p, left in ways
        ]
        return Change(found, lambda: to("boot"), often=True)

    def _no_flowtable(self, dut: Dut) -> str | None:
        table = f"table ip {_TABLE} {{\n{_FLOWTABLE.format(devices='lo')}\n}}\n"
        if self.options.flowtable and dut.host.run(["nft", "--check", "-f", "-"], stdin=table, check=False).returncode:
            return "flowtable=true: this kernel has no flowtables (CONFIG_NF_FLOW_TABLE)"
        return None

    def versions(self, host: Host) -> Mapping[str, str]:
        try:
            return {"nft": host.run(["nft", "--version"]).stdout.split()[1]}
        except MissingProgram:
            return {"nft": "not installed"}


def _no_nft(host: Host, what: str) -> str | None:
    try:
        host.run(["nft", "list", "tables"])
    except MissingProgram:
        return f"{what} takes nft: apt install nftables"
    return None


def _forget(host: Host) -> None:
    host.run(["nft", "delete", "table", "ip", _SPARE_TABLE], check=False)


def _flush(host: Host) -> None:
    host.run(["ip", "route", "flush", "root", str(SPARE), "type", "blackhole"], check=False)


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
