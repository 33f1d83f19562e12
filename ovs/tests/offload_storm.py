#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""Changes flows, options, ports, MTUs and links under traffic with XDP flow offload, and kills the daemon at times.

    ovs/tests/offload_storm.py --build DIR --changes 1000 --seed 1     # DIR: result folder of ovs/build, --asan or not
    ovs/tests/offload_storm.py --build DIR --no-offload                # the same without, on any build
    ovs/tests/offload_storm.py --build DIR --plant stale              # must find the fault that it plants itself

Numbered frames of 160 flows go through the switch all the time. A change is one of: flows added, deleted, with another
output or edit (VLAN tag, TTL, destination); what `option_storm.py` does to ports; a larger or smaller flow table, which
may have room for fewer flows than there are; `hw-offload` off or on; `kill -9` of the daemon, and its start. After each
change Open vSwitch is asked to revalidate (`revalidator/wait`), and from then on no frame that is sent may leave by a
port that its flow does not name, or in another shape; no frame may ever come twice, or damaged. After `kill -9` no
frame may come, and no XDP program be left but in generic mode, where flows are not offloaded and the one of Open
vSwitch without offload is used. Every `--check` changes what cannot work is taken back, and each flow must forward
again. At the end, with new ports, frames must meet offloaded flows, of a table that is full, and of a larger one that
is loaded from it. Exit code: 0 passed, 1 failed, 2 it could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from frames import Wire
from lab import PORTS, StormError, Switch, add_changes, at_least, carried_out, namespaces, run, wait_for
from option_storm import lost_frames, statistics
from port_changes import Changes
from storm_rules import FLOWS, Rules
from storm_traffic import Judge, Traffic

PLANTS = ("stale", "twice", "shape")
GENERIC = 2  # XDP_ATTACHED_SKB
ANSWER_S = 60.0  # nobody waits longer, however loaded the machine is
WAYS = {"flow": 56, "flows": 8, "port": 24, "table": 6, "offload": 3, "kill": 3}
SMALLEST = 64  # xdp-flow-entries


class OffloadStorm:
    """Changes, and what must hold after each."""

    def __init__(
        self, asked: argparse.Namespace, switch: Switch, names: tuple[str, str, str], traffic: Traffic
    ) -> None:
        self.asked = asked
        self.switch = switch
        self.names = names
        self.traffic = traffic
        self.random = random.Random(asked.seed)  # noqa: S311 (a test)
        self.rules = Rules(asked.seed, switch, asked.plant)
        self.changes = Changes(asked.seed, switch, names)
        self.judge = Judge()
        self.since_ns: int | None = None
        self.done: list[str] = []
        self.kinds: Counter[str] = Counter()
        self.checks: Counter[bool] = Counter()
        self.wanted = asked.offload  # in the database
        self.linked = asked.offload  # by the daemon: it has the program that is attached by a link until it ends

    def look(self) -> None:
        """At the frames that came until now; raises StormError when one was wrong."""
        self.judge.judge(self.traffic.take(), self.since_ns, self.rules.named)
        if self.judge.wrong:
            raise StormError(
                f"{len(self.judge.wrong)} frames were wrong, the first: {self.judge.wrong[0]}; {self.last()}"
            )

    def settle(self) -> None:
        """From here on the datapath does what the flows say.

        The first call may be answered by a round that began before the change, or before the main thread knew of it.
        """
        for _ in range(3):
            self.switch.appctl("revalidator/wait")
        self.judge.judge(self.traffic.take(), None, self.rules.named)
        self.since_ns = time.monotonic_ns()

    def change(self) -> None:
        """One change."""
        (way,) = self.random.choices(list(WAYS), list(WAYS.values()))
        self.look()
        self.since_ns = None
        self.kinds[way] += 1
        if way == "flow":
            self.done.append(self.rules.change_one())
        elif way == "flows":
            self.done.append(self.rules.replace_all((0, 1, None)))
        elif way == "port":
            self.done.append(self.changes.change())
        elif way == "table":
            self.done.append(self.changes.change_table())
        elif way == "offload":
            self.done.append(self.offload(self.random.choice((True, False)) and self.asked.offload))
        else:
            self.done.append("kill -9")
            self.kill()
        if self.asked.verbose:
            print(self.done[-1], flush=True)
        if not self.switch.alive():
            raise StormError(f"ovs-vswitchd died; {self.last()}")
        self.settle()
        time.sleep(self.random.random() * self.asked.pause)

    def offload(self, on: bool) -> str:
        """Sets hw-offload; to be off again takes a new daemon."""
        self.wanted = on
        self.linked = self.linked or on
        self.switch.vsctl("set", "Open_vSwitch", ".", f"other_config:hw-offload={str(on).lower()}")
        return f"hw-offload={str(on).lower()}"

    def kill(self) -> None:
        """The daemon ends at once; what it forwarded ends with it. A new one is started, and gets the flows."""
        assert self.switch.daemon is not None
        self.switch.daemon.kill()
        self.switch.daemon.wait()
        dead_ns = time.monotonic_ns()
        left = attached(self.names[1], generic=False) if self.linked else []  # the program without offload stays
        self.linked = self.wanted
        time.sleep(0.2)
        came = self.traffic.take()
        self.judge.judge(came, None, self.rules.named)
        for frame in came:
            if frame.sent_ns > dead_ns:
                raise StormError(
                    f"forwarded {(frame.sent_ns - dead_ns) / 1e6:.1f} ms after kill -9: {frame}; {self.last()}"
                )
        if left:
            raise StormError(f"left after kill -9: {'; '.join(left)}; {self.last()}")
        self.switch.start_daemon()
        wait_for(self.listens, "ovs-vswitchd does not listen after kill -9", ANSWER_S)
        self.rules.forget()
        self.rules.replace_all((0, 1, None))

    def listens(self) -> bool:
        """Whether the new daemon has its bridge."""
        try:
            return (
                self.switch.alive() and "br0" in self.switch.appctl("ofproto/list") and bool(self.switch.ofctl("show"))
            )
        except StormError:
            return False

    def check(self) -> None:
        """Takes back what cannot work; each flow must forward to the port that it names."""
        self.look()
        self.since_ns = None
        self.changes.take_back()
        self.offload(self.asked.offload)
        self.rules.replace_all()
        self.settle()
        missing = set(self.rules.named)
        deadline = time.monotonic() + ANSWER_S
        while missing:
            came = self.traffic.take()
            self.judge.judge(came, self.since_ns, self.rules.named)
            missing -= {frame.entry for frame in came}
            if time.monotonic() > deadline:
                raise StormError(f"flows {sorted(missing)} forward nothing after {ANSWER_S:g} s; {self.last()}")
            time.sleep(0.02)
        self.look()
        self.checks[self.switch.offloaded() > 0] += 1

    def last(self) -> str:
        """The last changes."""
        return f"the last changes: {'; '.join(self.done[-8:])}"

    def finish(self) -> None:
        """New ports with default options but the flow table's; with offload its flows must have frames."""
        for port in PORTS:
            self.switch.vsctl("del-port", port)
            self.switch.add_port(port)  # with counters at 0
            self.switch.vsctl("set", "interface", port, f"options:xdp-flow-entries={SMALLEST}")
        self.check()
        if self.asked.offload:
            wait_for(lambda: self.switch.offloaded() > 0, f"nothing was offloaded; {self.last()}", ANSWER_S)
            self.wait_for_table(SMALLEST, FLOWS - SMALLEST)
        for port in PORTS:
            self.switch.vsctl("remove", "interface", port, "options", "xdp-flow-entries")
        self.check()
        if self.asked.offload:
            self.wait_for_table(FLOWS, 0)
        self.look()

    def wait_for_table(self, flows: int, waiting: int) -> None:
        """Returns when each port has as many flows in XDP, and as many that found no room."""
        wanted = dict.fromkeys(PORTS, (flows, waiting))
        try:
            wait_for(lambda: self.in_xdp() == wanted, "", ANSWER_S)
        except StormError:
            raise StormError(f"flows in XDP and waiting are {self.in_xdp()}, not {wanted}; {self.last()}") from None

    def in_xdp(self) -> dict[str, tuple[int, int]]:
        """Flows in XDP and flows that found no room there, by port."""
        tables = {port: reported["xdp-flows"] for port, reported in self.switch.show().items()}
        return {port: (int(table["n_flows"]), int(table["n_waiting"])) for port, table in tables.items()}

    def run(self) -> None:
        """All changes."""
        self.check()
        with statistics(self.switch):
            while len(self.done) < self.asked.changes:
                self.changes.harmless = not self.changes.harmless
                for _ in range(min(self.asked.check, self.asked.changes - len(self.done))):
                    self.change()
                self.check()
            self.finish()


def attached(namespace: str, generic: bool = True) -> list[str]:
    """XDP programs on the switch's ports; those in generic mode, too, or not."""
    links = json.loads(run("ip", "-n", namespace, "-j", "-d", "link", "show"))
    found = [link for link in links if "xdp" in link and (generic or link["xdp"]["mode"] != GENERIC)]
    return [f"{link['ifname']}: {link['xdp']}" for link in found]


def storm(asked: argparse.Namespace, folder: Path) -> str:
    """Everything; what was seen, in a line.

    Raises:
        StormError: something was wrong.
    """
    with ExitStack() as stack:
        names = stack.enter_context(namespaces(f"offload{os.getpid()}"))
        for name, link in ((names[0], "t0"), (names[2], "t1")):  # a veth takes redirected frames only with NAPI
            run("ip", "netns", "exec", name, "ethtool", "-K", link, "gro", "on")
        offload = f"other_config:hw-offload={str(asked.offload).lower()}"
        settings = (offload, "other_config:max-revalidator=100")  # rounds of 100 ms, for each is waited for
        switch = Switch(asked.build.resolve(), folder, names[1], settings=settings)
        stack.callback(switch.stop)
        switch.start()
        switch.vsctl("set-fail-mode", "br0", "secure")
        wires = [Wire(names[0], "t0"), Wire(names[2], "t1")]
        traffic = stack.enter_context(Traffic(wires, FLOWS, asked.pps))
        whole = OffloadStorm(asked, switch, names, traffic)
        whole.run()
        traffic.stop()
        time.sleep(2.0)
        if "netdev-afxdp/show" in switch.appctl("list-commands") and (wrong := lost_frames(switch.show())):
            raise StormError(f"frames lost: {'; '.join(wrong)}")
        if code := switch.stop():
            raise StormError(f"ovs-vswitchd ended with {code}")
        if left := attached(names[1]):
            raise StormError(f"left after the end: {'; '.join(left)}")
        judge = whole.judge
        looks = f"{whole.checks[True]} of {whole.checks.total()} looks saw offloaded frames"
        frames = f"{traffic.sent} frames sent, {judge.judged.total()} judged, {judge.overtaken} overtaken"
        frames += f", at most {judge.most_overtaken} of a flow between two changes"
        return f"{dict(whole.kinds)}, {looks}, {frames}"


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--no-offload", dest="offload", action="store_false", help="hw-offload stays off")
    add_changes(parser, "whether all flows forward")
    parser.add_argument("--pps", type=at_least(1.0), default=5000.0, help="frames sent in a second")
    parser.add_argument("--plant", choices=PLANTS, help="must be found: flows not told, or wrong")
    return carried_out(
        "offload_storm", storm, parser.parse_args(argv), "none twice, none by a port not named, none in another shape"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
