# SPDX-License-Identifier: Apache-2.0
"""The trex tester without TRex: what it makes of counters and histograms, its configuration, and its bridge."""

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings, strategies as st

from xdplab.hosts import LocalHost
from xdplab.model import (
    CpuLayout,
    InputError,
    PointFailed,
    StreamSpec,
    TestbedSpec,
    TrialSpec,
    Unsupported,
    XdplabError,
)
from xdplab.testbed import FakeTestbed, Port, TesterPorts
from xdplab.testers import TesterContext, trex_server
from xdplab.testers.trex import Trex, TrexOptions
from xdplab.testers.trex_server import Bridge, bridge_command
from xdplab.testers.trex_streams import intended_frames, latency_of, trial_result

PROBES = StreamSpec(kind="latency", pps=1000.0, frame_bytes=64)
LOAD = StreamSpec(kind="load", pps=4000.0, frame_bytes=64)
SPIN = CpuLayout(tester_tx=0, forwarder=1, housekeeping=(2, 3))
BRIDGE = Path(__file__).parents[2] / "trex" / "bridge" / "bridge.py"


def theirs(values_us: dict[int, int]) -> str:
    """A histogram as TRex keeps it: whole microseconds, 1 us to 10 s, three digits."""
    histogram = HdrHistogram(1, 10_000_000, 3)
    for value, count in values_us.items():
        histogram.record_value(value, count)
    return str(histogram.encode().decode())


def reply(*streams: dict[str, Any], **ports: int) -> dict[str, Any]:
    return {"streams": list(streams), "ports": {"0": ports, "1": {}}, "strays": {}, "took_s": 1.0}


def counted(sent: int, received: int, values_us: dict[int, int] | None = None, **errors: int) -> dict[str, Any]:
    """Counters of a stream; those of a latency stream have errors and a histogram."""
    if values_us is None:
        return {"sent": sent, "received": received}
    return {"sent": sent, "received": received, "errors": errors, "hdrh": theirs(values_us)}


@settings(max_examples=8)
@given(st.dictionaries(st.integers(0, 1_000_000), st.integers(1, 1000), min_size=1, max_size=12))
def test_a_histogram_in_microseconds_becomes_one_in_nanoseconds(values_us: dict[int, int]) -> None:
    found = latency_of(theirs(values_us))
    assert found is not None
    ours = HdrHistogram.decode(found.hdr)
    assert found.count == ours.get_total_count() == sum(values_us.values())
    before = HdrHistogram.decode(theirs(values_us)).get_value_at_percentile(50)
    assert ours.get_value_at_percentile(50) / 1000 == pytest.approx(before, rel=0.003, abs=1)
    for ns, us in ((found.min_ns, min(values_us)), (found.max_ns, max(values_us))):
        assert ns / 1000 == pytest.approx(us, rel=0.002, abs=1)
    assert found.min_ns <= found.mean_ns <= found.max_ns


def test_what_was_cut_to_a_microsecond_stands_in_its_middle() -> None:
    found = latency_of(theirs({0: 3, 7: 1}))
    assert found is not None
    assert (found.min_ns, found.max_ns, found.mean_ns) == (500, 7500, 2250.0)
    assert latency_of(theirs({})) is None


def test_a_trial_is_mapped_to_the_model_of_all_testers() -> None:
    trial = TrialSpec(streams=(PROBES, LOAD), duration_s=1.0)
    reported = reply(
        counted(1000, 998, {60: 998}, dropped=3, dup=1, out_of_order=2, seq_too_high=2, seq_too_low=1),
        counted(4000, 3990),
        tx_good_packets=5000,
    )
    result = trial_result(trial, reported, [0, 0])
    probes, load = result.streams
    assert (probes.sent, probes.received, probes.lost, probes.duplicated, probes.out_of_order) == (1000, 997, 3, 1, 2)
    assert probes.latency is not None
    assert probes.latency.count == 998
    assert (load.sent, load.received, load.lost, load.latency) == (4000, 3990, 10, None)
    assert (result.intended, result.elapsed_s, result.tester_lost) == (5000, 1.0, 0)
    assert (load.achieved_pps, load.rx_pps) == (4000.0, 3990.0)


def test_frames_that_the_driver_did_not_take_were_not_sent_and_are_not_lost() -> None:
    trial = TrialSpec(streams=(PROBES, LOAD), duration_s=1.0)
    reported = reply(counted(1000, 990, {60: 990}), counted(4000, 3490), tx_good_packets=4490)
    probes, load = trial_result(trial, reported, [0, 0]).streams
    assert (load.sent, load.skipped, load.lost) == (3490, 510, 0)
    assert (probes.sent, probes.lost) == (1000, 10)


def test_the_probes_pay_only_when_no_load_is_left_to_pay() -> None:
    trial = TrialSpec(streams=(PROBES, LOAD), duration_s=1.0)
    reported = reply(counted(1000, 600, {60: 600}), counted(4000, 0), tx_good_packets=700)
    probes, load = trial_result(trial, reported, [0, 0]).streams
    assert (load.sent, load.lost) == (0, 0)
    assert (probes.sent, probes.lost, probes.skipped) == (700, 100, 300)


def test_a_schedule_that_it_could_not_keep_is_a_lower_load_and_not_the_one_asked_for() -> None:
    late = reply(counted(4000, 3990), tx_good_packets=4000) | {"took_s": 1.6}
    result = trial_result(TrialSpec(streams=(LOAD,), duration_s=1.0), late, [0])
    (stream,) = result.streams
    assert (result.elapsed_s, stream.achieved_pps, stream.rx_pps) == (1.6, 2500.0, pytest.approx(3990 / 1.6))
    assert (stream.intended, stream.sent, stream.skipped, stream.lost) == (6400, 4000, 2400, 10)
    as_fast_as_it_can = LOAD.model_copy(update={"pps": None})
    (stream,) = trial_result(TrialSpec(streams=(as_fast_as_it_can,), duration_s=1.0), late, [0]).streams
    assert (stream.intended, stream.skipped, stream.achieved_pps) == (4000, 0, 2500.0)


def test_the_rate_of_a_burst_is_over_the_time_it_took_and_not_over_the_trial() -> None:
    reported = reply(counted(4000, 3000), counted(1000, 1000), tx_good_packets=5000) | {"took_s": 0.1}
    streams = (LOAD.model_copy(update={"pps": None, "count": 4000}), LOAD.model_copy(update={"pps": 1000.0}))
    result = trial_result(TrialSpec(streams=streams, duration_s=1.0), reported, [0, 0])
    assert [(one.achieved_pps, one.rx_pps) for one in result.streams] == [(40_000, 30_000), (1000, 1000)]
    assert result.elapsed_s == 1.0


def test_what_its_own_receive_ring_dropped_is_reported() -> None:
    reported = reply(counted(4000, 3000), tx_good_packets=4000) | {"ports": {"0": {}, "1": {"rx_missed_errors": 900}}}
    result = trial_result(TrialSpec(streams=(LOAD,), duration_s=1.0), reported, [0])
    assert (result.streams[0].lost, result.tester_lost) == (1000, 900)


@pytest.mark.parametrize(
    ("stream", "counters", "words"),
    [
        (
            PROBES,
            {"sent": 10, "received": 12, "errors": {"dup": 1}, "hdrh": theirs({})},
            "11 frames received of a stream",
        ),
        (PROBES, {"sent": 10, "received": 9, "errors": {}, "hdrh": None}, "no histogram .* without --hdrh"),
    ],
)
def test_counters_that_cannot_be_end_the_point(stream: StreamSpec, counters: dict[str, Any], words: str) -> None:
    with pytest.raises(PointFailed, match=words):
        trial_result(TrialSpec(streams=(stream,), duration_s=1.0), reply(counters), [0])


@pytest.mark.parametrize(
    ("stream", "frames"),
    [
        (LOAD, 8000),
        (LOAD.model_copy(update={"start_ns": 500_000_000}), 6000),
        (LOAD.model_copy(update={"count": 100}), 100),
        (LOAD.model_copy(update={"pps": None}), 0),
        (LOAD.model_copy(update={"pps": None, "count": 70}), 70),
        (LOAD.model_copy(update={"start_ns": 3_000_000_000}), 0),
    ],
)
def test_the_schedule_counts_from_a_streams_start(stream: StreamSpec, frames: int) -> None:
    assert intended_frames(stream, 2.0) == frames


@pytest.mark.parametrize(("cpus", "low_end"), [((0,), True), ((2, 3, 0), False)])
def test_the_configuration_says_what_it_must(cpus: tuple[int, ...], low_end: bool) -> None:
    host = LocalHost()
    ports = Port("a0", host, "a0-x", "02:00:00:00:61:00", 1500), Port("c0", host, "c0-x", "02:00:00:00:63:00", 3498)
    (written,) = yaml.safe_load(trex_server.configuration(ports, cpus, "xdplab-1"))
    assert (written["port_limit"], written["prefix"]) == (2, "xdplab-1")
    first, second = written["interfaces"]
    assert first.startswith("--vdev=net_af_packet0,iface=a0-x,")
    assert second.startswith("--vdev=net_af_packet1,iface=c0-x,")
    sizes = dict(item.split("=") for item in first.split(",")[2:])
    assert int(sizes["framesz"]) >= 3498 + 14 + 64
    assert int(sizes["blocksz"]) % 4096 == 0
    assert int(sizes["blocksz"]) % int(sizes["framesz"]) == 0
    assert written["port_info"] == [
        {"src_mac": "02:00:00:00:61:00", "dest_mac": "02:00:00:00:63:00"},
        {"src_mac": "02:00:00:00:63:00", "dest_mac": "02:00:00:00:61:00"},
    ]
    assert (written.get("low_end"), written.get("low_end_core")) == ((True, 0) if low_end else (None, None))
    if not low_end:
        platform = written["platform"]
        assert (platform["master_thread_id"], platform["latency_thread_id"]) == (2, 3)
        assert platform["dual_if"] == [{"socket": 0, "threads": [0]}]


def test_cpus_are_dedicated_only_where_there_are_enough() -> None:
    assert trex_server.choose_cpus(SPIN, "auto") == (2, 3, 0)
    assert trex_server.choose_cpus(SPIN, "low-end") == (0,)
    few = SPIN.model_copy(update={"housekeeping": (0,)})
    assert trex_server.choose_cpus(few, "auto") == (0,)
    with pytest.raises(
        Unsupported, match=r"mode=dedicated: two housekeeping CPUs .* and there is none; leave mode out"
    ):
        trex_server.choose_cpus(few, "dedicated")


def test_dedicated_cpus_that_are_not_there_end_the_command_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDPLAB_TREX", str(release(tmp_path / "v3")))
    testbed = FakeTestbed(TestbedSpec(name="t", kind="fake"))
    reason = Trex(TrexOptions(mode="dedicated")).unsupported(testbed)
    assert reason is not None
    assert reason.startswith("mode=dedicated: two housekeeping CPUs")
    assert "\n" not in reason
    assert Trex(TrexOptions()).unsupported(testbed) is None


def release(folder: Path) -> Path:
    """Something that looks like a TRex release."""
    for path in (folder / "automation/trex_control_plane/interactive/trex",):
        path.mkdir(parents=True)
    for name in ("t-rex-64", "_t-rex-64"):
        (folder / name).write_text("#!/bin/false\n", encoding="ascii")
        (folder / name).chmod(0o755)
    return folder


def test_it_is_found_by_option_by_setting_and_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (release(tmp_path / name) for name in ("v1", "v2", "v3"))
    monkeypatch.delenv("XDPLAB_TREX", raising=False)
    assert trex_server.find() is None
    links = tmp_path / "bin"
    links.mkdir()
    (links / "t-rex-64").symlink_to(third / "t-rex-64")
    monkeypatch.setenv("PATH", f"{links}:{os.environ['PATH']}")
    found = trex_server.find()
    assert found is not None
    assert (found.folder, found.program) == (third, third / "_t-rex-64")
    monkeypatch.setenv("XDPLAB_TREX", str(second))
    by_setting, by_option = trex_server.find(), trex_server.find(str(first))
    assert by_setting is not None
    assert by_option is not None
    assert (by_setting.folder, by_option.folder) == (second, first)
    # what was asked for by name is not replaced by another release
    nowhere = Trex(TrexOptions(path=str(tmp_path / "nowhere")))
    missing = f"={tmp_path}/nowhere: no TRex release there: t-rex-64 and its client library are missing$"
    with pytest.raises(InputError, match=f"^tester trex: path{missing}"):
        nowhere.unsupported(FakeTestbed(TestbedSpec(name="t", kind="fake")))
    monkeypatch.setenv("XDPLAB_TREX", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=f"^XDPLAB_TREX{missing}"):
        trex_server.find()


def spoken(*lines: str) -> list[dict[str, Any]]:
    """What the bridge, answering from an empty record, says to some lines."""
    done = subprocess.run(
        [sys.executable, str(BRIDGE), "--replay", os.devnull],
        input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_line_has_one_answer_and_errors_say_of_which_kind() -> None:
    answers = spoken(
        '{"id": 1, "op": "hello"}', "no json", '{"op": "hello"}', '{"id": 4, "op": "jump"}',
        '{"id": 5, "op": "connect"}', '{"id": 6, "op": "stop"}',
    )  # fmt: skip
    assert answers[0] == {"id": 1, "ok": {"protocol": 1}}
    assert [answer.get("kind") for answer in answers[1:]] == ["request", "request", "request", "request", None]
    assert "jump" in answers[3]["error"]
    assert "server" in answers[4]["error"]
    assert len(answers) == 6


def test_a_call_that_is_not_on_record_is_refused() -> None:
    request = {"server": "h", "sync_port": 1, "async_port": 2, "user": "u", "ports": [0], "frame": ""}
    (answer,) = spoken(json.dumps({"id": 1, "op": "connect", **request}))
    assert answer["kind"] == "replay"
    assert 'STLClient(username="u", server="h", sync_port=1' in answer["error"]
    assert "was asked, nothing more() is on record" in answer["error"]


def test_a_library_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(PointFailed, match=f"the bridge ended: {tmp_path}: TRex's client library cannot be loaded"):
        Bridge(LocalHost(), bridge_command(tmp_path), tmp_path / "log")


def silent(tmp_path: Path) -> Bridge:
    """A bridge that says hello and then nothing."""
    program = tmp_path / "silent.py"
    program.write_text(
        "import json, sys\nask = json.loads(sys.stdin.readline())\n"
        "print(json.dumps({'id': ask['id'], 'ok': {'protocol': 1}}), flush=True)\nfor _ in sys.stdin: pass\n",
        encoding="ascii",
    )
    return Bridge(LocalHost(), [sys.executable, str(program)], tmp_path / "log")


def test_waiting_ends_in_time_or_when_the_forwarder_has_died(tmp_path: Path) -> None:
    bridge = silent(tmp_path)
    with pytest.raises(PointFailed, match="no reply to trial within 0 s"):
        bridge.ask("trial", timeout_s=0.1)
    with pytest.raises(PointFailed, match="forwarder ended by signal SIGSEGV"):
        bridge.ask("trial", timeout_s=60, well=lambda: "forwarder ended by signal SIGSEGV")
    bridge.stop()


def test_another_protocol_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "old.py"
    program.write_text('input(); print(\'{"id": 1, "ok": {"protocol": 0}}\', flush=True); input()', encoding="ascii")
    with pytest.raises(XdplabError, match="the bridge speaks protocol 0, 1 is expected"):
        Bridge(LocalHost(), [sys.executable, str(program)], tmp_path / "log")


def test_lines_come_one_by_one_and_the_end_is_reported(tmp_path: Path) -> None:
    process = LocalHost().converse(["sh", "-c", "printf 'one\\ntwo\\n'; read x; echo $x"], log=tmp_path / "log")
    assert [process.receive(5), process.receive(5), process.receive(0.05)] == ["one", "two", None]
    process.send("three")
    assert process.receive(5) == "three"
    with pytest.raises(EOFError):
        process.receive(5)
    assert process.stop() == 0


class PlayedServer:
    """Records its signals and its end in `events`, by the name of its first port."""

    cpus = ()
    start_s = 0.0

    def __init__(self, name: str, events: list[tuple[str, str]]) -> None:
        self.name, self.events = name, events

    def signal(self, number: signal.Signals) -> None:
        self.events.append((self.name, number.name))

    def stop(self) -> None:
        self.events.append((self.name, "ended"))

    def threads(self) -> dict[int, str]:
        return {}

    def ended(self) -> None:
        return None


class PlayedBridge:
    def signal(self, number: signal.Signals) -> None:
        pass

    def ask(self, op: str, **_: Any) -> dict[str, Any]:
        facts = {"version": "v3.08", "drivers": ["net_af_packet"]}
        return facts if op == "connect" else reply(counted(1000, 1000, {60: 1000}), tx_good_packets=1000)

    def stop(self) -> None:
        pass


class PlayedTrex(Trex):
    def __init__(self, events: list[tuple[str, str]]) -> None:
        super().__init__()
        self.events, self.folders = events, list[str]()

    def start(self, context: TesterContext, ports: tuple[Port, Port], folder: Path) -> tuple[Bridge, str]:
        self._active.server = PlayedServer(ports[0].ifname, self.events)  # type: ignore[assignment]
        self.folders.append(folder.name)
        return PlayedBridge(), "127.0.0.1"  # type: ignore[return-value]


@pytest.mark.parametrize("beside", [True, False])
def test_forwarders_that_take_turns_have_a_server_each_and_one_is_awake(tmp_path: Path, beside: bool) -> None:
    events: list[tuple[str, str]] = []
    trex, host = PlayedTrex(events), LocalHost()

    def turn(name: str) -> None:
        ends = [Port(f"{role}0", host, f"{name}{role}", f"02:00:00:00:00:0{at}", 1500) for at, role in enumerate("ac")]  # type: ignore[arg-type]
        context = TesterContext(TesterPorts(*ends), SPIN, Trex.rx_programs[0], tmp_path / "work", beside=beside)
        result = trex.run(context, TrialSpec(streams=(PROBES,), duration_s=1.0))
        assert result.received == 1000

    for name in ("x", "y", "x", "x"):
        turn(name)
    trex.close()
    if not beside:
        assert events == [("xa", "SIGCONT"), ("xa", "ended"), ("ya", "SIGCONT"), ("ya", "ended"),
                        ("xa", "SIGCONT"), ("xa", "ended")]  # fmt: skip
        return
    assert len(set(trex.folders)) == len(trex.folders) == 2
    assert events[:3] == [("xa", "SIGSTOP"), ("ya", "SIGSTOP"), ("xa", "SIGCONT")]
    assert events[3:] == [("xa", "SIGCONT"), ("xa", "ended"), ("ya", "SIGCONT"), ("ya", "ended")]


class LateCounters:
    """A client of a server whose counters of what was sent are behind."""

    def __init__(self, *read: tuple[int, int]) -> None:
        self.read = list(read)

    def stream_counters(self, pg_ids: list[int]) -> dict[str, Any]:
        sent, received = self.read.pop(0) if len(self.read) > 1 else self.read[0]
        return {"streams": {str(each): {"sent": sent, "received": received} for each in pg_ids}}


@pytest.mark.parametrize(
    ("read", "count", "sent"),
    [
        ([(500, 500), (7, 7)], 500, 500),
        ([(180, 500), (480, 500), (500, 500)], 500, 500),
        ([(180, 170), (500, 490), (500, 490)], 500, 500),  # some were lost
        ([(180, 170), (180, 170)], 500, 180),  # it did not keep its schedule
        ([(0, 1000), (1000, 1000)], 0, 1000),  # without end: what was sent is not known before
        ([(180, 500)], 500, 180),  # and stays so: the trial fails
    ],
)
def test_counters_of_streams_are_read_until_they_agree(
    read: list[tuple[int, int]], count: int, sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BRIDGE.parent))
    bridge_session = importlib.import_module("session")
    monkeypatch.setattr(bridge_session, "_BEHIND_S", 0.2)
    counted = bridge_session.Session(LateCounters(*read))._counted([{"pg_id": 7, "count": count}])
    assert counted["streams"]["7"]["sent"] == sent
