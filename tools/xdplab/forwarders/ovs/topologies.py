# SPDX-License-Identifier: Apache-2.0
"""Ports of Open vSwitch next to the tester's, where frames cross it more than once: containers, or a tunnel in between.

Sources: Documentation/intro/install/afxdp.rst (PVP, PCP), topics/dpdk/vhost-user.rst, howto/userspace-tunneling.rst.
"""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from xdplab.forwarders.base import Dut
from xdplab.forwarders.dpdk import MEMORY_MIB, PROGRAM, forwards, not_installed
from xdplab.forwarders.ovs.daemon import BRIDGE, Ovs
from xdplab.forwarders.ovs.pipelines import TUNNEL_ENDS, route_added
from xdplab.forwarders.pods import ON_VETH, Pods, add_veth, join, mtu_of
from xdplab.forwarders.work import VNI
from xdplab.hosts.kernel import offloads_off
from xdplab.testbed import Port

#: Name of a port of Open vSwitch, and columns of its row.
OvsPort = tuple[str, list[str]]
#: Pipelines with ports that the daemon's main thread serves, whichever thread polls the tester's.
BY_MAIN_THREAD = ("taps",)
#: Those with further ports of the kernel.
ON_LINKS = (*ON_VETH, "vxlan-link", "geneve-link")
#: Ports of the two ends of a tunnel, and the links between them.
TUNNELS, LINKS = ("xdplab-t1", "xdplab-t2"), ("xdplab-u1", "xdplab-u2")
#: Number of the thread that forwards in a container.
_WORKER = 1
#: Room for what a tunnel puts around a frame.
_AROUND = 100


class Topology:
    """The tester's two ports and no others; base of those with more."""

    def __init__(self, dut: Dut, *, redirects: bool) -> None:
        """`redirects`: the forwarder transmits by XDP redirect."""
        self._dut = dut
        self._redirects = redirects
        self._pods = Pods(dut)

    def missing(self) -> str | None:
        """None, or what it lacks on this machine."""
        return self._pods.missing()

    def links(self) -> list[Port]:
        """Makes further ports of the kernel, before the daemon starts."""
        return []

    def ports(self) -> list[OvsPort]:
        """Ports that Open vSwitch makes itself."""
        return []

    def connect(self, ovs: Ovs) -> None:
        """What is done once the daemon has its ports."""

    def remove(self) -> None:
        """All that it made, when the daemon has ended; also after a crash, and twice."""
        self._pods.remove()


class OnVeth(Topology):
    """Containers on two veth pairs each."""

    def links(self) -> list[Port]:
        return self._pods.add_links()

    def connect(self, ovs: Ovs) -> None:
        ovs.beside = self._pods.programs
        self._pods.fill(redirected=self._redirects)


class Taps(Topology):
    """Containers with two tap devices of Open vSwitch each, which are moved there (as ADD_INT of its system tests)."""

    def ports(self) -> list[OvsPort]:
        """Internal ports, which are tap devices of the userspace datapath."""
        return [(name, ["type=internal"]) for name in self._pods.names]

    def connect(self, ovs: Ovs) -> None:
        mtu = str(mtu_of(self._dut))
        for pod, names in self._pods.each:
            for name in names:
                self._dut.host.run(["ip", "link", "set", name, "mtu", mtu, "netns", pod.netns])
                offloads_off(pod, name)
            join(pod, names)


class VhostUser(Topology):
    """Containers with a testpmd on two virtio-user ports each; Open vSwitch has DPDK's vhost library."""

    def missing(self) -> str | None:
        return not_installed(self._dut.host)

    def ports(self) -> list[OvsPort]:
        return [
            (name, ["type=dpdkvhostuserclient", f"options:vhost-server-path={self._socket(name)}"])
            for name in self._pods.names
        ]

    def connect(self, ovs: Ovs) -> None:
        """Starts the programs, and waits until they forward."""
        ovs.beside = self._pods.programs
        for number, (pod, names) in enumerate(self._pods.each):
            cpu, name = self._pods.cpu(number), f"dpdk-testpmd of container {number + 1}"
            devices = [
                f"--vdev=net_virtio_user{index},path={self._socket(each)},server=1,queues=1"
                for index, each in enumerate(names)
            ]
            eal = [f"--lcores=0@{cpu},{_WORKER}@{cpu}", "--no-pci", "--no-shconf", "--no-huge", "-m", MEMORY_MIB]
            eal += ["--no-telemetry"]
            prefix = f"--file-prefix=xdplab{os.getpid()}-pod{number}"
            forwarding = ["--forward-mode=io", "--auto-start", "--total-num-mbufs=32768", "--no-mlockall"]
            running = self._pods.programs[name] = pod.start(
                [PROGRAM, *eal, prefix, *devices, "--", *forwarding],
                log=self._dut.rundir / f"pod{number}.log",
                cpus=(cpu,),
                hold_stdin=True,  # it ends when it reads the end of its standard input
                env={"RUNTIME_DIRECTORY": str(self._dut.rundir)},
            )
            ovs.until(partial(forwards, pod, running.pid, _WORKER), ovs.timeout_s, f"the forwarding thread of {name}")
        ovs.until(
            lambda: all(ovs.interfaces("link_state").get(name) == "up" for name in self._pods.names),
            ovs.timeout_s,
            "links of all virtio-user ports",
        )

    def _socket(self, name: str) -> Path:
        return self._dut.rundir / f"{name}.sock"


class TunnelLink(Topology):
    """Two ends of a tunnel, each with an address of the bridge, and a veth pair that the tunnel's frames go over."""

    def links(self) -> list[Port]:
        first, second = LINKS
        here = add_veth(self._dut, first, second, longer=_AROUND)
        mac = self._dut.host.read(f"/sys/class/net/{second}/address").strip()
        return [here, replace(here, role=second, ifname=second, mac=mac)]

    def ports(self) -> list[OvsPort]:
        kind = self._dut.pipeline.kind.removesuffix("-link")
        return [
            (name, [f"type={kind}", f"options:key={VNI}", f"options:local_ip={here}", f"options:remote_ip={there}"])
            for name, here, there in zip(TUNNELS, TUNNEL_ENDS, reversed(TUNNEL_ENDS), strict=True)
        ]

    def connect(self, ovs: Ovs) -> None:
        """Addresses of the bridge, and a route and a neighbour for each."""
        for address in TUNNEL_ENDS:
            ovs.host.run(["ip", "address", "add", f"{address}/32", "dev", BRIDGE])
        ovs.host.run(["ip", "link", "set", BRIDGE, "up"])
        mac = ovs.host.read(f"/sys/class/net/{BRIDGE}/address").strip()
        for address in TUNNEL_ENDS:
            ovs.until(partial(route_added, ovs, address), 5.0, f"a route to {address}")
            ovs.control("tnl/neigh/set", BRIDGE, address, mac)

    def remove(self) -> None:
        self._dut.host.run(["ip", "link", "delete", LINKS[0]], check=False)


def topology_of(dut: Dut, *, redirects: bool) -> Topology:
    kinds: dict[str, type[Topology]] = {
        **dict.fromkeys(ON_VETH, OnVeth),
        "taps": Taps,
        "vhost-user": VhostUser,
        "vxlan-link": TunnelLink,
        "geneve-link": TunnelLink,
    }
    return kinds.get(dut.pipeline.kind, Topology)(dut, redirects=redirects)
