# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What a change of the receiver costs: latency and top rate of this build of xdpgen and of another one, in turns.

As root: python bpf/tests/receiver_cost.py OTHER_XDPGEN [--rounds 12]. Time-stamped frames of 64 and 1,518 bytes go on a
direct link to XDP and tc. On a busy machine run it behind `chrt -f 1`.
"""

import argparse
import json
import os
import random
import statistics
import subprocess

from conftest import XDPGEN, config, net_up, stream
from hdrh.histogram import HdrHistogram

CPU = min(os.sched_getaffinity(0))
SIZES, RATES = (64, 1518), (100_000.0, None)


def report(name, pairs):
    """The other build's median, and how many times that this build has: with a 95 % interval over the pairs."""
    ratios = [here / other for other, here in pairs]
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
    other = statistics.median(value for value, _ in pairs)
    print(
        f"{name}: {other:.4g} of the other, times {statistics.median(ratios):.3f} here "
        f"(95 % {medians[50]:.3f} to {medians[1949]:.3f}; single pairs {min(ratios):.2f} to {max(ratios):.2f}; "
        f"{len(ratios)} pairs)"
    )


def p50_ns(printed):
    """Mean of the percentiles around it: a clock of a virtual machine has steps of 10 ns."""
    whole = HdrHistogram.decode(printed["streams"][0]["latency"]["hdr"])
    return statistics.mean(whole.get_value_at_percentile(percent) for percent in range(40, 61))


def top_pps(printed):
    """What arrived per second that the sender had its core."""
    return printed["streams"][0]["received"] / (printed["threads"][0]["ran_ns"] / 1e9)


def trial(program, net, seconds, rx, pps, frame_bytes):
    ports = [net.port("a0", rx="none", tx_cpu=CPU), net.port("c0", rx=rx)]
    asked = config(ports, stream(pps=pps, frame_bytes=frame_bytes), duration_s=seconds, warmup_s=0.1, max_burst=200)
    done = subprocess.run([program, "-"], input=json.dumps(asked), capture_output=True, text=True, check=True)
    printed = json.loads(done.stdout)
    return top_pps(printed) if pps is None else p50_ns(printed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", help="xdpgen of another commit: git worktree add DIR COMMIT; make -C DIR/bpf")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.3)
    asked = parser.parse_args()
    cases = [(rx, pps, size) for rx in ("xdp", "tc") for size in SIZES for pps in RATES]
    pairs = {case: [] for case in cases}
    with net_up(("a0", "c0")) as net:
        for number in range(asked.rounds):
            programs = (asked.other, XDPGEN) if number % 2 == 0 else (XDPGEN, asked.other)
            for case in cases:
                found = {program: trial(program, net, asked.seconds, *case) for program in programs}
                pairs[case].append((found[asked.other], found[XDPGEN]))
    for (rx, pps, size), its in pairs.items():
        report(f"{rx}, {size} bytes, {'top rate in frames per second' if pps is None else '100 kpps: p50 in ns'}", its)


if __name__ == "__main__":
    main()
