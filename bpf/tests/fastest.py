# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""How many frames a second one CPU sends into a veth: xdpgen, and what else there is, in turns.

As root: python bpf/tests/fastest.py [--rounds 9] [--seconds 0.5], with the programs built. 64 bytes; the other end has
an XDP program that drops them, which the sender's CPU pays for. AF_XDP in copy mode is role `gen` of xsk: it does what
`xdpsock --txonly` does; xdp-trafficgen is of Debian's xdp-tools; pktgen is a module of the kernel. What is not there is
left out, with a line. Rates are frames that arrived, over the time between two looks; ratios are medians over rounds,
with the least and the greatest. On a busy machine run it behind `chrt -f 1`.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from conftest import XDPGEN, config, net_up, stream
from xsk import XSK

CPU = 0
COPY = "AF_XDP, copy mode"


class Sender:
    """One that sends until it is stopped; `ready_s` is how long it takes to begin."""

    ready_s = 1.0

    def __init__(self, net, argv, text=None):
        self.net, self.argv, self.text = net, argv, text

    @contextlib.contextmanager
    def running(self):
        argv = ["ip", "netns", "exec", self.net.ns("a"), "taskset", "-c", str(CPU), *map(str, self.argv)]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        if self.text:
            process.stdin.write(self.text)
        process.stdin.close()
        try:
            time.sleep(self.ready_s)
            yield process.poll() is None
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait()


class Pktgen:
    """The kernel's, through /proc/net/pktgen of the namespace that sends."""

    def __init__(self, net):
        self.net = net

    def _write(self, file, *lines):
        for line in lines:
            self.net.exec("a", "sh", "-c", 'echo "$1" >"/proc/net/pktgen/$0"', file, line)

    @contextlib.contextmanager
    def running(self):
        thread = f"kpktgend_{CPU}"
        self._write(thread, "rem_device_all", "add_device a0")
        self._write("a0", "count 0", "pkt_size 60", "delay 0", "burst 64", "dst_mac 02:00:00:00:00:02")
        runner = subprocess.Popen(
            ["ip", "netns", "exec", self.net.ns("a"), "sh", "-c", "echo start >/proc/net/pktgen/pgctrl"]
        )
        try:
            time.sleep(0.3)
            yield True
        finally:
            self._write("pgctrl", "stop")
            runner.wait()


def senders(net):
    """Name -> sender, of those that are there."""
    port = {"netns": net.path("a"), "ifname": "a0"}
    long_s = 3600
    trial = config([net.port("a0", tx_cpu=CPU, rx="none"), net.port("d0")], stream(kind="load", pps=None),
                   duration_s=long_s, warmup_s=0)  # fmt: skip
    frames = stream(kind="load", pps=None, rx_port=0)
    gen = {"role": "gen", "ports": [port], "cpus": [CPU], "bind": "copy", "streams": [frames]}
    found = {
        "xdpgen": Sender(net, [XDPGEN, "-"], json.dumps(trial)),
        COPY: Sender(net, [XSK, "-"], json.dumps(gen)),
    }
    trafficgen = shutil.which("xdp-trafficgen")
    if trafficgen:
        found["xdp-trafficgen"] = Sender(net, [trafficgen, "udp", "-m", "02:00:00:00:00:02", "a0"])
    else:
        print("xdp-trafficgen is not installed: apt-get install xdp-tools")
    if Path("/proc/net/pktgen").exists():
        found["pktgen"] = Pktgen(net)
    else:
        print("pktgen is not in this kernel: modprobe pktgen")
    return found


DROP = 'int drop(void *frame) { return 1; } char terms[] __attribute__((section("license"))) = "GPL";'


@contextlib.contextmanager
def dropped(net):
    """An XDP program at c0 that does nothing but drop."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder, "drop.o")
        argv = ["clang", "-target", "bpf", "-O2", "-xc", "-c", "-o", compiled, "-"]
        subprocess.run(argv, input=f'__attribute__((section("xdp"))) {DROP}', text=True, check=True)
        net.exec("c", "ip", "link", "set", "dev", "c0", "xdpdrv", "object", compiled, "section", "xdp")
        yield
        net.exec("c", "ip", "link", "set", "dev", "c0", "xdpdrv", "off")


def arrived(net):
    shown = json.loads(net.exec("c", "ip", "-j", "-s", "link", "show", "c0"))
    return shown[0]["stats64"]["rx"]["packets"], time.monotonic()


def rate(net, sender, seconds):
    with sender.running() as well:
        if not well:
            return 0.0
        frames, began = arrived(net)
        time.sleep(seconds)
        after, ended = arrived(net)
    return (after - frames) / (ended - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5)
    asked = parser.parse_args()
    assert os.geteuid() == 0, "needs root"
    with net_up(("a0", "c0"), ("b1", "d0")) as net, dropped(net):
        found = senders(net)
        for name in [name for name, sender in found.items() if not rate(net, sender, 0.1)]:
            print(f"{name} does not run on this kernel: {' '.join(map(str, found.pop(name).argv))}")
        rates = {name: [] for name in found}
        for _ in range(asked.rounds):
            for name in random.sample(sorted(found), len(found)):
                rates[name].append(rate(net, found[name], asked.seconds))
    for name, values in rates.items():
        ratios = [one / other for one, other in zip(values, rates[COPY], strict=True)]
        print(
            f"{name}: {statistics.median(values) / 1e6:.2f} Mpps, {statistics.median(ratios):.2f} times {COPY} "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
