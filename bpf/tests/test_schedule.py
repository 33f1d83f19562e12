# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""When frames leave: rates, phases, counts, lateness, skipped intervals."""

import struct

import pytest
from conftest import REALTIME, clean, config, counts, net_up, only, stream, xdpgen
from hdrh.histogram import HdrHistogram
from xsk import xsk

from xdplab.model import StreamSpec, TrialSpec
from xdplab.testers.stream_json import max_burst

SENDERS = ["live", "xsk"]


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("pps", [1.0 / 0.3 * 7, 12345.6, 99999.9])
def test_rate_is_exact(direct, sender, pps):
    ports = [direct.port("a0", tx_cpu=0), direct.port("c0")]
    result = xdpgen(config(ports, stream(pps=pps), sender=sender))
    one = only(result)
    # departures at 0, 1/pps, ... below 0.3 s
    assert abs(one["sent"] - pps * 0.3) <= 1
    assert (one["intended"], one["skipped"], one["lost"]) == (one["sent"], 0, 0)
    assert result["elapsed_s"] == pytest.approx(0.3)
    assert one["achieved_pps"] == pytest.approx(one["sent"] / 0.3)
    late = one["lateness"]
    assert HdrHistogram.decode(late["hdr"]).get_total_count() == late["count"] == one["sent"]
    assert late["min_ns"] <= late["mean_ns"] <= late["max_ns"]


def test_departures_are_on_schedule(middle, tmp_path):
    """Every time stamp is start + phase + n intervals, never early."""
    interval_ns, phase_ns = 500_000, 123_457
    ports = [middle.port("a0", tx_cpu=0), middle.port("c0")]
    streams = [stream(), stream(id=1, start_ns=phase_ns)]
    with middle.forwarder(tmp_path, capture=600) as report:
        result = xdpgen(config(ports, *streams))
    for ident, start_ns in ((0, 0), (1, phase_ns)):
        late = []
        for n, frame in enumerate(report["captured"][str(ident)]):
            (ns,) = struct.unpack("!Q", bytes.fromhex(frame)[-10:-2])
            late.append(ns - result["started_ns"] - start_ns - n * interval_ns)
        assert len(late) == 600
        assert min(late) >= 0
        assert min(late) < 20_000  # a busy machine makes many late, not all
        measured = result["streams"][ident]["lateness"]
        assert (min(late), max(late)) == (measured["min_ns"], measured["max_ns"])
        assert sum(x <= 200 for x in late) == measured["on_schedule"]


@pytest.mark.parametrize("sender", SENDERS)
def test_too_fast_is_charged_to_the_tester(direct, sender):
    ports = [direct.port("a0", tx_cpu=0), direct.port("c0")]
    one = only(xdpgen(config(ports, stream(pps=50e6), sender=sender)))
    assert one["skipped"] > 0
    assert one["intended"] == one["sent"] + one["skipped"] == pytest.approx(15e6, rel=1e-5)
    assert one["lost"] == 0


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("pps", [None, 20000.0])
def test_count_limits(direct, sender, pps):
    ports = [direct.port("a0", tx_cpu=0), direct.port("c0")]
    result = xdpgen(config(ports, stream(pps=pps, count=2000), duration_s=20, sender=sender))
    assert counts(only(result)) == clean(2000)
    assert result["warmup"]["sent"] == result["warmup"]["received"] == (1000 if pps else 2000)
    assert 0 < result["elapsed_s"] < 1
    if pps:
        late_s = only(result)["lateness"]["max_ns"] / 1e9
        assert result["elapsed_s"] == pytest.approx(0.1, abs=late_s + 0.0001)
    else:
        assert only(result)["lateness"] is None


def test_top_rate_shares_with_paced_streams(direct):
    """A latency stream keeps its schedule beside a stream at top rate."""
    ports = [direct.port("a0", tx_cpu=0), direct.port("c0")]
    load = stream(id=1, kind="load", pps=None)
    result = xdpgen(config(ports, stream(pps=10000.0), load))
    probe, top = result["streams"]
    assert result["batch"] == 16
    assert probe["sent"] == 3000
    assert top["sent"] > 10 * probe["sent"]
    assert probe["lost"] == top["lost"] == 0


@pytest.mark.parametrize(
    ("kind", "pps", "batch"),
    [
        ("latency", 1e5, 1),
        ("load", 1.6e5, 2),
        ("load", 1e6, 8),
        ("load", 5e6, 64),
        ("load", None, 64),
        ("latency", 5e6, 16),
    ],
)
def test_batch_follows_the_rate(direct, kind, pps, batch):
    ports = [direct.port("a0", tx_cpu=0), direct.port("c0")]
    run = config(ports, stream(kind=kind, pps=pps), duration_s=0.05, warmup_s=0)
    assert xdpgen(run)["batch"] == batch
    assert xdpgen(run | {"batch": 4})["batch"] == 4


def max_burst_of(pps):
    """What xdplab gives for one stream (tools/xdplab/testers/stream_json.py)."""
    return max_burst(TrialSpec(streams=(StreamSpec(kind="load", pps=pps, frame_bytes=64),), duration_s=1))


def paced(net, pps, *streams, rx="xdp", **options):
    """A load with xdplab's own limit for catching up, whatever else the machine does."""
    load = stream(id=1, kind="load", pps=pps, start_ns=333)
    ports = [net.port("a0", tx_cpu=0), net.port("c0", rx=rx)]
    most = max_burst_of(pps) if pps else 32
    return xdpgen(config(ports, *streams, load, max_burst=most, **options), prefix=REALTIME)


def top_pps(net, rx):
    return only(paced(net, None, rx=rx, duration_s=0.2))["achieved_pps"]


@pytest.mark.parametrize("rx", ["xdp", "tc"])
def test_a_load_below_the_top_rate_is_reached_whatever_its_batch(direct, rx):
    """Just below each step of the batch; in the best of twenty trials, because a machine that is away leaves one short.

    It is away often where others work as well: eight tenths will do there, of steps that a trial at top rate exceeds by
    a quarter. A batch that is too small reaches six tenths of 800 kpps.
    """
    best = {}
    for pps in (n * 150_000 for n in (1, 2, 4, 8, 16)):
        top = best[pps] = 0.0
        for _ in range(20):
            top = max(top, top_pps(direct, rx))
            best[pps] = max(best[pps], paced(direct, pps, rx=rx, duration_s=0.1)["streams"][0]["achieved_pps"])
            if best[pps] > 0.995 * pps:
                break
        else:
            assert best[pps] > 0.8 * pps or top < 1.25 * pps, (top, best)
    assert sum(each > 0.995 * pps for pps, each in best.items()) >= 2, best


def test_probes_wait_for_no_load(direct):
    """Their median on a direct link has no step from 0.3 to 3 Mpps of load: no batch holds them."""
    found = {pps: [] for pps in (3e5, 6e5, 1.2e6, 2e6, 3e6)}
    for _ in range(5):
        for pps, each in found.items():
            probe = paced(direct, pps, stream(pps=10000.0), duration_s=0.1)["streams"][0]
            assert probe["lost"] == 0
            each.append(HdrHistogram.decode(probe["latency"]["hdr"]).get_value_at_percentile(50))
    least = [min(each) for each in found.values()]
    assert max(least) < 1.5 * min(least) + 100, found


def test_a_sender_that_is_asked_for_twice_its_rate_does_not_stall(direct):
    """What it cannot send is skipped, to the frame; the machine was not away."""
    pps = round(2 * top_pps(direct, "tc"))
    shares = []
    for _ in range(5):
        result = paced(direct, pps, rx="tc", duration_s=0.2)
        one, (thread,) = only(result), result["threads"]
        assert one["intended"] == pytest.approx(pps * 0.2, abs=2)
        assert one["intended"] == one["sent"] + one["skipped"]
        assert one["lost"] == 0
        assert one["skipped"] > 0.3 * one["intended"]
        shares.append(thread["stalled_ns"] / 0.2e9)
    assert min(shares) < 0.01


def test_handovers_are_batches_with_frames(direct):
    """One for each frame of a sender that keeps up, a batch for each at top rate."""
    slow = paced(direct, 20000.0, duration_s=0.2)
    assert slow["threads"][0]["handovers"] == only(slow)["sent"]
    fast = xdpgen(config([direct.port("a0", tx_cpu=0), direct.port("c0")], stream(kind="load", pps=None)))
    assert fast["threads"][0]["handovers"] == only(fast)["sent"] // 64


def test_stalls_are_reported(direct):
    """With a threshold of 1 ns every poll is a stall; with 1 s none is."""
    ports = [direct.port("a0", tx_cpu=0), direct.port("c0")]
    run = config(ports, stream(), duration_s=0.05)
    (thread,) = xdpgen(run | {"stall_ns": 1})["threads"]
    assert thread["polls"] >= thread["stalls"] > thread["polls"] * 0.99
    assert thread["stalled_ns"] == pytest.approx(0.05e9, rel=0.2)
    (thread,) = xdpgen(run | {"stall_ns": 1_000_000_000})["threads"]
    assert (thread["stalls"], thread["stalled_ns"]) == (0, 0)
    assert thread["cpu_seen"] == {"0": thread["polls"]}
    assert 0 < thread["longest_gap_ns"] < 1e9
    assert 0 < thread["ran_ns"] < 1e9


def trial_of(net, tester, *streams):
    """A trial of 0.4 s on the direct link by either program."""
    if tester == "xdpgen":
        return xdpgen(config([net.port("a0", tx_cpu=0), net.port("c0")], *streams, warmup_s=0, duration_s=0.4))
    ports = [{"netns": net.path(name[0]), "ifname": name} for name in ("a0", "c0")]
    timing = {"duration_s": 0.4, "drain_s": 0.2, "max_burst": 1_000_000}
    with xsk(net, "a", "probe", ports=ports, streams=list(streams), **timing) as probe:
        return probe.finish(signal=False)


@pytest.mark.parametrize("queues", [1, 2])
@pytest.mark.parametrize("tester", ["xdpgen", "xsk"])
def test_rates_are_over_the_time_that_a_stream_sends(tester, queues):
    """A burst's from its first to its last departure, another one's from its start to the end of the trial."""
    streams = [
        stream(pps=1000.0, count=21),
        stream(id=1, pps=1000.0, start_ns=200_000_000),
        stream(id=2, pps=1000.0, count=1),
        stream(id=3, pps=1000.0),
    ]
    with net_up(("a0", "c0"), queues=queues) as net:
        reported = trial_of(net, tester, *streams)["streams"]
    assert [one["sent"] for one in reported] == [one["received"] for one in reported] == [21, 200, 1, 400]
    assert all(one["achieved_pps"] == one["rx_pps"] for one in reported)
    burst, late, single, whole = reported
    # on a busy machine the last frame is late, or the first
    assert 20 / burst["achieved_pps"] == pytest.approx(0.02, abs=burst["lateness"]["max_ns"] / 1e9 + 1e-6)
    assert [one["achieved_pps"] for one in (late, single, whole)] == pytest.approx([1000, 0, 1000])


@pytest.mark.parametrize("tester", ["xdpgen", "xsk"])
def test_a_trial_of_bursts_ends_with_the_last_of_them(direct, tester):
    """20 ms of the 400 ms that it might have lasted."""
    reported = trial_of(direct, tester, stream(pps=1000.0, count=21), stream(id=1, pps=1000.0, count=11))
    late_s = reported["streams"][0]["lateness"]["max_ns"] / 1e9
    assert reported["elapsed_s" if tester == "xdpgen" else "trial_s"] == pytest.approx(0.02, abs=late_s + 1e-6)
