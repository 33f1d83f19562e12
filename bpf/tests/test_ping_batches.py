# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""No more than one batch of role ping is in flight, whatever comes late or twice."""

import struct
import subprocess
from pathlib import Path

from conftest import BPF, only
from xsk import frames, xsk

SOURCE = Path(__file__).with_name("batch.c")
COUNT = 100
#: Every frame takes this long, so that one is always under way.
DELAY_S = 0.005
#: This one comes back after its batch was given up, while another is under way.
LATE, LATE_S, TIMEOUT_US = 40, 0.08, 50000


def test_a_late_return_is_not_of_the_batch_in_flight(middle, tmp_path):
    path = tmp_path / "samples.bin"
    delay = dict.fromkeys(range(COUNT), DELAY_S) | {LATE: LATE_S}
    with middle.forwarder(tmp_path, "b0", "b0", delay=delay):
        options = {"count": COUNT, "timeout_us": TIMEOUT_US, "samples": str(path)}
        with xsk(middle, "a", "ping", "a0", streams=[frames()], **options) as ping:
            done = ping.finish(signal=False)
    assert done["timeouts"] == 1
    got = only(done)
    assert (got["sent"], got["received"], got["lost"]) == (COUNT, COUNT, 0)
    samples = struct.iter_unpack("=QQII", path.read_bytes())
    times = {seq: (sent, sent + latency) for sent, latency, seq, _ in samples}
    early = [seq for seq in range(1, COUNT) if seq - 1 != LATE and times[seq][0] < times[seq - 1][1]]
    assert not early, "left before the one before it was back"


def test_what_completes_a_batch(tmp_path):
    """Each of its sequences once: not one of the other stage, nor of another batch, nor twice the same."""
    program = tmp_path / "batch"
    argv = [
        "gcc",
        "-std=gnu11",
        "-D_GNU_SOURCE",
        f"-I{BPF}/common",
        f"-I{BPF}/io",
        f"-I{BPF}/xsk",
        f"-I{BPF}/nf",
        "-Wall",
        "-Werror",
    ]
    subprocess.run([*argv, "-o", program, SOURCE], check=True)
    for stage, other in (("warmup", "trial"), ("trial", "warmup")):
        for first in (0, 100, (1 << 32) - 2):  # the last goes over the end of the frame's sequences
            n = [(first + i) % (1 << 32) for i in range(-1, 4)]
            arrivals = [f"{stage}:{n[1]}", f"{stage}:{n[1]}", f"{other}:{n[2]}", f"{stage}:{n[0]}", f"{stage}:{n[4]}"]
            arrivals += [f"other:{n[2]}", f"again:{n[1]}", f"{stage}:{n[3]}", f"{stage}:{n[2]}"]
            reported = subprocess.run(
                [program, stage, str(first), "3", *arrivals], check=True, capture_output=True
            ).stdout
            assert reported.split() == [b"2", b"2", b"2", b"2", b"2", b"2", b"2", b"1", b"0"]
