# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The schedule that senders keep, run on a clock of its own: no frame is sent, and no machine can be late."""

import itertools
import math
import statistics
import subprocess
from pathlib import Path

import pytest
from conftest import BPF

SOURCE = Path(__file__).with_name("departures.c")
USED = ("choice.c", "frames.c", "gaps.c", "stream_flows.c")
COUNT = 50_000


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("departures") / "departures"
    argv = ["gcc", "-O1", "-std=gnu11", "-D_GNU_SOURCE", "-fno-strict-aliasing", f"-I{BPF}/common", "-o", path, SOURCE]
    extra = [BPF / "common" / name for name in (*USED, "fields.c", "stream.c", "util.c")]
    subprocess.run([*argv, *extra, "-ljansson", "-lbpf", "-lxdp", "-lm"], check=True)
    return path


def departures(program, pps, kind, seed=1, count=COUNT, happens=""):
    argv = [program, *map(str, (pps, kind, seed, count)), *filter(None, [happens])]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return [int(line) for line in done.stdout.split()]


def gaps(times):
    return [after - before for before, after in itertools.pairwise(times)]


@pytest.mark.parametrize("pps", [1, 1000, 3e6])
def test_gaps_of_a_poisson_process_are_exponential_and_have_the_mean_that_was_asked_for(program, pps):
    found = gaps(departures(program, pps, "poisson"))
    mean = 1e9 / pps
    error = 5 / math.sqrt(COUNT)  # of one in a million; what is drawn here is always the same
    assert statistics.fmean(found) == pytest.approx(mean, rel=error)
    assert statistics.pstdev(found) == pytest.approx(mean, rel=3 * error)
    # Kolmogorov and Smirnov: the largest distance of the two distributions; gaps are whole ns
    ordered = sorted(found)
    distance = max(abs(1 - math.exp(-(gap + 0.5) / mean) - (n + 0.5) / len(ordered)) for n, gap in enumerate(ordered))
    assert distance < 2.5 / math.sqrt(COUNT) + 1 / mean
    assert max(found) > 8 * mean
    # no memory: a gap tells nothing of the next
    ahead = statistics.correlation(found[:-1], found[1:])
    assert abs(ahead) < error


def test_a_sequence_of_gaps_is_that_of_its_seed(program):
    first, again, other = (departures(program, 1e5, "poisson", seed, 100) for seed in (1, 1, 2))
    assert first == again != other


def test_a_frame_that_the_kernel_refuses_has_its_gap(program):
    """Its sequence is that of the next, which would be drawn again."""
    whole, refused = (departures(program, 1e5, "poisson", 1, 100, happens) for happens in ("", "refused"))
    assert refused == whole


def test_a_stream_with_a_count_ends_in_time_after_a_stall(program):
    """What was skipped is not sent later, when other streams may have the turn."""
    whole, stalled = (departures(program, 1e6, 1, 1, 1000, happens) for happens in ("", "stalled"))
    assert len(whole) == 1000
    assert whole[-1] == stalled[-1]
    assert len(stalled) == 1000 - 2 * 32


def test_the_mean_is_exact_where_the_table_is_linear(program):
    """Ten million gaps at 10 Mpps: a thousandth of a nanosecond in each would be seen."""
    times = departures(program, 1e7, "poisson", 3, 1_000_000)
    assert (times[-1] - times[0]) / (len(times) - 1) == pytest.approx(100, rel=5e-3)


@pytest.mark.parametrize("burst", [1, 2, 32, 1000])
def test_a_burst_leaves_at_once_and_its_time_is_that_of_its_frames(program, burst):
    times = departures(program, 3e6, burst, count=8000)
    starts = times[::burst]
    assert times == [start for start in starts for _ in range(burst)]
    expected = [times[0] + n * burst * 1e9 / 3e6 for n in range(len(starts))]
    assert starts == pytest.approx(expected, abs=1)
