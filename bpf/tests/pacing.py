# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""How well two builds of xdpgen keep to a schedule, in turns on one direct link, by XDP and by tc at its end.

As root, with the programs built: python bpf/tests/pacing.py OTHER [--rounds 9] [--seconds 0.3]. OTHER is the xdpgen of
another commit. Of each build: the share of paced trials that fell short by more than 0.5 %, of rates that the link
carries; what a sender that was asked for too much is said to have stalled; departures within 200 ns at 100 kpps; top
rate; and the median of probes next to a load. Medians over the rounds. On a busy machine run it behind `chrt -f 1`.
"""

import argparse
import json
import random
import statistics
import subprocess

from conftest import XDPGEN, config, net_up, stream
from hdrh.histogram import HdrHistogram

from xdplab.model import StreamSpec, TrialSpec
from xdplab.testers.stream_json import max_burst

RATES = (2e5, 4e5, 6e5, 8e5, 1e6, 1.5e6, 2e6, 3e6)
BESIDE = (0.0, 3e5, 1e6, 1.5e6, 2e6, 3e6)
TOO_MUCH = 1e7
SHORT = 0.005
#: Of the top rate: what a load may be that the link carries.
CARRIED = 0.9


def ran(program, run):
    """A trial of a build."""
    done = subprocess.run(
        [program, "-"], input=json.dumps(run), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def trial(program, net, rx, seconds, *streams):
    """Of a build, with this xdplab's limit for catching up for either."""
    asked = tuple(StreamSpec(kind=each["kind"], pps=each["pps"], frame_bytes=64) for each in streams)
    most = max_burst(TrialSpec(streams=asked, duration_s=seconds))
    ports = [net.port("a0", tx_cpu=0), net.port("c0", rx=rx)]
    return ran(program, config(ports, *streams, duration_s=seconds, max_burst=most))


def load(pps):
    return stream(id=1, kind="load", pps=pps, start_ns=333)


def sent_pps(reported):
    return reported["streams"][-1]["sent"] / reported["elapsed_s"]


def probes_p50(reported):
    return HdrHistogram.decode(reported["streams"][0]["latency"]["hdr"]).get_value_at_percentile(50)


def on_time(reported):
    return reported["streams"][0]["lateness"]["on_schedule"] / reported["streams"][0]["sent"]


def stalled(reported):
    return reported["threads"][0]["stalled_ns"] / 1e9 / reported["elapsed_s"]


def one_round(builds, net, rx, seconds, found):
    """All trials of a round, each by both builds, in random order."""
    asked = [("top", None), ("on time", 1e5), ("too much", TOO_MUCH)]
    asked += [(what, pps) for what, rates in (("paced", RATES), ("beside", BESIDE)) for pps in rates]
    random.shuffle(asked)
    for what, pps in asked:
        for name, program in random.sample(sorted(builds.items()), len(builds)):
            if what == "beside":
                streams = [stream(pps=10000.0), *([load(pps)] if pps else [])]
            else:
                streams = [stream(pps=pps)] if what == "on time" else [load(pps)]
            found.setdefault((name, what, pps), []).append(trial(program, net, rx, seconds, *streams))


def table(builds, found, rx):
    """The lines of one receiver."""
    tops = {name: statistics.median(map(sent_pps, found[name, "top", None])) for name in builds}
    carried = [pps for pps in RATES if pps < CARRIED * min(tops.values())]
    for name in builds:
        short = [sent_pps(each) < (1 - SHORT) * pps for pps in carried for each in found[name, "paced", pps]]
        stalls = statistics.median(map(stalled, found[name, "too much", TOO_MUCH]))
        punctual = statistics.median(map(on_time, found[name, "on time", 1e5]))
        p50 = [f"{statistics.median(map(probes_p50, found[name, 'beside', pps])):.0f}" for pps in BESIDE]
        print(f"receiver {rx}, {name}: top rate {tops[name] / 1e6:.2f} Mpps, stalled when asked for more {stalls:.2%}")
        print(f"  short of 0.2 to {max(carried) / 1e6:g} Mpps by 0.5 %: {sum(short)} of {len(short)} trials")
        print(f"  within 200 ns of its time at 100 kpps: {punctual:.1%} of the frames")
        print(f"  p50 of probes next to {', '.join(f'{pps / 1e6:g}' for pps in BESIDE)} Mpps: {', '.join(p50)} ns")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.3)
    asked = parser.parse_args()
    builds = {"this": str(XDPGEN), "other": asked.other}
    with net_up(("a0", "c0")) as net:
        for rx in ("xdp", "tc"):
            found = {}
            for _ in range(asked.rounds):
                one_round(builds, net, rx, asked.seconds, found)
            table(builds, found, rx)


if __name__ == "__main__":
    main()
