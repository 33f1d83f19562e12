# SPDX-License-Identifier: Apache-2.0
"""AF_XDP on the drivers themselves: native XDP, zero-copy, wake-ups, busy polling, and what goes wrong in silence."""

from collections.abc import Callable
from typing import Any

import pytest

from nic.guest.cards import (
    FRAMES,
    HOST,
    Calls,
    Pair,
    applied,
    by_xdpgen,
    exchange,
    forwarder,
    refusal,
    sound_exchange,
)
from xdplab.forwarders.base import mode_in_use, mode_name
from xdplab.model import Unsupported

Fact = Callable[[Pair, str, str], None]
#: Functions of the driver that only zero-copy sockets bring to run: sending and receiving, or waking.
ZERO_COPY = {
    "igb": ("igb_xmit_zc", "igb_clean_rx_irq_zc", "igb_xsk_wakeup"),
    "virtio_net": ("virtnet_xsk_wakeup",),
}
#: And of the kernel's pool of zero-copy buffers, whatever the driver.
POOL = ("xp_alloc_batch", "xsk_tx_completed")
COPYING = "__dev_direct_xmit"


def able(ifname: str) -> list[str]:
    return list(HOST.xdp_features(ifname) or ())


def test_native_xdp_carries_frames(either: Pair, fact: Fact) -> None:
    assert {"basic", "redirect"} <= set(able(either.left.ifname))
    with Calls(*ZERO_COPY[either.driver], *POOL, COPYING) as calls:
        got = sound_exchange(either, bind="copy")
    assert {port["xdp_mode"] for port in got.ready["ports"]} == {"native"}
    assert got.flags == {False}
    assert calls.counts[COPYING] >= got.sent
    assert not any(calls.counts[name] for name in (*ZERO_COPY[either.driver], *POOL))
    fact(either, "native XDP, copy", "frames pass")


def test_zero_copy_is_flag_and_mode_and_driver(either: Pair, fact: Fact) -> None:
    assert "xsk-zerocopy" in able(either.left.ifname)
    proof = (*ZERO_COPY[either.driver], *POOL)
    with Calls(*proof, COPYING) as calls:
        got = sound_exchange(either, (64, 1518), bind="zero-copy")
    assert got.flags == {True}
    assert {port["xdp_mode"] for port in got.ready["ports"]} == {"native"}
    assert all(calls.counts[name] for name in proof), calls.counts
    assert calls.counts[COPYING] == 0
    assert got.ready["options"]["need_wakeup"] is True
    ran = ", ".join(ZERO_COPY[either.driver])
    fact(either, "zero-copy", f"flag, native program, and the driver ran {ran}")


def test_without_need_wakeup_frames_pass_as_well(either: Pair, fact: Fact) -> None:
    got = sound_exchange(either, bind="zero-copy", need_wakeup=False)
    assert got.ready["options"]["need_wakeup"] is False
    assert sum(sock["rx_wakes"] for sock in got.done["sockets"]) == 0
    fact(either, "need-wakeup off", "frames pass, nobody is woken to receive")


BUSY: dict[str, Any] = {"busy_poll_us": 20, "busy_poll_budget": 64, "prefer_busy_poll": True}


def test_busy_polling_works_where_a_queue_has_one_napi(igb: Pair, fact: Fact) -> None:
    with applied(igb.context, channels=8, rss_queues=1, napi_defer_hard_irqs=2, gro_flush_timeout=200_000):
        napis = HOST.queue_napis(igb.right.ifname, 0)
        assert napis["rx"] == napis["tx"] is not None
        with Calls("napi_busy_loop") as calls:
            got = sound_exchange(igb, bind="zero-copy", **BUSY)
        assert {sock["napi_id"] for sock in got.ready["sockets"]} >= {napis["rx"]}
        assert all(sock["busy_poll_active"] and sock["prefer_busy_poll"] for sock in got.ready["sockets"])
        assert calls.counts["napi_busy_loop"] > FRAMES
    fact(igb, "busy polling", "active with 8 channels (one NAPI a queue)")


def test_busy_polling_that_sends_nothing_is_detected(either: Pair, fact: Fact) -> None:
    napis = HOST.queue_napis(either.left.ifname, 0)
    assert napis["rx"] is not None
    assert napis["tx"] != napis["rx"]
    got = exchange(either, options={"bind": "zero-copy", **BUSY})
    assert all(sock["busy_poll_active"] for sock in got.ready["sockets"])  # every call succeeded ...
    assert got.received == [0]  # ... and nothing moves
    overfull = either.driver == "igb"  # its ring has room for 1,024 of 1,900 frames, virtio_net's for all of them
    assert got.done["tx_stuck"] == ([either.left.ifname] if overfull else [])
    with pytest.raises(Unsupported, match=r"prefer_busy_poll: .* NAPIs of their own .* stay unsent"):
        with forwarder(either, bind="zero-copy", **BUSY):
            pass
    fact(either, "busy polling, RX and TX apart", "stalls; reported as unsupported with the reason")


def test_silent_fall_back_to_copy_is_seen(virtio: Pair, plain: Pair, fact: Fact) -> None:
    assert "xsk-zerocopy" in able(plain.left.ifname)  # the driver claims it
    for cards, mode in ((virtio, "native zero-copy"), (plain, "native copy")):
        with forwarder(cards, bind="auto") as (program, dut):
            assert mode_name(mode_in_use(program, dut)) == mode
        fact(cards, "bind auto", f"reported as {mode}")
    assert "cannot bind" in refusal(plain, bind="zero-copy")
    fact(plain, "zero-copy", "refused when asked for, in one line")


def test_a_flag_of_zero_copy_under_a_generic_program_is_no_proof(either: Pair, fact: Fact) -> None:
    with pytest.raises(Unsupported, match="has the zero-copy flag, but the XDP program is generic"):
        with forwarder(either, mode="generic", bind="auto"):
            pass
    fact(either, "zero-copy flag, generic program", "reported as unsupported with the reason")


def test_igb_loses_frames_above_1024_bytes_with_small_chunks(igb: Pair, fact: Fact) -> None:
    fcs = 4
    got = exchange(igb, (1024 + fcs, 1040 + fcs), {"bind": "zero-copy", "chunk_bytes": 2048})
    assert got.flags == {True}
    small, large = got.done["streams"]
    assert (small["sent"], small["lost"]) == (small["received"], 0)
    assert (large["sent"], large["received"]) == (large["lost"], 0)
    assert large["sent"] >= FRAMES * 0.9
    counters = ("rx_dropped", "rx_invalid_descs", "rx_ring_full")
    assert not any(sock["kernel"][name] for sock in got.done["sockets"] for name in counters)
    fact(igb, "zero-copy, 2 KiB chunks, over 1024 bytes", "all lost, in no counter of the socket; counted as lost")


def test_xdpgen_sends_from_a_card_with_fewer_queues_than_cpus(either: Pair, fact: Fact) -> None:
    """The CPU's number is above every queue's: what is counted as sent has left, or the trial has failed."""
    few = {"channels": 1} if either.driver == "igb" else {}  # virtio_net has one at this wire
    with applied(either.context, **few):
        done = by_xdpgen(either)
    assert (done["error"], done["tx_drops_reason"]) == (None, None), done
    (stream,) = done["streams"]
    assert stream["sent"] >= FRAMES * 0.9
    assert (stream["received"], stream["lost"], stream["duplicated"]) == (stream["sent"], 0, 0)
    fact(either, "xdpgen, one queue, two CPUs", "all frames sent and received")


def test_xdpgen_sends_batches_of_256_from_a_card(either: Pair, fact: Fact) -> None:
    """As fast as it can: more than the ring takes. What the card did not take was not sent."""
    done = by_xdpgen(either, kind="load", pps=None)
    assert (done["error"], done["tx_drops_reason"], done["batch"]) == (None, None, 256), done
    (stream,) = done["streams"]
    assert stream["sent"] > FRAMES
    assert stream["received"] + stream["lost"] == stream["sent"]
    assert stream["received"] > 0
    assert stream["duplicated"] == 0
    if either.driver == "igb":  # virtio_net under QEMU was seen to overtake at a full ring
        assert stream["out_of_order"] == 0
    fact(either, "xdpgen, batches of 256", "what the card took is what was sent, and none came twice")
