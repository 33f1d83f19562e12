# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch in a run directory of its own: database, daemon and bridge, never those of the system.

Both directions are one OpenFlow rule each (`in_port=p0,actions=output:p1`): what is compared is how frames get in and
out of the switch, so nothing may depend on MAC learning.
"""

import json
import re
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, ClassVar, TypeVar

from xdplab.forwarders.base import Dut, Forwarder
from xdplab.forwarders.process import how_it_ended, wait_until
from xdplab.hosts import Host, Running
from xdplab.hosts.kernel import thread_ids
from xdplab.model import Model, PointFailed, XdplabError

_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
_BRIDGE = "br0"
VSWITCHD = "/usr/lib/openvswitch-switch/ovs-vswitchd"

OvsOptionsT = TypeVar("OvsOptionsT", bound=Model)


class OvsForwarder(Forwarder[OvsOptionsT]):
    """What all OVS forwarders share; a subclass says how a port is made and which threads forward."""

    #: Path of the daemon; Debian keeps the DPDK one beside the plain one.
    daemon: ClassVar[str] = VSWITCHD
    package: ClassVar[str] = "openvswitch-switch"
    start_timeout_s: ClassVar[float] = 20.0

    def __init__(self, options: OvsOptionsT) -> None:
        super().__init__(options)
        self._dut: Dut | None = None
        self._running: dict[str, Running] = {}

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
        """Both daemons must be installed."""
        for program in (self.daemon, "/usr/sbin/ovsdb-server"):
            if dut.host.run(["test", "-x", program], check=False).returncode:
                return f"{program} is not installed (package {self.package}); `ci/setup` installs it"
        return None

    def start(self, dut: Dut) -> None:
        """Database, daemon, bridge, ports, flows; each step is checked."""
        self._dut = dut
        database = self._path("conf.db")
        dut.host.run(["ovsdb-tool", "create", database, _SCHEMA])
        self._start(
            "ovsdb-server",
            ["/usr/sbin/ovsdb-server", database, f"--remote=punix:{self._path('db.sock')}"],
        )
        self._wait_for("db.sock")
        self._vsctl("--no-wait", "init")
        settings = self.daemon_settings(dut)
        if settings:
            self._vsctl("--no-wait", "set", "Open_vSwitch", ".", *[f"other_config:{item}" for item in settings])
        self._start("ovs-vswitchd", [self.daemon, f"unix:{self._path('db.sock')}"], self.daemon_cpus(dut))
        self._wait_for("ovs-vswitchd.ctl")
        self._add_flows(self._add_bridge(dut))

    def stop(self) -> None:
        """Daemon first, so that it detaches its XDP programs, then the database.

        `exit --cleanup` also removes the tap devices of the datapath and the bridge, which SIGTERM leaves behind.
        """
        daemon = self._running.get("ovs-vswitchd")
        if daemon is not None and daemon.poll() is None and self._dut is not None:
            exit_cleanly = ["ovs-appctl", "-t", self._path("ovs-vswitchd.ctl"), "--timeout=5", "exit", "--cleanup"]
            if self._dut.host.run(exit_cleanly, check=False).returncode == 0:
                daemon.wait(5.0)
        for name in ("ovs-vswitchd", "ovsdb-server"):
            process = self._running.pop(name, None)
            if process is not None:
                process.stop()

    def crashed(self) -> str | None:
        """Which of the two processes ended, and how."""
        for name, process in self._running.items():
            ended = how_it_ended(name, process)
            if ended:
                return ended
        return None

    def pids(self) -> tuple[int, ...]:
        """The daemon."""
        return (self._running["ovs-vswitchd"].pid,) if "ovs-vswitchd" in self._running else ()

    def forwarding_threads(self) -> dict[int, int]:
        """The PMD threads."""
        return self._threads(r"^pmd-c")

    def counters(self) -> dict[str, Any]:
        """Interface statistics of OVS, by port."""
        rows = json.loads(self._vsctl("--format=json", "--columns=name,statistics", "list", "Interface"))
        return {name: dict(statistics[1]) for name, statistics in rows["data"] if name != _BRIDGE}

    def log_tail(self) -> tuple[str, ...]:
        """The daemon's last lines."""
        daemon = self._running.get("ovs-vswitchd") or self._running.get("ovsdb-server")
        return daemon.log_tail() if daemon else ()

    @classmethod
    def versions(cls, host: Host) -> Mapping[str, str]:
        """Version of the daemon (and of DPDK, when it is linked in)."""
        return {FilePath(cls.daemon).name: ovs_version(host, cls.daemon)}

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

    def _wait_for(self, socket: str) -> None:
        path = FilePath(self._path(socket))

        def there() -> bool:
            ended = self.crashed()
            if ended:
                raise PointFailed(f"{self.name}: {ended}: {' | '.join(self.log_tail()[-2:])}")
            return path.exists()

        wait_until(there, self.start_timeout_s, f"{self.name}: socket {socket}")

    def _vsctl(self, *args: str) -> str:
        assert self._dut is not None
        try:
            database = f"--db=unix:{self._path('db.sock')}"
            return self._dut.host.run(["ovs-vsctl", database, f"--timeout={int(self.start_timeout_s)}", *args]).stdout
        except XdplabError as exc:
            raise PointFailed(f"{self.name}: {self.crashed() or exc}") from None

    def _appctl(self, *args: str) -> str:
        assert self._dut is not None
        return self._dut.host.run(["ovs-appctl", "-t", self._path("ovs-vswitchd.ctl"), *args]).stdout

    def _add_bridge(self, dut: Dut) -> list[str]:
        """The bridge with all ports in one transaction; returns their names.

        Raises:
            PointFailed: OVS reports an error for a port.
        """
        commands = ["add-br", _BRIDGE, "--", "set", "bridge", _BRIDGE, "datapath_type=netdev", "fail-mode=secure"]
        names = []
        for index in range(len(dut.ports)):
            name, columns = self.interface(index, dut)
            commands += ["--", "add-port", _BRIDGE, name, "--", "set", "Interface", name, *columns]
            names.append(name)
        self._vsctl(*commands)
        for name, error in json.loads(self._vsctl("--format=json", "--columns=name,error", "list", "Interface"))[
            "data"
        ]:
            if error != ["set", []]:
                raise PointFailed(f"{self.name}: port {name}: {error}")
        return names

    def _add_flows(self, names: list[str]) -> None:
        assert self._dut is not None
        flows = (
            [f"in_port={names[0]},actions=in_port"]
            if len(names) == 1
            else [f"in_port={here},actions=output:{there}" for here, there in (names, reversed(names))]
        )
        self._dut.host.run(
            ["ovs-ofctl", "add-flows", f"unix:{self._path(_BRIDGE + '.mgmt')}", "-"], stdin="\n".join(flows) + "\n"
        )


def ovs_version(host: Host, daemon: str) -> str:
    """First line of `--version` without the program's name, or that it is missing."""
    if host.run(["test", "-x", daemon], check=False).returncode:
        return "not installed"
    lines = host.run([daemon, "--version"]).stdout.splitlines()
    return "; ".join(line.removeprefix("ovs-vswitchd ").strip() for line in lines[:2] if line.strip())
