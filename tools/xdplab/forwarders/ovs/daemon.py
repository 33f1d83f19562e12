# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch in a run directory of its own: database, daemon and bridge, never those of the system."""

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from xdplab.forwarders.base import Dut
from xdplab.forwarders.ovs import openflow
from xdplab.forwarders.ovs.builds import Build, empty_database
from xdplab.forwarders.process import LOOKUPS, Instance, ThreadLookups
from xdplab.hosts import Running
from xdplab.hosts.kernel import datapath_ports, thread_ids
from xdplab.hosts.waiting import how_it_ended
from xdplab.model import PointFailed, XdplabError, do_each

# Rows of an Open vSwitch's database as operations of RFC 7047 section 5.2, in place of calls of ovs-vsctl.
#
# A bridge that is there when the daemon looks for the first time is made at once, and no program is started for it.

#: Ends once the daemon has taken over what `bridge` gave it (ovs-vswitchd.conf.db(5), next_cfg, cur_cfg), or with the
#: error `TIMED_OUT`; the time is so short because nobody looks meanwhile whether the daemon is well.
CONFIGURED = {
    "op": "wait", "timeout": 250, "table": "Open_vSwitch", "where": [], "columns": ["cur_cfg"], "until": "==",
    "rows": [{"cur_cfg": 1}],
}  # fmt: skip
TIMED_OUT = "timed out"
Datapath = Literal["netdev", "system"]


def bridge(
    name: str, ports: Sequence[tuple[str, Iterable[str]]], settings: Iterable[str] = (), datapath: Datapath = "netdev"
) -> list[dict[str, Any]]:
    """A bridge that forwards nothing by itself, into an empty database.

    Args:
        name: of the bridge.
        ports: their names and columns (see `row`).
        settings: columns of the daemon.
        datapath: the daemon's own, or the kernel's.
    """
    operations, uuids = [], []
    for number, (port, columns) in enumerate([(name, ["type=internal"]), *ports]):
        interface, uuid = f"interface{number}", f"port{number}"
        operations += [
            _insert("Interface", {"name": port, **row(columns)}, interface),
            _insert("Port", {"name": port, "interfaces": ["named-uuid", interface]}, uuid),
        ]
        uuids.append(["named-uuid", uuid])
    own = {"name": name, "datapath_type": datapath, "fail_mode": "secure", "ports": ["set", uuids]}
    top = {"bridges": ["named-uuid", "bridge"], "next_cfg": 1, **row(settings)}
    return [*operations, _insert("Bridge", own, "bridge"), _insert("Open_vSwitch", top, "top")]


def row(columns: Iterable[str]) -> dict[str, Any]:
    """Columns as ovs-vsctl(8) takes them: `type=afxdp`, `mtu_request=1500`, `options:n_rxq=1`."""
    found: dict[str, Any] = {}
    for each in columns:
        name, _, text = each.partition("=")
        value = json.loads(text) if text.startswith('"') else text
        column, _, key = name.partition(":")
        if key:
            found.setdefault(column, ["map", []])[1].append([key, value])
        else:
            found[column] = int(value) if value.isdigit() else value
    return found


def _insert(table: str, columns: dict[str, Any], uuid: str) -> dict[str, Any]:
    return {"op": "insert", "table": table, "row": columns, "uuid-name": uuid}


#: Not `br0`, which a machine may have.
BRIDGE = "xdplab0"
_DAEMON, _DATABASE = "ovs-vswitchd", "ovsdb-server"


class Ovs(Instance):
    """A database and a daemon with one bridge, from their start until `stop`."""

    def __init__(self, name: str, dut: Dut, build: Build, timeout_s: float) -> None:
        """Nothing runs before `start`.

        Args:
            name: of the forwarder, for messages.
            dut: where it runs.
            build: whose programs.
            timeout_s: how long each step of its start may take.
        """
        super().__init__(name, dut)
        self.host = dut.host
        self.build = build
        #: Of each step of its start.
        self.timeout_s = timeout_s
        #: Of its ports, in the order of the DUT's.
        self.names: list[str] = []
        #: Programs of others without which no frame comes through, by name.
        self.beside: dict[str, Running] = {}
        self.lookups = LookupCounts()
        self._processes: dict[str, Running] = {}
        #: Ports that it has in the kernel's datapath; None: the daemon has a datapath of its own.
        self._in_kernel: set[str] | None = None
        self._may_have: frozenset[str] = frozenset()

    def start(
        self,
        ports: Sequence[tuple[str, list[str]]],
        settings: Iterable[str],
        cpus: tuple[int, ...],
        env: dict[str, str],
        datapath: Datapath = "netdev",
        may_have: Iterable[str] = (),
    ) -> None:
        """Database with the bridge in it, then the daemon, which finds it at its first look.

        Args:
            ports: their names and columns (`row`), the DUT's first.
            settings: `KEY=VALUE` of the daemon's other_config.
            cpus: of the daemon's threads that do not place themselves.
            env: of both programs.
            datapath: of the bridge.
            may_have: links that changes and topologies add to it.

        Raises:
            PointFailed: one ended, is not ready in time, or reports an error for a port.
        """
        self.names = [name for name, _ in ports[: len(self.dut.ports)]]
        self._in_kernel = {BRIDGE, *(name for name, _ in ports)} if datapath == "system" else None
        self._may_have = frozenset(may_have)
        path = self._path("conf.db")
        self.host.write(path, empty_database(self.host, self.build, path))
        socket = f"punix:{self._path('db.sock')}"
        self._begin(_DATABASE, [self.build.ovsdb_server, path, f"--remote={socket}"], env)
        self._wait_for_database()
        self.transact(*bridge(BRIDGE, ports, [f"other_config:{item}" for item in settings], datapath))
        self._begin(_DAEMON, [self.build.vswitchd, f"unix:{self._path('db.sock')}"], env, cpus)
        self._wait_until_configured()

    def stop(self) -> None:
        """Daemon first, so that it detaches its XDP programs, then the database.

        `exit --cleanup` also removes the tap devices of the datapath and the bridge, which SIGTERM leaves behind; and
        the kernel's datapath with the ports of everybody: where these are not ours, `remove_link` takes out ours.
        """
        daemon = self._processes.get(_DAEMON)
        if daemon is not None and daemon.poll() is None:
            with contextlib.suppress(XdplabError):
                self.control("exit", *(["--cleanup"] if self._datapath_is_ours() else []), timeout_s=5.0)
                daemon.wait(5.0)
        do_each("Open vSwitch", *(process.stop for process in reversed(self._processes.values())))

    def ended(self) -> str | None:
        all_of_them = {**self._processes, **self.beside}
        return next(filter(None, (how_it_ended(name, process) for name, process in all_of_them.items())), None)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for name, process in self._processes.items() if name == _DAEMON)

    def threads(self, pattern: str) -> dict[int, int]:
        """Thread -> process of the daemon's threads with such a name."""
        return {
            tid: pid
            for pid in self.pids
            for tid, name in thread_ids(self.host, pid).items()
            if re.search(pattern, name)
        }

    def log_tail(self, lines: int = 15) -> tuple[str, ...]:
        """The last lines of what was started last."""
        return next((process.log_tail(lines) for process in reversed(self._processes.values())), ())

    def control(self, command: str, *args: str, timeout_s: float = 30.0) -> str:
        """What the daemon answers a command with: no program is started for it, which takes 20 ms and more."""
        return str(self.host.ask_socket(self.dut.rundir / f"{_DAEMON}.ctl", command, *args, timeout_s=timeout_s))

    def exchange(self, asked: bytes) -> bytes:
        """What the bridge answers over OpenFlow."""
        return self.host.exchange(self.dut.rundir / f"{BRIDGE}.mgmt", asked, openflow.END, timeout_s=60.0)

    def ofctl(self, command: str, *args: str, options: Sequence[str] = (), stdin: str | None = None) -> str:
        """Output of ovs-ofctl. No argument is an option: some are lines of files (`openflow:FILE`)."""
        socket = f"unix:{self._path(BRIDGE + '.mgmt')}"
        argv = [self.build.ofctl, "--protocols=OpenFlow15", *options, "--", command, socket, *args]
        return self.host.run(argv, stdin=stdin, timeout_s=120.0).stdout

    def add_flows(self, flows: Iterable[str]) -> None:
        """All at once, or in place of the same that are there."""
        self.ofctl("add-flows", "-", options=["--bundle"], stdin="\n".join(flows) + "\n")

    def vsctl(self, *args: str) -> str:
        """Output of ovs-vsctl.

        Raises:
            PointFailed: it failed.
        """
        argv = [self.build.vsctl, f"--db=unix:{self._path('db.sock')}", f"--timeout={int(self.timeout_s)}", *args]
        return str(self._asked(lambda: self.host.run(argv).stdout))

    def transact(self, *operations: dict[str, Any]) -> list[dict[str, Any]]:
        """Results of operations on the database (RFC 7047 section 4.1.3).

        Raises:
            PointFailed: one is an error, or the database does not answer.
        """
        socket = self.dut.rundir / "db.sock"
        results = self._asked(lambda: self.host.ask_socket(socket, "transact", "Open_vSwitch", *operations))
        for each in results:
            if each and each.get("error") not in (None, TIMED_OUT):
                raise PointFailed(f"{self.name}: database: {each['error']}: {each.get('details', '')}")
        return list(results)

    def interfaces(self, column: str) -> dict[str, Any]:
        """Name -> what the database has in a column of it (RFC 7047 section 5.1)."""
        (found,) = self.transact({"op": "select", "table": "Interface", "where": [], "columns": ["name", column]})
        return {row["name"]: row[column] for row in found["rows"]}

    def port_errors(self) -> dict[str, Any]:
        return {name: error for name, error in self.interfaces("error").items() if error != ["set", []]}

    def _datapath_is_ours(self) -> bool:
        """Whether it has all of our ports and no others: each of two daemons removes what the other one adds."""
        if self._in_kernel is None or not any(port.lasting for port in self.dut.ports):
            return True
        there = datapath_ports(self.control("dpctl/show", timeout_s=5.0))
        return self._in_kernel <= there <= {*self._in_kernel, *self._may_have}

    def _path(self, name: str) -> str:
        return str(self.dut.rundir / name)

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except XdplabError as exc:
            raise PointFailed(f"{self.name}: {self.ended() or exc}") from None

    def _begin(self, name: str, argv: list[str], env: dict[str, str], cpus: tuple[int, ...] | None = None) -> None:
        folders = {f"OVS_{kind}": str(self.dut.rundir) for kind in ("RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR")}
        common = [f"--unixctl={self._path(name + '.ctl')}", "--no-chdir", "-vconsole:info", "-vsyslog:off"]
        self._processes[name] = self.host.start(
            [*argv, *common], log=self.dut.rundir / f"{name}.log", cpus=cpus, env={**folders, **env}
        )

    def _wait_for_database(self) -> None:
        """Until it answers: its socket is there a moment before anybody listens at it."""
        socket = self.dut.rundir / "db.sock"

        def answers() -> bool:
            if not self.host.exists(socket):
                return False
            with contextlib.suppress(XdplabError):
                return bool(self.host.ask_socket(socket, "echo", "here", timeout_s=self.timeout_s) == ["here"])
            return False

        self.until(answers, self.timeout_s, "an answer of its database")

    def _wait_until_configured(self) -> None:
        """Until the daemon has taken over what the database had at its start."""
        self.until(
            lambda: self.transact(CONFIGURED)[0].get("error") != TIMED_OUT,
            self.timeout_s,
            "its configuration",
        )
        for name, error in self.port_errors().items():
            raise PointFailed(f"{self.name}: port {name}: {error}")


# Where the netdev datapath met frames, by its threads' own counters.
#
# Up to 3.x `pmd-stats-show` has all threads; 4.0 has `pmd-perf-show` in its place. Both print some sums as means, which
# are exact to their last digit since the last `pmd-stats-clear` only: so the counters are cleared where they are read,
# and summed here. The time of upcalls is not read: it is counted with `pmd-perf-metrics` only, which costs frames.

_SHOWS = ("dpif-netdev/pmd-stats-show", "dpif-netdev/pmd-perf-show")
_CLEAR = "dpif-netdev/pmd-stats-clear"
#: What lines begin with, in small letters -> field of `ThreadLookups`: of `pmd-stats-show`, of `pmd-perf-show`.
_STATS = {
    "packets received": "frames", "packet recirculations": "recirculated", "phwol hits": "hardware",
    "simple match hits": "simple", "emc hits": "emc", "smc hits": "smc", "megaflow hits": "megaflow",
    "avg. subtable lookups per megaflow hit": "", "miss with success upcall": "upcalls",
    "miss with failed upcall": "lost",
}  # fmt: skip
_PERF = {
    "rx packets": "frames", "datapath passes": "", "phwol hits": "hardware", "simple match hits": "simple",
    "emc hits": "emc", "smc hits": "smc", "megaflow hits": "megaflow", "upcalls": "upcalls", "lost upcalls": "lost",
}  # fmt: skip
#: Of threads that poll, where they had a frame.
_CYCLES = {"idle cycles": "idle", "processing cycles": "cycles"}
_PERF_CYCLES = {"used tsc cycles": ""}
_NOT_READ = {
    "avg. datapath passes per packet", "mfex opt hits", "avg. packets per output batch", "avg cycles per packet",
    "avg processing cycles per packet", "iterations", "idle iterations", "busy iterations", "sleep iterations",
    "sleep time (us)", "tx packets", "tx batches",
}  # fmt: skip
_KNOWN = {*_STATS, *_PERF, *_CYCLES, *_PERF_CYCLES, *_NOT_READ}
_JUST_CLEARED = "Measurement duration: 0.000 s"
#: How often it is looked for another, and the pause before.
_LOOKS, _LOOK_S = 5, 0.002
_THREAD = re.compile(r"(?:pmd thread.* core_id (\d+)|main thread.*):")
_LINE = re.compile(r" +(?:- )?([A-Za-z. ()]+?): *(\d[\d.]*)(?: +(\(.*\)))?")
#: Above each thread of `pmd-perf-show`.
_ABOVE = re.compile(r"Time: [\d:.]+|Measurement duration: [\d.]+ s|\s*")


class LookupCounts:
    """Of one daemon, since it was started: cleared there, summed here."""

    def __init__(self) -> None:
        self._show: str | None = None
        self._sums: dict[str, dict[str, float]] = {}

    def read(self, ask: Callable[[str], str]) -> dict[str, dict[str, dict[str, float]]]:
        """`LOOKUPS`: thread -> fields of `ThreadLookups` up to now, of threads that have had a frame.

        No thread of a daemon that has none of the commands.
        """
        if self._show is None:
            commands = set(ask("list-commands").split())
            self._show = next((show for show in _SHOWS if {show, _CLEAR} <= commands), "")
        threads = parse_threads(self._shown(ask)) if self._show else {}
        if threads:
            ask(_CLEAR)
        for thread, found in threads.items():
            if found.frames:
                sums = self._sums.setdefault(thread, {})
                for key, value in found.model_dump(exclude_none=True).items():
                    sums[key] = round(sums.get(key, 0) + value, 3)
        return {LOOKUPS: {thread: dict(sums) for thread, sums in self._sums.items()}}

    def _shown(self, ask: Callable[[str], str]) -> str:
        """`pmd-perf-show` leaves out a thread in the millisecond in which it has cleared its counters."""
        for _ in range(_LOOKS):
            text = ask(self._show or "")
            if _JUST_CLEARED not in text:
                break
            time.sleep(_LOOK_S)
        return text


def parse_threads(text: str) -> dict[str, ThreadLookups]:
    """`core 1`, or `main` -> what it counted, of either command.

    Raises:
        PointFailed: a line is not understood, or a thread that had frames lacks one.
    """
    blocks: dict[str, dict[str, tuple[float, str]]] = {}
    thread = ""
    for line in text.splitlines():
        if named := _THREAD.fullmatch(line):
            thread = f"core {named[1]}" if named[1] else "main"
            blocks[thread] = {}
        elif (read := _LINE.fullmatch(line)) and thread and (label := read[1].lower()) in _KNOWN:
            blocks[thread][label] = float(read[2]), read[3] or ""
        elif not _ABOVE.fullmatch(line):
            raise PointFailed(f"Open vSwitch: counters of its threads: line not understood: {line.strip()!r}")
    return {thread: _counted(thread, lines) for thread, lines in blocks.items()}


def _counted(thread: str, lines: dict[str, tuple[float, str]]) -> ThreadLookups:
    if not lines:  # just cleared
        return ThreadLookups()
    perf = "rx packets" in lines
    fields = {**_PERF, **_PERF_CYCLES} if perf else {**_STATS, **_CYCLES}
    frames, _ = lines.get("rx packets", lines.get("packets received", (None, "")))
    lacking = [label for label in fields if label not in lines and (thread != "main" or "cycles" not in label)]
    if frames is None or (frames and lacking):
        raise PointFailed(f"Open vSwitch: counters of its threads: {thread} has no {lacking[0]!r}")
    if not frames:
        return ThreadLookups()
    found = {field: lines[label][0] for label, field in fields.items() if field and label in lines}
    if perf:
        found["recirculated"] = lines["datapath passes"][0] - frames
        found["subtables"] = round(_mean(lines, "megaflow hits", "subtbl lookups/hit") * found["megaflow"])
        if thread != "main":
            found["cycles"] = _mean(lines, "rx packets", "cycles/pkt") * frames
            found["idle"] = max(0.0, lines["used tsc cycles"][0] - found["cycles"])
    else:
        found["subtables"] = round(lines["avg. subtable lookups per megaflow hit"][0] * found["megaflow"])
    return ThreadLookups(**found)


def _mean(lines: dict[str, tuple[float, str]], label: str, what: str) -> float:
    mean = re.search(rf"([\d.]+) {what}", lines[label][1])
    if mean is None:
        raise PointFailed(f"Open vSwitch: counters of its threads: no {what} in {label}: {lines[label][1]!r}")
    return float(mean[1])
