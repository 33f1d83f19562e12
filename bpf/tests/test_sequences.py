# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Sequences have 64 bits, of which the frame carries 32, and count what has left."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import BPF, clean, compiled, config, counts, only, stream, xdpgen, xdpgen_running
from test_several_cpus import inject, receiver_of
from xsk import xsk

HERE = Path(__file__).parent
SOURCE = HERE / "sequences.c"
LAP = 1 << 32
#: Less than half a lap, and each time to another word of the window.
STEP = (1 << 30) + 64
#: In which duplicates are recognised.
WINDOW = 1 << 18
#: In the order of enum choice_kind; flows that do not divide a lap.
CHOICES = ("round-robin", "uniform", "zipf")
FLOWS = 1000


@pytest.fixture(scope="module")
def account(tmp_path_factory):
    """What xsk makes of frames with these sequences."""
    program = tmp_path_factory.mktemp("sequences") / "sequences"
    argv = ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-fno-strict-aliasing", f"-I{BPF}/common", f"-I{BPF}/xsk"]
    names = ("xsk/account.c", "common/arrivals.c", "common/choice.c", "common/stream_flows.c")
    subprocess.run([*argv, "-o", program, SOURCE, *(BPF / name for name in names), "-lm"], check=True)

    def counted(*sequences):
        argv = [program, *map(str, sequences)]
        return json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)

    return counted


def test_a_lap_of_the_frames_sequence_in_xsk(account):
    # the last of the lap comes twice, the one before it late
    assert account(64, STEP, 2 * STEP, 3 * STEP, LAP - 1, LAP - 2, LAP - 1, LAP, LAP + 1, LAP + 4) == {
        "received": 9,
        "duplicated": 1,
        "out_of_order": 1,
        "late_beyond_window": 0,
        "last_lost": LAP + 3,
        "next": LAP + 5,
    }


@pytest.fixture(scope="module")
def laps(tmp_path_factory):
    """Frames that the sender in user space writes, by the account of xsk."""
    used = [path.relative_to(BPF) for path in sorted(BPF.glob("common/*.c"))]
    used += ["io/io.c", "io/user_sender.c", "xsk/account.c"]
    return compiled(
        tmp_path_factory.mktemp("laps") / "laps", HERE / "laps.c", *used, libraries=("jansson", "bpf", "xdp", "z", "m")
    )


@pytest.mark.parametrize("first", [0, LAP - FLOWS, 5 * LAP - 1])
@pytest.mark.parametrize("choice", CHOICES)
def test_the_flow_of_a_frame_is_that_of_its_whole_sequence_in_user_space(laps, choice, first):
    """The receiver would call each frame damaged whose flow it computes otherwise."""
    argv = [laps, *map(str, (CHOICES.index(choice), FLOWS, first, 2 * FLOWS))]
    assert json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout) == {
        "received": 2 * FLOWS,
        "damaged": 0,
        "duplicated": 0,
        "out_of_order": 0,
        "late_beyond_window": 0,
        "next": first + 2 * FLOWS,
    }


@pytest.fixture(scope="module")
def advance(tmp_path_factory):
    """A running xdpgen goes on at a sequence, as if all before it had been."""
    return compiled(tmp_path_factory.mktemp("advance") / "advance", HERE / "advance.c", libraries=("bpf",))


@pytest.mark.parametrize("first", [LAP - FLOWS, 5 * LAP - 1])
def test_the_flow_of_a_frame_is_that_of_its_whole_sequence_in_xdpgen(direct, advance, first):
    streams = [
        stream(id=n, flows=FLOWS, flow_choice=choice, count=2 * FLOWS, pps=4000.0, start_ns=1_500_000_000)
        for n, choice in enumerate(CHOICES)
    ]
    run = config([direct.port("a0"), direct.port("c0")], *streams, warmup_s=0, duration_s=2.5)
    with xdpgen_running(run, wait_s=0) as process:
        subprocess.run([advance, str(process.pid), str(first)], check=True)
        reported = json.loads(process.communicate(timeout=60)[0])
    assert [counts(one) | {"damaged": one["damaged"]} for one in reported["streams"]] == [
        clean(2 * FLOWS) | {"damaged": 0}
    ] * len(CHOICES)


@pytest.mark.parametrize(
    ("sequences", "last_lost"),
    [
        (["0-99"], None),
        (["0-9", "20-99", "10-19"], None),
        (["0-9", "11-19", "21-99", 20], 10),
        (["0-9", f"11-{10 + WINDOW}"], 10),
        (["0-9", f"11-{WINDOW + 99}"], 10),
        (["0-9", f"12-{WINDOW - 1}", 11, f"{WINDOW}-{2 * WINDOW}"], 10),
        ([f"0-{WINDOW - 1}", f"{2 * WINDOW + 40}-{3 * WINDOW + 99}"], 2 * WINDOW + 39),
        ([f"{WINDOW - 7}-{2 * WINDOW}"], WINDOW - 8),
    ],
)
def test_the_last_that_was_lost_is_the_highest_that_never_came(account, sequences, last_lost):
    """However long ago it was, and whatever was missing for a while."""
    assert account(*sequences)["last_lost"] == (-1 if last_lost is None else last_lost)


def trial_of(net, tester, one):
    """A trial of 0.3 s from a0 to c0 by either program."""
    ports = ["a0", "c0"]
    if tester == "xdpgen":
        return only(xdpgen(config([net.port(name) for name in ports], one)))
    given = [{"netns": net.path(name[0]), "ifname": name} for name in ports]
    timing = {"duration_s": 0.3, "drain_s": 0.2, "max_burst": 1_000_000}
    with xsk(net, "a", "probe", ports=given, streams=[one], **timing) as probe:
        return only(probe.finish(signal=False))


TESTERS = pytest.mark.parametrize("tester", ["xdpgen", "xsk"])


@TESTERS
def test_a_frame_that_is_late_is_not_lost(middle, tmp_path, tester):
    """Frame 3 is lost, 200 late, behind others."""
    with middle.forwarder(tmp_path, drop=[3], delay={200: 0.05}):
        one = trial_of(middle, tester, stream())
    assert (one["lost"], one["out_of_order"]) == (1, 1)
    assert (one["gaps"]["last_lost"], one["gaps"]["trailing"]) == (3, 0)


@TESTERS
def test_what_the_switch_puts_in_front_of_a_frame(middle, tmp_path, tester):
    with middle.forwarder(tmp_path, added_bytes=50):
        one = trial_of(middle, tester, stream(added_bytes=50))
    assert counts(one) == clean(600)


def test_a_flow_that_was_silent_for_half_a_lap(direct):
    """Its frames are one and five before the last: neither is out of order."""
    ports = [direct.port("a0"), direct.port("c0")]
    run = config(ports, stream(pps=0.01, start_ns=50_000_000_000, flows=2), duration_s=60, drain_s=0)
    with xdpgen_running(run) as process:
        prog, epoch = receiver_of(direct, "c0")
        for first in (1, STEP, 2 * STEP, 2 * STEP + 1):
            inject(0, prog, epoch, first, 1, 1, 2)
        process.send_signal(signal.SIGINT)
        one = only(json.loads(process.communicate(timeout=60)[0]))
    assert (one["received"], one["out_of_order"]) == (4, 0)


def test_a_lap_of_the_frames_sequence_in_xdpgen(direct):
    """Frames made up for its receiver: its own first leaves after all this."""
    ports = [direct.port("a0"), direct.port("c0")]
    run = config(ports, stream(pps=0.01, start_ns=50_000_000_000), duration_s=60, drain_s=0)
    with xdpgen_running(run) as process:
        prog, epoch = receiver_of(direct, "c0")
        # 0, STEP, 2 STEP, 3 STEP, then in the second lap 4 STEP, the one after it, and later another
        for first, step, count in ((0, STEP, 4), (4 * STEP - LAP, 1, 2), (4 * STEP - LAP + 4, 1, 1)):
            inject(0, prog, epoch, first, step, count)
        process.send_signal(signal.SIGINT)
        one = only(json.loads(process.communicate(timeout=60)[0]))
    assert (one["received"], one["out_of_order"], one["duplicated"]) == (7, 0, 0)
    assert one["gaps"]["last_lost"] == 4 * STEP + 3


def test_what_the_kernel_refused_to_send_has_no_sequence(middle, tmp_path):
    """b0 takes no redirects at first; later what comes is forwarded up to frame 299."""
    whole = 300
    ports = [middle.port("a0", tx_cpu=0), middle.port("c0")]
    run = config(ports, stream(pps=500.0), warmup_s=0, duration_s=4)
    try:
        middle.accept_redirects("b0", on=False)
        with middle.forwarder(tmp_path, drop=list(range(whole, 2000))), xdpgen_running(run, wait_s=0.7) as process:
            middle.accept_redirects("b0")
            one = only(json.loads(process.communicate(timeout=20)[0]))
    finally:
        middle.accept_redirects("b0")
    assert one["redirect_errors"] > 0
    assert one["intended"] == one["sent"] + one["redirect_errors"] + one["skipped"] == 2000
    lost = one["sent"] - whole
    assert lost > 0
    assert counts(one)["received"] == whole
    assert (one["gaps"]["last_lost"], one["gaps"]["trailing"]) == (None, lost)
