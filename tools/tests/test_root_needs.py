# SPDX-License-Identifier: Apache-2.0
"""Who needs an interface, asked of real kernels: of a namespace of its own, and through each command."""

import json
import secrets
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from xdplab.hosts import NetnsHost
from xdplab.testbed.needs import Ours, who_needs

pytestmark = pytest.mark.root

_SSH = "192.0.2.1 50000 {} 22"


class Reached(NetnsHost):
    """A namespace whose login came from 192.0.2.1."""

    came_by = ""

    @property
    def reached_by(self) -> str:
        return self.came_by

    def ip(self, *commands: str) -> None:
        for command in commands:
            self.run(["ip", *command.split()])

    def needs(self, ifname: str, ours: Ours | None = None) -> list[str]:
        return [need.what for need in who_needs(self, ifname, ours)]


@pytest.fixture
def host() -> Iterator[Reached]:
    """With three veth pairs, whose first ends are up."""
    made = Reached("b", f"xdplab-needs-{secrets.token_hex(2)}")
    subprocess.run(["ip", "netns", "add", made.netns], check=True)
    try:
        for name in ("e0", "e1", "e2"):
            made.ip(f"link add {name} type veth peer name {name}-far", f"link set {name} up", f"link set {name}-far up")
        yield made
    finally:
        made.close()
        subprocess.run(["ip", "netns", "delete", made.netns], check=True)


def test_an_idle_interface_is_free_also_with_a_link_local_address_and_its_routes(host: Reached) -> None:
    host.write("/proc/sys/net/ipv6/conf/e0/addr_gen_mode", "0")
    shown = json.loads(host.run(["ip", "-json", "-6", "route", "show", "table", "all", "dev", "e0"]).stdout)
    assert any(route["dst"] == "fe80::/64" for route in shown)
    assert host.needs("e0") == []


@pytest.mark.parametrize(
    ("commands", "what", "frees"),
    [
        (["address add 198.51.100.1/24 dev e0"], "has address 198.51.100.1/24",
         "address delete 198.51.100.1/24 dev e0"),
        (["address add 169.254.7.7/16 scope link dev e0"], "has address 169.254.7.7/16",
         "address delete 169.254.7.7/16 dev e0"),
        (["-6 address add 2001:db8::1/64 dev e0"], "has address 2001:db8::1/64",
         "address delete 2001:db8::1/64 dev e0"),
        (["route add default dev e0"], "carries the default route", "-4 route flush dev e0"),
        (["-6 route add default dev e0"], "carries the default route", "-6 route flush dev e0"),
        (["route add 203.0.113.0/24 dev e0 table 7"], "carries route 203.0.113.0/24", ""),
        (["link add br0 type bridge", "link set e0 master br0"], "belongs to br0", "link set e0 nomaster"),
        (["link add mv0 link e0 type macvlan"], "carries mv0 (macvlan)", "link delete dev mv0"),
    ],
)  # fmt: skip
def test_who_needs_it_is_named_with_what_frees_it(host: Reached, commands: list[str], what: str, frees: str) -> None:
    host.ip(*commands)
    (need,) = who_needs(host, "e0")
    assert need.what == what
    assert host.needs("e1") == []
    if frees:
        assert need.frees == f"ip {frees}"
        host.ip(frees)
        assert host.needs("e0") == []


def test_a_route_with_several_next_hops_needs_each_of_their_links(host: Reached) -> None:
    """As of BGP: links that have no address, over which all traffic goes; `ip route show dev` leaves them out."""
    for name, family, to, via in (("e0", "-4", "default", ""), ("e1", "-6", "2001:db8::/32", "via fe80::7 ")):
        host.ip(f"{family} route add {to} nexthop {via}dev e0 nexthop {via}dev e1")
        (need,) = who_needs(host, name)
        assert need.what == ("carries the default route" if to == "default" else f"carries route {to}")
        assert (host.needs("e0"), host.needs("e2")) == (host.needs("e1"), [])
        host.ip(need.frees.removeprefix("ip "))
        assert host.needs("e0") == []


@pytest.mark.parametrize("came_by", [_SSH.format("192.0.2.2"), _SSH.format("fe80::2%e0")], ids=["IPv4", "link-local"])
def test_what_ssh_comes_through_is_needed_with_all_below_and_above_it(host: Reached, came_by: str) -> None:
    host.ip("route add 192.0.2.1/32 dev e0", "-6 address add fe80::2/64 dev e0")
    host.came_by = came_by
    if "fe80" not in came_by:
        host.ip("address add 192.0.2.2/32 dev e0")
    host.ip("link add mv0 link e0 type macvlan", "link add mv1 link mv0 type macvlan")
    assert "carries the SSH connection" in host.needs("e0")
    for above in ("mv0", "mv1"):
        assert host.needs(above)[-1] == "is below or above e0, which carries the SSH connection"
    assert host.needs("e1") == []


def test_answers_that_go_out_elsewhere_are_the_ssh_connection_too(host: Reached) -> None:
    host.ip("address add 192.0.2.2/32 dev e1", "route add 192.0.2.1/32 dev e0")
    host.came_by = _SSH.format("192.0.2.2")
    assert all("carries the SSH connection" in host.needs(name) for name in ("e0", "e1"))
    assert host.needs("e2") == []


def test_ssh_over_a_bridge_needs_its_ports_and_what_stands_on_them(host: Reached) -> None:
    host.ip("link add br0 type bridge", "link set br0 up", "link set e0 master br0", "address add 192.0.2.2/24 dev br0")
    host.ip("link add mv0 link br0 type macvlan")
    host.came_by = _SSH.format("192.0.2.2")
    assert host.needs("e0") == ["belongs to br0", "is below or above br0, which carries the SSH connection"]
    assert host.needs("mv0") == ["is below or above br0, which carries the SSH connection"]
    assert host.needs("e1") == []


def test_what_a_killed_run_left_is_nobodys_need(host: Reached) -> None:
    host.ip("link add xdplab type bridge", "link set e0 master xdplab", "address add 198.18.0.1/32 dev e1")
    assert host.needs("e0") == ["belongs to xdplab"]
    ours = Ours(masters=["xdplab"])
    assert host.needs("e0", ours) == host.needs("e1", ours) == []
    host.ip("address add 198.51.100.1/24 dev e1")
    assert host.needs("e1", ours) == ["has address 198.51.100.1/24"]


class Card:
    """A host whose card has functions in use, which is hardware that is not here."""

    name, reached_by = "b", ""

    def __init__(self, **files: str) -> None:
        self.files = {f"/sys/class/net/p0/device/{name}": text for name, text in files.items()}

    def run(self, argv: list[str], **_: Any) -> Any:
        pairs = [{"ifname": "mlx5_0", "type": "GSI", "comm": "[ib_core]"},
                 {"ifname": "mlx5_0", "type": "RC", "pid": 4711, "comm": "nvmet"}]  # fmt: skip
        out = {"rdma": pairs, "ip": [] if "route" in argv else [{"ifname": "p0", "addr_info": []}]}[argv[0]]
        return subprocess.CompletedProcess(argv, 0, json.dumps(out), "")

    def xdp(self, ifname: str) -> None:
        return None

    def exists(self, path: str) -> bool:
        return path in self.files

    def read(self, path: str) -> str:
        return self.files[path]

    def names(self, path: str) -> list[str]:
        return self.files[path].split()


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({"sriov_numvfs": "4"}, ["has 4 virtual functions"]),
        ({"sriov_numvfs": "0"}, []),
        ({"infiniband": "mlx5_0"}, ["is used for RDMA by nvmet"]),
    ],
)
def test_functions_of_a_card_that_are_in_use(files: dict[str, str], what: list[str]) -> None:
    host: Any = Card(**files)
    assert [need.what for need in who_needs(host, "p0")] == what
