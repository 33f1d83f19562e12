# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""How the top rate grows with the CPUs that send: rounds of one and of all, in turns, into a receiver that drops.

As root, with the programs built: python bpf/tests/senders.py [--cpus 0,1] [--rounds 9]. Each CPU has a receive queue of
its own at the other end of the veth link. A rate is frames per second; beside it per second that the senders ran, from
5 ms before the trial to their end: on a busy machine, which takes CPUs away, or run it behind `chrt -f 1` there.
"""

import argparse
import os
import statistics

from conftest import config, net_up, stream, xdpgen


def streams_of(cpus):
    """One for each CPU, as fast as it can."""
    return [stream(id=n, kind="load", pps=None, tx_cpu=cpu) for n, cpu in enumerate(cpus)]


def ports_of(net, cpu, rx):
    return [net.port("a0", tx_cpu=cpu), net.port("c0", rx=rx)]


def rates(net, cpus, seconds, rx="xdp"):
    """(frames per second, the same per second of a CPU) of a trial on these CPUs."""
    reported = xdpgen(config(ports_of(net, cpus[0], rx), *streams_of(cpus), duration_s=seconds, max_burst=200))
    assert sum(one["lost"] for one in reported["streams"]) == 0
    had_s = [thread["ran_ns"] / 1e9 for thread in reported["threads"]]
    sent = [one["sent"] for one in reported["streams"]]
    return sum(sent) / reported["elapsed_s"], sum(frames / s for frames, s in zip(sent, had_s, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpus", default=",".join(map(str, sorted(os.sched_getaffinity(0))[:2])))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rx", default="xdp", choices=["xdp", "tc"])
    asked = parser.parse_args()
    cpus = [int(cpu) for cpu in asked.cpus.split(",")]
    found = {"of wall time": [], "of CPU time": []}
    with net_up(("a0", "c0"), queues=len(cpus)) as net:
        for number in range(asked.rounds):
            reported = {}
            for each in (cpus[:1], cpus) if number % 2 else (cpus, cpus[:1]):
                reported[len(each)] = rates(net, each, asked.seconds, asked.rx)
            for name, one, several in zip(found, reported[1], reported[len(cpus)], strict=True):
                found[name].append(several / one)
                print(f"round {number}: {one / 1e6:.2f} and {several / 1e6:.2f} Mpps {name}: {several / one:.2f}")
    for name, ratios in found.items():
        low, high = min(ratios), max(ratios)
        print(f"{len(cpus)} CPUs over one, {name}: median {statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
