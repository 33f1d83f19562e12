#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""Changes options of live AF_XDP ports at random, under traffic, and looks for crashes, leaks and lost frames.

    ovs/tests/option_storm.py --build "$(ovs/build --asan | tail -1)" --changes 1000 --seed 1

Two veth pairs in namespaces of its own, Open vSwitch between them, a flood of pings through it. After each `--check`
changes the traffic stops for a moment, and `netdev-afxdp/show` must account for every frame of every UMEM. A build with
AddressSanitizer reports leaks and misuse of memory at its end. Exit code: 0 passed, 1 failed, 2 it could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

PORTS = ("d0", "d1")
RINGS = (64, 128, 256, 512, 1024, 2048, 4096)
# Values to choose from; None removes the option. Some are wrong on purpose, and must leave the port as it can be.
GOOD: dict[str, Sequence[object]] = {
    "xdp-mode": (None, "native", "generic", "best-effort"),
    "use-need-wakeup": (None, "true", "false"),
    "xsk-rx-ring": (None, *RINGS),
    "xsk-tx-ring": (None, *RINGS[:6]),
    "xsk-fill-ring": (None, *RINGS),
    "xsk-comp-ring": (None, 2048, 4096),
    "umem-frames": (None, 0, 4096, 8192, 16384, 32768),
    "umem-frame-size": (None, 2048, 4096),
    "umem-headroom": (None, 0, 1, 64, 128),
    "umem-hugepages": (None, "none", "2M", "1G"),
    "busy-poll": (None, 0, 20),
    "busy-poll-budget": (None, 1, 8, 64, 256),
    "prefer-busy-poll": (None, "true", "false"),
    "rx-wakeup": (None, "poll", "recvfrom", "none"),
    "tx-skb-budget": (None, 0, 32, 64),
    "shared-umem": (None, "g", "h"),
    "tx-copy": (None, "auto", "always"),
}
BAD: dict[str, Sequence[object]] = {
    "xsk-rx-ring": (63, 100, 65536, "many"),
    "umem-frames": (1000, -1),
    "umem-frame-size": (1024, 8192),
    "umem-headroom": (1025, -1),
    "busy-poll-budget": (0, 65536),
    "rx-wakeup": ("sleep",),
    "tx-copy": ("never",),
    "umem-hugepages": ("4K",),
}
TYPES = ("afxdp", "afxdp-nonpmd")


class StormError(Exception):
    """What went wrong, with what had been changed."""


def run(*argv: str, check: bool = True, timeout_s: float = 30.0) -> str:
    """Runs a command and returns its output."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
    if check and done.returncode:
        raise StormError(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Switch:
    """Open vSwitch of a build, in a run directory and a namespace of its own."""

    def __init__(self, build: Path, folder: Path, namespace: str, ports: Sequence[str] = PORTS) -> None:
        self.build = build
        self.folder = folder
        self.namespace = namespace
        self.ports = ports
        self.database: subprocess.Popen[bytes] | None = None
        self.daemon: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts database and daemon and makes the bridge."""
        asan = f"log_path={self.folder}/asan:detect_leaks=1:abort_on_error=0"
        environment = {**os.environ, "OVS_RUNDIR": str(self.folder), "ASAN_OPTIONS": asan}
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
            env=environment, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for(socket.exists, "ovsdb-server does not listen")
        self.vsctl("--no-wait", "init")
        self.daemon = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, self.build / "ovs-vswitchd", f"unix:{socket}",
             f"--unixctl={self.folder}/vswitchd.ctl", f"--log-file={self.folder}/vswitchd.log",
             "-vconsole:off", "-vsyslog:off"],
            env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.vsctl("add-br", "br0", "--", "set", "Bridge", "br0", "datapath_type=netdev", "fail-mode=standalone")
        for port in self.ports:
            self.add_port(port)

    def vsctl(self, *argv: str, check: bool = True) -> str:
        """Runs ovs-vsctl, which waits until the daemon has done what it says."""
        return run(
            str(self.build / "ovs-vsctl"), f"--db=unix:{self.folder}/db.sock", "--timeout=25", *argv, check=check
        )

    def add_port(self, port: str, kind: str = "afxdp") -> None:
        """Adds a port with default options."""
        self.vsctl("add-port", "br0", port, "--", "set", "interface", port, f"type={kind}")

    def show(self) -> dict[str, Any]:
        """What netdev-afxdp/show says."""
        told = json.loads(run(str(self.build / "ovs-appctl"), "-t", f"{self.folder}/vswitchd.ctl", "netdev-afxdp/show"))
        assert isinstance(told, dict)
        return told

    def alive(self) -> bool:
        """Whether the daemon runs."""
        return self.daemon is not None and self.daemon.poll() is None

    def stop(self) -> int | None:
        """Ends both; returns the daemon's exit code."""
        if self.daemon is not None and self.alive():
            control = f"{self.folder}/vswitchd.ctl"
            run(str(self.build / "ovs-appctl"), "-t", control, "exit", "--cleanup", check=False)
            try:
                self.daemon.wait(60)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
        if self.database is not None:
            self.database.terminate()
            self.database.wait(10)
        return self.daemon.wait() if self.daemon is not None else None


def wait_for(condition: Any, failure: str, timeout_s: float = 15.0) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise StormError(failure)
        time.sleep(0.05)


@contextmanager
def namespaces(prefix: str) -> Iterator[tuple[str, str, str]]:
    """Two endpoints and the switch between them; removed at the end."""
    names = (f"{prefix}-a", f"{prefix}-d", f"{prefix}-b")
    try:
        for name in names:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for index, name in enumerate((names[0], names[2])):
            run("ip", "link", "add", f"t{index}", "netns", name, "type", "veth",
                "peer", "name", f"d{index}", "netns", names[1])  # fmt: skip
            run("ip", "netns", "exec", name, "ethtool", "-K", f"t{index}", "tx", "off", "txvlan", "off")
            run("ip", "-n", name, "addr", "add", f"10.77.0.{index + 1}/24", "dev", f"t{index}")
            run("ip", "-n", name, "link", "set", f"t{index}", "up")
            run("ip", "-n", names[1], "link", "set", f"d{index}", "up")
        yield names
    finally:
        for name in names:
            run("ip", "netns", "del", name, check=False)


@contextmanager
def flood(namespace: str) -> Iterator[subprocess.Popen[bytes]]:
    """Pings as fast as answers come, and at least 100 in a second."""
    ping = subprocess.Popen(
        ["ip", "netns", "exec", namespace, "ping", "-f", "-q", "-l", "64", "-s", "200", "10.77.0.2"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield ping
    finally:
        ping.send_signal(signal.SIGINT)
        ping.wait(10)


def change(switch: Switch, random_: random.Random) -> str:
    """Makes one random change; returns it in words."""
    port = random_.choice(PORTS)
    what = random_.random()
    if what < 0.05:
        kind = random_.choice(TYPES)
        switch.vsctl("del-port", port)
        switch.add_port(port, kind)
        return f"{port}: added again as {kind}"
    options = BAD if what < 0.15 else GOOD
    key = random_.choice(list(options))
    value = random_.choice(list(options[key]))
    if value is None:
        switch.vsctl("remove", "interface", port, "options", key, check=False)
        return f"{port}: {key} removed"
    switch.vsctl("set", "interface", port, f"options:{key}={value}", check=False)
    return f"{port}: {key}={value}"


def lost_frames(shown: dict[str, Any]) -> list[str]:
    """Ports and queues whose frames are not all accounted for."""
    wrong = []
    for name, port in shown.items():
        for index, queue in enumerate(port["queues"]):
            frames = queue and queue["frames"]
            if frames and (frames["held"] or frames.get("closed")):
                wrong.append(f"{name} queue {index}: {frames}")
    return wrong


def check_frames(switch: Switch, done: list[str]) -> None:
    """Waits until no frame is held: without traffic each one must be in the pool or with the kernel."""
    deadline = time.monotonic() + 5.0
    while wrong := lost_frames(switch.show()):
        if time.monotonic() > deadline:
            raise StormError(f"frames lost: {'; '.join(wrong)}; the last changes: {'; '.join(done[-10:])}")
        time.sleep(0.1)


def storm(options: argparse.Namespace, switch: Switch, namespace: str) -> None:
    """All changes, with traffic and checks between them."""
    random_ = random.Random(options.seed)  # noqa: S311 (a test)
    done: list[str] = []
    while len(done) < options.changes:
        with flood(namespace):
            for _ in range(min(options.check, options.changes - len(done))):
                done.append(change(switch, random_))
                if options.verbose:
                    print(done[-1], flush=True)
                if not switch.alive():
                    raise StormError(f"ovs-vswitchd died after: {'; '.join(done[-10:])}")
        check_frames(switch, done)
    for port in PORTS:  # after all that, default options must work
        switch.vsctl("clear", "interface", port, "options")
    ping = ["ip", "netns", "exec", namespace, "ping", "-q", "-W", "1", "10.77.0.2"]
    # an address that could not be resolved while a port was away is refused at once for some time
    once = [*ping, "-c", "1"]
    wait_for(
        lambda: subprocess.run(once, stdout=subprocess.DEVNULL, check=False).returncode == 0, "no answer at the end"
    )
    run(*ping, "-c", "20", "-i", "0.02")


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--changes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", type=int, default=20, help="changes between two looks at the frames")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(argv)
    if os.geteuid() != 0 or not (options.build / "ovs-vswitchd").exists():
        print("option_storm: needs root, and --build with the result of ovs/build", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="ovs-storm-"))
    failures: list[str] = []
    started = time.monotonic()
    with ExitStack() as stack:
        names = stack.enter_context(namespaces(f"storm{os.getpid()}"))
        switch = Switch(options.build.resolve(), folder, names[1])
        try:
            switch.start()
            storm(options, switch, names[0])
        except (StormError, subprocess.TimeoutExpired) as error:
            failures.append(str(error))
        code = switch.stop()
        if code:
            failures.append(f"ovs-vswitchd ended with {code}")
    failures += [f"{path}: {path.read_text()[:2000]}" for path in folder.glob("asan.*")]
    for failure in failures:
        print(f"option_storm: {failure}", file=sys.stderr)
    if failures:
        print(f"option_storm: seed {options.seed}; logs are in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    took_s = time.monotonic() - started
    print(f"{options.changes} changes, seed {options.seed}, {took_s:.0f} s: no crash, no leak, no frame lost")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
