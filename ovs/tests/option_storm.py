#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""Changes live AF_XDP ports at random, under traffic, and looks for crashes, leaks, lost ports and lost frames.

    ovs/tests/option_storm.py --build "$(ovs/build --asan | tail -1)" --changes 1000 --seed 1

Two veth pairs in namespaces of its own, Open vSwitch between them, a flood of pings through it, statistics asked for
all the time. A change is one of: an option of one port or of both in one transaction; an MTU, requested or set behind
the back of Open vSwitch; a link or its peer down or up. In every other round there are as well values that cannot work,
and ports removed and added. A round is `--check` changes; what cannot work is then taken back, and

* both ports must forward within one second, and a hundred packets one after the other, before anybody looks at frames,
* in a round in which everything can work no port may ever have left the datapath, so one without `ofport_request` has
  the numbers that it had,
* every frame of every UMEM must be accounted for by the first look at it, two seconds after the traffic stopped.

At the end the daemon must have the very descriptors that it had in the beginning. A build with AddressSanitizer reports
misuse of memory. The second does not run while a thread of the daemon waits for a processor; the result says how often
that decided. Exit code: 0 passed, 1 failed, 2 it could not run.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lab import PORTS, QUEUES, StormError, Switch, namespaces, run

RINGS = (64, 128, 256, 512, 1024, 2048, 4096)
# Values to choose from; None removes the option.
GOOD: dict[str, Sequence[object]] = {
    "n_rxq": (None, 1, 2, QUEUES),
    "xdp-mode": (None, "native", "generic", "best-effort"),
    "use-need-wakeup": (None, "true", "false"),
    "xsk-rx-ring": (None, *RINGS),
    "xsk-tx-ring": (None, *RINGS[:6]),
    "xsk-fill-ring": (None, *RINGS),
    "xsk-comp-ring": (None, 2048, 4096),
    "umem-frames": (None, 0, 8192, 16384, 32768),
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
# Refused at once, or by the kernel: veth has no zero-copy and no more queues than these.
BAD: dict[str, Sequence[object]] = {
    "n_rxq": (QUEUES + 1, 9, 42),
    "xdp-mode": ("native-with-zerocopy", "fast"),
    "xsk-rx-ring": (63, 100, 65536, "many"),
    "umem-frames": (1000, -1, 64),
    "umem-frame-size": (1024, 8192),
    "umem-headroom": (1025, -1),
    "busy-poll-budget": (0, 65536),
    "rx-wakeup": ("sleep",),
    "tx-copy": ("never",),
    "umem-hugepages": ("4K",),
}
TYPES = ("afxdp", "afxdp-nonpmd")
MTUS = (1000, 1500, 3000, 4000, 9000)
LARGEST_NATIVE_MTU = 3000  # of a peer, about: veth takes no XDP program with frames that do not fit in a page
FORWARD_WITHIN_S = 1.0
PACKETS = 100
ANSWERED_WITHIN_S = 5.0
HANGS_S = 30.0  # nobody waits longer, however loaded the machine is
SETTLE_S = 2.0
LEFT = re.compile(r"(?:deleted|added) interface (d\d)\b|Failed to set interface (d\d)\b")


@contextmanager
def flood(namespace: str) -> Iterator[None]:
    """Pings of two sizes as fast as answers come, and at least 100 in a second."""
    argv = ["ip", "netns", "exec", namespace, "ping", "-f", "-q", "-l", "64", "10.77.0.2", "-s"]
    quiet = subprocess.DEVNULL
    pings = [subprocess.Popen([*argv, size], stdout=quiet, stderr=quiet) for size in ("200", "1400")]
    try:
        yield
    finally:
        for ping in pings:
            ping.send_signal(signal.SIGINT)
        for ping in pings:
            ping.wait(10)


@contextmanager
def statistics(switch: Switch) -> Iterator[None]:
    """Asks for statistics until the end."""
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.02) and switch.alive():
            switch.appctl("dpctl/show", "--statistics", check=False)

    switch.vsctl("set", "Open_vSwitch", ".", "other_config:stats-update-interval=1000")
    asker = threading.Thread(target=ask)
    asker.start()
    try:
        yield
    finally:
        over.set()
        asker.join()


class Storm:
    """The changes, and what has to be taken back after some of them."""

    def __init__(self, options: argparse.Namespace, switch: Switch, names: tuple[str, str, str]) -> None:
        self.options = options
        self.switch = switch
        self.names = names
        self.random = random.Random(options.seed)  # noqa: S311 (a test)
        self.done: list[str] = []
        self.bad: set[tuple[str, str]] = set()
        self.harmless = False
        self.peer_mtu = dict.fromkeys(PORTS, 1500)
        self.native: set[str] = set()
        self.numbers: dict[str, tuple[str, str]] = {}
        self.disturbed = 0
        self.log = switch.folder / "vswitchd.log"
        self.log_read = 0
        self.shows = "netdev-afxdp/show" in switch.appctl("list-commands")

    def change(self) -> str:
        """Makes one random change; returns it in words."""
        what = self.random.random()
        port = self.random.choice(PORTS)
        if what < 0.06 and not self.harmless:
            kind = self.random.choice(TYPES)
            self.switch.vsctl("del-port", port)
            self.switch.add_port(port, kind)
            self.bad = {(name, key) for name, key in self.bad if name != port}
            self.native.discard(port)
            return f"{port}: added again as {kind}"
        if what < 0.12:
            return self.change_mtu(port)
        if what < 0.18:
            return self.change_link(port)
        bad = not self.harmless and self.random.random() < 0.3
        return self.change_option(PORTS if what < 0.4 else (port,), BAD if bad else GOOD)

    def change_option(self, ports: Sequence[str], options: dict[str, Sequence[object]]) -> str:
        """An option of these ports, in one transaction."""
        key = self.random.choice(list(options))
        value = self.random.choice(list(options[key]))
        if value == "native" and self.harmless and any(self.peer_mtu[port] > LARGEST_NATIVE_MTU for port in ports):
            value = "generic"
        if key == "xdp-mode":
            self.native = self.native | {*ports} if value == "native" else self.native - {*ports}
        argv: list[str] = []
        for port in ports:
            given = (port, "options", key) if value is None else (port, f"options:{key}={value}")
            argv += ["--", "remove" if value is None else "set", "interface", *given]
            (self.bad.add if options is BAD else self.bad.discard)((port, key))
        self.switch.vsctl(*argv[1:])
        return f"{'+'.join(ports)}: {key}={value}"

    def change_mtu(self, port: str) -> str:
        """An MTU, by request or by somebody else; the kernel refuses some."""
        mtu = self.random.choice(MTUS)
        where = self.random.choice(("request", "port", "peer"))
        if where == "peer" and self.harmless and port in self.native:
            mtu = min(mtu, LARGEST_NATIVE_MTU)
        if where == "request":
            self.switch.vsctl("set", "interface", port, f"mtu_request={mtu}")
        elif where == "port":
            run("ip", "-n", self.names[1], "link", "set", port, "mtu", str(mtu), check=False)
        else:
            run("ip", "-n", *self.peer(port), "mtu", str(mtu), check=False)
            self.peer_mtu[port] = mtu
        return f"{port}: MTU {mtu} ({where})"

    def change_link(self, port: str) -> str:
        """The link of a port or of its peer, down or up."""
        link = self.random.choice(((self.names[1], "link", "set", port), self.peer(port)))
        state = self.random.choice(("down", "up"))
        run("ip", "-n", *link, state)
        return f"{link[3]} {state}"

    def peer(self, port: str) -> tuple[str, str, str, str]:
        """Arguments of ip that name the other end of a port's link."""
        index = PORTS.index(port)
        return (self.names[0 if index == 0 else 2], "link", "set", f"t{index}")

    def take_back(self) -> None:
        """Undoes what keeps a port from forwarding."""
        for index, port in enumerate(PORTS):
            run("ip", "-n", *self.peer(port), "mtu", "1500", "up")
            address = (f"10.77.0.{index + 1}/24", f"10.77.0.{2 - index}", f"02:00:00:00:77:0{2 - index}")
            peer = self.peer(port)
            run("ip", "-n", peer[0], "addr", "replace", address[0], "dev", peer[3])
            run("ip", "-n", peer[0], "neigh", "replace", address[1], "lladdr", address[2], "dev", peer[3])
            run("ip", "-n", self.names[1], "link", "set", port, "mtu", "1500", "up", check=False)
        argv = [f"-- clear interface {port} mtu_request".split() for port in PORTS]
        argv += [f"-- remove interface {port} options {key}".split() for port, key in sorted(self.bad)]
        for port in PORTS:
            if self.peer_mtu[port] > LARGEST_NATIVE_MTU:
                # Open vSwitch does not hear of the peer: it tries other options at once, the same ones later.
                argv.append(f"-- set interface {port} options:again={len(self.done)}".split())
            self.peer_mtu[port] = 1500
        self.bad.clear()
        self.switch.vsctl(*[word for words in argv for word in words][1:])

    def check(self) -> None:
        """What must hold after changes: ports, their numbers, frames."""
        self.take_back()
        self.wait_for_answer()
        self.check_losses()
        numbers = self.switch.numbers()
        requested = numbers[PORTS[0]][0]
        if requested != "1" or "" in numbers[PORTS[1]] or "-1" in numbers[PORTS[1]]:
            raise StormError(f"OpenFlow and datapath numbers are {numbers}; {self.last()}")
        if self.harmless and self.numbers not in ({}, numbers):
            raise StormError(f"the numbers were {self.numbers} and are {numbers}; {self.last()}")
        self.numbers = numbers
        time.sleep(SETTLE_S)
        if self.shows and (wrong := lost_frames(self.switch.show())):
            raise StormError(f"frames lost: {'; '.join(wrong)}; {self.last()}")
        if self.harmless and (left := self.left_datapath()):
            raise StormError(f"a port left the datapath: {'; '.join(left)}; {self.last()}")
        self.log_read = self.log.stat().st_size

    def ping(self, *how: str) -> bool:
        """Sends from one end to the other; whether there was an answer."""
        argv = ["ip", "netns", "exec", self.names[0], "ping", "-q", *how, "10.77.0.2"]
        return subprocess.run(argv, stdout=subprocess.DEVNULL, check=False).returncode == 0

    def check_losses(self) -> None:
        """Of packets one after the other none may be lost.

        The kernel counts the answers: ping waits for the last one only twice as long as for the slowest before.
        """
        before = answers(self.names[0])
        self.ping("-c", str(PACKETS), "-i", "0.005")
        deadline = time.monotonic() + ANSWERED_WITHIN_S
        while (came := answers(self.names[0]) - before) < PACKETS:
            if time.monotonic() > deadline:
                raise StormError(f"{came} answers to {PACKETS} packets, one after the other; {self.last()}")
            time.sleep(0.05)

    def wait_for_answer(self) -> None:
        """Both ports must forward within FORWARD_WITHIN_S of the time in which the daemon had processors to run on."""
        began, before = time.monotonic(), self.switch.waited_s()
        while not self.ping("-c", "1", "-W", "0.2"):
            took_s = time.monotonic() - began
            now = self.switch.waited_s()
            waited_s = max(now[thread] - before.get(thread, 0.0) for thread in now)
            if took_s - waited_s > FORWARD_WITHIN_S or took_s > HANGS_S:
                raise StormError(f"no answer in {took_s:.1f} s, {waited_s:.1f} s without a processor; {self.last()}")
            time.sleep(0.05)
        self.disturbed += time.monotonic() - began > FORWARD_WITHIN_S + 0.3

    def check_descriptors(self, before: Counter[str]) -> None:
        """The daemon must have the open descriptors it had; connections of the moment may take a while to close."""
        deadline = time.monotonic() + 10
        while (after := self.switch.descriptors()) != before:
            if time.monotonic() > deadline:
                raise StormError(f"open descriptors at the end: more {after - before}, fewer {before - after}")
            time.sleep(0.1)

    def left_datapath(self) -> list[str]:
        """What the daemon logged in this round of ports that left the datapath."""
        with self.log.open("rb") as log:
            log.seek(self.log_read)
            lines = log.read().decode(errors="replace").splitlines()
        return [line for line in lines if LEFT.search(line)]

    def last(self) -> str:
        """The last changes."""
        return f"the last changes: {'; '.join(self.done[-self.options.check :])}"

    def run(self) -> None:
        """All changes, with traffic and checks between them."""
        self.check()
        before = self.switch.descriptors()
        with statistics(self.switch):
            while len(self.done) < self.options.changes:
                self.harmless = not self.harmless
                with flood(self.names[0]):
                    for _ in range(min(self.options.check, self.options.changes - len(self.done))):
                        self.done.append(self.change())
                        if self.options.verbose:
                            print(self.done[-1], flush=True)
                        if not self.switch.alive():
                            raise StormError(f"ovs-vswitchd died; {self.last()}")
                        time.sleep(self.random.random() * self.options.pause)
                self.check()
        self.harmless = False
        for port in PORTS:
            self.switch.vsctl("del-port", port)
            self.switch.add_port(port)
        self.check()
        self.check_descriptors(before)


def answers(namespace: str) -> int:
    """Answers to pings that the network stack of a namespace has received."""
    names, values, *_ = run("ip", "netns", "exec", namespace, "grep", "^Icmp:", "/proc/net/snmp").splitlines()
    return int(dict(zip(names.split(), values.split(), strict=True))["InEchoReps"])


def lost_frames(shown: dict[str, Any]) -> list[str]:
    """Ports and queues whose frames are not all accounted for, or wait to be sent."""
    wrong = []
    for name, port in shown.items():
        for index, queue in enumerate(port["queues"]):
            if not queue:
                wrong.append(f"{name} queue {index}: no socket")
                continue
            frames = queue["frames"]
            if frames["held"] or frames.get("closed") or queue["rings"]["tx"]["used"]:
                wrong.append(f"{name} queue {index}: {frames}, {queue['rings']['tx']}")
    return wrong


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--changes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", type=int, default=20, help="changes between two looks at ports and frames")
    parser.add_argument("--pause", type=float, default=0.1, metavar="S", help="longest pause after a change")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(argv)
    if os.geteuid() != 0 or not (options.build / "ovs-vswitchd").exists():
        print("option_storm: needs root, and --build with the result of ovs/build", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # with the clean-up of the context below
    folder = Path(tempfile.mkdtemp(prefix="ovs-storm-"))
    failures: list[str] = []
    started = time.monotonic()
    with ExitStack() as stack:
        names = stack.enter_context(namespaces(f"storm{os.getpid()}"))
        switch = Switch(options.build.resolve(), folder, names[1], requests=PORTS[:1])
        stack.callback(switch.stop)
        try:
            switch.start()
            storm = Storm(options, switch, names)
            storm.run()
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
    notes = [f"{storm.disturbed} times the daemon had no processor"] if storm.disturbed else []
    notes += [] if storm.shows else ["this build does not tell of its frames"]
    found = "no crash, no leak, no port and no frame lost"
    print("; ".join([f"{options.changes} changes, seed {options.seed}, {took_s:.0f} s: {found}", *notes]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
