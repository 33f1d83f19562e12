# SPDX-License-Identifier: Apache-2.0
"""Exchanges with a real TRex server (`python tools/dev record trex`), played back: all of ours runs, TRex does not."""

import base64
import json
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from lab.replayed_trex import RECORDS, about, replayed

from dev.record_trex import SCENARIOS
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
    taken = sum(port["tx_good_packets"] for port in result.detail["ports"].values())
    assert taken == result.sent
    for asked, stream, errors in zip(trial.streams, result.streams, result.detail["errors"], strict=True):
        assert (set(errors or ()) >= {"dropped", "out_of_order", "dup"}) == (asked.kind == "latency")
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
    with pytest.raises(PointFailed, match=r"add_streams.*1999.* was asked, add_streams.*2000.* is on record"):
        tester.run(context, other)
    tester.close()


def test_the_whole_drain_is_asked_of_trex(tmp_path: Path) -> None:
    tester, context, trial = replayed(record("latency"), tmp_path / "work")
    with pytest.raises(PointFailed, match=r"rx_delay_ms=900.* was asked, .*rx_delay_ms=100.* is on record"):
        tester.run(context, trial.model_copy(update={"drain_s": 0.9}))
    tester.close()


@pytest.mark.parametrize("name", RIGHT)
def test_the_server_was_given_the_streams_of_the_trial(name: str, tmp_path: Path) -> None:
    """The calls that are played back are those after which TRex had what the trial asks for."""
    tester, context, trial = replayed(record(name), tmp_path)
    lines = [json.loads(line) for line in record(name).read_text(encoding="utf-8").splitlines()]
    sent = [line for line in lines if "rpc" in line]
    assert [line for line in sent if not line["accepted"]] == []
    _, *added = [line["params"] for line in sent if line["rpc"] == "add_stream"]  # the first looks for histograms
    asked = [
        tester._described(stream, place, context.ports, trial.duration_s, [0, 1])
        for place, stream in enumerate(trial.streams)
    ]
    asked.sort(key=lambda described: described["port"])
    assert [each["port_id"] for each in added] == [described["port"] for described in asked]
    for described, stream in zip(asked, (each["stream"] for each in added), strict=True):
        assert base64.b64decode(stream["packet"]["binary"]).hex() == described["frame"]
        assert stream["isg"] == described["delay_us"]
        assert stream["mode"]["rate"] == {"type": "pps", "value": described["pps"]}
        burst = {"type": "single_burst", "total_pkts": described["count"]}
        assert {key: stream["mode"][key] for key in burst} == burst
        kind = {"latency": "latency", "load": "stats"}[described["kind"]]
        assert (stream["flow_stats"]["enabled"], stream["flow_stats"]["rule_type"]) == (True, kind)
        assert stream["flags"] & 0b111 == 0b011  # both addresses as they are in the frame
        program = {each["type"]: each for each in stream["vm"]["instructions"]}
        assert bool(program) == (described["flows"] > 1)
        if program:
            count = program["flow_var"]["max_value"] - program["flow_var"]["min_value"] + 1
            assert (count, program["write_flow_var"]["pkt_offset"]) == (described["flows"], described["flow_offset"])
    attributes = [line["params"]["attr"] for line in sent if line["rpc"] == "set_port_attr"]
    assert attributes == [{"promiscuous": {"enabled": True}}] * 2
    _, *durations = [line["params"]["duration"] for line in sent if line["rpc"] == "start_traffic"]
    (start,) = set(durations)
    assert trial.duration_s <= start <= trial.duration_s * 1.05 + 0.02


def test_records_hold_what_the_bridge_asked_in_this_version(tmp_path: Path) -> None:
    for path in RECORDS.glob("*.jsonl"):
        first, *entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert set(first) == {"about"}
        calls = [entry for entry in entries if "call" in entry]
        assert calls[0]["call"] == "STLClient"
        assert all(set(entry) - {"result", "error"} == {"call", "args", "kwargs"} for entry in calls)
        assert all(set(entry) == {"rpc", "params", "accepted"} for entry in entries if "rpc" in entry)
        assert about(path)["ports"][0]["role"] == "d0"
