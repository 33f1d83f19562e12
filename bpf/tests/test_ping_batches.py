# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""No more than one batch of role ping is in flight, whatever comes late or twice."""

import struct
import subprocess
from pathlib import Path

from conftest import BPF, only
from xsk import frames, xsk

SOURCE = Path(__file__).with_name("batch.c")
BATCH = 2
#: A frame that comes back after its batch was given up, while others are under way.
LATE = 40
TIMEOUT_US, LATE_S = 50000, 0.08


def test_a_late_return_is_not_of_the_batch_in_flight(middle, tmp_path):
    path = tmp_path / "samples.bin"
    with middle.forwarder(tmp_path, "b0", "b0", delay={LATE: LATE_S}, duplicate=[90]):
        options = {"count": 100, "ping_batch": BATCH, "timeout_us": TIMEOUT_US, "samples": str(path)}
        with xsk(middle, "a", "ping", "a0", streams=[frames()], interval_us=1000, **options) as ping:
            done = ping.finish(signal=False)
    assert done["timeouts"] == 1
    got = only(done)
    assert (got["sent"], got["received"], got["duplicated"]) == (100 * BATCH, 100 * BATCH, 1)
    batches = {}
    for sent, latency, seq, _ in struct.iter_unpack("=QQII", path.read_bytes()):
        batches.setdefault(seq // BATCH, []).append((sent, sent + latency))
    assert len(batches) == 100
    for number in range(1, 100):
        left = min(sent for sent, _ in batches[number])
        if number - 1 != LATE // BATCH:
            assert left >= max(back for _, back in batches[number - 1]), f"batch {number} left before that was back"


def test_what_completes_a_batch(tmp_path):
    """Each of its sequences once: not one of the other stage, nor of another batch, nor twice the same."""
    program = tmp_path / "batch"
    argv = ["gcc", "-std=gnu11", "-D_GNU_SOURCE", f"-I{BPF}/common", f"-I{BPF}/xsk", f"-I{BPF}/nf", "-Wall", "-Werror"]
    subprocess.run([*argv, "-o", program, SOURCE], check=True)
    for stage, other in (("warmup", "trial"), ("trial", "warmup")):
        for first in (0, 100, (1 << 32) - 2):  # the last goes over the end of the frame's sequences
            n = [(first + i) % (1 << 32) for i in range(-1, 4)]
            arrivals = [f"{stage}:{n[1]}", f"{stage}:{n[1]}", f"{other}:{n[2]}", f"{stage}:{n[0]}", f"{stage}:{n[4]}"]
            arrivals += [f"other:{n[2]}", f"again:{n[1]}", f"{stage}:{n[3]}", f"{stage}:{n[2]}"]
            told = subprocess.run([program, stage, str(first), "3", *arrivals], check=True, capture_output=True).stdout
            assert told.split() == [b"2", b"2", b"2", b"2", b"2", b"2", b"2", b"1", b"0"]
