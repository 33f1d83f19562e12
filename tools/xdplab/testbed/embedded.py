# SPDX-License-Identifier: Apache-2.0
"""Hosts A, B, C as network namespaces joined by veth pairs, plus a direct link for calibration.

    A: a0 ---- b0 :B: b1 ---- c0 :C       the paths through the forwarder
    A: d0 -------------------- d1 :C      the direct link

Facts about veth that shape this module (kernel 6.18): a frame sent by XDP redirect is refused by a peer without
NAPI; `gro on` switches NAPI on only when it changes while the link is up; NAPI runs on the sender's core unless
`threaded` is set; native XDP needs at least as many receive queues as the peer has transmit queues.
"""

import copy
import os
import secrets
import shutil
import signal
import time
from functools import partial
from pathlib import Path as FilePath

from xdplab.hosts import Host, LocalHost, NetnsHost
from xdplab.hosts.agent.cpus import CPU, Held
from xdplab.hosts.base import in_use
from xdplab.hosts.freezer import Freezer, processes_of, remove
from xdplab.hosts.kernel import offloads_off
from xdplab.hosts.signals import deferred
from xdplab.model import InputError, Steps, TestbedSpec, XdplabError, do_each
from xdplab.testbed.base import OneMachine, Port, default_layout, usable_cpus
from xdplab.testbed.state import TestbedLock, remove_shared_memory, working_folder

_LINKS = (("a0", "b0"), ("b1", "c0"), ("d0", "d1"))
_HOME = {"a0": "A", "d0": "A", "b0": "B", "b1": "B", "c0": "C", "d1": "C"}


class EmbeddedTestbed(OneMachine):
    """Three hosts on one machine; nothing but namespaces of its own is touched.

    `_place`: its number among places that stand side by side (`beside`).

    With `one_tester_host` the ports of C are in A's namespace, for a tester whose one process must reach both ends.
    `pods` is how many containers there are next to B, namespaces without links.
    """

    _place = 0

    def __init__(self, spec: TestbedSpec, one_tester_host: bool = False, pods: int = 0) -> None:
        self.spec = spec
        self.layout = default_layout(spec)
        self.lock = TestbedLock(spec.name)
        self._held: Held[int] = Held(CPU)
        self._one_tester_host = one_tester_host
        self._tag = secrets.token_hex(2)
        self._beside: list[EmbeddedTestbed] = []
        self._notes: dict[str, None] = {}
        self._name_all(pods)

    def _name_all(self, pods: int) -> None:
        """Interfaces of places have the same names, in namespaces of their own."""
        spec, tag, one_tester_host = self.spec, self._tag, self._one_tester_host
        place = f"{self._place + 1}" if self._place else ""
        self._netns = {host: f"xdplab-{tag}-{host}{place}" for host in (*"ABC", *_pod_names(pods))}
        self._hosts = {host: NetnsHost(host, netns) for host, netns in self._netns.items()}
        self.pods = tuple(self._hosts[name] for name in _pod_names(pods))
        #: Of what runs on B and in the containers.
        self.freezer = Freezer(
            [self._netns[name] for name in ("B", *_pod_names(pods))], self._remember_cgroup, self._notes.setdefault
        )
        self.ports = {
            role: Port(
                role=role,
                host=self._hosts[at],
                ifname=f"{role}-{tag}",
                mac=f"02:00:{tag[:2]}:{tag[2:]}:{ord(role[0]):02x}:{int(role[1]):02x}",
                mtu=spec.mtu,
                netns=f"/run/netns/{self._netns[at]}",
            )
            for role, home in _HOME.items()
            for at in ("A" if one_tester_host and home == "C" else home,)
        }

    def beside(self, number: int) -> "EmbeddedTestbed":
        """Place `number` for a forwarder that stands next to others, from 0 on, which is this testbed itself.

        Hosts and links of its own, and the lock, CPUs and `down` of this one.
        """
        while len(self._beside) < number:
            place = copy.copy(self)
            place._beside, place._place = [], len(self._beside) + 1
            place._name_all(len(self.pods))
            self._beside.append(place)
            place._build()
        return self._beside[number - 1] if number else self

    def folder_on(self, host: Host) -> FilePath:
        """In the state folder; places that stand side by side have one for each forwarder, and the tester's."""
        folder = super().folder_on(host)
        return folder / f"beside{self._place}" if self._place and host is not self.tester_host else folder

    @property
    def dut(self) -> Host:
        """The middle host, where the forwarder runs."""
        return self._hosts["B"]

    @property
    def cpus(self) -> tuple[int, ...]:
        """CPUs of the testbed file, or all."""
        return usable_cpus(self.spec)

    def clear_away(self, done: list[str], *, force: bool = False) -> None:
        """Processes and namespaces of the state file, and what forwarders had in shared memory."""
        done += [f"namespace {netns} removed" for netns in _remove(self.lock)]
        folder = working_folder(self.spec.name)
        for rundir in (folder / "dut", *sorted(folder.glob("beside*/dut"))):
            done += [f"{path} removed" for path in remove_shared_memory(self._machine, rundir)]

    def up(self) -> None:
        """Build namespaces and links, holding the testbed's lock and its CPUs."""
        if os.geteuid() != 0:
            raise InputError("network namespaces and XDP need root; run it with sudo")
        self.lock.acquire_unchanged()
        try:
            self._hold_cpus()
            self.lock.remember_boots(self.system)
            self._build()
        except BaseException:
            self.down()
            raise

    def _build(self) -> None:
        for host, netns in self._netns.items():
            self._add_netns(netns)
            self._hosts[host].write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1")
            self._hosts[host].write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")
        for left, right in _LINKS:
            self._add_link(self.ports[left], self.ports[right])
        for role in ("b0", "b1", "d0", "d1"):  # the peers that frames are redirected to
            self._switch_napi_on(self.ports[role])

    def notes(self) -> list[str]:
        """Why forwarders could not be frozen."""
        return list(self._notes)

    def down(self) -> None:
        """Remove everything that `up` made; safe to call twice."""
        if not self.lock.held:
            return
        hosts = [host for place in (self, *self._beside) for host in place._hosts.values()]
        self._beside = []
        folder = working_folder(self.spec.name)
        with deferred():
            do_each(
                f"testbed {self.spec.name}",
                *(host.close for host in hosts),
                partial(_remove, self.lock),
                partial(shutil.rmtree, folder, ignore_errors=True),
                self.lock.forget_unchanged,
                self._held.release,
                self.lock.release,
            )

    def _hold_cpus(self) -> None:
        """No other testbed measures on them."""
        try:
            taken = self._held.hold(self.cpus)
        except OSError as exc:
            raise InputError(f"testbed {self.spec.name}: {exc.filename}: {exc.strerror}; is /sys mounted?") from None
        if taken is not None:
            raise InputError(in_use(f"testbed {self.spec.name}: CPU {taken[0]}", "cpus", taken[1]))

    def _add_netns(self, netns: str) -> None:
        """Make it, remembering it first: but one that is there already is somebody else's, and stays."""
        before = self.lock.state().get("netns", [])
        if _is_taken(netns):
            raise XdplabError(f"namespace {netns} is there already; run it again, which takes another name")
        self.lock.remember(netns=[*before, netns])
        try:
            LocalHost().run(["ip", "netns", "add", netns])
        except XdplabError:  # somebody was faster, or there is no such thing here: in no case is it ours
            self.lock.remember(netns=before)
            raise

    def _remember_cgroup(self, path: str) -> None:
        before = self.lock.state().get("cgroups", [])
        self.lock.remember(cgroups=sorted({*before, path}))

    def _add_link(self, left: Port, right: Port) -> None:
        queues = ["numrxqueues", str(self.spec.queues), "numtxqueues", str(self.spec.queues)]
        ends = []
        for port in (left, right):
            netns = FilePath(port.netns or "").name
            ends.append(["name", port.ifname, "netns", netns, "mtu", str(port.mtu), "address", port.mac, *queues])
        LocalHost().run(["ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1]])
        for port in (left, right):
            offloads_off(port.host, port.ifname)
            port.host.run(["ip", "link", "set", port.ifname, "up", "promisc", "on"])

    @staticmethod
    def _switch_napi_on(port: Port) -> None:
        """GRO has been off since before the link came up: this is the change that it takes."""
        port.host.run(["ethtool", "-K", port.ifname, "gro", "on"])


def _pod_names(count: int) -> list[str]:
    return [f"pod{number}" for number in range(1, count + 1)]


def _is_taken(netns: str) -> bool:
    return FilePath("/run/netns", netns).exists()


def _remove(lock: TestbedLock) -> list[str]:
    """Kill what runs in the cgroups and namespaces of the state file, remove them, and verify that they are gone.

    Cgroups first: what is frozen cannot be killed otherwise.
    """
    steps, removed, state = Steps(), [], lock.state()
    left: dict[str, list[str]] = {"cgroups": [], "netns": []}
    for cgroup in state.get("cgroups", ()):
        left["cgroups"].append(cgroup)
        with steps.step(cgroup):
            remove(FilePath(cgroup))
            left["cgroups"].pop()
    for netns in state.get("netns", ()):
        left["netns"].append(netns)
        with steps.step(netns):
            if _is_taken(netns):
                _remove_netns(netns)
                removed.append(netns)
            left["netns"].pop()
    with steps.step("state file"):
        lock.remember(**left)
    steps.raise_failed()
    return removed


def _remove_netns(netns: str) -> None:
    _kill_all(netns)
    LocalHost().run(["ip", "netns", "delete", netns])
    if _is_taken(netns):
        raise XdplabError(f"namespace {netns} is still there; `ip netns delete {netns}` says why")


def _kill_all(netns: str) -> None:
    """Kill each process in a namespace, and what is below it, and wait until none is left (2 s at the most)."""
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        pids = processes_of(netns) - {os.getpid()}
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)
