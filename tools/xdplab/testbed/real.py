# SPDX-License-Identifier: Apache-2.0
"""Hosts A, B, C as machines behind SSH, with the ports that the testbed file names.

One clock: a one-way latency is the difference of two readings of a clock, so both must be of the same one. A and C may
be one machine with two ports, or two network namespaces of one kernel (the same boot id, and A can open C's namespace).
Otherwise only round trips are measured. Clocks of two machines are never compared, however well they are disciplined:
PTP keeps them within some 100 ns, which is what a fast path takes.
"""

import secrets
from functools import partial
from pathlib import Path as FilePath
from typing import Any

from xdplab.hosts import Host, NetnsHost, SshHost
from xdplab.hosts.kernel import detach_xdp, has_carrier
from xdplab.hosts.waiting import comes_true, run_parallel
from xdplab.model import CpuLayout, HostLost, InputError, LinkLost, Path, PortSpec, TestbedSpec, XdplabError
from xdplab.model.inventory import PortRole
from xdplab.testbed import cards, port_settings
from xdplab.testbed.base import Port, TesterPorts, extra_sender_cpus, ports_of_path
from xdplab.testbed.state import TestbedLock, lasting_dir

#: Ports that frames are redirected to, and which therefore need NAPI on veth.
_REDIRECTED_TO = ("b0", "b1", "d0", "d1")
_LINK_TIMEOUT_S = 15.0
#: How often in a row a connection may be lost while it is made again.
_RECONNECTS = 5


class HostsTestbed:
    """Machines that are there before a run and after it."""

    freezer = None

    pods: tuple[NetnsHost, ...] = ()

    def __init__(self, spec: TestbedSpec) -> None:
        self.spec = spec
        self.lock = TestbedLock(spec.name)
        controller = f"{controller_id()}/{spec.name}"  # the lock of that name says that there is no other one
        self._hosts = {name: SshHost(name, host, controller) for name, host in spec.hosts.items()}
        self.ports: dict[str, Port] = {}
        self._host_of = {role: self._hosts[port.host] for role, port in spec.ports.items()}

    @property
    def hosts(self) -> dict[str, SshHost]:
        """The machines by name."""
        return self._hosts

    @property
    def dut(self) -> SshHost:
        """The host of b0 and b1."""
        return self._host_of["b0"]

    @property
    def tester_host(self) -> SshHost:
        """The host of a0."""
        return self._host_of["a0"]

    @property
    def system(self) -> SshHost:
        """The same machine as `dut`."""
        return self.dut

    @property
    def one_machine(self) -> bool:
        """The same boot id: one kernel."""
        return bool(self.dut.facts["boot_id"] == self.tester_host.facts["boot_id"])

    @property
    def cpus(self) -> tuple[int, ...]:
        """CPUs of B, in the order of the file."""
        return self._cpus(self.dut, 1 if not self.one_machine else 2)

    def cpus_of(self, host: Host) -> tuple[int, ...]:
        """In the order of the file."""
        assert isinstance(host, SshHost)
        return self._cpus(host, 1)

    @property
    def layout(self) -> CpuLayout:
        """Tester and forwarder on the first CPUs of the file; without one, next to each machine's first CPU.

        On one machine as on the embedded testbed: the tester on the first, the forwarder on the second.
        """
        cpus = self.cpus
        if self.one_machine:
            tester = self._cpus(self.tester_host, 1)[0]
            own = [cpu for cpu in cpus if cpu != tester]
            beside = extra_sender_cpus(tester, own[1:], self.spec)
            rest = tuple(cpu for cpu in own[1:] if cpu not in beside)
            return CpuLayout(tester_tx=tester, forwarder=own[0], housekeeping=rest or (tester,), extra_senders=beside)
        forwarder, tester = self._preferred(self.dut), self._preferred(self.tester_host)
        others = [cpu for cpu in self._cpus(self.tester_host, 1) if cpu != tester]
        return CpuLayout(
            tester_tx=tester,
            extra_senders=extra_sender_cpus(tester, others, self.spec),
            forwarder=forwarder,
            housekeeping=tuple(cpu for cpu in cpus if cpu != forwarder) or (forwarder,),
        )

    @property
    def clock(self) -> tuple[bool, str]:
        """Whether A and C share one, and why."""
        if not self.spec.one_way:
            return False, "the testbed file says one_way: false"
        if self.spec.one_cable:
            return True, "A has the only port of the tester"
        here, there = self.tester_host, self._host_of["c0"]
        if here is there:
            return True, f"A and C are one machine ({here.name})"
        if self._netns("c0") is not None:
            return True, f"A ({here.name}) and C ({there.name}) are network namespaces of one kernel"
        return False, f"A ({here.name}) and C ({there.name}) have clocks of their own"

    def beside(self, number: int) -> "HostsTestbed":
        """The only place."""
        return self

    def folder_on(self, host: Host) -> FilePath:
        """The host's own."""
        assert isinstance(host, SshHost)
        return host.folder

    def look(self) -> None:
        """Connect, and check that CPUs and ports are free. Neither is changed; both are held until `down`."""
        self.lock.acquire_unchanged()
        try:
            self._connect()
            self._hold_cpus()
            for role, given in self.spec.ports.items():
                port = self.ports[role]
                if not port.in_kernel:
                    continue
                link = port_settings.read_link(port.host, port.ifname)
                port_settings.refuse_if_needed(port.host, port.ifname, link)
                refuse_wrong(port, given, link, self.spec.queues)
        except BaseException:
            self.down()
            raise

    def up(self) -> None:
        """`look`, remember how the ports are, and make them fit for tests."""
        self.look()
        try:
            there = {role: port for role, port in self.ports.items() if port.in_kernel}
            before = {role: port_settings.snapshot(port.host, port.ifname) for role, port in there.items()}
            self.lock.remember_boots(*self._hosts.values())
            self.lock.remember(ports=before)
            for port in there.values():
                port_settings.prepare(port, napi=port.role in _REDIRECTED_TO)
            self._wait_for_links()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Put the ports back as they were, end what runs on the hosts, and hang up."""
        if not self.lock.held:
            return
        failures = self._put_ports_back()
        for _ in range(_RECONNECTS if failures else 0):  # perhaps because the connection was lost
            try:
                if not self.reconnect():
                    break
            except XdplabError as exc:
                failures.append(str(exc))
                break
            failures = self._put_ports_back()
        for host in self._hosts.values():
            host.close()
        if not self.lock.changed:
            self.lock.forget()
        self.lock.release()
        if failures:
            raise XdplabError(f"{'; '.join(failures)}; `xdplab restore --testbed` with this file tries again")

    def _put_ports_back(self) -> list[str]:
        """Each port as it was; what keeps one from it. What is left to do stays in the state file."""
        failures = []
        try:
            cards.give_back(self.lock, self.dut)
        except XdplabError as exc:
            failures.append(str(exc))
        saved = self.lock.state().get("ports", {})
        for role in list(saved):
            port = self.ports.get(role)
            try:
                if port is None:
                    raise XdplabError(f"{self.spec.name}: {role}: not connected")
                port_settings.restore(port.host, port.ifname, saved[role])
                del saved[role]
            except XdplabError as exc:
                failures.append(str(exc))
        if self.lock.state():
            self.lock.remember(ports=saved)
        return failures

    def check_connections(self) -> None:
        """Ask each host something."""
        run_parallel(*(partial(host.exists, "/") for host in self._hosts.values()))

    def reconnect(self) -> list[str]:
        """Connect again where the connection was lost: with CPUs held, and with the namespaces of new sessions."""
        found: list[str] = []
        for _ in range(_RECONNECTS):
            again = [host.name for host in self._hosts.values() if host.reconnect()]
            found += again
            try:
                if again:
                    self._hold_cpus()
                    cards.give_back(self.lock, self.dut)
                    self.find_ports()
                    for role in self.lock.state().get("ports", {}):  # as it was when somebody was about to change it
                        port_settings.prepare(self.ports[role], napi=role in _REDIRECTED_TO)
            except LinkLost:
                continue
            return found
        raise HostLost(
            f"{', '.join(dict.fromkeys(found))}: the connection is lost each time; `xdplab restore` "
            "puts back what is still changed there"
        )

    def clear_away(self) -> list[str]:
        """What runs on the hosts ends when we connect; then XDP programs and links of a killed forwarder."""
        if not self.lock.changed:
            return []
        for host in self._hosts.values():
            host.open()
        done = [f"{host.name}: {name} ended" for host in self._hosts.values() for name in host.facts["ended"]]
        done += self._forget_reset_by_boot()
        done += cards.give_back(self.lock, self.dut)
        self.find_ports()
        saved = self.lock.state().get("ports", {})
        for role in saved:  # before a knob is put back on it
            port_settings.refuse_other_card(self.ports[role].host, self.ports[role].ifname, saved[role])
        for port in self.ports.values():
            if port.in_kernel and detach_xdp(port.host, port.ifname):
                done.append(f"{port.host.name}: XDP program of {port.ifname} detached")
        for name in self.lock.state().get("links", ()):
            if self.dut.exists(f"/sys/class/net/{name}"):
                self.dut.run(["ip", "link", "delete", "dev", name])
                done.append(f"{self.dut.name}: link {name} removed")
        self.lock.remember(links=[])
        done += [f"{self.ports[role].host.name}: {self.ports[role].ifname} as before" for role in saved]
        return done

    def _forget_reset_by_boot(self) -> list[str]:
        """Ports, links and settings of a rebooted host are as after its boot, and stay so."""
        state = self.lock.state()
        ports = state.get("ports", {})
        again = [host for host in self._hosts.values() if self.lock.rebooted(host)]
        if self.dut in again:
            state.update(links=[], cards={}, settings={}, settings_ports=[])
        own = state.get("own_settings", {})
        left = {role: saved for role, saved in ports.items() if self._host_of[role] not in again}
        own = {role: saved for role, saved in own.items() if self._host_of[role] not in again}
        self.lock.remember(**{**state, "ports": left, "own_settings": own})
        return [f"{host.name}: rebooted since, which reset what a run had changed" for host in again]

    def notes(self) -> list[str]:
        """Hosts whose connection was lost."""
        return [
            f"{host.name}: the connection was lost {host.reconnects} time{'s' * (host.reconnects > 1)}"
            for host in self._hosts.values()
            if host.reconnects
        ]

    def tester_ports(self, path: Path) -> TesterPorts:
        """Where the tester sends and receives for a path."""
        ports = ports_of_path(self.ports, path)
        far = ports.mirror is not None and ports.mirror.host is not self.tester_host and ports.mirror.netns is None
        return TesterPorts(ports.first, ports.last, ports.mirror, far)

    def direct_ports(self) -> TesterPorts | None:
        """The direct link, where the file has one and the tester reaches both ends."""
        if "d0" not in self.ports or not self.clock[0]:
            return None
        return TesterPorts(self.ports["d0"], self.ports["d1"])

    def _connect(self) -> None:
        for host in self._hosts.values():
            host.open()
        self.find_ports()

    def _hold_cpus(self) -> None:
        """No other testbed measures on the CPUs of any host; of hosts that are one machine, each CPU is taken once."""
        held: dict[str, set[int]] = {}
        for host in self._hosts.values():
            there = held.setdefault(host.facts["boot_id"], set())
            cpus = set(self._cpus(host, 1)) - there
            host.hold_cpus(sorted(cpus))
            there |= cpus

    def find_ports(self) -> None:
        """Look at the interfaces of the file; the hosts are connected.

        Raises:
            InputError: one is not there.
        """
        for role, given in self.spec.ports.items():
            host = self._host_of[role]
            if given.ifname is None:
                known = self.ports[role].mac if role in self.ports else given.mac or ""
                self.ports[role] = Port(role, host, given.title, known, self.spec.mtu, lasting=True, trex=given.trex)
                continue
            link = port_settings.read_link(host, given.ifname)
            mac, mtu, netns = str(link["address"]), self.spec.mtu, self._netns(role)
            self.ports[role] = Port(role, host, given.ifname, mac, mtu, netns=netns, lasting=True)

    def _netns(self, role: PortRole) -> str | None:
        """How the tester's host opens the namespace of a port's host; None: its own, or on another machine."""
        here, there = self.tester_host, self._host_of[role]
        one_kernel = here.facts["boot_id"] == there.facts["boot_id"]
        if here is there or role.startswith("b") or not (one_kernel and self.spec.one_way):
            return None
        path = f"/proc/{there.facts['pid']}/ns/net"
        seen = here.run(["readlink", path], check=False).stdout.strip()
        return path if seen == there.facts["netns"] else None

    def _wait_for_links(self) -> None:
        for port in filter(lambda port: port.in_kernel, self.ports.values()):
            if not comes_true(partial(has_carrier, port.host, port.ifname), _LINK_TIMEOUT_S, 0.1):
                raise InputError(
                    f"{port.host.name}: {port.ifname} ({port.role}) has no link; check the cable and the far end "
                    f"(`xdplab doctor --testbed ...`)"
                )

    def _cpus(self, host: SshHost, at_least: int) -> tuple[int, ...]:
        given = self.spec.hosts[host.name].cpus
        cpus = tuple(dict.fromkeys(given)) if given is not None else host.cpus
        missing = [cpu for cpu in cpus if cpu not in host.cpus]
        if missing:
            raise InputError(f"{host.name}: cpus: {missing} not available there (available: {list(host.cpus)})")
        if len(cpus) < at_least:
            raise InputError(f"{host.name}: cpus: {at_least} are needed, one for the tester and one for the forwarder")
        return cpus

    def _preferred(self, host: SshHost) -> int:
        cpus = self._cpus(host, 1)
        return cpus[0] if self.spec.hosts[host.name].cpus is not None or len(cpus) == 1 else cpus[1]


def refuse_wrong(port: Port, given: PortSpec, link: dict[str, Any], queues: int) -> None:
    """A port that is not what the file says is not taken.

    Raises:
        InputError: it has another address; or it is the forwarder's, and has not got so many queues.
    """
    found, there = link["address"], link.get("num_rx_queues", queues)
    if given.mac is not None and found != given.mac:
        raise InputError(f"{port.host.name}: {port.ifname} ({port.role}) has MAC {found}, the file says {given.mac}")
    if port.role.startswith("b") and there < queues:
        raise InputError(
            f"{port.host.name}: {port.ifname} ({port.role}) has {there} receive queue{'s' * (there > 1)}, the file "
            f"says queues: {queues}"
        )


def controller_id() -> str:
    """What tells the agents that two sessions are of this machine and its locks, and not of somebody else."""
    path = lasting_dir() / "controller"
    if not path.exists():
        partial = path.with_suffix(f".{secrets.token_hex(4)}")
        partial.write_text(secrets.token_hex(16), encoding="ascii")
        partial.rename(path)
    return path.read_text(encoding="ascii")
