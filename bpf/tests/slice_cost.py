# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What slices cost: latency (median, p99.9, p99.99) and top rate with and without them, in turns, and what they take.

As root, with the programs built: python bpf/tests/slice_cost.py [--rounds 20]. Frames go on a direct link to tc and to
XDP, through an XDP redirect (on the sender's core), and through an AF_XDP forwarder that spins on a core of its own. A
top rate is what arrived per second that the sender had its core. On a busy machine run it behind `chrt -f 1`.
"""

import argparse
import contextlib
import json
import os
import random
import statistics

from conftest import config, net_up, stream, xdpgen
from hdrh.histogram import HdrHistogram
from xsk import xsk

CPUS = sorted(os.sched_getaffinity(0))[:2]


class Measured:
    """Pairs by name of the figure; `words` say what the first is and what the second."""

    def __init__(self, *words):
        self.words = words
        self.pairs = {}
        self.sizes = {}
        self.unmarked = []

    def pair(self, name, take, rounds):
        """One trial each, the first in turns; what it gave, or what by its name."""
        values = {on: take(on) for on in ((False, True) if rounds % 2 else (True, False))}
        if not isinstance(values[True], dict):
            values = {on: {"": value} for on, value in values.items()}
        for what in values[True]:
            self.pairs.setdefault(f"{name}{what}", []).append((values[False][what], values[True][what]))

    def tell(self):
        for name, pairs in self.pairs.items():
            ratios = [after / before for before, after in pairs]
            rng = random.Random(1)
            medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
            before = statistics.median(value for value, _ in pairs)
            print(
                f"{name}: {before:.4g} {self.words[0]}, times {statistics.median(ratios):.3f} {self.words[1]} "
                f"(95 % {medians[50]:.3f} to {medians[1949]:.3f}; single pairs {min(ratios):.2f} to {max(ratios):.2f}; "
                f"{len(ratios)} pairs)"
            )
        for name, sizes in self.sizes.items():
            print(f"{name}: {statistics.median(sizes):.0f} bytes of slices ({min(sizes)} to {max(sizes)})")


def trial(measured, name, net, watched, seconds, rx, sliced, **more):
    """The result with or without slices."""
    given = {"slices": watched} if sliced else {}
    both = [net.port("a0", rx="none", tx_cpu=CPUS[0]), net.port("c0", rx=rx)]
    printed = xdpgen(config(both, stream(**more), duration_s=seconds, warmup_s=0.1, max_burst=200, **given))
    if sliced and more["pps"]:
        measured.sizes.setdefault(name, []).append(len(json.dumps(printed["slices"])))
    return printed


def p50_ns(printed):
    """Mean of the percentiles around it: a clock of a virtual machine has steps of 10 ns."""
    whole = HdrHistogram.decode(printed["streams"][0]["latency"]["hdr"])
    return statistics.mean(whole.get_value_at_percentile(percent) for percent in range(40, 61))


def latencies(printed):
    """The median and the tail, which is the machine's as well."""
    whole = HdrHistogram.decode(printed["streams"][0]["latency"]["hdr"])
    tail = {f"p{percent} in ns": whole.get_value_at_percentile(percent) for percent in (99.9, 99.99)}
    return {"p50 in ns": p50_ns(printed), **tail}


def top_pps(printed):
    return printed["streams"][0]["received"] / (printed["threads"][0]["ran_ns"] / 1e9)


def round_of(measured, net, way, watched, asked, number):
    rx = "tc" if way in ("direct", "xsk") else "xdp"
    for pps in (10_000.0, 100_000.0):
        name = f"{way}, {pps / 1e3:.0f} kpps"
        measured.pair(
            f"{name}: ",
            lambda on, name=name, pps=pps: latencies(
                trial(measured, name, net, watched, asked.seconds, rx, on, pps=pps)
            ),
            number,
        )
    measured.pair(
        f"{way}: top rate in frames per second",
        lambda on: top_pps(trial(measured, way, net, watched, asked.seconds, rx, on, pps=None)),
        number,
    )


@contextlib.contextmanager
def forwarding(net, way):
    """What is to be watched of it."""
    if way == "xdp":
        with net.xdpfwd("--if0=b0", "--if1=b1"):
            yield {"cpus": CPUS}
    else:
        realtime = {"policy": "fifo", "priority": 1} if os.sched_getscheduler(0) == os.SCHED_FIFO else {}
        with xsk(net, "b", "forward", "b0", "b1", cpus=[CPUS[1]], batch=64, **realtime) as running:
            (thread,) = running.ready["threads"]
            yield {"cpus": CPUS, "threads": [thread["tid"]], "processes": [running.process.pid]}
            running.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--ways", default="direct,direct-xdp,xdp,xsk")
    asked = parser.parse_args()
    measured = Measured("without", "with slices")
    with net_up(("a0", "c0")) as direct, net_up(("a0", "b0"), ("b1", "c0")) as middle:
        for number in range(asked.rounds):
            for way in asked.ways.split(","):
                if way.startswith("direct"):
                    round_of(measured, direct, way, {"cpus": CPUS}, asked, number)
                    continue
                with forwarding(middle, way) as watched:
                    round_of(measured, middle, way, watched, asked, number)
    measured.tell()


if __name__ == "__main__":
    main()
