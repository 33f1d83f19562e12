# SPDX-License-Identifier: Apache-2.0
"""Containers in the path: network namespaces, each of which passes on what comes in by one of its two ports."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from xdplab.forwarders.base import Dut
from xdplab.forwarders.process import EventProcess
from xdplab.hosts import Host, NetnsHost, Running
from xdplab.hosts.bpf import built, why_not_built
from xdplab.hosts.kernel import ip_batch, link_mtu, offloads_off
from xdplab.hosts.waiting import how_it_ended
from xdplab.model import do_each
from xdplab.testbed import Port

#: In which containers are on veth pairs.
ON_VETH = ("containers", "af-xdp-apps")
#: Of the bridge in each container.
_INSIDE = "xdplab-pod"


class Pods:
    """Those of a pipeline, from before a forwarder has its ports until after its end."""

    def __init__(self, dut: Dut) -> None:
        self._dut = dut
        #: Each with the forwarder's ends of its two links; the ends inside have the same names.
        self.each: list[tuple[NetnsHost, tuple[str, str]]] = [
            (pod, (f"xdplab-p{number}a", f"xdplab-p{number}b"))
            for number, pod in enumerate(dut.pods[: dut.pipeline.pods], start=1)
        ]
        #: What runs in them, by name.
        self.programs: dict[str, Running] = {}

    @property
    def names(self) -> list[str]:
        """Of all ports, in the order in which frames pass them."""
        return [name for _, names in self.each for name in names]

    def missing(self) -> str | None:
        """None, or which program they lack."""
        return why_not_built("xsk", self._dut.host) if self._dut.pipeline.kind == "af-xdp-apps" else None

    def add_links(self) -> list[Port]:
        """Two veth pairs to each; the forwarder's ports."""
        return [add_veth(self._dut, name, name, pod) for pod, names in self.each for name in names]

    def fill(self, *, redirected: bool = False) -> None:
        """What passes frames on in each. `redirected`: they come by XDP redirect, and NAPI has to take them.

        Raises:
            PointFailed: a program does not come up.
        """
        for number, (pod, names) in enumerate(self.each):
            if self._dut.pipeline.kind == "af-xdp-apps":
                self._start_application(number)
                continue
            for name in names if redirected else ():
                pod.run(["ethtool", "-K", name, "gro", "on"])
            join(pod, names)

    def cpu(self, number: int) -> int:
        """Of a program in one: a CPU that keeps house, which is the tester's where there are two."""
        cpus = self._dut.layout.housekeeping or (self._dut.layout.forwarder,)
        return cpus[-1 - number % len(cpus)]

    def ended(self) -> str | None:
        """None, or which program ended how."""
        return next(filter(None, (how_it_ended(name, each) for name, each in self.programs.items())), None)

    def remove(self) -> None:
        """All of it; also what was not made, and twice."""
        links = [(self._dut.host, name) for _, names in self.each for name in names]
        links += [(pod, _INSIDE) for pod, _ in self.each]
        do_each(
            "containers",
            *(program.stop for program in self.programs.values()),
            *(partial(host.run, ["ip", "link", "delete", name], check=False) for host, name in links),
        )

    def _start_application(self, number: int) -> None:
        """An AF_XDP program, which gives up its privileges and sleeps without frames."""
        (pod, names), name = self.each[number], f"xsk of container {number + 1}"
        output, cpu = self._dut.rundir / f"pod{number}.out", self.cpu(number)
        asked = {"role": "forward", "ports": [{"ifname": each} for each in names], "wait": "poll", "unprivileged": True}
        running = self.programs[name] = pod.start(
            [built("xsk", pod), "-"],
            stdin=json.dumps({**asked, "cpus": [cpu]}),
            stdout=output,
            log=self._dut.rundir / f"pod{number}.log",
            cpus=(cpu,),
        )
        EventProcess(name, "xsk", self._dut, running, output).until_ready(10.0)


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
    port = dut.ports[0]
    return link_mtu(dut.host, port.ifname) if port.in_kernel else port.mtu


def join(pod: Host, names: Sequence[str]) -> None:
    """A bridge in a container: what comes in by one of its ports leaves by the other."""
    lines = [f"link add {_INSIDE} type bridge mcast_snooping 0"]
    for name in names:
        lines += [f"link set {name} master {_INSIDE} up", f"link set {name} type bridge_slave learning off"]
    ip_batch(pod, [*lines, f"link set {_INSIDE} up"])
