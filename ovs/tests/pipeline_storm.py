#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""Changes OpenFlow pipelines, ports, queues and PMD threads under traffic, all ports sharing one UMEM without copies.

    ovs/tests/pipeline_storm.py --build "$(ovs/build --asan | tail -1)" --changes 1000 --seed 1
    ovs/tests/pipeline_storm.py --build DIR --offload                  # of a build with flows in XDP: with hw-offload
    ovs/tests/pipeline_storm.py --build DIR --plant twice              # must find the fault that it plants itself

Three AF_XDP ports and a VXLAN tunnel, whose outer frames take a fourth one by another bridge: four ports, by each of
which numbered frames of 16 flows come in and go out all the time, half of them with a VLAN tag. A flow is sent to none
to three ports: at once, by another table, by a controller that gives each frame back (`controller(pause)`), by
connection tracking or source NAT, by a group (all, select, indirect) or a meter, with VLAN tags pushed, popped or set,
or another TTL or destination. A change is one of: a flow, all flows, a group, the meter; a port or the tunnel removed
or added; `n_rxq`, queues bound to a PMD thread or moved by rebalancing, the set of PMD threads; tracked connections
flushed, or all flows of the datapath (`revalidator/purge`).

No frame may ever come damaged, or twice by one port; once Open vSwitch has revalidated, none by a port that its flow
does not name, by more ports than it names, or in another shape. Every `--check` changes all ports are there again, each
flow must forward, and with the traffic stopped every frame of the UMEM must be accounted for. At the end frames must go
from port to port without a copy, and with `--offload` meet offloaded flows. Exit code: 0 passed, 1 failed, 2 it could
not run.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from frames import ports
from lab import QUEUES, StormError, Switch, add_changes, at_least, carried_out, run, wait_for
from option_storm import lost_frames, statistics
from storm_pipelines import FLOWS, KINDS, PORTS, Pipelines
from storm_traffic import Judge, Traffic, headers
from storm_tunnel import HERE, HERE_MAC, THERE, THERE_MAC, VNI, VxlanWire

LINKS = ("d0", "d1", "d2", "d3")
TUNNEL, UNDERLAY = "vx0", "d3"
# One UMEM for 16 queues with rings of 512.
SHARED = ["shared-umem=storm", "tx-copy=auto", "umem-frames=32768"]
SHARED += [f"xsk-{ring}-ring=512" for ring in ("rx", "tx", "fill", "comp")]
WAYS = {"flow": 50, "flows": 6, "group": 10, "meter": 2, "port": 10, "queue": 12, "pmd": 4, "flush": 6, "purge": 3}
PLANTS = ("stale", "twice", "shape", "damage", "tunnel")
ANSWER_S = 60.0  # nobody waits longer, however loaded the machine is


class PipelineStorm:
    """Changes, and what must hold after each."""

    def __init__(self, asked: argparse.Namespace, switch: Switch, traffic: Traffic) -> None:
        self.asked = asked
        self.switch = switch
        self.traffic = traffic
        self.random = random.Random(asked.seed)  # noqa: S311 (a test)
        self.rules = Pipelines(asked.seed, switch, asked.plant)
        self.judge = Judge(most=PORTS - 1)
        self.since_ns: int | None = None
        self.done: list[str] = []
        self.ways: Counter[str] = Counter()
        self.judged: Counter[str] = Counter()
        self.frames = 0
        self.several = 0
        self.newest_ns: dict[tuple[int, int], int] = {}
        self.missing: set[str] = {TUNNEL, *LINKS}

    def add(self, port: str) -> None:
        """Adds a port, or the tunnel."""
        bridge = "br1" if port == UNDERLAY else "br0"
        options = SHARED
        if port == TUNNEL:
            options = [f"remote_ip={THERE}", f"key={VNI + (self.asked.plant == 'tunnel')}"]
        number = LINKS.index(UNDERLAY if port == TUNNEL else port) + 1
        kind = "vxlan" if port == TUNNEL else "afxdp"
        self.switch.vsctl(
            "add-port", bridge, port, "--", "set", "interface", port, f"type={kind}", f"ofport_request={number}",
            *(f"options:{option}" for option in options), *([] if port == TUNNEL else ["options:n_rxq=2"]),
        )  # fmt: skip
        self.missing.discard(port)

    def take(self, since_ns: int | None) -> None:
        """Judges the frames that came until now; raises StormError when one was wrong."""
        came = self.traffic.take()
        self.judge.judge(came, since_ns, self.rules.named)
        self.frames += len(came)
        for frame in came:
            self.newest_ns[frame.entry] = max(self.newest_ns.get(frame.entry, 0), frame.sent_ns)
        if since_ns is not None:
            self.judged.update(self.rules.kinds.get(frame.entry, "") for frame in came if frame.sent_ns > since_ns)
        if self.judge.wrong:
            raise StormError(
                f"{len(self.judge.wrong)} frames were wrong, the first: {self.judge.wrong[0]}; {self.last()}"
            )

    def settle(self) -> None:
        """From here on the datapath does what the flows say; see `offload_storm.py`."""
        for _ in range(3):
            self.switch.appctl("revalidator/wait")
        self.take(None)
        self.since_ns = time.monotonic_ns()

    def change(self) -> None:
        """One change."""
        (way,) = self.random.choices(list(WAYS), list(WAYS.values()))
        self.take(self.since_ns)
        self.since_ns = None
        self.ways[way] += 1
        rules = {"flow": self.rules.change_one, "flows": self.rules.replace_all, "group": self.rules.change_group}
        others = {"meter": self.rules.change_meter, "port": self.change_port, "queue": self.change_queue}
        rest = {"pmd": self.change_pmd, "flush": self.change_flush, "purge": self.change_purge}
        self.done.append({**rules, **others, **rest}[way]())
        if self.asked.verbose:
            print(self.done[-1], flush=True)
        if not self.switch.alive():
            raise StormError(f"ovs-vswitchd died; {self.last()}")
        self.settle()
        time.sleep(self.random.random() * self.asked.pause)

    def change_port(self) -> str:
        """Removes a port, the tunnel or its underlay, or adds it again."""
        port = self.random.choice((*LINKS, TUNNEL))
        if port in self.missing:
            self.add(port)
            return f"{port} added"
        self.switch.vsctl("del-port", port)
        self.missing.add(port)
        return f"{port} removed"

    def change_queue(self) -> str:
        """More or fewer queues, or others on a PMD thread."""
        port = self.random.choice(LINKS)
        if port in self.missing:
            self.add(port)
            return f"{port} added"
        what = self.random.choice((f"options:n_rxq={self.random.randint(2, QUEUES)}", "affinity", "rebalance"))
        if what == "rebalance":
            self.switch.appctl("dpif-netdev/pmd-rxq-rebalance")
            return what
        if what == "affinity":
            cores = [self.random.randrange(2) for _ in range(2)]
            what = f'other_config:pmd-rxq-affinity="0:{cores[0]},1:{cores[1]}"'
        self.switch.vsctl("set", "interface", port, what)
        return f"{port}: {what}"

    def change_pmd(self) -> str:
        """Other PMD threads."""
        mask = self.random.choice((1, 2, 3))
        self.switch.vsctl("set", "Open_vSwitch", ".", f"other_config:pmd-cpu-mask={mask}")
        return f"pmd-cpu-mask={mask}"

    def change_flush(self) -> str:
        """Forgets all connections, or makes those that are only looked for."""
        if self.random.random() < 0.5:
            return self.rules.connect()
        self.switch.appctl("dpctl/flush-conntrack")
        return "connections flushed"

    def change_purge(self) -> str:
        """Forgets all flows of the datapath."""
        self.switch.appctl("revalidator/purge")
        return "datapath emptied"

    def check(self) -> None:
        """All ports are there again; each flow must forward, and no frame of the UMEM may be missing."""
        self.take(self.since_ns)
        self.since_ns = None
        for port in sorted(self.missing):
            self.add(port)
        self.switch.vsctl(
            *" -- ".join(f"remove interface {port} other_config pmd-rxq-affinity" for port in LINKS).split()
        )
        self.switch.appctl("tnl/arp/set", "br1", THERE, THERE_MAC)
        self.rules.replace_all(("output", "resubmit"), one_port=True)
        self.settle()
        self.wait_for_flows()
        self.traffic.paused = True
        try:
            wait_for(lambda: not lost_frames(self.switch.show()), "", ANSWER_S)
        except StormError:
            lost = "; ".join(lost_frames(self.switch.show()))
            raise StormError(f"frames lost: {lost}; {self.last()}") from None
        self.traffic.paused = False
        self.several = max(self.several, self.switch.offloaded("recirculated"))
        self.rules.connect()
        self.rules.replace_all()
        self.settle()

    def wait_for_flows(self) -> None:
        """Returns when each flow has forwarded a frame that was sent after its rule was in force."""
        deadline = time.monotonic() + ANSWER_S
        while missing := [entry for entry in self.rules.named if self.newest_ns.get(entry, 0) <= (self.since_ns or 0)]:
            self.take(self.since_ns)
            if time.monotonic() > deadline:
                raise StormError(f"flows {missing} forward nothing after {ANSWER_S:g} s; {self.last()}")
            time.sleep(0.02)

    def last(self) -> str:
        """The last changes."""
        return f"the last changes: {'; '.join(self.done[-8:])}"

    def copied(self) -> int:
        """Bytes that were copied to the UMEM to be sent."""
        queues = [queue for port in self.switch.show().values() for queue in port["queues"]]
        return sum(queue["counters"]["tx_copy_bytes"] for queue in queues if queue)

    def check_copies(self) -> str:
        """Frames from port to port must hardly ever be copied; returns how many bytes were, of how many frames."""
        self.rules.replace_all(("output",), one_port=True)
        self.settle()
        self.wait_for_flows()
        before, came = self.copied(), self.frames
        time.sleep(1.0)
        self.take(self.since_ns)
        copied, came = self.copied() - before, self.frames - came
        if came == 0 or copied > came * len(headers(0)):
            raise StormError(f"{copied} bytes of {came} frames were copied; {self.last()}")
        return f"{copied} bytes of the last {came} frames copied"

    def run(self) -> str:
        """All changes; what was seen at the end."""
        self.rules.start()
        self.check()
        with statistics(self.switch):
            while len(self.done) < self.asked.changes:
                for _ in range(min(self.asked.check, self.asked.changes - len(self.done))):
                    self.change()
                self.check()
            copies = self.check_copies()
        if unseen := set(KINDS) - {"drop"} - set(self.judged):
            raise StormError(
                f"no frame of {', '.join(sorted(unseen))} was ever judged: too few changes, or nothing came"
            )
        self.traffic.stop()
        self.take(self.since_ns)
        if self.asked.offload and not (self.switch.offloaded() and self.several):
            raise StormError(f"nothing was offloaded, or nothing that meets several flows; {self.last()}")
        tunnel = f"{self.judge.judged[LINKS.index(UNDERLAY)]} from the tunnel"
        frames = f"{self.traffic.sent} frames sent, {self.judge.judged.total()} judged, {tunnel}"
        offloaded = f", {self.switch.offloaded()} of the last frames in XDP" if self.asked.offload else ""
        offloaded += f", where up to {self.several} between two looks met several flows" if self.asked.offload else ""
        return f"{dict(self.ways)}, {frames} {dict(self.judged)}, {copies}{offloaded}"


@contextmanager
def controller(switch: Switch) -> Iterator[None]:
    """Gives back each frame that it gets."""
    argv = [switch.build / "ovs-ofctl", "-O", "OpenFlow15", "-P", "nxt_packet_in2", "monitor"]
    argv += [f"unix:{switch.folder}/br0.mgmt", "resume"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(argv, env=switch.environment(), stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)


def storm(asked: argparse.Namespace, folder: Path) -> str:
    """Everything; what was seen, in a line.

    Raises:
        StormError: something was wrong.
    """
    with ExitStack() as stack:
        namespace, wires = stack.enter_context(ports(f"pipeline{os.getpid()}", len(LINKS), QUEUES))
        settings = [f"other_config:{key}" for key in ("max-revalidator=100", "pmd-cpu-mask=3", "vlan-limit=2")]
        settings += [f"other_config:hw-offload={str(asked.offload).lower()}"]
        switch = Switch(asked.build.resolve(), folder, namespace, ports=(), settings=settings)
        stack.callback(switch.stop)
        switch.start()
        switch.vsctl("set-fail-mode", "br0", "secure")
        switch.vsctl("add-br", "br1", "--", "set", "Bridge", "br1", "datapath_type=netdev",
                     f'other_config:hwaddr="{HERE_MAC}"')  # fmt: skip
        run("ip", "-n", namespace, "addr", "add", f"{HERE}/24", "dev", "br1")
        run("ip", "-n", namespace, "link", "set", "br1", "up")
        stack.enter_context(controller(switch))
        far = [*wires[:-1], VxlanWire(wires[-1])]
        traffic = stack.enter_context(Traffic(far, FLOWS, asked.pps, sizes=(0, 200, 700, 1300), tagged=True))
        seen = PipelineStorm(asked, switch, traffic).run()
        if code := switch.stop():
            raise StormError(f"ovs-vswitchd ended with {code}")
        return seen


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--offload", action="store_true", help="with flows in XDP, of which some must have frames")
    add_changes(parser, "flows and frames")
    parser.add_argument("--pps", type=at_least(1.0), default=4000.0, help="frames sent in a second")
    parser.add_argument("--plant", choices=PLANTS, help="must be found: flows not told, or wrong")
    return carried_out("pipeline_storm", storm, parser.parse_args(argv), "none damaged, twice or astray, none lost")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
