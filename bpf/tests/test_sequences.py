# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Sequences have 64 bits, of which the frame carries 32, and count what has left."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from conftest import BPF, config, counts, only, stream, xdpgen_running
from test_several_cpus import INJECT, receiver_of

SOURCE = Path(__file__).with_name("sequences.c")
LAP = 1 << 32
#: Less than half a lap, and each time to another word of the window.
STEP = (1 << 30) + 64


def test_a_lap_of_the_frames_sequence_in_xsk(tmp_path):
    program = tmp_path / "sequences"
    argv = ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-fno-strict-aliasing", f"-I{BPF}/common", f"-I{BPF}/xsk"]
    sources = [SOURCE, *(BPF / name for name in ("xsk/account.c", "common/choice.c", "common/stream_flows.c"))]
    subprocess.run([*argv, "-o", program, *sources, "-lm"], check=True)
    # the last of the lap comes twice, the one before it late
    frames = [0, STEP, 2 * STEP, 3 * STEP, LAP - 1, LAP - 2, LAP - 1, LAP, LAP + 1, LAP + 4]
    told = subprocess.run([program, *map(str, frames)], check=True, capture_output=True, text=True).stdout
    assert json.loads(told) == {
        "received": 9,
        "duplicated": 1,
        "out_of_order": 1,
        "late_beyond_window": 0,
        "last_lost": LAP + 3,
        "next": LAP + 5,
    }


def test_a_lap_of_the_frames_sequence_in_xdpgen(direct):
    """Frames made up for its receiver: its own first leaves after all this."""
    ports = [direct.port("a0"), direct.port("c0")]
    run = config(ports, stream(pps=0.01, start_ns=50_000_000_000), duration_s=60, drain_s=0)
    with xdpgen_running(run) as process:
        prog, epoch = receiver_of(direct, "c0")
        # 0, STEP, 2 STEP, 3 STEP, then in the second lap 4 STEP, the one after it, and later another
        for first, step, count in ((0, STEP, 4), (4 * STEP - LAP, 1, 2), (4 * STEP - LAP + 4, 1, 1)):
            argv = [sys.executable, INJECT, *map(str, (0, prog, epoch, first, step, count))]
            subprocess.run(argv, input="go\n", text=True, check=True, timeout=20, stdout=subprocess.DEVNULL)
        process.send_signal(signal.SIGINT)
        one = only(json.loads(process.communicate(timeout=60)[0]))
    assert (one["received"], one["out_of_order"], one["duplicated"]) == (7, 0, 0)
    assert one["gaps"]["last_lost"] == 4 * STEP + 3


def test_what_the_kernel_refused_to_send_has_no_sequence(middle, tmp_path):
    """b0 takes no redirects at first; later what comes is forwarded up to frame 299."""
    whole = 300
    ports = [middle.port("a0", tx_cpu=0), middle.port("c0")]
    run = config(ports, stream(pps=500.0), warmup_s=0, duration_s=2)
    try:
        middle.accept_redirects("b0", on=False)
        with middle.forwarder(tmp_path, drop=list(range(whole, 1000))), xdpgen_running(run, wait_s=0.7) as process:
            middle.accept_redirects("b0")
            one = only(json.loads(process.communicate(timeout=20)[0]))
    finally:
        middle.accept_redirects("b0")
    assert one["redirect_errors"] > 0
    assert one["intended"] == one["sent"] + one["redirect_errors"] + one["skipped"] == 1000
    lost = one["sent"] - whole
    assert lost > 0
    assert counts(one)["received"] == whole
    assert (one["gaps"]["last_lost"], one["gaps"]["trailing"]) == (None, lost)
