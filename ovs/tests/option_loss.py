#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""Frames that a change of one option of a live AF_XDP port loses, and the longest gap between two that arrive.

    ovs/tests/option_loss.py --build "$(ovs/build | tail -1)"
    ovs/tests/option_loss.py --build "$(ovs/build --series stock | tail -1)" --only n_rxq --only external_ids

Two veth pairs in namespaces of its own, Open vSwitch between them with one rule and one PMD thread. `bpf/xdpgen` sends
64-byte frames in one direction and counts to the frame what arrives. An option of one port is changed, the port must
tell that it is in force, and frames must arrive for another second. Then it is set back, without traffic. The order of
the changes is another one in each repetition. `external_ids` is the control: no change of the port. Exit code: 0, or 2
if it could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import PORTS, QUEUES, StormError, Switch, at_least, huge_pages, measured, namespaces, ready, run, wait_for

XDPGEN = Path(os.environ.get("XDPLAB_BPF_DIR", Path(__file__).resolve().parents[2] / "bpf" / "build")) / "xdpgen"
#: Row -> the value it is set to; all are other ones than the default.
OPTIONS: dict[str, str] = {
    "n_rxq": "2",
    "xdp-mode": "generic",
    "use-need-wakeup": "false",
    "xsk-rx-ring": "1024",
    "xsk-tx-ring": "1024",
    "xsk-fill-ring": "1024",
    "xsk-comp-ring": "4096",
    "umem-frames": "8192",
    "umem-frame-size": "2048",
    "umem-headroom": "64",
    "umem-hugepages": "2M",
    "busy-poll": "20",
    "busy-poll-budget": "8",
    "prefer-busy-poll": "true",
    "rx-wakeup": "recvfrom",
    "tx-skb-budget": "64",
    "shared-umem": "g",
    "tx-copy": "always",
}
CONTROL, MTU = "external_ids", "mtu_request"
ROWS = (CONTROL, MTU, *OPTIONS)
NEW_MTU, OLD_MTU = 1400, 1500
SETTLE_S, WINDOW_S = 1.0, 0.1
FEW = 10  # what the kernel sends of its own accord
BACK_WITHIN_S = 30.0


@dataclass(frozen=True)
class Loss:
    """What one change cost.

    Attributes:
        sent: Frames that left the sender, before and after the change.
        lost: Those of them that did not arrive.
        gap_ms: Longest time between two frames that arrived.
    """

    sent: int
    lost: int
    gap_ms: float


def set_words(row: str, port: str) -> list[str]:
    """Arguments of ovs-vsctl for the change of a row."""
    value = {CONTROL: f"{CONTROL}:loss=1", MTU: f"{MTU}={NEW_MTU}"}
    return ["set", "interface", port, value.get(row) or f"options:{row}={OPTIONS[row]}"]


def undo_words(row: str, port: str) -> list[str]:
    """Arguments of ovs-vsctl that take it back; without a request the MTU would stay."""
    if row == MTU:
        return ["set", "interface", port, f"{MTU}={OLD_MTU}"]
    return ["remove", "interface", port, *((CONTROL, "loss") if row == CONTROL else ("options", row))]


def in_force(switch: Switch, row: str, port: str) -> bool:
    """Whether the datapath, or the database for what is none of its business, tells the new value."""
    if row == CONTROL:
        return switch.vsctl("--if-exists", "get", "interface", port, f"{CONTROL}:loss").strip().strip('"') == "1"
    if row == MTU:
        return switch.vsctl("get", "interface", port, "mtu").strip() == str(NEW_MTU)
    reported = next(line for line in switch.appctl("dpif/show").splitlines() if line.split()[:1] == [port])
    return f"{row}={OPTIONS[row]}" in reported.replace("(", " ").replace(")", " ").replace(",", " ").split()


def processors() -> tuple[int, int]:
    """CPUs of the sender and of the PMD thread: veth puts what CPU n sends into queue n modulo its queues, here 0."""
    usable = sorted(os.sched_getaffinity(0))
    sender = next((cpu for cpu in usable if cpu % QUEUES == 0), None)
    if sender is None or len(usable) < 2:
        raise StormError(f"needs two CPUs, one of them a multiple of {QUEUES}; may use {usable}")
    return sender, next(cpu for cpu in reversed(usable) if cpu != sender)


def sender_json(
    names: tuple[str, str, str], pps: float, cpu: int, kind: str = "load", flows: int = 1, seconds: float = 600
) -> str:
    """Configuration of xdpgen: from t0 to t1."""
    ends = [{"ifname": f"t{index}", "netns": f"/run/netns/{name}"} for index, name in enumerate((names[0], names[2]))]
    stream = {"id": 0, "kind": kind, "tx_port": 0, "rx_port": 1, "pps": pps, "frame_bytes": 64, "flows": flows,
              "src_mac": "02:00:00:00:77:01", "dst_mac": "02:00:00:00:77:02",
              "src_ip": "10.77.0.1", "dst_ip": "10.77.0.2"}  # fmt: skip
    ports = [{**ends[0], "tx_cpu": cpu, "rx": "none"}, {**ends[1], "rx": "tc"}]
    return json.dumps({"ports": ports, "streams": [stream], "duration_s": seconds, "drain_s": 1, "progress": False})


def answer_of(code: int, reported: bytes, complaint: bytes) -> dict[str, Any]:
    """What xdpgen measured."""
    answer = json.loads(reported or "{}")
    if code or answer.get("error"):
        raise StormError(f"xdpgen: {answer.get('error') or complaint.decode().strip()}")
    assert isinstance(answer, dict)
    return answer


def sent_by(text: str) -> dict[str, Any]:
    """What xdpgen measures with this configuration."""
    done = subprocess.run([XDPGEN, "-"], input=text.encode(), capture_output=True, timeout=120, check=False)
    return answer_of(done.returncode, done.stdout, done.stderr)


def arrived(names: tuple[str, str, str]) -> int:
    """Frames that reached the receiver's port since it was made."""
    reported = json.loads(run("ip", "-n", names[2], "-j", "-s", "link", "show", "t1"))
    return int(reported[0]["stats64"]["rx"]["packets"])


def wait_for_frames(names: tuple[str, str, str], row: str) -> None:
    """Returns when frames arrive."""

    def arrive() -> bool:
        before = arrived(names)
        time.sleep(WINDOW_S)
        return arrived(names) > before + FEW

    wait_for(arrive, f"{row}: no frames arrive", BACK_WITHIN_S)


def measure(switch: Switch, names: tuple[str, str, str], row: str, asked: argparse.Namespace) -> Loss:
    """One change under load, and back again without."""
    if in_force(switch, row, asked.port):
        raise StormError(f"{row}: is in force before the change, which would change nothing")
    quiet = arrived(names)
    sender = subprocess.Popen([XDPGEN, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert sender.stdin is not None
        sender.stdin.write(sender_json(names, asked.pps, processors()[0]).encode())
        sender.stdin.close()
        sender.stdin = None
        wait_for(lambda: arrived(names) > quiet + FEW or sender.poll() is not None, f"{row}: no frames arrive")
        time.sleep(SETTLE_S / 2)
        switch.vsctl(*set_words(row, asked.port))
        wait_for_frames(names, row)
        time.sleep(SETTLE_S)
        if not in_force(switch, row, asked.port):
            raise StormError(f"{row}: this build or this machine does not take it; --only leaves it out")
        sender.send_signal(signal.SIGINT)
        reported, complaint = sender.communicate(timeout=30)
    finally:
        sender.kill()
        sender.wait()
    (stream,) = answer_of(sender.returncode, reported, complaint)["streams"]
    switch.vsctl(*undo_words(row, asked.port))
    return Loss(stream["sent"], stream["lost"], stream["gaps"]["longest_ns"] / 1e6)


def prepare(switch: Switch, names: tuple[str, str, str]) -> None:
    """One rule, the PMD thread away from the sender, and NAPI whether there is an XDP program or not."""
    switch.vsctl("set", "Open_vSwitch", ".", f"other_config:pmd-cpu-mask={1 << processors()[1]:x}")
    switch.ofctl("del-flows")
    switch.ofctl("add-flow", "in_port=1,actions=output:2")
    for port in PORTS:
        for state in ("off", "on"):
            run("ip", "netns", "exec", names[1], "ethtool", "-K", port, "gro", state)


def spread(values: list[float], form: str) -> str:
    """Median and range."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def report(row: str, losses: list[Loss]) -> str:
    """A row of the table."""
    lost, gaps = spread([loss.lost for loss in losses], ".0f"), spread([loss.gap_ms for loss in losses], ".1f")
    return f"{row:20}{lost:>28}{gaps:>30}{sum(loss.sent for loss in losses):>12}"


def measure_all(asked: argparse.Namespace) -> dict[str, list[Loss]]:
    """All repetitions on one daemon."""
    order = random.Random(asked.seed)  # noqa: S311 (an order)
    rows = list(dict.fromkeys(asked.only or ROWS))
    losses: dict[str, list[Loss]] = {row: [] for row in rows}
    with ExitStack() as stack:
        stack.enter_context(huge_pages(48))  # of one UMEM and some
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ovs-loss-")))
        names = stack.enter_context(namespaces(f"loss{os.getpid()}"))
        switch = Switch(asked.build.resolve(), folder, names[1])
        stack.callback(switch.stop)
        switch.start()
        prepare(switch, names)
        for repetition in range(asked.repetitions):
            order.shuffle(rows)
            for row in rows:
                loss = measure(switch, names, row, asked)
                losses[row].append(loss)
                print(f"{repetition + 1}/{asked.repetitions} {row}: {loss}", file=sys.stderr, flush=True)
    return losses


def tell(losses: dict[str, list[Loss]]) -> None:
    """The table."""
    print(f"{'changed':20}{'lost: median (range)':>28}{'longest gap, ms':>30}{'sent':>12}")
    for row in (row for row in ROWS if row in losses):
        print(report(row, losses[row]))


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--pps", type=at_least(1.0), default=100_000.0, help="frames sent in a second")
    parser.add_argument("--repetitions", type=at_least(1), default=5)
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--only", choices=ROWS, action="append", help="these rows; a stock build has the first five")
    parser.add_argument("--port", choices=PORTS, default=PORTS[0], help="d0 receives the frames, d1 sends them")
    asked = parser.parse_args(argv)
    if not ready("option_loss", (asked.build,), XDPGEN):
        return 2
    return measured("option_loss", lambda: tell(measure_all(asked)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
