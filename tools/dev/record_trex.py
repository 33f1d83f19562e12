# SPDX-License-Identifier: Apache-2.0
"""`dev record trex`: what the bridge asks TRex's client library and what it answers, each scenario a file."""

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.recording import check_only, embedded_testbed
from xdplab.hosts import LocalHost
from xdplab.model import Missing, StreamSpec, TestbedSpec, TrialSpec, XdplabError
from xdplab.runner import interruptible, recover
from xdplab.testbed import Port, Testbed, open_testbed, working_folder
from xdplab.testers import TesterContext
from xdplab.testers.packets import build, headers_of
from xdplab.testers.trex import Trex, TrexOptions
from xdplab.testers.trex_server import ASYNC_PORT, HOW_TO_GET, SYNC_PORT, Bridge, Installation, bridge_command, find
from xdplab.tools import checkout

_PROBES = StreamSpec(kind="latency", pps=2000.0, frame_bytes=64)
_LOAD = StreamSpec(kind="load", pps=5000.0, frame_bytes=128, flows=8, start_ns=250_000)
_BACK = StreamSpec(kind="latency", pps=1000.0, frame_bytes=82, ip=6, direction="backward")
_BURST = StreamSpec(kind="load", pps=None, frame_bytes=64, count=500)


@dataclass(frozen=True)
class Scenario:
    """A trial, and what goes wrong on purpose."""

    streams: tuple[StreamSpec, ...] = (_PROBES,)
    duration_s: float = 0.5
    wrong: str = ""


SCENARIOS = {
    "latency": Scenario(),
    "load-both-ways": Scenario((_PROBES, _BACK, _LOAD)),
    "burst": Scenario((_BURST,), duration_s=0.1),
    "port-owned": Scenario(wrong="owned"),
    "wrong-version": Scenario(wrong="version"),
    "server-gone": Scenario(duration_s=4.0, wrong="gone"),
    "no-histogram": Scenario(wrong="histogram"),
}


def record_trex(folder: str, output: Path | None, only: Sequence[str] | None, testbed: str) -> None:
    """Record the exchange with a real TRex server on the direct link, errors among them."""
    check_only("trex", only, SCENARIOS)
    installation = find(folder)
    if installation is None:
        raise Missing(f"record trex: {HOW_TO_GET}")
    spec = embedded_testbed("trex", testbed)
    into = output or (checkout() or Path.cwd()) / "tools" / "tests" / "data" / "trex"
    into.mkdir(parents=True, exist_ok=True)
    with interruptible():
        for name in only or SCENARIOS:
            print(f"{name}: {_record(spec, installation, name, into / f'{name}.jsonl')}")


def _record(spec: TestbedSpec, installation: Installation, name: str, path: Path) -> str:
    """One scenario on a testbed of its own."""
    scenario = SCENARIOS[name]
    recover(spec)
    testbed = open_testbed(spec, one_tester_host=True)
    workdir = working_folder(spec.name)
    try:
        testbed.up()
        workdir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _play(testbed, installation, scenario, workdir, path)
    finally:
        testbed.down()
        shutil.rmtree(workdir, ignore_errors=True)


def _play(testbed: Testbed, installation: Installation, scenario: Scenario, workdir: Path, path: Path) -> str:
    ports = testbed.direct_ports()
    assert ports is not None
    tester = _TROUBLED.get(scenario.wrong, Trex)(TrexOptions(path=str(installation.folder)))
    tester.record = path
    context = TesterContext(ports, testbed.layout, tester.rx_programs[0], workdir)
    spec = TrialSpec(streams=scenario.streams, duration_s=scenario.duration_s, drain_s=0.1)
    about: dict[str, Any] = {
        "ports": [{"role": port.role, "mac": port.mac} for port in (ports.first, ports.last)],
        "trial": spec.model_dump(mode="json"),
    }
    path.write_text("", encoding="utf-8")
    try:
        result = tester.run(context, spec)
        reported = f"sent {result.sent}, received {result.received}"
    except XdplabError as exc:
        about["error"] = reported = f"{type(exc).__name__}: {exc}"
    finally:
        tester.close()
    path.write_text(json.dumps({"about": about}) + "\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    return reported


class _Owned(Trex):
    """Somebody else holds the ports."""

    def start(self, context: TesterContext, ports: tuple[Port, Port], folder: Path) -> tuple[Bridge, str]:
        """A first session under another name, and then ours."""
        installation = find(self.options.path)
        assert installation is not None
        record, self.record = self.record, None
        self._holder, address = super().start(context, ports, folder)
        first = StreamSpec(kind="latency", pps=1000.0, frame_bytes=64)
        self._holder.ask("connect", timeout_s=30, server=address, sync_port=SYNC_PORT, async_port=ASYNC_PORT,
                         user="somebody", ports=[0, 1],
                         frame=build(headers_of(first, context.ports), 64, udp_checksum=False).hex())  # fmt: skip
        host = ports[0].host
        assert isinstance(host, LocalHost)
        return Bridge(host, bridge_command(installation.libraries, record), folder / "second.log"), address

    def close(self) -> None:
        if hasattr(self, "_holder"):
            self._holder.stop()
        super().close()


class _OtherVersion(Trex):
    """A client of another API version, made by changing one number in a copy of TRex's library."""

    def start(self, context: TesterContext, ports: tuple[Port, Port], folder: Path) -> tuple[Bridge, str]:
        """The bridge with the changed library."""
        installation = find(self.options.path)
        assert installation is not None
        record, self.record = self.record, None
        bridge, address = super().start(context, ports, folder)
        bridge.stop()
        changed = folder / "libraries"
        shutil.copytree(installation.libraries / "trex", changed / "trex")
        client = changed / "trex" / "stl" / "trex_stl_client.py"
        client.write_text(client.read_text(encoding="utf-8").replace("'major': 5", "'major': 4"), encoding="utf-8")
        os.environ["TREX_EXT_LIBS"] = str(installation.folder / "external_libs")
        host = ports[0].host
        assert isinstance(host, LocalHost)
        return Bridge(host, bridge_command(changed, record), folder / "changed.log"), address


class _Gone(Trex):
    """The server is killed in the middle of the trial."""

    def start(self, context: TesterContext, ports: tuple[Port, Port], folder: Path) -> tuple[Bridge, str]:
        """As ever, and a watcher that waits for the second start: the first is that of the look at the histogram."""
        started = super().start(context, ports, folder)
        assert self._active.server is not None
        threading.Thread(target=self._kill, args=(self._active.server.pid,), daemon=True).start()
        return started

    def server_ended(self) -> str | None:
        """Unknown, as with a server on another machine: the bridge has to find out."""
        return None

    def _kill(self, pid: int) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self.record and self.record.read_text(encoding="utf-8").count('"call": "start"') > 1:
                time.sleep(0.5)
                os.kill(pid, signal.SIGKILL)
                return
            time.sleep(0.05)


class _NoHistogram(Trex):
    """The server runs without --hdrh."""

    def __init__(self, options: TrexOptions | None = None) -> None:
        super().__init__(options)
        self.histograms = False


_TROUBLED: dict[str, type[Trex]] = {
    "owned": _Owned,
    "version": _OtherVersion,
    "gone": _Gone,
    "histogram": _NoHistogram,
}
