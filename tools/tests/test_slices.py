# SPDX-License-Identifier: Apache-2.0
"""Slices of a trial: what is packed comes back, clocks mark and latencies do not, and ranks are of what was sent."""

import base64
import json
import math
import zlib
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError

from xdplab.forwarders import Dut
from xdplab.forwarders.fake import Box, FakeForwarder
from xdplab.hosts import LocalHost
from xdplab.model import (
    CpuLayout,
    Path as Way,
    SliceClock,
    Slices,
    StreamSpec,
    TestbedSpec,
    TrialResult,
    TrialSpec,
)
from xdplab.model.slices import (
    BUCKETS,
    RESOLUTION,
    _packed,
    _unpacked,
    bucket_of,
    lower_ns,
    quantile_ns,
    slice_ns_of,
    slices_of,
    upper_ns,
)
from xdplab.runner.ports import watch_of
from xdplab.testbed import FakeTestbed
from xdplab.testers import TesterContext, Watch
from xdplab.testers.fake import FakeTester

CLOCKS = (SliceClock(clock="ticks", cpu=0), SliceClock(clock="steal", cpu=0), SliceClock(clock="forwarder"))


def made(frames: Any, away: Any = (), *, lost: int = 0, clocks: tuple[SliceClock, ...] = CLOCKS) -> Slices:
    """Of latencies (ns) for each slice; `lost` more were sent in each. `away`: (clock, slice, ns)."""
    counts = np.array([np.bincount(bucket_of(np.array(each, np.int64)), minlength=BUCKETS) for each in frames])
    away_ns = np.zeros((len(clocks), len(frames)), np.int64)
    for clock, number, ns in away:
        away_ns[clock, number] = ns
    return Slices.of(10_000_000, counts.sum(axis=1) + lost, counts, clocks, away_ns)


@given(st.lists(st.one_of(st.just(0), st.integers(0, 2**61)), max_size=300))
def test_what_is_packed_comes_back(values: list[int]) -> None:
    assert _unpacked(_packed(values), len(values)).tolist() == values
    assert _unpacked(_packed(values), len(values) + 3).tolist() == [*values, 0, 0, 0]


@given(st.data())
@settings(max_examples=30)
def test_a_table_comes_back(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    counts = rng.integers(0, 3, (count, BUCKETS)) * rng.integers(0, 2**40, (count, BUCKETS))
    sent = counts.sum(axis=1) + rng.integers(0, 5, count)
    away_ns = rng.integers(0, 3, (len(CLOCKS), count)) * 1_234_567
    slices = Slices.of(10_000_000, sent, counts, CLOCKS, away_ns)
    again = Slices.model_validate_json(slices.model_dump_json())
    assert again == slices
    assert (again.sent() == sent).all()
    assert (again.counts() == counts).all()
    assert (again.lost() == sent - counts.sum(axis=1)).all()
    assert (again.away_ns() >= away_ns).all()
    assert (again.away_ns() - away_ns < 100_000).all()
    assert ((again.away_ns() > 0) == (away_ns > 0)).all()


@given(st.integers(0, 10**10))
def test_each_latency_is_within_its_bucket(ns: int) -> None:
    bucket = int(bucket_of(np.array([ns]))[0])
    assert lower_ns()[bucket] <= ns < upper_ns()[bucket]


def test_buckets_are_as_narrow_as_their_resolution_says() -> None:
    widths = (upper_ns() - lower_ns()) / np.maximum(lower_ns(), 1)
    assert len(widths) == BUCKETS
    assert widths[lower_ns() >= 64].max() <= RESOLUTION
    assert int(bucket_of(np.array([10**12]))[0]) == BUCKETS - 1


@given(st.lists(st.integers(64, 10**9), min_size=1, max_size=200), st.floats(1, 100), st.integers(0, 50))
def test_quantiles_are_ranks_of_what_was_sent(values: list[int], percent: float, lost: int) -> None:
    counts = np.bincount(bucket_of(np.array(values)), minlength=BUCKETS)
    sent = len(values) + lost
    rank = max(1, math.ceil(percent / 100 * sent))
    found = quantile_ns(counts, sent, percent)
    assert found is not None
    if rank > len(values):
        assert found == math.inf
    else:
        assert abs(found / sorted(values)[rank - 1] - 1) <= RESOLUTION


def test_nothing_sent_has_no_quantile() -> None:
    assert quantile_ns(np.zeros(BUCKETS, np.int64), 0, 50) is None
    slices = made([[], [1000]], [(0, 1, 1)])
    assert slices.unmarked_quantile_us(50) is None
    assert slices.unmarked_share == 0.0
    medians = slices.medians_us()
    assert math.isnan(medians[0])
    assert medians[1] == pytest.approx(1.0, rel=RESOLUTION)


def test_a_clock_marks_its_slice_and_the_next() -> None:
    slices = made([[1000]] * 8, [(0, 1, 150_000), (2, 5, 1), (1, 7, 10**9)])
    assert slices.marked().tolist() == [False, True, True, False, False, True, True, True]
    assert slices.reasons(2) == ("ticks of CPU 0",)
    assert slices.reasons(6) == ("forwarder",)
    assert slices.reasons(7) == ("steal of CPU 0",)
    assert slices.unmarked_share == 3 / 8


def test_latencies_mark_nothing() -> None:
    slices = made([[1000] * 50, [10**8] * 50, [1000] * 50], lost=3)
    assert not slices.marked().any()
    assert slices.unmarked_quantile_us(50) == pytest.approx(1.0, rel=RESOLUTION)
    assert slices.unmarked_quantile_us(90) == pytest.approx(10**5, rel=RESOLUTION)
    assert slices.unmarked_quantile_us(99) == math.inf


def test_what_marked_slices_held_is_left_out() -> None:
    slices = made([[2000] * 10, [900_000] * 30, [900_000] * 30, [2000] * 10], [(0, 1, 5_000_000)])
    assert slices.unmarked_sent() == 20
    assert slices.unmarked_counts().sum() == 20
    assert slices.unmarked_quantile_us(100) == pytest.approx(2.0, rel=RESOLUTION)


@given(st.data())
@settings(max_examples=50)
def test_bounds_hold_the_rank_among_unmarked_frames(data: st.DataObject) -> None:
    times = st.lists(st.integers(64, 10_000), min_size=1, max_size=20)
    frames = data.draw(st.lists(times, min_size=3, max_size=6))
    percent, lost = data.draw(st.floats(1, 100)), data.draw(st.integers(0, 2))
    slices = made(frames, [(0, 1, 1)], lost=lost)
    unmarked = sorted(ns for number, each in enumerate(frames) if number not in (1, 2) for ns in each)
    values, counts = np.unique(np.concatenate(frames), return_counts=True)
    bounds = slices.unmarked_bounds_us(percent, values, counts)
    rank = max(1, math.ceil(percent / 100 * slices.unmarked_sent()))
    if rank > len(unmarked):
        assert bounds == (math.inf, math.inf)
    else:
        assert bounds is not None
        assert bounds[0] <= unmarked[rank - 1] / 1000 <= bounds[1]
        assert bounds[1] <= bounds[0] * (1 + RESOLUTION)


def test_bounds_are_exact_where_nothing_is_marked() -> None:
    result = played()
    assert result.streams[0].latency is not None
    p50 = HdrHistogram.decode(result.streams[0].latency.hdr).get_value_at_percentile(50) / 1000
    assert result.unmarked_bounds_us(50) == (p50, p50)
    everything_away = result.model_copy(update={"slices": made([[1000]], [(0, 0, 1)])})
    assert everything_away.unmarked_bounds_us(50) is None
    assert result.model_copy(update={"slices": None}).unmarked_bounds_us(50) is None


def test_half_of_a_slice_lost_has_an_infinite_median() -> None:
    assert made([[1000] * 3], lost=4).medians_us().tolist() == [math.inf]


def test_unwatched_clocks_are_reported() -> None:
    away = SliceClock(clock="forwarder", unwatched="it runs on another machine")
    slices = made([[1000]], clocks=(CLOCKS[0], away))
    assert slices.unwatched == {"forwarder": "it runs on another machine"}
    assert not slices.complete
    assert made([[1000]]).complete
    assert not made([[1000]], clocks=()).complete


def test_another_reason_takes_the_place_of_a_clock() -> None:
    reported = json.loads(made([[1000]]).model_dump_json())
    slices = slices_of(reported, [SliceClock(clock="forwarder", unwatched="elsewhere")])
    assert [clock.name for clock in slices.clocks] == [clock.name for clock in CLOCKS]
    assert slices.unwatched == {"forwarder": "elsewhere"}


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        ("not base64!", "cannot be read"),
        (base64.b64encode(b"no deflate").decode(), "cannot be read"),
        (base64.b64encode(zlib.compress(b"\x80")).decode(), "cut off"),
        (base64.b64encode(zlib.compress(b"\x02" * 1000)[:-6]).decode(), "cut off"),
        (base64.b64encode(zlib.compress(b"\xff" * 10 + b"\x01")).decode(), "63 bits"),
        (base64.b64encode(zlib.compress(bytes(30_000_000))).decode(), "more than"),
        (_packed([0] * 2 * (1 + BUCKETS + 3) + [1]), "more than"),
        (_packed([0, 0, 1]), "more arrived than was sent"),
    ],
)
def test_what_cannot_be_a_table_is_refused(packed: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Slices(slice_ns=10_000_000, count=2, clocks=CLOCKS, packed=packed)


@pytest.mark.parametrize(("s", "ns"), [(0.05, 10_000_000), (4.0, 10_000_000), (60.0, 150_000_000)])
def test_no_trial_has_more_than_400(s: float, ns: int) -> None:
    assert slice_ns_of(round(s * 1e9)) == ns


LAB = FakeTestbed(TestbedSpec(name="t", kind="fake"))
PROBES = StreamSpec(kind="latency", pps=20_000.0, frame_bytes=64)


def played(*streams: StreamSpec, duration_s: float = 1.0, **box: Any) -> TrialResult:
    context = TesterContext(
        LAB.tester_ports(Way.THROUGH), LAB.layout, "none", FilePath("/nowhere"), forwarder=FakeForwarder(Box(**box)),
        trial_key="one",
    )  # fmt: skip
    return FakeTester().run(context, TrialSpec(streams=streams or (PROBES,), duration_s=duration_s))


def whole(result: TrialResult) -> Any:
    """Its histogram, in the buckets of slices."""
    counts = np.zeros(BUCKETS, np.int64)
    for stream in result.streams:
        if stream.latency:
            for item in HdrHistogram.decode(stream.latency.hdr).get_recorded_iterator():
                counts[bucket_of(np.array([item.value_iterated_to]))[0]] += item.count_added_in_this_iter_step
    return counts


STALLS = {"sender_stall_ratio": 0.1}


@pytest.mark.parametrize("box", [{}, {"loss_floor": 0.03}, STALLS, {**STALLS, "sender_stall_slows": 9.0}])
def test_a_simulated_trial_is_the_sum_of_its_slices(box: dict[str, Any]) -> None:
    result = played(**box)
    assert result.slices is not None
    assert result.slices.sent().sum() == result.sent
    assert (result.slices.counts().sum(axis=0) == whole(result)).all()
    assert result.slices.lost().sum() == result.lost
    assert (result.slices.lost() >= 0).all()


def test_simulated_stalls_are_marked_and_nothing_else() -> None:
    """Ten of 10 ms in a second: each takes a slice or two, and the next."""
    quiet, slices = played().slices, played(**STALLS).slices
    assert quiet is not None
    assert slices is not None
    assert not quiet.marked().any()
    assert slices.away_ns().sum() == pytest.approx(1e8, rel=0.05)
    assert 0.6 < slices.unmarked_share < 0.95
    assert set(slices.reasons(0)) == {"ticks of CPU 0"}


def test_simulated_stalls_may_slow_down_frames_around_them() -> None:
    """What is left when the marked slices are left out is as long as it is where they slow down nothing."""
    stalls = {"sender_stall_ratio": 0.3, "sender_stall_s": 0.02}
    quiet, result = played(**stalls).slices, played(**stalls, sender_stall_slows=20.0)
    assert quiet is not None
    assert result.slices is not None
    assert result.streams[0].latency is not None
    p50 = quiet.unmarked_quantile_us(50)
    assert result.slices.unmarked_quantile_us(50) == pytest.approx(p50, rel=0.02)
    assert result.streams[0].latency.mean_ns > 1.5 * 1000 * (p50 or 0)


def test_loads_and_first_frames_of_flows_are_in_none() -> None:
    load = PROBES.model_copy(update={"kind": "load"})
    new = PROBES.model_copy(update={"new_flows": True})
    assert played(load, new).slices is None
    both = played(load, PROBES)
    assert both.slices is not None
    assert both.slices.sent().sum() == both.streams[1].sent


LAYOUT = CpuLayout(tester_tx=0, forwarder=1, dut_napi=2, tester_rx=3, extra_senders=(4,))


def test_the_cpus_of_the_path_are_watched_where_they_are() -> None:
    forwarder = FakeForwarder(Box())
    here = Dut(LocalHost(), (), Way.THROUGH, LAYOUT, FilePath("/nowhere"))
    elsewhere = Dut(LocalHost(), (), Way.THROUGH, LAYOUT, FilePath("/nowhere"), tester_here=False)
    assert watch_of(forwarder, here) == Watch(cpus=(0, 1, 2, 3, 4))
    assert watch_of(forwarder, elsewhere) == Watch(cpus=(0, 3, 4), no_forwarder="it runs on another machine")


class Real(FakeForwarder):
    simulated = False

    def forwarding_threads(self) -> dict[int, int]:
        return {12: 11, 13: 11}

    def pids(self) -> tuple[int, ...]:
        return (11,)


def test_the_forwarders_threads_are_watched() -> None:
    layout = LAYOUT.model_copy(update={"dut_napi": None})
    dut = Dut(LocalHost(), (), Way.THROUGH, layout, FilePath("/nowhere"))
    assert watch_of(Real(Box()), dut) == Watch(cpus=(0, 1, 3, 4), threads=(12, 13), processes=(11,))
