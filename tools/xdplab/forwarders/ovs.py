# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch in a run directory of its own: database, daemon and bridge, never those of the system.

Both directions are one OpenFlow rule each (`in_port=p0,actions=output:p1`), or several (`ovs_rules.py`): what is
compared is how frames get in and out of the switch, so nothing may depend on MAC learning.
"""

import contextlib
import re
import time
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, ClassVar, TypeVar

from xdplab.forwarders import ovs_database, ovs_openflow, ovs_readback
from xdplab.forwarders.base import Dut, Forwarder
from xdplab.forwarders.ovs_builds import (
    STOCK,
    Build,
    build_facts,
    describe_build,
    empty_database,
    find_build,
    known_keys,
    missing,
)
from xdplab.forwarders.ovs_lookups import LookupCounts
from xdplab.forwarders.ovs_options import OvsOptions, Setting, keys, settings
from xdplab.forwarders.ovs_pipelines import Tables, rule_hits, tables
from xdplab.forwarders.ovs_tunnel import open_tunnel
from xdplab.forwarders.process import how_it_ended, wait_until
from xdplab.hosts import Host, Running
from xdplab.hosts.kernel import MEND_TUN, thread_ids, why_no_tap
from xdplab.model import PointFailed, XdplabError
from xdplab.model.pipeline import KINDS

#: Not `br0`, which a machine may have.
_BRIDGE = "xdplab0"
_SHOW = "netdev-afxdp/show"
#: Lines that the daemon may have logged until frames come through.
_START_LINES = 5000
VSWITCHD = "/usr/lib/openvswitch-switch/ovs-vswitchd"

OvsOptionsT = TypeVar("OvsOptionsT", bound=OvsOptions)


class OvsForwarder(Forwarder[OvsOptionsT]):
    """What all OVS forwarders share; a subclass says how a port is made and which threads forward."""

    cumulative: ClassVar[bool] = True
    pipelines: ClassVar[tuple[str, ...]] = tuple(KINDS)
    #: Path of the stock build's daemon; Debian keeps the DPDK one beside the plain one.
    daemon: ClassVar[str] = VSWITCHD
    package: ClassVar[str] = "openvswitch-switch"
    start_timeout_s: ClassVar[float] = 20.0
    own_links: ClassVar[tuple[str, ...]] = ("ovs-netdev", _BRIDGE)

    def __init__(self, options: OvsOptionsT) -> None:
        super().__init__(options)
        self._dut: Dut | None = None
        self._running: dict[str, Running] = {}
        self._known: frozenset[str] | None = None
        self._names: list[str] = []
        self._made = Tables([])
        self._facts: dict[str, Any] = {}
        self.build: Build = find_build(options.build, self.daemon)

    @abstractmethod
    def interface(self, index: int, dut: Dut) -> tuple[str, list[str]]:
        """Name of port `index` in OVS and the columns of its Interface row (`type=...`, `options:...`)."""

    def daemon_settings(self, dut: Dut) -> list[str]:
        """`other_config` items set before the daemon starts."""
        return []

    def daemon_cpus(self, dut: Dut) -> tuple[int, ...]:
        """CPUs of the daemon's other threads: housekeeping, for PMD threads place themselves."""
        return dut.layout.housekeeping

    def daemon_env(self, dut: Dut) -> dict[str, str]:
        """Environment of the daemon."""
        # Without a libxdp dispatcher the port's program is the only one: one call less per frame, the same everywhere.
        return {"LIBXDP_SKIP_DISPATCHER": "1"}

    def supported(self, dut: Dut) -> str | None:
        """The build must be there and know every option that is asked for, and make tap devices."""
        reason = missing(dut.host, self.build, self.package)
        if reason:
            return reason
        without = why_no_tap(dut.host)
        if without:
            return f"Open vSwitch makes a tap device for each bridge, and {without}: {MEND_TUN}"
        for setting in settings(self.options):
            if self._key(dut.host, setting) is None:
                brings = f"; patch {setting.key.patch} of ovs/ brings it" if setting.key.patch else ""
                return (
                    f"{setting.field}={setting.text}: OVS build {self.build.name!r} "
                    f"({build_facts(dut.host, self.build)['version']}) has no "
                    f"{setting.key.mark or setting.key.names[0]}{brings}"
                )
        return None

    def start(self, dut: Dut) -> None:
        """Database with the bridge in it, daemon, flows; each step is checked."""
        self._dut = dut
        self._lookups = LookupCounts()
        self._facts = build_facts(dut.host, self.build)
        database = self._path("conf.db")
        dut.host.write(database, empty_database(dut.host, self.build, database))
        self._start(
            "ovsdb-server",
            [self.build.ovsdb_server, database, f"--remote=punix:{self._path('db.sock')}"],
        )
        self._wait_for_database()
        self._add_bridge(dut)
        self._start("ovs-vswitchd", [self.build.vswitchd, f"unix:{self._path('db.sock')}"], self.daemon_cpus(dut))
        self._wait_until_configured()
        self._add_flows()

    def stop(self) -> None:
        """Daemon first, so that it detaches its XDP programs, then the database.

        `exit --cleanup` also removes the tap devices of the datapath and the bridge, which SIGTERM leaves behind.
        """
        daemon = self._running.get("ovs-vswitchd")
        if daemon is not None and daemon.poll() is None and self._dut is not None:
            with contextlib.suppress(XdplabError):
                self._control("exit", "--cleanup", timeout_s=5.0)
                daemon.wait(5.0)
        for name in ("ovs-vswitchd", "ovsdb-server"):
            process = self._running.pop(name, None)
            if process is not None:
                process.stop()

    def crashed(self) -> str | None:
        """Which of the two processes ended, and how."""
        return next(filter(None, (how_it_ended(name, process) for name, process in self._running.items())), None)

    def pids(self) -> tuple[int, ...]:
        """The daemon."""
        return (self._running["ovs-vswitchd"].pid,) if "ovs-vswitchd" in self._running else ()

    def forwarding_threads(self) -> dict[int, int]:
        """The PMD threads."""
        return self._threads(r"^pmd-c")

    def counters(self) -> dict[str, Any]:
        """Statistics of each port, events of netdev-afxdp (`coverage`), and where threads met frames (`lookups`)."""
        ports = ovs_openflow.port_counters(self._spoken(ovs_openflow.ASK))
        ports.pop(_BRIDGE, None)
        return {
            **ports,
            "coverage": ovs_readback.coverage_totals(self._control("coverage/show"), "afxdp_"),
            **self._lookups.read(self._control),
        }

    def rule_count(self) -> tuple[int, int]:
        """In all tables."""
        return ovs_openflow.rules_there(self._spoken), len(self._made.flows)

    def rule_hits(self) -> dict[str, int]:
        """By cookie and meter, once the datapath's counts have been taken over (`revalidator/wait`)."""
        self._control("revalidator/wait")
        return rule_hits(self._spoken, self._made)

    def log_tail(self) -> tuple[str, ...]:
        """The daemon's last lines."""
        daemon = self._running.get("ovs-vswitchd") or self._running.get("ovsdb-server")
        return daemon.log_tail() if daemon else ()

    def mode(self) -> dict[str, Any]:
        """What the build is, what each port tells of itself, and which core polls which queue."""
        places = [place.model_dump() for place in ovs_readback.rxq_places(self._control("dpif-netdev/pmd-rxq-show"))]
        build = {key: self._facts[key] for key in ("name", "version", "key") if key in self._facts}
        return {"build": build, "ovs": self._told(), "rxqs": places}

    def ineffective(self) -> str | None:
        """The first option that OVS took without a word and does not show to be in force."""
        assert self._dut is not None
        host, told = self._dut.host, self._told()
        log = "\n".join(self._running["ovs-vswitchd"].log_tail(_START_LINES))
        for setting in settings(self.options):
            name = self._key(host, setting)
            where = told if setting.key.column == "options" else {}
            wrong = [f"{port}: {why}" for port, has in where.items() if (why := setting.proven(has, name or ""))]
            if not setting.logged(log):
                wrong.append("the daemon's log does not say that it took it")
            if setting.key.proven_by and (why := getattr(self, setting.key.proven_by)()):
                wrong.append(why)
            if wrong:
                return f"{setting.field}={setting.text} is not in force: {wrong[0]}"
        return None

    @classmethod
    def versions(cls, host: Host) -> Mapping[str, str]:
        """Version of the stock daemon (and of DPDK, when it is linked in)."""
        return {FilePath(cls.daemon).name: describe_build(host, find_build(STOCK, cls.daemon))}

    def versions_asked_for(self, host: Host) -> Mapping[str, str]:
        """Version of the build that the options name, under that name."""
        program = FilePath(self.daemon).name
        name = program if self.build.name == STOCK else f"{program} ({self.build.name})"
        return {name: describe_build(host, self.build)}

    def _key(self, host: Host, setting: Setting) -> str | None:
        """The key under which the build knows an option, or None."""
        known = self._knows(host)
        return next((name for name in setting.key.names if name in known and setting.key.mark in ("", *known)), None)

    def _knows(self, host: Host) -> frozenset[str]:
        if self._known is None:
            self._known = known_keys(host, self.build, frozenset({_SHOW, *keys(self.options_model)}))
        return self._known

    def _columns(self, host: Host, column: str) -> list[str]:
        """`KEY=VALUE` of all options of a column."""
        return [
            f"{self._key(host, setting)}={setting.text}"
            for setting in settings(self.options)
            if setting.key.column == column
        ]

    def _told(self) -> dict[str, dict[str, Any]]:
        """Port -> what it tells of itself: configuration, status, and `netdev-afxdp/show` where a build has it."""
        assert self._dut is not None
        configs = ovs_readback.port_configs(self._control("dpctl/show"))
        statuses = {name: ovs_readback.ovsdb_map(status) for name, status in self._interfaces("status").items()}
        told: dict[str, dict[str, Any]] = {
            name: {**configs.get(name, {}), **statuses.get(name, {})} for name in self._names
        }
        if _SHOW in self._knows(self._dut.host):
            shown = ovs_readback.afxdp_show(self._control(_SHOW))
            for name in self._names:
                show = shown.get(name, {})
                told[name] |= {**ovs_readback.busy_polling(told[name], show), "show": show}
        return told

    def _path(self, name: str) -> str:
        assert self._dut is not None
        return str(self._dut.rundir / name)

    def _threads(self, pattern: str) -> dict[int, int]:
        assert self._dut is not None
        (pid,) = self.pids() or (0,)
        return {tid: pid for tid, name in thread_ids(self._dut.host, pid).items() if re.search(pattern, name)}

    def _start(self, name: str, argv: list[str], cpus: tuple[int, ...] | None = None) -> None:
        assert self._dut is not None
        rundir = str(self._dut.rundir)
        folders = {f"OVS_{kind}": rundir for kind in ("RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR")}
        common = [f"--unixctl={self._path(name + '.ctl')}", "--no-chdir", "-vconsole:info", "-vsyslog:off"]
        self._running[name] = self._dut.host.start(
            [*argv, *common],
            log=self._dut.rundir / f"{name}.log",
            cpus=cpus,
            env={**folders, **self.daemon_env(self._dut)},
        )

    def _wait_for_database(self) -> None:
        """Until it answers: its socket is there a moment before anybody listens at it."""
        assert self._dut is not None
        host, socket = self._dut.host, self._dut.rundir / "db.sock"

        def answers() -> bool:
            self._check_alive()
            if not host.exists(socket):
                return False
            with contextlib.suppress(XdplabError):
                return bool(host.ask_socket(socket, "echo", "here", timeout_s=self.start_timeout_s) == ["here"])
            return False

        wait_until(answers, self.start_timeout_s, f"{self.name}: an answer of its database")

    def _check_alive(self) -> None:
        ended = self.crashed()
        if ended:
            raise PointFailed(f"{self.name}: {ended}: {' | '.join(self.log_tail()[-2:])}")

    def _vsctl(self, *args: str) -> str:
        assert self._dut is not None
        try:
            database = f"--db=unix:{self._path('db.sock')}"
            return self._dut.host.run(
                [self.build.vsctl, database, f"--timeout={int(self.start_timeout_s)}", *args]
            ).stdout
        except XdplabError as exc:
            raise PointFailed(f"{self.name}: {self.crashed() or exc}") from None

    def _control(self, command: str, *args: str, timeout_s: float = 30.0) -> str:
        """What the daemon answers a command with: no program is started for it, which takes 20 ms and more."""
        assert self._dut is not None
        socket = self._dut.rundir / "ovs-vswitchd.ctl"
        return str(self._dut.host.ask_socket(socket, command, *args, timeout_s=timeout_s))

    def _interfaces(self, column: str) -> dict[str, Any]:
        """Name -> what the database has in a column of it (RFC 7047 section 5.1)."""
        (told,) = self._transact({"op": "select", "table": "Interface", "where": [], "columns": ["name", column]})
        return {row["name"]: row[column] for row in told["rows"]}

    def _transact(self, *operations: dict[str, Any]) -> list[dict[str, Any]]:
        """Results of operations on the database (RFC 7047 section 4.1.3).

        Raises:
            PointFailed: one is an error, or the database does not answer.
        """
        assert self._dut is not None
        try:
            told = self._dut.host.ask_socket(self._dut.rundir / "db.sock", "transact", "Open_vSwitch", *operations)
        except XdplabError as exc:
            raise PointFailed(f"{self.name}: {self.crashed() or exc}") from None
        for each in told:
            if each and each.get("error") not in (None, ovs_database.TIMED_OUT):
                raise PointFailed(f"{self.name}: database: {each['error']}: {each.get('details', '')}")
        return list(told)

    def _add_bridge(self, dut: Dut) -> None:
        """The settings of the daemon and the bridge with all ports, in one transaction, which its first look finds."""
        wanted = [*self.daemon_settings(dut), *self._columns(dut.host, "Open_vSwitch")]
        ports = [self.interface(index, dut) for index in range(len(dut.ports))]
        self._names = [name for name, _ in ports]
        self._transact(*ovs_database.bridge(_BRIDGE, ports, [f"other_config:{item}" for item in wanted]))

    def _wait_until_configured(self) -> None:
        """Until the daemon has taken over what the database had at its start.

        Raises:
            PointFailed: it ended, it is not ready in time, or it reports an error for a port.
        """
        deadline = time.monotonic() + self.start_timeout_s
        while self._transact(ovs_database.CONFIGURED)[0].get("error") == ovs_database.TIMED_OUT:
            self._check_alive()
            if time.monotonic() > deadline:
                raise PointFailed(f"{self.name}: not configured after {self.start_timeout_s:g} s")
        for name, error in self._interfaces("error").items():
            if error != ["set", []]:
                raise PointFailed(f"{self.name}: port {name}: {error}")

    def _add_flows(self) -> None:
        assert self._dut is not None
        open_tunnel(self._dut, _BRIDGE, self._vsctl, self._control)
        made = self._made = tables(self._dut, (self._names[0], self._names[-1]), self.options)
        for meter in made.meters:
            self._ofctl("add-meter", meter)
        for group in made.groups:
            self._ofctl("add-group", group)
        self._ofctl("add-flows", "--bundle", "-", stdin="\n".join(made.flows) + "\n")

    def _spoken(self, asked: bytes) -> bytes:
        """What the bridge answers over OpenFlow."""
        assert self._dut is not None
        return self._dut.host.exchange(self._dut.rundir / f"{_BRIDGE}.mgmt", asked, ovs_openflow.END, timeout_s=60.0)

    def _ofctl(self, command: str, *args: str, stdin: str | None = None) -> str:
        assert self._dut is not None
        argv = [self.build.ofctl, "--protocols=OpenFlow15", command, f"unix:{self._path(_BRIDGE + '.mgmt')}", *args]
        return self._dut.host.run(argv, stdin=stdin, timeout_s=120.0).stdout
