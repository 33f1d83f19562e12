# SPDX-License-Identifier: Apache-2.0
"""VPP forwarders against what real VPPs said: recorded by `python tools/dev record vpp`, played back by `lab.papi`."""

from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lab.papi import DATA, RUNTIME_HEAD, Client, Playback, changed, forwarder_of, recorded
from lab.startup import contradictions
from vpp_papi.vpp_stats import StatsSimpleList, VPPStats

from dev.vpp_record import Recorder
from xdplab.forwarders.base import mode_name
from xdplab.forwarders.vpp import ports
from xdplab.forwarders.vpp.control import VppControl, papi_stats
from xdplab.forwarders.vpp.forwarder import VppForwarder
from xdplab.forwarders.vpp.process import rendered
from xdplab.hosts import LocalHost
from xdplab.model import Interrupted, PointFailed, Unsupported, XdplabError
from xdplab.runner.frame_ends import _losses

RECORDINGS = sorted(DATA.glob("*/*.json.xz"))
NEWEST = DATA / "26.10"


def played(path: Path, rundir: Path) -> tuple[VppForwarder[Any], Playback, dict[str, Any], str]:
    """Start, count and stop as recorded; returns counters and what the forwarder complained about."""
    playback = Playback(path)
    forwarder = forwarder_of(playback)
    counters: dict[str, Any] = {}
    complaint = ""
    try:
        forwarder.start(playback.dut(rundir))
        counters = forwarder.counters()
        forwarder.rule_hits()
    except XdplabError as exc:
        complaint = f"{type(exc).__name__}: {exc}"
    mode = forwarder.mode()
    forwarder.stop()
    forwarder.stop()  # safe to call twice
    assert forwarder.pids() == ()
    return forwarder, playback, {"counters": counters, "mode": mode}, complaint


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}")
def test_the_forwarder_asks_and_ends_as_it_did_with_the_real_program(path: Path, tmp_path: Path) -> None:
    _, playback, _, complaint = played(path, tmp_path)
    assert playback.left == []
    assert complaint == playback.recorded["ends"]


def test_there_are_recordings_of_every_scenario_and_of_a_version_that_is_too_old() -> None:
    from dev.record_vpp import SCENARIOS

    assert {path.name.partition(".")[0] for path in NEWEST.glob("*.json.xz")} == set(SCENARIOS)


def test_a_recording_does_not_tell_where_vpp_was_built(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = namedtuple("show_version_reply", "retval version build_directory")(0, "26.10", "/home/somebody/vpp")
    client = SimpleNamespace(
        connect=lambda name: None, disconnect=lambda: None, api=SimpleNamespace(show_version=lambda **fields: reported)
    )
    monkeypatch.setattr("dev.vpp_record.papi_client", lambda address: client)
    recorder = Recorder()
    recorder.connect("api", "stats").call("show_version")
    assert recorder.exchange[-1]["answer"] == {"retval": 0, "version": "26.10", "build_directory": ""}
    assert [path for path in RECORDINGS if '"build_directory": "/' in recorded(path)] == []


@pytest.mark.parametrize(
    ("scenario", "names", "mode", "rx"),
    [
        ("afxdp", "{}/{}", "copy", "polling"),
        ("afxdp-adaptive", "{}/{}", "copy", "adaptive"),
        ("afpacket", "host-{}", "af_packet v3", "interrupt"),
    ],
)
def test_names_modes_and_counters_are_those_that_vpp_reports(
    scenario: str, names: str, mode: str, rx: str, tmp_path: Path
) -> None:
    _, playback, found, complaint = played(NEWEST / f"{scenario}.json.xz", tmp_path)
    assert complaint == ""
    ports = [port["ifname"] for port in playback.recorded["ports"]]
    expected = [names.format(port, number) for number, port in enumerate(ports)]
    said = found["mode"]["vpp"]
    assert [each["name"] for each in said["interfaces"]] == expected
    assert [each["port"] for each in said["interfaces"]] == ports
    assert {queue["mode"] for each in said["interfaces"] for queue in each["rx_queues"]} == {rx}
    assert all(each["link_up"] for each in said["interfaces"])
    assert said["version"].startswith("26.10")
    assert mode_name({**found["mode"], "xsk": playback.recorded["xsk"]}) == mode
    for name in expected:
        assert 50 <= found["counters"][name]["rx"] <= 200
        assert 50 <= found["counters"][name]["tx"] <= 200


def test_counters_have_what_each_node_cost(tmp_path: Path) -> None:
    playback = Playback(NEWEST / "afxdp.json.xz")
    playback.recorded.pop("not_asked", None)
    reported = RUNTIME_HEAD + "".join(
        f"{name:<30}{state:^12}{10:>16}{200:>16}{0:>16}{clocks:>16}{'20.00':>16}\n"
        for name, state, clocks in (("af_xdp-input", "polling", "1.50e2"), ("x-tx", "active", "5.00e1"))
    )
    at = next(i for i, step in enumerate(playback.left) if "errors" in step) + 1
    playback.left[at:at] = [
        {"message": {"name": "cli_inband", "fields": {"cmd": command}}, "answer": {"retval": 0, "reply": reply}}
        for command, reply in (("show runtime", reported), ("clear runtime", ""))
    ]
    forwarder = forwarder_of(playback)
    forwarder.start(playback.dut(tmp_path))
    (nodes,) = forwarder.counters()["nodes"].values()
    assert {name: (node["received"], node["clocks"]) for name, node in nodes.items()} == {
        "af_xdp-input": (200, 30_000), "x-tx": (0, 10_000),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("scenario", "kind", "words"),
    [
        ("too-many-queues", "Unsupported", ("n_rxq=2 is more than the queues of", "VPP answers -7 (invalid value)")),
        ("interface-missing", "PointFailed", ("missing0 does not exist", "VPP answers -7")),
        ("server-gone", "PointFailed", ("VPP does not answer",)),
    ],
)
def test_what_goes_wrong_is_one_line_that_says_what(
    scenario: str, kind: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    _, _, _, complaint = played(NEWEST / f"{scenario}.json.xz", tmp_path)
    assert complaint.startswith(f"{kind}: ")
    assert "\n" not in complaint
    assert [word for word in words if word not in complaint] == []


def test_a_server_that_is_gone_ends_the_point_with_the_signal(tmp_path: Path) -> None:
    playback = Playback(NEWEST / "server-gone.json.xz")
    forwarder = forwarder_of(playback)
    forwarder.start(playback.dut(tmp_path))
    assert forwarder.crashed() is None
    with pytest.raises(PointFailed):
        forwarder.counters()
    assert forwarder.crashed() == "vpp was ended by signal SIGKILL"
    forwarder.stop()
    assert playback.left == []


@pytest.mark.parametrize(
    ("message", "fields", "error", "words"),
    [
        ("show_version", {"version": "25.02-release"}, Unsupported, "VPP 25.02-release is older than 25.06"),
        ("show_version", {"version": "unknown"}, Unsupported, "VPP unknown is older than 25.06"),
        ("l2_xconnect_dump", {"tx_sw_if_index": 9}, PointFailed, "cross-connects .* were set, VPP has"),
        ("sw_interface_rx_placement_dump", {"mode": 2}, Unsupported, "rx_mode=polling: VPP took it and did not switch"),
        ("sw_interface_dump", {"flags": 0}, PointFailed, "was set up and is down"),
        ("sw_interface_set_rx_mode", {"retval": -1}, Unsupported, r"VPP answers -1 \(unspecified error\)"),
        ("af_xdp_create_v3", {"retval": -12}, PointFailed, r"VPP answers -12 \(system call error #2\)"),
    ],
)
def test_what_vpp_says_afterwards_is_believed_not_what_was_asked_for(
    message: str, fields: dict[str, Any], error: type[XdplabError], words: str, tmp_path: Path
) -> None:
    playback = changed(NEWEST / "afxdp.json.xz", message, **fields)
    forwarder = forwarder_of(playback)
    with pytest.raises(error, match=words):
        forwarder.start(playback.dut(tmp_path))


def test_zero_copy_of_igb_needs_its_xdp_program_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorded message has one field more."""
    program = tmp_path / "xsk_def_xdp_prog.o"
    monkeypatch.setattr(ports, "_DEFAULT_PROGRAM", (str(tmp_path / "nowhere.o"), str(program)))
    with pytest.raises(Unsupported, match=r"zero-copy on igb: VPP needs nowhere.o of libxdp, or zero_copy=copy"):
        ports.program_first(LocalHost(), "igb", "auto")
    program.touch()
    asked = {
        ("igb", "auto"): str(program),
        ("igb", "zero-copy"): str(program),
        ("igb", "copy"): None,
        ("veth", "auto"): None,
    }
    for (driver, zero_copy), found in asked.items():
        assert ports.program_first(LocalHost(), driver, zero_copy) == found
    monkeypatch.setattr(ports, "program_first", lambda *_: str(program))
    playback = Playback(NEWEST / "afxdp.json.xz")
    messages = [step["message"] for step in playback.left if step.get("message", {}).get("name") == "af_xdp_create_v3"]
    for message in messages:
        message["fields"]["prog"] = str(program)
    forwarder = forwarder_of(playback)
    forwarder.start(playback.dut(tmp_path))
    assert len(messages) == 2


def test_a_plugin_that_is_missing_is_named_with_its_package(tmp_path: Path) -> None:
    playback = Playback(NEWEST / "afxdp.json.xz")
    at = next(i for i, step in enumerate(playback.left) if step.get("message", {}).get("name") == "show_version")
    playback.left.insert(at + 1, {"message": {"name": "af_xdp_create_v3"}, "answer": "absent"})
    with pytest.raises(Unsupported, match=r"has no af_xdp plugin \(FD.io's package vpp-plugin-core\)"):
        forwarder_of(playback).start(playback.dut(tmp_path))


def test_an_older_vpp_lacks_multi_buffer(tmp_path: Path) -> None:
    playback = Playback(NEWEST / "afxdp-multi-buffer.json.xz")
    for step in playback.left:
        if "type" in step:
            step["answer"].pop("AF_XDP_API_FLAGS_MULTI_BUFFER")
    with pytest.raises(Unsupported, match=r"multi_buffer: the af_xdp plugin of VPP 26.10.* does not have it"):
        forwarder_of(playback).start(playback.dut(tmp_path))


def test_the_vector_behind_all_error_counters_is_read_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is a link into it; vpp-papi follows each by itself."""
    read: list[str] = []

    def of_the_segment(stats: VPPStats, item: str, _: bool = True) -> Any:
        read.append(item)
        return stats.directory[item].get_counter(stats)

    def link(index: int) -> SimpleNamespace:
        return SimpleNamespace(get_counter=lambda stats: stats["/node/errors"][:, index])

    monkeypatch.setattr(VPPStats, "__getitem__", of_the_segment)
    reader = papi_stats("nowhere")
    reader.connected = True
    threads = [[0, 3, 5], [0, 1, 0]]
    vector = SimpleNamespace(get_counter=lambda _: StatsSimpleList(threads))
    reader.directory = {"/node/errors": vector, "/err/a/x": link(0), "/err/b/y": link(1), "/err/b/z": link(2)}
    assert reader.set_errors() == {"/err/b/y": 4, "/err/b/z": 5}
    threads[0][1] = 4
    assert reader.set_errors() == {"/err/b/y": 5, "/err/b/z": 5}
    assert read.count("/node/errors") == 2
    assert reader["/err/b/y"] == reader["/err/b/y"] == [4, 1]
    assert read.count("/node/errors") == 4


def test_a_vpp_that_does_not_answer_is_a_failed_point() -> None:
    class Silent:
        def connect(self, name: str) -> None:
            raise ConnectionRefusedError(111, "Connection refused")

    with pytest.raises(PointFailed, match=r"VPP does not answer \(connect\): 111 Connection refused"):
        VppControl("/nowhere/api.sock", "/nowhere/stats.sock", lambda _: Silent())


class NotYet:
    """A client factory for a VPP that has bound its socket, and listens after so many attempts."""

    def __init__(self, playback: Playback, refusals: int) -> None:
        self._playback, self.refusals = playback, refusals

    def connect(self, api: str, stats: str) -> VppControl:
        return VppControl(api, stats, lambda _: self._client())

    def _client(self) -> Client:
        self.refusals -= 1
        if self.refusals >= 0:
            raise ConnectionRefusedError(111, "Connection refused")
        return Client(self._playback)


def test_a_socket_that_is_not_listened_on_yet_is_tried_again(tmp_path: Path) -> None:
    playback = Playback(NEWEST / "too-many-queues.json.xz")
    forwarder, early = forwarder_of(playback), NotYet(playback, 3)
    forwarder.connect = early.connect
    with pytest.raises(Unsupported, match="n_rxq=2 is more than the queues"):  # it came as far as it did on record
        forwarder.start(playback.dut(tmp_path))
    assert early.refusals == -1


def test_trying_again_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xdplab.forwarders.vpp.process._LISTEN_TIMEOUT_S", 0.1)
    playback = Playback(NEWEST / "afxdp.json.xz")
    forwarder = forwarder_of(playback)
    forwarder.connect = NotYet(playback, 1_000_000).connect
    with pytest.raises(PointFailed, match=r"VPP does not answer \(connect\): 111 Connection refused"):
        forwarder.start(playback.dut(tmp_path))
    playback.left.clear()
    playback.recorded["killed"] = True  # as the played process is told that it has ended
    with pytest.raises(PointFailed, match="vpp was ended by signal SIGKILL"):
        forwarder.start(playback.dut(tmp_path))


def test_an_interruption_passes_through() -> None:
    class Interrupting:
        def connect(self, name: str) -> None:
            raise Interrupted("ended by SIGTERM")

    with pytest.raises(Interrupted, match="ended by SIGTERM"):
        VppControl("/nowhere/api.sock", "/nowhere/stats.sock", lambda _: Interrupting())


def test_a_configuration_is_compared_with_what_a_vpp_had_in_use() -> None:
    in_use = Playback(NEWEST / "afxdp.json.xz").recorded["in_use"]
    asked = {
        "rundir": "/r",
        "prefix": "xdplab-1",
        "buffers": 16384,
        "page_size": "4K",
        "plugins": ["af_xdp"],
        "vdevs": [],
        "cards": {},
    }
    good = rendered("startup.conf.j2", main_cpu=0, worker_cpus=[1], **asked)
    assert contradictions(good, "/r", in_use) == []
    wrong = rendered("startup.conf.j2", main_cpu=1, worker_cpus=[], **{**asked, "buffers": 40_000, "page_size": "2M"})
    found = contradictions(wrong + "\nheapsize { 1 }", "/r", in_use)
    assert [line.split(":")[0] for line in found] == ["buffers", "buffers", "cpu", "cpu", "heapsize"]


def printing(text: str) -> VppControl:
    """VPP's command line, with one answer."""
    api = SimpleNamespace(cli_inband=lambda **fields: namedtuple("reply", "retval reply")(0, text))
    client = SimpleNamespace(connect=lambda name: None, api=api)
    return VppControl("api", "stats", lambda _: client)


@pytest.mark.parametrize(("scenario", "free"), [("afpacket", 16_071), ("afxdp-acl", 15_371)])
def test_free_buffers_are_read(scenario: str, free: int) -> None:
    lines = Playback(NEWEST / f"{scenario}.json.xz").recorded["in_use"]["show buffers"]
    assert printing("\n".join(lines)).free_buffers() == free


@pytest.mark.parametrize("text", ["", "show buffers: unknown input", "Pool Name Index Total Avail Cached Used"])
def test_what_tells_of_no_buffers_is_refused(text: str) -> None:
    with pytest.raises(PointFailed, match="VPP: show buffers: not understood"):
        printing(text).free_buffers()


def test_tallies_of_frames_that_come_through_are_no_losses() -> None:
    """Names of VPP 26.10."""
    through = (
        "l2-output/L2 output packets",
        "l2-learn/L2 learn misses",
        "l2-fwd/L2 forward hits",
        "acl-plugin-in-ip4-l2/ACL permit packets",
        "vxlan4-input/good packets decapsulated",
        "x-tx/syscall required",
    )
    lost = {
        "x-tx/no free tx slots": 2,
        "acl-plugin-in-ip4-l2/ACL deny packets": 3,
        "l2-input-acl/input ACL table-miss drops": 4,
    }
    assert dict(_losses({"errors": {**dict.fromkeys(through, 9), **lost}})) == {
        f"errors {name}": count for name, count in lost.items()
    }
