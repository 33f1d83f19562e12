# SPDX-License-Identifier: Apache-2.0
"""`xdplab record vpp`: scenarios on namespaces against a real VPP, each into a JSON file of its own."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from xdplab.cli.recording import Only, Output, TestbedName, check_only, embedded_testbed
from xdplab.forwarders import Dut, make_forwarder
from xdplab.forwarders.process import wait_until
from xdplab.forwarders.vpp import VppForwarder
from xdplab.forwarders.vpp_program import find_vpp, installed_version
from xdplab.forwarders.vpp_record import Recorder
from xdplab.hosts import LocalHost
from xdplab.hosts.kernel import xsk_sockets
from xdplab.model import ForwarderSpec, InputError, StreamSpec, TrialSpec, XdplabError
from xdplab.model import Path as Way
from xdplab.runner import interruptible, recover
from xdplab.testbed import Port, Testbed, open_testbed, working_folder
from xdplab.testers import TesterContext
from xdplab.testers.xdpgen import Xdpgen
from xdplab.tools import project_root

#: A host interface that does not exist.
_NOT_THERE = "missing0"


@dataclass(frozen=True)
class Scenario:
    """A forwarder with options, and what goes wrong on purpose."""

    forwarder: str
    options: dict[str, Any] = field(default_factory=dict)
    missing_port: bool = False
    killed: bool = False


SCENARIOS = {
    "afxdp": Scenario("vpp-afxdp"),
    "afxdp-adaptive": Scenario("vpp-afxdp", {"rx_mode": "adaptive", "rx_queue_size": 1024}),
    "afxdp-multi-buffer": Scenario("vpp-afxdp", {"multi_buffer": True}),
    "afpacket": Scenario("vpp-afpacket"),
    "dpdk": Scenario("vpp-dpdk", {"port": "af_packet"}),
    "too-many-queues": Scenario("vpp-afxdp", {"n_rxq": 2}),
    "interface-missing": Scenario("vpp-afxdp", missing_port=True),
    "server-gone": Scenario("vpp-afxdp", killed=True),
}


def vpp(
    program: Annotated[str, typer.Option("--vpp", help="the program (default: XDPLAB_VPP, else on PATH)")] = "",
    output: Output = None,
    only: Only = None,
    testbed: TestbedName = "embedded",
) -> None:
    """Record the API exchange and statistics of a real VPP, errors among them."""
    check_only("vpp", only, SCENARIOS)
    found, reason = find_vpp(LocalHost(), program, VppForwarder.package)
    if found is None:
        raise InputError(f"record vpp: {reason}")
    spec = embedded_testbed("vpp", testbed)
    release = installed_version(LocalHost(), found)
    folder = output or project_root() / "tools" / "tests" / "data" / "vpp" / release.split("-")[0]
    folder.mkdir(parents=True, exist_ok=True)
    recover(spec)
    built = open_testbed(spec)
    workdir = working_folder(spec.name)
    with interruptible():
        try:
            built.up()
            for name in only or SCENARIOS:
                taken = _take(SCENARIOS[name], built, workdir, found)
                text = json.dumps({"scenario": name, **taken}, indent=1)
                (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
                print(f"{folder / name}.json: {len(taken['exchange'])} exchanges; {taken['ends'] or 'forwarded'}")
        finally:
            built.down()
            shutil.rmtree(workdir, ignore_errors=True)


def _take(scenario: Scenario, testbed: Testbed, workdir: Path, program: str) -> dict[str, Any]:
    """Carry one scenario out; whatever the forwarder complains about is part of it."""
    shutil.rmtree(workdir, ignore_errors=True)
    (workdir / "dut").mkdir(mode=0o700, parents=True)
    ports = tuple(_port(testbed.ports[role], scenario.missing_port) for role in ("b0", "b1"))
    dut = Dut(testbed.dut, ports, Way.THROUGH, testbed.layout, workdir / "dut")
    options = {"vpp": program, **scenario.options}
    forwarder = make_forwarder(ForwarderSpec(name=scenario.forwarder, options=options))
    assert isinstance(forwarder, VppForwarder)
    recorder = Recorder()
    forwarder.connect = recorder.connect
    taken: dict[str, Any] = {
        "forwarder": scenario.forwarder,
        "options": scenario.options,
        "missing": [port.ifname for port in ports if port.ifname == _NOT_THERE],
        "killed": scenario.killed,
        "vpp-papi": version("vpp-papi"),
        "ports": [{"role": port.role, "ifname": port.ifname, "mac": port.mac} for port in ports],
        "xsk": [],
        "ends": "",
    }

    def carry_out() -> None:
        forwarder.start(dut)
        _send(forwarder, testbed, workdir)
        taken["xsk"] = [sock for pid in forwarder.pids() for sock in xsk_sockets(dut.host, pid)]
        if scenario.killed:
            os.kill(forwarder.pids()[0], signal.SIGKILL)
            wait_until(lambda: forwarder.crashed() is not None, 5.0, "vpp: its end")
        forwarder.counters()

    try:
        _noting_complaints(carry_out, taken)
        taken["log"] = list(forwarder.log_tail())
    finally:
        forwarder.stop()
    return {**taken, "exchange": recorder.exchange}


def _noting_complaints(carry_out: Callable[[], None], taken: dict[str, Any]) -> None:
    try:
        carry_out()
    except XdplabError as exc:
        if exc.exit_code != 1:  # bad input or an interruption end the command
            raise
        taken["ends"] = f"{type(exc).__name__}: {exc}"


def _port(port: Port, missing: bool) -> Port:
    return replace(port, ifname=_NOT_THERE) if missing and port.role == "b1" else port


def _send(forwarder: VppForwarder[Any], testbed: Testbed, workdir: Path) -> None:
    """A few frames in both directions, so that the counters hold something."""
    context = TesterContext(
        testbed.tester_ports(Way.THROUGH), testbed.layout, "xdp", workdir, still_well=forwarder.crashed
    )
    streams = tuple(
        StreamSpec(kind="load", pps=1000, frame_bytes=64, direction=direction) for direction in ("forward", "backward")
    )
    Xdpgen().run(context, TrialSpec(streams=streams, duration_s=0.1, drain_s=0.1))
