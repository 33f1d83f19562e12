# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What a change of the receiver costs: latency and top rate of this build of xdpgen and of another one, in turns.

As root: python bpf/tests/receiver_cost.py OTHER_XDPGEN [--rounds 12]. Time-stamped frames of 64 and 1,518 bytes go on a
direct link to XDP and tc. On a busy machine run it behind `chrt -f 1`.
"""

import argparse
import json
import subprocess

from conftest import XDPGEN, config, net_up, stream
from slice_cost import CPUS, Measured, p50_ns, top_pps

SIZES, RATES = (64, 1518), (100_000.0, None)


def trial(program, net, seconds, rx, pps, frame_bytes):
    ports = [net.port("a0", rx="none", tx_cpu=CPUS[0]), net.port("c0", rx=rx)]
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
    programs = {False: asked.other, True: XDPGEN}
    measured = Measured("of the other", "here")
    with net_up(("a0", "c0")) as net:
        for number in range(asked.rounds):
            for rx, size, pps in [(rx, size, pps) for rx in ("xdp", "tc") for size in SIZES for pps in RATES]:
                name = (
                    f"{rx}, {size} bytes, {'top rate in frames per second' if pps is None else '100 kpps: p50 in ns'}"
                )
                measured.pair(
                    name,
                    lambda here, given=(rx, pps, size): trial(programs[here], net, asked.seconds, *given),
                    number,
                )
    measured.tell()


if __name__ == "__main__":
    main()
