# SPDX-License-Identifier: Apache-2.0
"""What perf says of batches, and what is said where it cannot read its own recording."""

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from xdplab_timeline.perf_probe import batches, read_back

COLUMNS = ("received", "queued", "kicked", "frames", "sent")


def line(now_ns: int, event: str, *arguments: object) -> str:
    words = " ".join(f"arg{number}={value}" for number, value in enumerate(arguments, 1))
    return f"  {now_ns // 10**9}.{now_ns % 10**9:09d}:  xdplab_77:{event}: (5581aabbcc) {words}\n"


@given(st.lists(st.integers(1, 64), max_size=30), st.integers(1, 5), st.sampled_from(["", "_1", "_12"]))
def test_perfs_lines_become_the_batches_that_were(sizes: list[int], every: int, number: str) -> None:
    lines, expected, now = [], [], 41_999_999_000
    for index, size in enumerate(sizes):
        lines.append(line(now, f"rx{number}", 8, size, "0x7f00"))
        lines.append(line(now + 100, f"tx{number}", 9, size, "0x7f00"))
        lines.append(line(now + 700, f"kicked{number}", 9, 0))
        if (index + 1) % every == 0:
            expected.append([now, now + 100, now + 700, size, size])
        now += 1000
    reported = batches(lines, every)
    assert reported == {
        "columns": COLUMNS,
        "records": expected,
        "batches": len(sizes),
        "unmatched": 0,
        "unsent": 0,
        "full": 0,
    }


def test_what_perf_lost_and_what_was_never_sent_is_counted() -> None:
    lines = [
        line(1000, "kicked_0", 9, 0),
        line(2000, "rx_0", 8, 1),
        line(3000, "rx_0", 8, "0x2"),
        line(3100, "tx_0", 9, "0x2"),
        "     3.000003200: PERF_RECORD_LOST lost 12\n",
        "something else\n",
        line(3300, "kicked_0", 9, 0),
    ]
    reported = batches(lines)
    assert reported["records"] == [[3000, 3100, 3300, 2, 2]]
    assert (reported["batches"], reported["unsent"], reported["full"]) == (2, 1, 12)


def test_frames_are_the_argument_of_the_provider() -> None:
    lines = [line(1, "rx_0", "name", 0, 5), line(2, "tx_0", "name", 0, 4), line(3, "kicked_0", 0)]
    assert batches(lines, 1, 3)["records"] == [[1, 2, 3, 5, 4]]


def perf_that(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, prints: str = "", says: str = "", code: int = 0
) -> None:
    """A `perf` first on PATH that answers so, whatever it is asked."""
    (folder / "out").write_text(prints, encoding="ascii")
    (folder / "err").write_text(says, encoding="ascii")
    program = folder / "perf"
    program.write_text(f"#!/bin/sh\ncat {folder}/out\ncat {folder}/err >&2\nexit {code}\n", encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_recording_that_perf_cannot_read_is_reported_in_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What perf 6.1 said in a chroot: the file that its `record` left has no header."""
    perf_that(tmp_path, monkeypatch, says="incompatible file format (rerun with -v to learn more)\n", code=255)
    words = r"perf script: incompatible file format .*; perf record: assertion failed at util/namespaces.c:301"
    with pytest.raises(SystemExit, match=words):
        read_back("perf.data", 1, 2, "assertion failed at util/namespaces.c:301")


def test_a_recording_of_perf_6_1_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = """\
 1063.207644959:     xdplab_17486:rx_1: (55a1a7c1dde9) arg1=16 arg2=1 arg3=140116110221568
 1063.207651599:     xdplab_17486:tx_1: (55a1a7c1dfa1) arg1=17 arg2=1 arg3=140116110221568
 1063.207656587: xdplab_17486:kicked_1: (55a1a7c1daff) arg1=17 arg2=0
"""
    perf_that(tmp_path, monkeypatch, prints=lines)
    found = read_back("perf.data", 1, 2)
    assert found["records"] == [[1063207644959, 1063207651599, 1063207656587, 1, 1]]
