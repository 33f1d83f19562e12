# SPDX-License-Identifier: Apache-2.0
"""Hosts A, B, C as machines behind SSH, with the ports that the testbed file names.

One clock: a one-way latency is the difference of two readings of a clock, so both must be of the same one. A and C may
be one machine with two ports, or two network namespaces of one kernel (the same boot id, and A can open C's namespace).
Otherwise only round trips are measured. Clocks of two machines are never compared, however well they are disciplined:
PTP keeps them within some 100 ns, which is what a fast path takes.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path as FilePath
from typing import Any

from xdplab.hosts import Host, NetnsHost, SshHost
from xdplab.hosts.kernel import detach_xdp, has_carrier, remove_link
from xdplab.hosts.signals import deferred
from xdplab.hosts.waiting import comes_true, run_parallel
from xdplab.model import CpuLayout, HostLost, InputError, LinkLost, Path, PortSpec, Steps, TestbedSpec, XdplabError
from xdplab.model.testbed import PortRole
from xdplab.testbed import cards, port_settings
from xdplab.testbed.base import Port, TesterPorts, extra_sender_cpus, ports_of_path
from xdplab.testbed.needs import Ours, refuse_if_needed
from xdplab.testbed.state import TestbedLock, lasting_dir, remove_shared_memory

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
        self.lock = TestbedLock(spec.name, spec.file)
        controller = f"{controller_id()}/{spec.name}"  # the lock of that name says that there is no other one
        self._hosts = {name: SshHost(name, host, controller) for name, host in spec.hosts.items()}
        self.ports: dict[str, Port] = {}
        self.left_alone: list[Host] = []
        #: Whether cards of a killed run have other users, which was reported; whether cards are asked for other users.
        self._cards_stay = self._ask_cards = False
        #: Of each host what its agent saw of interfaces when the killed run's last session ended.
        self._left: dict[str, Mapping[str, Sequence[Any]]] = {}
        #: Of each port what somebody has changed since then.
        self._theirs: dict[PortRole, dict[str, set[str]]] = {}
        self._host_of = {role: self._hosts[port.host] for role, port in spec.ports.items()}

    @property
    def hosts(self) -> dict[str, SshHost]:
        return self._hosts

    @property
    def dut(self) -> SshHost:
        """The host of b0 and b1; of an external device the tester's, where nothing of it is."""
        return self._host_of["a0" if self.spec.external else "b0"]

    @property
    def tester_host(self) -> SshHost:
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
        return self

    def folder_on(self, host: Host) -> FilePath:
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
                refuse_if_needed(port.host, port.ifname)
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
            self.lock.remember(ports=before, ports_set={}, ifnames={role: port.ifname for role, port in there.items()})
            for port in there.values():
                port_settings.prepare(port, napi=port.role in _REDIRECTED_TO)
            ours = {role: port_settings.snapshot(port.host, port.ifname) for role, port in there.items()}
            self.lock.remember(ports_set=ours)
            self._wait_for_links()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Put the ports back as they were, end what runs on the hosts, and hang up."""
        if not self.lock.held:
            return
        with deferred():
            steps = self._put_ports_back()
            for _ in range(_RECONNECTS if steps.failed else 0):  # perhaps because the connection was lost
                sessions = [host.session for host in self._hosts.values()]
                with steps.step("connections"):
                    self.reconnect()
                if sessions == [host.session for host in self._hosts.values()]:
                    break
                steps = self._put_ports_back()
            for what, call in (
                *((f"{host.name}: hanging up", host.close) for host in self._hosts.values()),
                ("state file", self.lock.forget_unchanged),
                ("lock", self.lock.release),
            ):
                with steps.step(what):
                    call()
            if steps.failed:
                raise XdplabError(f"{steps.reasons}; `xdplab restore --testbed` with this file tries again")

    def _put_ports_back(self) -> Steps:
        """Each port as it was, or what keeps it from that. What is left to do stays in the state file."""
        steps, state = Steps(), dict[str, Any]()
        with steps.step("cards"):
            self._give_cards_back()
        with steps.step("state file"):
            state = self.lock.state()
        saved = state.get("ports", {})
        # a setting that is still to be put back, such as an MTU, is so to what a run had made of the port, and the port
        # after it
        later = {*state.get("own_settings", ()), *(state.get("settings_ports", ()) if state.get("settings") else ())}
        for role in [role for role in saved if role in self.ports]:  # others are left alone, and that was said
            with steps.step(f"{self.spec.name}: {role}"):
                port = self.ports[role]
                port_settings.restore(port.host, port.ifname, saved[role], self._theirs.get(role, {}))
                if role not in later:
                    del saved[role]
        with steps.step("state file"):
            if state:
                self.lock.remember(ports=saved)
        return steps

    def _give_cards_back(self) -> list[str]:
        if self._cards_stay or self.dut in self.left_alone:
            return []
        return cards.give_back(self.lock, self.dut, ask=self._ask_cards)

    def check_connections(self) -> None:
        run_parallel(*(partial(host.exists, "/") for host in self._hosts.values()))

    def reconnect(self) -> list[str]:
        """Connect again where the connection was lost: with CPUs held, and with the namespaces of new sessions."""
        found: list[str] = []
        for _ in range(_RECONNECTS):
            steps, again = Steps(), list[str]()
            for host in self._hosts.values():  # one that is gone does not keep the others from being put back
                with steps.step(f"{host.name}: connecting"):
                    again += [host.name] if host.reconnect() else []
            found += again
            gone = bool(steps.failed)
            if again:
                self._take_up_again(steps)
            if gone or not any(isinstance(each, LinkLost) for each in steps.failed):
                steps.raise_failed()
                return found
        raise HostLost(
            f"{', '.join(dict.fromkeys(found))}: the connection keeps breaking; `xdplab restore` "
            "puts back what is still changed there"
        )

    def _take_up_again(self, steps: Steps) -> None:
        """After a connection was made again; ports as they were when somebody was about to change them."""
        for what, call in (
            ("CPUs", self._hold_cpus),
            ("cards", self._give_cards_back),
            ("ports", partial(self.find_ports, tuple(self.ports))),
        ):
            with steps.step(what):
                call()
        for role in self.lock.state().get("ports", {}):
            if role in self.ports:
                with steps.step(role):
                    port_settings.prepare(self.ports[role], napi=role in _REDIRECTED_TO)

    def clear_away(self, done: list[str], *, force: bool = False) -> None:
        """What runs on the hosts ends when we connect; then XDP programs and links of a killed forwarder.

        What fails keeps nothing else from it; a host or port with which something is wrong is left alone.
        """
        if not self.lock.changed:
            return
        steps = Steps()
        self._ask_cards = not force
        self.left_alone = list(self._hosts.values())
        for host in self._hosts.values():
            with steps.step(f"{host.name}: connecting"):
                done += self._open_again(host)
                self.left_alone.remove(host)
        with steps.step("cards"):
            try:
                done += self._give_cards_back()
            except InputError:
                self._cards_stay = True  # that somebody has one is reported once
                raise
        away = self.lock.state().get("cards", {}) if self._cards_stay else {}
        for role in sorted(self.lock.roles - {*away}):
            with steps.step(role):
                done += self._take_back(role, force=force)
        if self.dut not in self.left_alone:
            done += self._remove_links(steps)
            with steps.step("shared memory"):
                left = remove_shared_memory(self.dut, self.dut.folder / "dut")
                done += [f"{self.dut.name}: {path} removed" for path in left]
        steps.raise_failed()
        done += [f"{port.host.name}: {port.ifname} as before" for port in self.ports.values()]

    def _open_again(self, host: SshHost) -> list[str]:
        """Connect to a host of a run that was killed, if it is the same machine.

        Raises:
            InputError: another one has its address by now, or it is not reached.
        """
        host.open()
        state, now = self.lock.state(), host.identity
        roles = sorted(role for role in self.lock.roles if self._host_of.get(role) is host)
        for what, was in state.get("hosts", {}).get(host.name, {}).items():
            if roles and "" not in (was, now[what]) and was != now[what]:
                forget = " ".join(f"--forget {role}" for role in roles)
                raise InputError(
                    f"{host.name}: another machine answers: its {what} is {now[what]}, that of the run had {was}; "
                    f"put back that one, or `xdplab restore {forget}`"
                )
        # that of the first restore: the next one's sessions have seen what others did meanwhile
        self._left = {**self._left, host.name: host.facts["left"], **state.get("left", {})}
        with suppress(XdplabError):  # the disk is full: the next one does without
            self.lock.remember(left=self._left)
        done = [f"{host.name}: {name} ended" for name in host.facts["ended"]]
        return done + self._forget_reset_by_boot(host)

    def _forget_reset_by_boot(self, host: SshHost) -> list[str]:
        """Ports, links and settings of a rebooted host are as after its boot, and stay so."""
        if not self.lock.rebooted(host):
            return []
        state = self.lock.state()
        if host is self.dut:
            state.update(links=[], cards={}, settings={}, settings_ports=[])
        for key in ("ports", "own_settings"):
            state[key] = {role: was for role, was in state.get(key, {}).items() if self._host_of.get(role) is not host}
        self.lock.remember(**state)
        return [f"{host.name}: rebooted since, which reset what a run had changed"]

    def _take_back(self, role: PortRole, *, force: bool) -> list[str]:
        """Find a port of the state file, and take its XDP program off; else `ports` is without it.

        Raises:
            InputError: it is not in the file any more, it is gone, or somebody has begun to need it.
            XdplabError: it is another card.
        """
        if role not in self.spec.ports:
            raise InputError(
                f"{self.spec.name}: ports: {role}: to be put back, and not in the file any more; put it there again, "
                f"or `xdplab restore --forget {role}`"
            )
        if self._host_of[role] in self.left_alone:
            return []
        try:
            return self._find_again(role, force=force)
        except BaseException:
            self.ports.pop(role, None)
            raise

    def _find_again(self, role: PortRole, *, force: bool) -> list[str]:
        try:
            self.find_ports({role})
        except InputError as exc:
            raise InputError(f"{exc}; `xdplab restore --forget {role}` if its card is gone") from None
        port, state, done = self.ports[role], self.lock.state(), []
        if not port.in_kernel:
            return []
        if role in state.get("ports", {}):  # before a knob is put back on it
            port_settings.refuse_other_card(port.host, port.ifname, state["ports"][role])
        left = self._left[port.host.name].get(port.ifname, (0, 0, 0, {}))
        try:
            refuse_if_needed(port.host, port.ifname, Ours(state.get("links", ()), left[2]))
        except InputError as exc:
            if not force:
                raise InputError(f"{exc}; `xdplab restore --force` puts back what the run found all the same") from None
            done.append(f"--force: {exc}: put back all the same")
        if detach_xdp(port.host, port.ifname):
            done.append(f"{port.host.name}: XDP program of {port.ifname} detached")
        done += self._came_and_went_since(role, left, force=force)
        return done + self._changed_since(port, left[1], force=force)

    def _changed_since(self, port: Port, mtu_left: int, *, force: bool) -> list[str]:
        """What is neither what the run found nor what it set, or had at its end, is somebody else's, and stays."""
        state = self.lock.state()
        found, was_set = (state.get(key, {}).get(port.role) for key in ("ports", "ports_set"))
        if found is None or was_set is None:
            return []
        ours = [found, was_set, {"mtu": mtu_left}]
        by_point = state.get("settings", {}) if port.role in state.get("settings_ports", ()) else {}
        if "mtu" in by_point and (set_to := state.get("settings_set", {}).get("mtu")):
            ours.append({"mtu": int(set_to[port.ifname])})
        theirs = port_settings.changed_since(port.host, port.ifname, *ours)
        if "mtu" in by_point and set_to is None:  # the run was killed before it was known
            theirs.pop("mtu", None)
        if not force:
            self.lock.remember(ports={**state["ports"], port.role: {**found, **theirs}})
        what, so = f"{port.host.name}: {port.ifname}", "put back all the same" if force else "left alone"
        return [
            port_settings.not_ours(f"{what}: {key}", value, found.get(key), was_set.get(key), so)
            for key, value in theirs.items()
        ]

    def _came_and_went_since(self, role: PortRole, left: Sequence[Any], *, force: bool) -> list[str]:
        """Qdiscs, filters, rules and addresses that are not as at the run's end are somebody else's, and stay."""
        port, found = self.ports[role], self.lock.state().get("ports", {}).get(role, {})
        if not left[3:] or left[0] != port_settings.read_link(port.host, port.ifname).get("ifindex"):
            return []  # an older xdplab wrote it, or it is another interface by now
        theirs = port_settings.changed_after(port.host, port.ifname, found, left[3])
        if not force:
            self._theirs[role] = theirs
        so = "put back all the same" if force else "left alone"
        return [
            f"{port.host.name}: {port.ifname}: {kind}: changed after the run ended: {', '.join(sorted(names))}: {so}"
            for kind, names in theirs.items()
        ]

    def _remove_links(self, steps: Steps) -> list[str]:
        """Those that a killed forwarder made: of its names, and there when its session ended."""
        done = []
        links = self.lock.state().get("links", [])
        ours = {*links, *(port.ifname for port in self.ports.values())}
        for name in list(links):
            with steps.step(f"link {name}"):
                if self.dut.exists(f"/sys/class/net/{name}"):
                    done.append(self._remove_link(name, ours))
                links.remove(name)
        with steps.step("state file"):
            self.lock.remember(links=links)
        return done

    def _remove_link(self, name: str, ours: Collection[str]) -> str:
        was, now = self._left[self.dut.name].get(name), self.dut.read(f"/sys/class/net/{name}/ifindex")
        # an agent that was killed has seen nothing at its end
        if str(was[0]) != now if was else not name.startswith("xdplab"):
            return f"{self.dut.name}: link {name} was not there when the run ended: left alone"
        why = remove_link(self.dut, name, ours)
        return f"{self.dut.name}: {why or f'link {name} removed'}"

    def notes(self) -> list[str]:
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

    def find_ports(self, roles: Collection[str] | None = None) -> None:
        """Look at the interfaces of the file, or at those of `roles`, and hold them; the hosts are connected.

        Raises:
            InputError: one is not there, or another testbed measures with it.
        """
        steps = Steps()
        for role, given in self.spec.ports.items():
            if roles is None or role in roles:
                with steps.step(role):
                    self.ports[role] = self._find_port(role, given)
        for host in {self._host_of[role]: None for role in self.spec.ports if roles is None or role in roles}:
            mine = [port.ifname for port in self.ports.values() if port.host is host and port.trex is None]
            if mine:
                with steps.step(host.name):
                    host.hold_ports(mine)
        steps.raise_failed()

    def _find_port(self, role: PortRole, given: PortSpec) -> Port:
        host, mtu = self._host_of[role], self.spec.mtu
        if given.ifname is None:
            known = self.ports[role].mac if role in self.ports else given.mac or ""
            return Port(role, host, given.title, known, mtu, lasting=True, trex=given.trex)
        mac = str(port_settings.read_link(host, given.ifname)["address"])
        return Port(role, host, given.ifname, mac, mtu, netns=self._netns(role), lasting=True)

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
