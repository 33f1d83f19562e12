# SPDX-License-Identifier: Apache-2.0
"""`python tools/dev record vpp`: scenarios on namespaces against a real VPP, each into a JSON file of its own."""

import contextlib
import json
import lzma
import os
import re
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dev.recording import check_only, embedded_testbed
from dev.vpp_record import LinkRecorder, Recorder, talk
from xdplab.forwarders import Dut, make_forwarder
from xdplab.forwarders.vpp.forwarder import VppForwarder
from xdplab.forwarders.vpp.process import find_vpp, installed_version
from xdplab.hosts import LocalHost
from xdplab.hosts.waiting import wait_until
from xdplab.model import (
    ForwarderSpec,
    InputError,
    Path as Way,
    Point,
    StreamSpec,
    TrafficSpec,
    TrialSpec,
    XdplabError,
)
from xdplab.runner import interruptible, recover
from xdplab.runner.ports import dut_of, tester_ports_of
from xdplab.testbed import Port, Testbed, open_testbed, working_folder
from xdplab.testers import TesterContext
from xdplab.testers.xdpgen import Xdpgen
from xdplab.tools import checkout

#: What VPP prints of everything that its configuration says (VPP 26.10); the lines of interest, by a pattern.
_IN_USE = {
    "show threads": r"vpp_main|vpp_wk_",
    "show plugins": r"_plugin\.so",
    "show buffers": r"^Pool|default-",
    "show physmem": r"arena",
    "show memory main-heap": r"base|page stats",
    "show memory stats-segment": r"base|page stats",
    "show version verbose": r"Current PID",
}
#: A host interface that does not exist.
_NOT_THERE = "missing0"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where VPP puts it


@dataclass(frozen=True)
class Scenario:
    """A forwarder with options, and what goes wrong on purpose."""

    forwarder: str
    options: dict[str, Any] = field(default_factory=dict)
    missing_port: bool = False
    killed: bool = False
    pipeline: str = "cross"


SCENARIOS = {
    "afxdp": Scenario("vpp-afxdp"),
    "afxdp-adaptive": Scenario("vpp-afxdp", {"rx_mode": "adaptive", "rx_queue_size": 1024}),
    "afxdp-copy": Scenario("vpp-afxdp", {"zero_copy": "copy", "rx_mode": "interrupt", "tx_queue_size": 2048}),
    "afxdp-no-worker": Scenario("vpp-afxdp", {"workers": 0, "buffers": 40_000}),
    "afxdp-multi-buffer": Scenario("vpp-afxdp", {"multi_buffer": True}),
    "afpacket": Scenario("vpp-afpacket"),
    "afpacket-v2": Scenario("vpp-afpacket", {"tpacket": 2, "rx_mode": "polling", "qdisc_bypass": False}),
    "afxdp-bridge": Scenario("vpp-afxdp", pipeline="bridge"),
    "afxdp-vlan": Scenario("vpp-afxdp", pipeline="vlan"),
    "afxdp-route": Scenario("vpp-afxdp", pipeline="route:2"),
    "afxdp-vxlan": Scenario("vpp-afxdp", pipeline="vxlan"),
    "afxdp-meter": Scenario("vpp-afxdp", pipeline="meter"),
    "afxdp-mirror": Scenario("vpp-afxdp", pipeline="mirror"),
    "afxdp-acl": Scenario("vpp-afxdp", pipeline="acl:3x2"),
    "afxdp-conntrack": Scenario("vpp-afxdp", pipeline="conntrack"),
    "afxdp-nat": Scenario("vpp-afxdp", pipeline="nat"),
    "dpdk": Scenario("vpp-dpdk", {"port": "af_packet"}),
    "too-many-queues": Scenario("vpp-afxdp", {"n_rxq": 2}),
    "interface-missing": Scenario("vpp-afxdp", missing_port=True),
    "server-gone": Scenario("vpp-afxdp", killed=True),
}


#: One that is a connection of another kind.
LINK = "link"


def record_vpp(program: str, output: Path | None, only: Sequence[str] | None, testbed: str) -> None:
    """Record the API exchange and statistics of a real VPP, errors among them."""
    check_only("vpp", only, (*SCENARIOS, LINK))
    found, reason = find_vpp(LocalHost(), program, VppForwarder.package)
    if found is None:
        raise InputError(f"record vpp: {reason}")
    spec = embedded_testbed("vpp", testbed)
    release = installed_version(LocalHost(), found)
    folder = output or (checkout() or Path.cwd()) / "tools" / "tests" / "data" / "vpp" / release.split("-")[0]
    folder.mkdir(parents=True, exist_ok=True)
    recover(spec)
    built = open_testbed(spec)
    workdir = working_folder(spec.name)
    with interruptible():
        try:
            built.up()
            for name in only or (*SCENARIOS, LINK):
                if name == LINK:
                    beside = folder.with_name(f"{folder.name}-{LINK}.json.xz")
                    _write(beside, _take_link(built, workdir, found))
                    print(beside)
                    continue
                taken = _take(SCENARIOS[name], built, workdir, found)
                text = json.dumps({"scenario": name, **taken}, indent=1)
                _write(folder / f"{name}.json.xz", text)
                print(f"{folder / name}.json.xz: {len(taken['exchange'])} exchanges; {taken['ends'] or 'forwarded'}")
        finally:
            built.down()
            shutil.rmtree(workdir, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    path.write_bytes(lzma.compress(f"{text}\n".encode(), preset=9))


def _take_link(testbed: Testbed, workdir: Path, program: str) -> str:
    """What passes between a controller and a VPP behind SSH, without SSH; and the statistics of that VPP."""
    scenario = Scenario("vpp-afxdp")
    forwarder, dut, point = _made(scenario, testbed, workdir, program)
    recorder = LinkRecorder(dut.rundir / "link.log")
    try:
        forwarder.start(dut)
        _send(forwarder, testbed, point, workdir)
        control = recorder.connect(str(dut.rundir / "api.sock"), str(dut.rundir / "stats.sock"))
        said = talk(control)
        segment = recorder.segment()
        control.close()
    finally:
        forwarder.stop()
    return json.dumps({"said": said, "messages": recorder.messages, "segment": segment})


def _made(scenario: Scenario, testbed: Testbed, workdir: Path, program: str) -> tuple[VppForwarder[Any], Dut, Point]:
    """A forwarder and where it is to run, in a folder of its own."""
    shutil.rmtree(workdir, ignore_errors=True)
    (workdir / "dut").mkdir(mode=0o700, parents=True)
    spec = ForwarderSpec(name=scenario.forwarder, options={"vpp": program, **scenario.options})
    given = {"forwarder": spec, "path": Way.THROUGH, "knobs": {}, "traffic": TrafficSpec()}
    point = Point.model_validate({**given, "pipeline": scenario.pipeline})
    dut = dut_of(testbed, point, testbed.layout)
    ports = tuple(_port(port, scenario.missing_port) for port in dut.ports)
    forwarder = make_forwarder(spec)
    assert isinstance(forwarder, VppForwarder)
    return forwarder, replace(dut, ports=ports, rundir=workdir / "dut"), point


def _take(scenario: Scenario, testbed: Testbed, workdir: Path, program: str) -> dict[str, Any]:
    """Carry one scenario out; whatever the forwarder complains about is part of it."""
    forwarder, dut, point = _made(scenario, testbed, workdir, program)
    recorder, ports = Recorder(), dut.ports
    forwarder.connect = recorder.connect
    taken: dict[str, Any] = {
        "forwarder": scenario.forwarder,
        "options": scenario.options,
        "missing": [port.ifname for port in ports if port.ifname == _NOT_THERE],
        "killed": scenario.killed,
        "vpp-papi": version("vpp-papi"),
        "layout": testbed.layout.model_dump(mode="json", exclude_defaults=True),
        "pipeline": scenario.pipeline,
        "ports": [{"role": port.role, "ifname": port.ifname, "mac": port.mac} for port in ports],
        "peers": [{"role": port.role, "ifname": port.ifname, "mac": port.mac} for port in dut.peers],
        "xsk": [],
        "in_use": {},
        "ends": "",
    }

    def carry_out() -> None:
        forwarder.start(dut)
        _send(forwarder, testbed, point, workdir)
        taken["xsk"] = [sock for pid in forwarder.pids() for sock in dut.host.xsk_sockets(pid)]
        taken["in_use"] = _in_use(recorder, forwarder, dut)
        if scenario.killed:
            os.kill(forwarder.pids()[0], signal.SIGKILL)
            wait_until(lambda: forwarder.crashed() is not None, 5.0, "vpp: its end")
        forwarder.counters()
        forwarder.rule_hits()

    try:
        _noting_complaints(carry_out, taken)
        taken["log"] = list(forwarder.log_tail())
    finally:
        forwarder.stop()
    return {**taken, "exchange": recorder.exchange}


def _in_use(recorder: Recorder, forwarder: VppForwarder[Any], dut: Dut) -> dict[str, Any]:
    """What VPP and its machine say of what `startup.conf` asked for; process ids and addresses are left out."""
    rundir = str(dut.rundir)
    prefix = re.findall(r"prefix (\S+)", dut.host.read(f"{rundir}/startup.conf"))[0]
    found: dict[str, Any] = {
        command: [_bare(line) for line in recorder.aside(command).splitlines() if re.search(pattern, line)]
        for command, pattern in _IN_USE.items()
    }
    (pid,) = found.pop("show version verbose")
    return {
        **found,
        "in the foreground": pid.split()[-1] == str(forwarder.pids()[0]),
        "sockets": sorted(path.name for path in dut.rundir.iterdir() if path.is_socket()),
        "shared memory": sorted(path.name.removeprefix(prefix) for path in _SHARED_MEMORY.glob(f"{prefix}*")),
    }


def _bare(line: str) -> str:
    """Without colours, and with single blanks."""
    return " ".join(re.sub(r"\x1b\[\d*m", "", line).split())


def _noting_complaints(carry_out: Callable[[], None], taken: dict[str, Any]) -> None:
    try:
        carry_out()
    except XdplabError as exc:
        if exc.exit_code != 1:  # bad input ends the command
            raise
        taken["ends"] = f"{type(exc).__name__}: {exc}"


def _port(port: Port, missing: bool) -> Port:
    return replace(port, ifname=_NOT_THERE) if missing and port.role == "b1" else port


def _send(forwarder: VppForwarder[Any], testbed: Testbed, point: Point, workdir: Path) -> None:
    """A few frames in both directions, so that the counters hold something."""
    context = TesterContext(
        tester_ports_of(testbed, point), testbed.layout, "xdp", workdir, check_alive=forwarder.crashed
    )
    streams = tuple(
        StreamSpec(kind="load", pps=1000, frame_bytes=64, direction=direction) for direction in ("forward", "backward")
    )
    with contextlib.closing(Xdpgen()) as tester:
        tester.run(context, TrialSpec(streams=streams, duration_s=0.1, drain_s=0.1))
