# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""No chunk of a UMEM is ever lost: random options under random loads, with the sanitized build.

XSK_SOAK_S=600 runs new random cases for ten minutes; a failure prints its seed, which XSK_SEED repeats.
"""

import os
import random
import time

import pytest
from conftest import config, stream, xdpgen
from xsk import frames, is_sound, xsk

CASES = 14
FIRST_SEED = int(os.environ.get("XSK_SEED", "1000"))


def power(rng, low, high):
    return 1 << rng.randint(low, high)


def random_options(rng, role):
    """Any combination of settings that belong together."""
    tx_ring = power(rng, 3, 12)
    batch = rng.choice([1, 2, 7, 32, 64, 256, 512])
    options = {
        "xdp_mode": rng.choice(["native", "native", "generic"]),
        "bind": rng.choice(["auto", "copy"]),
        "need_wakeup": rng.random() < 0.7,
        "rx_ring": power(rng, 3, 12),
        "tx_ring": tx_ring,
        "fill_ring": power(rng, 3, 12),
        "completion_ring": tx_ring << rng.randint(0, 1),
        "shared_umem": rng.random() < 0.6,
        "sockets": rng.choice([1, 1, 2, 4]),
        "headroom": rng.choice([0, 0, 64, 130]),
        "batch": batch,
        "touch": rng.choice(["none", "read", "macswap"]),
        "wait": rng.choice(["spin", "poll"]),
        "wake_rx": rng.choice(["recvfrom", "poll", "none"]),
        "wake_tx": rng.choice(["sendto", "poll"]),
        "busy_poll_us": rng.choice([0, 0, 20]),
    }
    if rng.random() < 0.5:
        options |= {"unaligned": True, "chunk_bytes": rng.randrange(2184, 4097, 8)}
    if rng.random() < 0.5:  # few chunks: rings and roles have to share them
        options["frames"] = rng.randint(max(2 * batch, 4), 2 * batch + 2048)
    if tx_ring >= 32 and rng.random() < 0.4:
        options["tx_skb_budget"] = rng.randint(32, tx_ring)
    if role == "forward" and options["sockets"] > 1:
        options["shared_umem"] = False
    if role == "gen":
        options["streams"] = [frames(kind="load", frame_bytes=rng.choice([64, 65, 700, 1518]))]
    return options


def load(rng, net, ends):
    """Floods, trickles and mixtures."""
    streams = [
        stream(
            id=n, kind="load", pps=rng.choice([None, 500.0, 20000.0, 200000.0]),
            frame_bytes=rng.choice([64, 65, 128, 1000, 1518]), tx_port=tx_port, rx_port=1 - tx_port,
        )
        for n, tx_port in enumerate(rng.choices(ends, k=rng.randint(1, 4)))
    ]  # fmt: skip
    ports = [net.port("a0", rx="tc"), net.port("c0", rx="tc")]
    return xdpgen(config(ports, *streams, duration_s=0.1, warmup_s=0, drain_s=0.05, max_burst=32))


def run_case(net, program, seed):
    rng = random.Random(seed)
    role = rng.choice(["forward", "forward", "forward", "reflect", "sink", "gen"])
    options = random_options(rng, role)
    ports = ["b0", "b1"] if role == "forward" else ["b0"]
    print(f"XSK_SEED={seed}: {role} {options}")
    with xsk(net, "b", role, *ports, program=program, audit=True, **options) as running:
        load(rng, net, [0, 1] if role == "forward" else [0])
        done = running.finish()
    assert is_sound(done)
    received = sum(sock["rx"] for sock in done["sockets"])
    sent = sum(sock["tx"] for sock in done["sockets"])
    dropped = sum(sock["truncated"] for sock in done["sockets"])
    kernel = [sock["kernel"] for sock in done["sockets"]]
    assert [(each["rx_invalid_descs"], each["tx_invalid_descs"]) for each in kernel] == [(0, 0)] * len(kernel)
    if role in ("forward", "reflect"):
        assert received == sent + dropped
    assert (sent if role == "gen" else received) > 0


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + CASES))
def test_no_chunk_is_lost(middle, sanitized, seed):
    run_case(middle, sanitized, seed)


@pytest.mark.timeout(0)
@pytest.mark.skipif("XSK_SOAK_S" not in os.environ, reason="XSK_SOAK_S asks for it: seconds of random cases")
def test_soak(middle, sanitized):
    end = time.monotonic() + float(os.environ["XSK_SOAK_S"])
    seed = FIRST_SEED + CASES
    while time.monotonic() < end:
        run_case(middle, sanitized, seed)
        seed += 1
    assert seed > FIRST_SEED + CASES
