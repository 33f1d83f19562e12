# SPDX-License-Identifier: Apache-2.0
"""Merged histograms against numpy on the raw values."""

import base64
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from lab.records import encoded, point, trial

from xdplab.measure.distribution import Distribution
from xdplab.model import InputError
from xdplab.results import RunFolder

VALUES = st.lists(st.integers(1, 10_000_000_000), min_size=1, max_size=60)
#: Three significant digits: a value is off by less than a thousandth.
TOLERANCE = 0.002


@given(values=VALUES, percent=st.sampled_from([0.0, 25.0, 50.0, 75.0, 90.0, 100.0]))
def test_percentiles_agree_with_numpy(values: list[int], percent: float) -> None:
    found = Distribution.merged([encoded(values)]).percentile_us(percent)
    expected = np.percentile(values, percent, method="inverted_cdf") / 1000
    assert found == pytest.approx(expected, rel=TOLERANCE, abs=0.001)


@settings(max_examples=12)
@given(parts=st.lists(VALUES, min_size=1, max_size=4))
def test_a_merge_equals_the_histogram_of_all_values(parts: list[list[int]]) -> None:
    merged = Distribution.merged([encoded(part) for part in parts])
    whole = Distribution.merged([encoded([value for part in parts for value in part])])
    assert merged.count == sum(map(len, parts))
    assert np.array_equal(merged.values_ns, whole.values_ns)
    assert np.array_equal(merged.counts, whole.counts)


@pytest.mark.parametrize("seed", range(3))
def test_tail_percentiles_of_many_values_agree_with_numpy(seed: int) -> None:
    values = np.random.default_rng(seed).lognormal(8, 1, size=20_011).astype(np.int64) + 1
    found = Distribution.merged([encoded(values.tolist())])
    for percent in (50, 90, 99, 99.9, 99.99, 99.999):
        expected = np.percentile(values, percent, method="inverted_cdf") / 1000
        assert found.percentile_us(percent) == pytest.approx(expected, rel=TOLERANCE), percent


def test_p999_of_a_thousand_values_is_the_999th() -> None:
    assert Distribution.merged([encoded(range(1, 1001))]).percentile_us(99.9) == pytest.approx(0.999)


def test_nothing_merged_has_no_percentile() -> None:
    empty = Distribution.merged([])
    assert empty.count == 0
    assert empty.percentile_us(50) is None


@given(values=VALUES)
def test_exceedance_falls_from_the_smallest_value_to_nothing(values: list[int]) -> None:
    latency, above = Distribution.merged([encoded(values)]).exceedance()
    assert np.all(np.diff(latency) > 0)
    assert np.all(np.diff(above) < 0)
    assert above[-1] == pytest.approx(0, abs=1e-9)
    assert above[0] == pytest.approx(np.mean(np.array(values) > latency[0] * 1000), abs=1e-9)


def packed(data: bytes) -> str:
    """Unpacked bytes as the text of a record."""
    inside = zlib.compress(data)
    return base64.b64encode(struct.pack(">ii", 0x1C849304, len(inside)) + inside).decode()


def laid_out(counters: bytes, layout: tuple[int, int, int] = (3, 1, 10_000_000_000)) -> bytes:
    """A histogram of this layout (digits, lowest, highest) with these bytes for its counters."""
    return struct.pack(">iiiiqqd", 0x1C849303, len(counters), 0, *layout, 1.0) + counters


BAD = {
    "no base64": ("*", "cannot be read"),
    "half a text": (encoded([1000])[:-8], "cannot be read"),
    "nothing packed": (packed(b""), "cannot be read"),
    "unpacks to 16 MiB": (packed(laid_out(bytes(16 << 20))), "unpacks to more than the"),
    "a long text": ("A" * (1 << 20), "1048576 characters are more than"),
    "counters cut off": (packed(laid_out(b"\1\1")[:-1]), "its counters are cut off"),
    "5 digits up to 2^62": (packed(laid_out(b"", (5, 1, 1 << 62))), "with 5 digits instead of 1 to 10000000000 with 3"),
    "more counters than there are": (packed(laid_out(b"\2" * 30_000)), "cannot be read"),
    "a run of zeros beyond the last": (packed(laid_out(b"\xff\xff\xff\x7f\2")), "cannot be read"),
    "another cookie": (packed(bytes(4) + laid_out(b"\2")[4:]), "cannot be read"),
}


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=BAD)
def test_a_broken_or_huge_histogram_is_one_line_and_never_unpacked(text: str, words: str) -> None:
    tracemalloc.start()
    with pytest.raises(InputError) as caught:
        Distribution.merged([text])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert most < 4 << 20


@pytest.mark.parametrize("name", ["unpacks to 16 MiB", "5 digits up to 2^62", "half a text"])
def test_a_record_with_such_a_histogram_is_refused_when_it_is_read(name: str, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    good = trial(point("fake"), 0, [1000, 2000])
    run.append(good)
    line = good.model_dump_json()
    assert good.result
    assert good.result.streams[0].latency
    whole = good.result.streams[0].latency.hdr
    with (tmp_path / "trials.jsonl").open("a", encoding="utf-8") as file:
        file.write(line.replace(whole, BAD[name][0]) + "\n")
    with pytest.raises(InputError, match=r"trials\.jsonl:2: not a trial record: .*latency\.hdr: .*histogram") as caught:
        run.trials()
    assert "\n" not in str(caught.value)
