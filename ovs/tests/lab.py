# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch of a build between two veth pairs, in namespaces of its own: what the tests of this folder run on."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

HUGEPAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
PORTS = ("d0", "d1")
QUEUES = 4


class StormError(Exception):
    """What went wrong, with what had been changed."""


#: What a program tells in a line, and ends.
FAILED = (StormError, OSError, subprocess.TimeoutExpired)


def at_least(least: float) -> Callable[[str], float]:
    """Reader of a number of a command line: of the same type as `least`, and not less."""

    def number(text: str) -> float:
        try:
            value = type(least)(text)
        except ValueError:
            value = math.nan
        if not least <= value < math.inf:
            what = "a whole number" if isinstance(least, int) else "a number"
            raise argparse.ArgumentTypeError(f"{text} is not {what} of {least:g} or more")
        return value

    return number


def add_changes(parser: argparse.ArgumentParser, looks_at: str, pause_s: float = 0.2) -> None:
    """Adds the options that all storms have."""
    parser.add_argument("--changes", type=at_least(1), default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", type=at_least(1), default=20, help=f"changes between two looks at {looks_at}")
    parser.add_argument(
        "--pause", type=at_least(0.0), default=pause_s, metavar="S", help="longest pause after a change"
    )
    parser.add_argument("--verbose", action="store_true")


def ready(name: str, builds: Sequence[Path], *needed: Path | str) -> bool:
    """Whether a program can run: as root, with results of ovs/build, programs of bpf and commands; else says why not.

    SIGTERM then ends it with the clean-up of its contexts.
    """
    wants = ["root"] if os.geteuid() != 0 else []
    wants += [f"a result of ovs/build: {build} has no ovs-vswitchd" for build in builds if not has_daemon(build)]
    missing = [each for each in ("ip", "ethtool", *needed) if shutil.which(each) is None]
    wants += [f"{each}{' of make -C bpf' if isinstance(each, Path) else ''}, which is not there" for each in missing]
    for want in wants:
        sys.stderr.write(f"{name}: needs {want}\n")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return not wants


def has_daemon(build: Path) -> bool:
    """Whether a folder has a daemon to run."""
    return (build / "ovs-vswitchd").exists()


def measured(name: str, measure: Callable[[], None]) -> int:
    """Measures, and prints; the exit code, and why it could not."""
    try:
        measure()
    except FAILED as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 2
    return 0


def carried_out(name: str, storm: Callable[[Any, Path], str], asked: Any, clean: str, *needed: str) -> int:
    """Runs a storm (what was asked for, its folder -> what it saw), and says what it found; its exit code.

    `asked` has build, changes and seed; `clean`: what is said where nothing was wrong; `needed`: commands.
    """
    if not ready(name, (asked.build,), *needed):
        return 2
    folder = Path(tempfile.mkdtemp(prefix=f"ovs-{name.removesuffix('_storm')}-"))
    failures, seen, started = [], "", time.monotonic()
    try:
        seen = storm(asked, folder)
    except FAILED as error:
        failures.append(str(error))
    failures += [f"{path}: {path.read_text()[:2000]}" for path in folder.glob("asan.*")]
    if failures:
        for failure in failures:
            sys.stderr.write(f"{name}: {failure}\n")
        sys.stderr.write(f"{name}: seed {asked.seed}; logs are in {folder}\n")
        return 1
    shutil.rmtree(folder)
    sys.stdout.write(
        f"{asked.changes} changes, seed {asked.seed}, {time.monotonic() - started:.0f} s: {seen}; {clean}\n"
    )
    return 0


def run(*argv: str, check: bool = True, timeout_s: float = 120.0, stdin: str | None = None) -> str:
    """Runs a command and returns its output."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False, input=stdin)
    if check and done.returncode:
        raise StormError(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def wait_for(condition: Callable[[], bool], failure: str, timeout_s: float = 15.0) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise StormError(failure)
        time.sleep(0.05)


class Switch:
    """Open vSwitch of a build, in a run directory and a namespace of its own."""

    def __init__(
        self,
        build: Path,
        folder: Path,
        namespace: str,
        ports: Sequence[str] = PORTS,
        requests: Sequence[str] = PORTS,
        settings: Sequence[str] = (),
        options: Sequence[str] = (),
    ) -> None:
        self.build = build
        self.folder = folder
        self.namespace = namespace
        self.ports = ports
        self.requests = requests
        self.settings = settings
        self.options = options
        self.database: subprocess.Popen[bytes] | None = None
        self.daemon: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts database and daemon and makes the bridge."""
        socket = self.folder / "db.sock"
        run(
            str(self.build / "ovsdb-tool"),
            "create",
            str(self.folder / "conf.db"),
            str(self.build / "vswitch.ovsschema"),
        )
        self.database = subprocess.Popen(
            [self.build / "ovsdb-server", self.folder / "conf.db", f"--remote=punix:{socket}",
             f"--unixctl={self.folder}/db.ctl", "-vconsole:off", "-vsyslog:off"],
            env=self.environment(), stdin=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for(socket.exists, "ovsdb-server does not listen")
        self.vsctl("--no-wait", "init")
        if self.settings:
            self.vsctl("--no-wait", "set", "Open_vSwitch", ".", *self.settings)
        self.start_daemon()
        self.vsctl("add-br", "br0", "--", "set", "Bridge", "br0", "datapath_type=netdev", "fail-mode=standalone")
        for port in self.ports:
            self.add_port(port)

    def environment(self) -> dict[str, str]:
        """Of both programs."""
        asan = f"log_path={self.folder}/asan:detect_leaks=1:abort_on_error=0"
        return {**os.environ, "OVS_RUNDIR": str(self.folder), "ASAN_OPTIONS": asan}

    def start_daemon(self) -> None:
        """Starts the daemon, which makes what the database says."""
        self.daemon = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, self.build / "ovs-vswitchd", f"unix:{self.folder}/db.sock",
             f"--unixctl={self.folder}/vswitchd.ctl", f"--log-file={self.folder}/vswitchd.log",
             "-vconsole:off", "-vsyslog:off", *self.options],
            env=self.environment(), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def vsctl(self, *argv: str, check: bool = True) -> str:
        """Runs ovs-vsctl, which waits until the daemon has done what it says."""
        return run(
            str(self.build / "ovs-vsctl"), f"--db=unix:{self.folder}/db.sock", "--timeout=110", *argv, check=check
        )

    def appctl(self, *argv: str, check: bool = True) -> str:
        """Runs ovs-appctl on the daemon."""
        return run(str(self.build / "ovs-appctl"), "-t", f"{self.folder}/vswitchd.ctl", *argv, check=check)

    def ofctl(self, command: str, *argv: str, stdin: str | None = None) -> str:
        """Runs ovs-ofctl on the bridge, with the newest OpenFlow."""
        bridge = f"unix:{self.folder}/br0.mgmt"
        return run(str(self.build / "ovs-ofctl"), "-O", "OpenFlow15", command, bridge, *argv, stdin=stdin)

    def offloaded(self, which: str = "packets") -> int:
        """Frames that offloaded flows forwarded or dropped, unseen by PMD threads; or `recirculated` ones."""
        return sum(map(int, re.findall(rf"\bxdp_flow_{which}=(\d+)", self.ofctl("dump-ports"))))

    def add_port(self, port: str, kind: str = "afxdp") -> None:
        """Adds a port with default options; those of `requests` get the OpenFlow number of their place in `ports`."""
        number = self.ports.index(port) + 1 if port in self.ports else 100
        request = [f"ofport_request={number}"] if port in self.requests or port not in self.ports else []
        self.vsctl("add-port", "br0", port, "--", "set", "interface", port, f"type={kind}", *request)

    def numbers(self) -> dict[str, tuple[str, str]]:
        """The OpenFlow number of each port and its number in the datapath; empty strings for one that is lost."""
        shown = dict(re.findall(r"port (\d+): (\S+) \(afxdp", self.appctl("dpctl/show")))
        in_datapath = {name: number for number, name in shown.items()}
        return {
            port: (self.vsctl("get", "interface", port, "ofport").strip(), in_datapath.get(port, ""))
            for port in self.ports
        }

    def show(self) -> dict[str, Any]:
        """What netdev-afxdp/show says."""
        reported = json.loads(self.appctl("netdev-afxdp/show"))
        assert isinstance(reported, dict)
        return reported

    def flows_in_xdp(self, port: str = PORTS[0]) -> dict[str, Any]:
        """What a port says of its flows there; raises StormError where the build has none."""
        shown = self.show()[port] if "netdev-afxdp/show" in self.appctl("list-commands") else {}
        if "xdp-flows" not in shown:
            raise StormError("this build has no flows in XDP")
        found = shown["xdp-flows"]
        assert isinstance(found, dict)
        return found

    def descriptors(self) -> Counter[str]:
        """Open file descriptors of the daemon, by what they are."""
        assert self.daemon is not None
        found: Counter[str] = Counter()
        for path in Path(f"/proc/{self.daemon.pid}/fd").iterdir():
            with suppress(OSError):  # closed just now
                found[re.sub(r":\[\d+\]", "", str(path.readlink()))] += 1
        return found

    def waited_s(self) -> dict[str, float]:
        """How long each thread of the daemon was ready to run and had no processor, in seconds, by its id.

        Source: Linux, Documentation/scheduler/sched-stats.rst, /proc/<pid>/schedstat, second number.
        """
        assert self.daemon is not None
        found = {}
        for path in Path(f"/proc/{self.daemon.pid}/task").iterdir():
            with suppress(OSError):  # ended just now
                found[path.name] = int((path / "schedstat").read_text().split()[1]) / 1e9
        return found

    def alive(self) -> bool:
        """Whether the daemon runs."""
        return self.daemon is not None and self.daemon.poll() is None

    def stop(self) -> int | None:
        """Ends both; returns the daemon's exit code."""
        if self.daemon is not None and self.alive():
            self.appctl("exit", "--cleanup", check=False)
            try:
                self.daemon.wait(60)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
        if self.database is not None:
            self.database.terminate()
            self.database.wait(10)
        return self.daemon.wait() if self.daemon is not None else None


@contextmanager
def huge_pages(count: int) -> Iterator[None]:
    """Asks for that many pages of 2 MiB more, and gives them back; the kernel may have fewer."""
    reserved = HUGEPAGES.read_text()
    HUGEPAGES.write_text(str(int(reserved) + count))
    try:
        yield
    finally:
        HUGEPAGES.write_text(reserved)


@contextmanager
def namespaces(prefix: str, far_queues: int = 1) -> Iterator[tuple[str, str, str]]:
    """Two endpoints, with so many receive queues each, and the switch between them; removed at the end."""
    names = (f"{prefix}-a", f"{prefix}-d", f"{prefix}-b")
    try:
        for name in names:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for index, name in enumerate((names[0], names[2])):
            mac = [f"02:00:00:00:77:0{number + 1}" for number in range(2)]
            run("ip", "link", "add", f"t{index}", "netns", name, "address", mac[index], "numtxqueues", "1",
                "numrxqueues", str(far_queues), "type", "veth", "peer", "name", f"d{index}", "netns", names[1],
                "numrxqueues", str(QUEUES), "numtxqueues", str(QUEUES))  # fmt: skip
            run("ip", "netns", "exec", names[1], "ethtool", "-L", f"d{index}", "rx", str(QUEUES), "tx", str(QUEUES))
            run("ip", "netns", "exec", name, "ethtool", "-K", f"t{index}", "tx", "off", "txvlan", "off")
            if far_queues > 1:
                run("ip", "netns", "exec", name, "ethtool", "-L", f"t{index}", "rx", str(far_queues))
            run("ip", "-n", name, "addr", "add", f"10.77.0.{index + 1}/24", "dev", f"t{index}")
            run("ip", "-n", name, "link", "set", f"t{index}", "up")
            other = 1 - index
            run("ip", "-n", name, "neigh", "add", f"10.77.0.{other + 1}", "lladdr", mac[other], "dev", f"t{index}")
            run("ip", "-n", names[1], "link", "set", f"d{index}", "up")
        yield names
    finally:
        for name in names:
            run("ip", "netns", "del", name, check=False)
