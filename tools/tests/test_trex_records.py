# SPDX-License-Identifier: Apache-2.0
"""Exchanges with a real TRex server (`xdplab record trex`), played back: all of ours runs, TRex does not."""

import json
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from lab.replayed_trex import RECORDS, about, replayed

from xdplab.cli.record_trex import SCENARIOS
from xdplab.model import InputError, PointFailed, XdplabError

#: What a scenario in which something goes wrong must end with, and whether it ends the run or the point.
WRONG = {
    "port-owned": (InputError, "trex: connect: ports in use: 0 by 'somebody', 1 by 'somebody'; end the other TRex"),
    "wrong-version": (InputError, "trex: connect: server 127.0.0.1:4501: .*mismatch.*; use server and client of one"),
    "server-gone": (PointFailed, "trex: trial: the server is gone"),
    "no-histogram": (InputError, "trex: connect: the server keeps no latency histograms; start it with --hdrh"),
}
RIGHT = sorted(set(SCENARIOS) - set(WRONG))


def record(name: str) -> Path:
    return RECORDS / f"{name}.jsonl"


def test_every_scenario_is_on_record() -> None:
    assert {path.stem for path in RECORDS.glob("*.jsonl")} == set(SCENARIOS)
    assert set(WRONG) == {name for name, scenario in SCENARIOS.items() if scenario.wrong}


@pytest.mark.parametrize("name", RIGHT)
def test_a_recorded_trial_gives_the_counts_and_latencies_of_a_clean_link(name: str, tmp_path: Path) -> None:
    tester, context, trial = replayed(record(name), tmp_path / "work")
    result = tester.run(context, trial)
    tester.close()
    assert "v3." in result.sender
    assert "net_af_packet" in result.sender
    assert (result.tester_lost, result.elapsed_s) == (0, trial.duration_s)
    for asked, stream in zip(trial.streams, result.streams, strict=True):
        assert stream.intended == stream.sent == stream.received > 0
        assert (stream.lost, stream.duplicated, stream.out_of_order, stream.skipped) == (0, 0, 0, 0)
        assert (stream.latency is not None) == (asked.kind == "latency")
        if stream.latency is not None:
            assert stream.latency.count == stream.received
            p50 = HdrHistogram.decode(stream.latency.hdr).get_value_at_percentile(50)
            assert 1_000 < p50 < 10_000_000
            assert stream.latency.min_ns <= p50 <= stream.latency.max_ns


@pytest.mark.parametrize("name", WRONG)
def test_what_went_wrong_is_one_line_that_says_what_to_do(name: str, tmp_path: Path) -> None:
    tester, context, trial = replayed(record(name), tmp_path / "work")
    kind, words = WRONG[name]
    with pytest.raises(XdplabError, match=words) as caught:
        tester.run(context, trial)
    tester.close()
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)


def test_a_trial_other_than_the_recorded_one_is_not_answered(tmp_path: Path) -> None:
    tester, context, trial = replayed(record("latency"), tmp_path / "work")
    other = trial.model_copy(update={"streams": (trial.streams[0].model_copy(update={"pps": 1999.0}),)})
    with pytest.raises(PointFailed, match=r"add.* was asked, add.* is on record"):
        tester.run(context, other)
    tester.close()


def test_the_whole_drain_is_asked_of_trex(tmp_path: Path) -> None:
    tester, context, trial = replayed(record("latency"), tmp_path / "work")
    with pytest.raises(PointFailed, match=r"drain.*0\.9\].* was asked, drain.*0\.1\].* is on record"):
        tester.run(context, trial.model_copy(update={"drain_s": 0.9}))
    tester.close()


def test_records_hold_what_the_bridge_asked_in_this_version(tmp_path: Path) -> None:
    for path in RECORDS.glob("*.jsonl"):
        first, *entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert set(first) == {"about"}
        assert entries[0]["call"] == "connect"
        assert all(set(entry) in ({"call", "args", "result"}, {"call", "args", "error"}) for entry in entries)
        assert about(path)["ports"][0]["role"] == "d0"
