# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Every role of xsk over AF_XDP and AF_PACKET."""

import platform
import struct

import pytest
from conftest import clean, config, counts, net_up, only, stream, xdpgen
from hdrh.histogram import HdrHistogram
from xsk import SOCKETS, frames, is_sound, wait_for_frames, xsk

ALL = pytest.mark.parametrize("sockets", SOCKETS.values(), ids=SOCKETS)
KERNEL = tuple(map(int, platform.release().split(".")[:2]))
BUDGET = 64 if KERNEL >= (6, 17) else None
SOME = pytest.mark.parametrize("sockets", [SOCKETS[name] for name in ("native", "packet-v2")], ids=["xdp", "packet"])


def sent_both_ways(net, **more):
    ports = [net.port("a0", rx="tc"), net.port("c0", rx="tc")]
    streams = [stream(pps=10000.0), stream(id=1, tx_port=1, rx_port=0, pps=5000.0, frame_bytes=1518)]
    return xdpgen(config(ports, *streams, warmup_s=0, **more))


@pytest.mark.parametrize("sockets", [*SOCKETS.values(), {"shared_umem": False}], ids=[*SOCKETS, "separate"])
def test_forward(middle, sockets):
    audit = {} if "backend" in sockets else {"audit": True}
    with xsk(middle, "b", "forward", "b0", "b1", **audit, **sockets) as forwarder:
        result = sent_both_ways(middle)
        done = forwarder.finish()
    assert [counts(got) for got in result["streams"]] == [clean(3000), clean(1500)]
    assert [(sock["ifname"], sock["rx"], sock["tx"]) for sock in done["sockets"]] == [
        ("b0", 3000, 1500),
        ("b1", 1500, 3000),
    ]
    assert is_sound(done)
    assert done["error"] is None
    assert middle.is_clean("b0", "b1")


def test_what_is_in_use_is_read_back(middle):
    asked = {
        "xdp_mode": "generic", "bind": "copy", "busy_poll_us": 30, "prefer_busy_poll": True, "busy_poll_budget": 16,
        "tx_skb_budget": BUDGET or 0, "chunk_bytes": 2048, "frames": 4096, "cpus": [1], "policy": "fifo", "priority": 3,
        "mlock": True, "dma_latency_us": 7, "rx_ring": 512, "tx_ring": 1024, "fill_ring": 256, "completion_ring": 2048,
    }  # fmt: skip
    with xsk(middle, "b", "forward", "b0", "b1", **asked) as forwarder:
        ready = forwarder.ready
        attached = middle.attached("b0")["xdp"]
        forwarder.finish()
    assert attached
    assert {port["xdp_mode"] for port in ready["ports"]} == {"generic"}
    for sock in ready["sockets"]:
        assert (sock["zero_copy"], sock["busy_poll_us"], sock["prefer_busy_poll"]) == (False, 30, 1)
        assert sock["tx_skb_budget"] == BUDGET
        assert sock["rings"] == {"rx": 512, "tx": 1024, "fill": 256, "completion": 2048}
        assert (sock["napi_id"], sock["busy_poll_active"]) == (0, False)
    (umem,) = ready["umems"]
    assert (umem["frames"], umem["chunk_bytes"], umem["bytes"]) == (4096, 2048, 4096 * 2048)
    (thread,) = ready["threads"]
    assert (thread["cpu"], thread["policy"], thread["priority"]) == (1, "fifo", 3)
    assert (ready["mlocked"], ready["dma_latency_us"]) == (True, 7)
    assert ready["options"] | asked == ready["options"]


def test_busy_polling_is_reported_again_after_traffic(middle):
    """Up to Linux 6.12 the first frame brings the NAPI id; later veth has none, and nothing is polled."""
    with xsk(middle, "b", "forward", "b0", "b1", busy_poll_us=20) as forwarder:
        xdpgen(config([middle.port("a0"), middle.port("c0")], stream(), warmup_s=0))
        wait_for_frames(forwarder, "rx", 600)
        done = forwarder.finish()
    assert [sock["busy_poll_active"] for sock in forwarder.ready["sockets"]] == [False, False]
    got = done["sockets"][0]
    assert (got["napi_id"] > 0, got["busy_poll_active"]) == (KERNEL < (6, 13), KERNEL < (6, 13))


@ALL
def test_ping_and_reflect(middle, sockets, tmp_path):
    """The reflector swaps addresses; each ping is measured once, and the raw samples are the histogram."""
    path = tmp_path / "samples.bin"
    with xsk(middle, "b", "reflect", "b0", **sockets) as reflector:
        options = {"count": 40, "ping_batch": 3, "interval_us": 100, "timeout_us": 5000000, "samples": str(path)}
        with xsk(middle, "a", "ping", "a0", streams=[frames()], **options, **sockets) as ping:
            done = ping.finish(signal=False)
        reflected = reflector.finish()
    (got,) = done["streams"]
    assert counts(got) == clean(120)
    assert (done["batches"], done["timeouts"], done["other"]) == (40, 0, 0)
    assert (reflected["sockets"][0]["rx"], reflected["sockets"][0]["tx"]) == (120, 120)
    samples = list(struct.iter_unpack("=QQII", path.read_bytes()))
    assert [(seq, ident) for _, _, seq, ident in sorted(samples, key=lambda s: s[2])] == [(n, 0) for n in range(120)]
    rtts = sorted(rtt for _, rtt, _, _ in samples)
    latency = got["latency"]
    assert (latency["count"], latency["min_ns"], latency["max_ns"]) == (120, rtts[0], rtts[-1])
    assert latency["mean_ns"] == pytest.approx(sum(rtts) / 120)
    histogram = HdrHistogram.decode(latency["hdr"])
    assert histogram.get_total_count() == 120
    assert histogram.get_value_at_percentile(50) == pytest.approx(rtts[59], rel=2e-3)
    assert is_sound(done) and is_sound(reflected)


def test_pings_that_do_not_come_back_time_out(middle):
    with xsk(middle, "a", "ping", "a0", streams=[frames()], count=3, timeout_us=20000) as ping:
        done = ping.finish(signal=False)
    (got,) = done["streams"]
    assert (got["sent"], got["received"], got["lost"]) == (3, 0, 3)
    assert (done["batches"], done["timeouts"]) == (3, 3)
    assert got["latency"]["count"] == 0 and got["latency"]["min_ns"] is None
    assert is_sound(done)


def test_pings_of_the_warm_up_are_not_counted(middle):
    """A batch each millisecond for 0.2 s, of which the first half is the warm-up; sequences begin again."""
    with xsk(middle, "b", "reflect", "b0", wait="poll") as reflector:
        times = {"warmup_s": 0.1, "duration_s": 0.1, "interval_us": 1000, "timeout_us": 5000000}
        with xsk(middle, "a", "ping", "a0", streams=[frames()], **times) as ping:
            done = ping.finish(signal=False)
        reflected = reflector.finish()
    (got,) = done["streams"]
    assert 0 < done["batches"] <= 101
    assert counts(got) == clean(done["batches"])
    assert reflected["sockets"][0]["rx"] > done["batches"]
    assert 0.1 <= done["trial_s"] < 5  # the last batch is waited for
    assert is_sound(done)


@ALL
def test_probe_streams_and_reflect(middle, sockets):
    streams = [
        frames(pps=2000.0),
        frames(id=7, pps=500.0, frame_bytes=1518, flows=9),
        frames(id=3, kind="load", pps=100.0, vlan=9, frame_bytes=68, start_ns=1000000),
    ]
    with xsk(middle, "b", "reflect", "b0", **sockets) as reflector:
        options = {"duration_s": 0.3, "warmup_s": 0.05, "drain_s": 0.3, "max_burst": 1000000}
        with xsk(middle, "a", "probe", "a0", streams=streams, **options, **sockets) as probe:
            done = probe.finish(signal=False)
        reflector.finish()
    assert [counts(got) for got in done["streams"]] == [clean(600), clean(150), clean(30)]
    assert [got["intended"] for got in done["streams"]] == [600, 150, 30]
    assert [got["latency"] is None for got in done["streams"]] == [False, False, True]
    assert done["streams"][0]["lateness"]["count"] in (599, 600)
    assert done["trial_s"] == pytest.approx(0.3)
    assert done["other"] == 0
    assert is_sound(done)


@SOME
def test_probe_between_two_ports(middle, sockets, tmp_path):
    """Both ends in one process; the impairing forwarder in the middle drops, doubles and swaps what it is told to."""
    ports = [{"netns": middle.path("a"), "ifname": "a0"}, {"netns": middle.path("c"), "ifname": "c0"}]
    plan = {"drop": [5, 6], "duplicate": [9], "swap": [20]}
    with middle.forwarder(tmp_path, **plan):
        options = {"ports": ports, "streams": [stream(pps=1000.0)], "duration_s": 0.2, "drain_s": 0.3}
        with xsk(middle, "b", "probe", **options, max_burst=1000000, **sockets) as probe:
            done = probe.finish(signal=False)
    got = only(done)
    assert (got["sent"], got["received"], got["lost"]) == (200, 198, 2)
    # as xdpgen counts: 20 was missing only until 21 had come
    assert (got["duplicated"], got["out_of_order"], got["gaps"]["last_lost"]) == (1, 1, 6)


@SOME
@pytest.mark.parametrize("touch", ["none", "macswap"])
def test_gen_and_sink(middle, sockets, touch):
    with xsk(middle, "b", "sink", "b0", touch="read", rx_ring=4096, fill_ring=4096) as sink:
        with xsk(middle, "a", "gen", "a0", streams=[frames(kind="load")], touch=touch, **sockets) as gen:
            wait_for_frames(gen, "tx", 1001)
            done = gen.finish()
        dropped = sink.finish()
    sock = done["sockets"][0]
    assert sock["tx"] > 1000
    assert sock["tx_bytes"] == 60 * sock["tx"]
    got = dropped["sockets"][0]
    lost = got["kernel"]["rx_dropped"] + got["kernel"]["rx_ring_full"]
    # a veth ring that is full drops as well: what is seen is never more than what was sent
    assert 0 < got["rx"] + lost <= sock["tx"]
    assert is_sound(done) and is_sound(dropped)


@pytest.mark.parametrize("sockets", [SOCKETS[name] for name in ("native", "generic", "packet-v2", "packet-v3")])
def test_stages_add_up(middle, sockets):
    with xsk(middle, "b", "sink", "b0", stages=True, **sockets) as sink:
        ports = [middle.port("a0", rx="none"), middle.port("c0")]
        xdpgen(config(ports, stream(frame_bytes=512)))
        done = sink.finish()
    stages = done["stages"]
    frames_seen = done["sockets"][0]["rx"]
    assert frames_seen == 700  # warm-up and trial
    assert (stages["hardware"], stages["software"], stages["unstamped"]) == (0, 700, 0)
    means = {key: stages[key]["mean_ns"] for key in ("driver", "stack", "complete")}
    assert means["complete"] == pytest.approx(means["driver"] + means["stack"], rel=0.01, abs=100)
    assert 0 < stages["stack"]["min_ns"] <= stages["complete"]["min_ns"]
    assert stages["complete"]["max_ns"] <= 5e9


@pytest.mark.parametrize("shared_umem", [True, False], ids=["shared", "separate"])
def test_few_chunks_are_shared_fairly(middle, shared_umem):
    """No direction takes the chunks of the other."""
    with xsk(middle, "b", "forward", "b0", "b1", frames=64, batch=8, shared_umem=shared_umem, audit=True) as forwarder:
        ports = [middle.port("a0", rx="tc"), middle.port("c0", rx="tc")]
        streams = [stream(pps=None), stream(id=1, tx_port=1, rx_port=0, pps=500.0)]
        result = xdpgen(config(ports, *streams, warmup_s=0))
        done = forwarder.finish()
    flooded, other = result["streams"]
    assert 0 < flooded["received"] < flooded["sent"]
    assert other["received"] > 0.2 * other["sent"]
    assert is_sound(done)


def test_several_sockets_share_a_queue(middle):
    with xsk(middle, "b", "forward", "b0", "b1", sockets=3, shared_umem=False, audit=True) as forwarder:
        result = sent_both_ways(middle)
        done = forwarder.finish()
    assert [counts(got) | {"out_of_order": 0} for got in result["streams"]] == [clean(3000), clean(1500)]
    shares = [sock["rx"] for sock in done["sockets"]]
    assert (sum(shares[:3]), sum(shares[3:])) == (3000, 1500)
    # each CPU takes turns of its own
    assert shares == pytest.approx([1000] * 3 + [500] * 3, abs=5)
    assert is_sound(done)


@pytest.mark.parametrize("cpus", [[0, 1], [1]], ids=["two-workers", "one-worker"])
@pytest.mark.parametrize("shared_umem", [True, False], ids=["shared", "separate"])
def test_several_queues(cpus, shared_umem):
    """veth takes the queue of the sending CPU: one direction comes in at each."""
    with net_up(("a0", "b0"), ("b1", "c0"), queues=2) as net:
        options = {"queues": 2, "cpus": cpus, "shared_umem": shared_umem, "audit": True}
        with xsk(net, "b", "forward", "b0", "b1", **options) as forwarder:
            assert len(forwarder.ready["threads"]) == len(cpus)
            ports = [net.port("a0", rx="tc", tx_cpu=0), net.port("c0", rx="tc", tx_cpu=1)]
            streams = [stream(pps=2000.0), stream(id=1, tx_port=1, rx_port=0, pps=1000.0)]
            result = xdpgen(config(ports, *streams, warmup_s=0))
            done = forwarder.finish()
    assert [counts(got) for got in result["streams"]] == [clean(600), clean(300)]
    seen = {(sock["ifname"], sock["queue"]): sock["rx"] for sock in done["sockets"]}
    assert seen == {("b0", 0): 600, ("b0", 1): 0, ("b1", 0): 0, ("b1", 1): 300}
    assert is_sound(done)
