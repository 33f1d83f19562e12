# SPDX-License-Identifier: Apache-2.0
"""Containers in the path: network namespaces, in each of which the kernel's bridge passes on what comes in."""

from collections.abc import Sequence
from dataclasses import replace

from xdplab.forwarders.base import Dut
from xdplab.hosts import Host, NetnsHost
from xdplab.hosts.kernel import link_mtu, offloads_off
from xdplab.testbed import Port

#: Of the bridge in each container.
_INSIDE = "xdplab-pod"


def port_names(dut: Dut) -> list[tuple[str, str]]:
    """Of each container the forwarder's ends of its two links; the ends inside have the same names."""
    return [(f"xdplab-p{number}a", f"xdplab-p{number}b") for number in range(1, dut.pipeline.pods + 1)]


def pods_of(dut: Dut) -> list[tuple[NetnsHost, tuple[str, str]]]:
    """The containers that frames pass, and their ports."""
    return list(zip(dut.pods[: dut.pipeline.pods], port_names(dut), strict=True))


def hops(ends: Sequence[str]) -> list[tuple[str, str]]:
    """Ports that a forwarder connects, pair by pair; `ends` are all of them, in the order in which frames pass them."""
    return list(zip(ends[::2], ends[1::2], strict=True))


def add_veth(dut: Dut, name: str, peer: str, pod: NetnsHost | None = None, longer: int = 0) -> Port:
    """A pair of links without offloads, up; its end `name` as the forwarder's port.

    Args:
        dut: where it is; its MTU is that of the first port.
        name: of the forwarder's end.
        peer: of the other one.
        pod: the container of the other one; None: it is the forwarder's, too.
        longer: bytes by which its MTU is larger.
    """
    host, first, mtu = dut.host, dut.ports[0], mtu_of(dut) + longer
    own = ["mtu", str(mtu), "numtxqueues", "1", "numrxqueues", "1"]
    where = ["netns", pod.netns] if pod else []
    host.run(["ip", "link", "add", name, *own, "type", "veth", "peer", "name", peer, *own, *where])
    for at, end in ((host, name), (pod or host, peer)):
        offloads_off(at, end)
        at.run(["ip", "link", "set", end, "up", "promisc", "on"])
    mac = host.read(f"/sys/class/net/{name}/address").strip()
    return replace(first, role=name, ifname=name, mac=mac, mtu=mtu)


def mtu_of(dut: Dut) -> int:
    """Of the forwarder's first port."""
    port = dut.ports[0]
    return link_mtu(dut.host, port.ifname) if port.in_kernel else port.mtu


def add_veths(dut: Dut, *, redirected: bool) -> list[Port]:
    """Each container on two of them; the forwarder's ports, in the order in which frames pass them.

    `redirected`: the forwarder transmits by XDP redirect, for which the ends inside need NAPI.
    """
    ports = []
    for pod, names in pods_of(dut):
        ports += [add_veth(dut, name, name, pod) for name in names]
        for name in names if redirected else ():
            pod.run(["ethtool", "-K", name, "gro", "on"])
        join(pod, names)
    return ports


def join(pod: Host, names: Sequence[str]) -> None:
    """What comes into a container by one of its ports leaves by the other."""
    lines = [f"link add {_INSIDE} type bridge mcast_snooping 0"]
    for name in names:
        lines += [f"link set {name} master {_INSIDE} up", f"link set {name} type bridge_slave learning off"]
    pod.run(["ip", "-batch", "-"], stdin="\n".join([*lines, f"link set {_INSIDE} up"]) + "\n")


def remove_pods(dut: Dut) -> None:
    """All links of containers, and what `join` made; also of those that were not made."""
    for pod, names in pods_of(dut):
        for name in names:
            dut.host.run(["ip", "link", "delete", name], check=False)
        pod.run(["ip", "link", "delete", _INSIDE], check=False)
