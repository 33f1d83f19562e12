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
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lab import PORTS, StormError, Switch, add_changes, carried_out, namespaces, run
from port_changes import Changes

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
    """Rounds of changes, and what must hold after each."""

    def __init__(self, options: argparse.Namespace, switch: Switch, names: tuple[str, str, str]) -> None:
        self.options = options
        self.switch = switch
        self.names = names
        self.changes = Changes(options.seed, switch, names)
        self.done: list[str] = []
        self.numbers: dict[str, tuple[str, str]] = {}
        self.disturbed = 0
        self.log = switch.folder / "vswitchd.log"
        self.log_read = 0
        self.shows = "netdev-afxdp/show" in switch.appctl("list-commands")

    def check(self) -> None:
        """What must hold after changes: ports, their numbers, frames."""
        self.changes.take_back()
        self.wait_for_answer()
        self.check_losses()
        numbers = self.switch.numbers()
        requested = numbers[PORTS[0]][0]
        if requested != "1" or "" in numbers[PORTS[1]] or "-1" in numbers[PORTS[1]]:
            raise StormError(f"OpenFlow and datapath numbers are {numbers}; {self.last()}")
        if self.changes.harmless and self.numbers not in ({}, numbers):
            raise StormError(f"the numbers were {self.numbers} and are {numbers}; {self.last()}")
        self.numbers = numbers
        time.sleep(SETTLE_S)
        if self.shows and (wrong := lost_frames(self.switch.show())):
            raise StormError(f"frames lost: {'; '.join(wrong)}; {self.last()}")
        if self.changes.harmless and (left := self.left_datapath()):
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

    def settled_descriptors(self) -> Counter[str]:
        """The open descriptors of the daemon without the connections of the moment, which it may be late to close."""
        descriptors = self.switch.descriptors()
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            time.sleep(0.1)
            descriptors &= self.switch.descriptors()
        return descriptors

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
        before = self.settled_descriptors()
        with statistics(self.switch):
            while len(self.done) < self.options.changes:
                self.changes.harmless = not self.changes.harmless
                with flood(self.names[0]):
                    for _ in range(min(self.options.check, self.options.changes - len(self.done))):
                        self.done.append(self.changes.change())
                        if self.options.verbose:
                            print(self.done[-1], flush=True)
                        if not self.switch.alive():
                            raise StormError(f"ovs-vswitchd died; {self.last()}")
                        time.sleep(self.changes.random.random() * self.options.pause)
                self.check()
        self.changes.harmless = False
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


def storm(asked: argparse.Namespace, folder: Path) -> str:
    """Everything; what was seen, in a line.

    Raises:
        StormError: something was wrong.
    """
    with ExitStack() as stack:
        names = stack.enter_context(namespaces(f"storm{os.getpid()}"))
        switch = Switch(asked.build.resolve(), folder, names[1], requests=PORTS[:1])
        stack.callback(switch.stop)
        switch.start()
        whole = Storm(asked, switch, names)
        whole.run()
        if code := switch.stop():
            raise StormError(f"ovs-vswitchd ended with {code}")
    seen = f"{whole.disturbed} times the daemon had no processor"
    return seen if whole.shows else f"{seen}, and this build does not tell of its frames"


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    add_changes(parser, "ports and frames", pause_s=0.1)
    found = "no crash, no leak, no port and no frame lost"
    return carried_out("option_storm", storm, parser.parse_args(argv), found, "ping")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
