# SPDX-License-Identifier: Apache-2.0
"""Testers in user space: `bpf/xsk` sends and receives over AF_XDP or AF_PACKET sockets, in one thread.

Their latencies hold both sockets: what an application sees, not what the path takes (that is xdpgen's).
"""

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, ClassVar, Literal

from pydantic import Field

from xdplab.forwarders.options import SocketOptions
from xdplab.forwarders.xsk.forwarder import xsk_version
from xdplab.hosts import Host, Running
from xdplab.hosts.bpf import built, why_not_built
from xdplab.hosts.kernel import why_no_tx_skb_budget, why_no_zero_copy
from xdplab.hosts.waiting import said_something
from xdplab.model import Model, PointFailed, TrialResult, TrialSpec, Unsupported
from xdplab.testbed import Port, Testbed, TesterPorts
from xdplab.testers.base import RxChoice, Tester, TesterContext, while_well

# the streams of both programs are the same JSON (bpf/common/stream.c)
from xdplab.testers.stream_json import STALL_NS, NewFlows, max_burst, stream_result
from xdplab.tools import program_digest

#: Frames that are queued before one system call sends them, for loads that are paced and for those that are not.
_PACED_BATCH, _TOP_BATCH = 1, 64
#: Above this rate one system call per frame does not keep up.
_PACED_MAX_PPS = 200_000.0
#: Headers, trailer and FCS, by IP version.
_SMALLEST = {4: 64, 6: 84}
#: Of the program's answer, by role.
_DETAIL = ("sockets", "umems", "other", "tx_stuck", "batches", "timeouts")


class PacketOptions(SocketOptions):
    """Options of `xsk-packet`: the same tester on AF_PACKET (TPACKET_V2)."""

    backend: Literal["af_xdp", "af_packet"] = "af_packet"


class PingOptions(SocketOptions):
    """Options of `xsk-ping`, which waits for an answer before it sends on."""

    #: Frames that leave together and are waited for.
    ping_batch: int = Field(default=1, ge=1, le=512)
    #: How long for.
    timeout_us: int = Field(default=100_000, ge=10, le=1_000_000_000)


class XskTester(Tester):
    """Role `probe` of `bpf/xsk`: frames leave on a schedule, whatever comes back."""

    name: ClassVar[str] = "xsk"
    options_model: ClassVar[type[Model]] = SocketOptions

    def __init__(self, options: SocketOptions | None = None) -> None:
        self.options = options or SocketOptions()
        self._new_flows = NewFlows()

    def unsupported(self, testbed: Testbed) -> str | None:
        return why_not_built("xsk", testbed.tester_host)

    def supports_path(self, ports: TesterPorts) -> str | None:
        """Zero-copy needs a driver that has it, a budget for sending a kernel."""
        mine = {port.role: port for port in (ports.first, ports.last)}
        reasons: list[str | None] = []
        if self.options.wants_tx_skb_budget:
            reasons += [why_no_tx_skb_budget(port.host) for port in mine.values()]
        if self.options.bind == "zero-copy":
            reasons += [why_no_zero_copy(port.host, port.ifname) for port in mine.values()]
        return next(filter(None, reasons), None)

    def choose_rx(self, redirects: bool) -> RxChoice:
        return RxChoice(self.options.backend, "the only one")

    def smallest_frame(self, ip: int, tag_bytes: int = 0) -> int:
        return _SMALLEST[ip] + tag_bytes

    def run(self, context: TesterContext, trial: TrialSpec) -> TrialResult:
        """One process for the whole trial, and one that reflects on path `reflect`.

        Raises:
            Unsupported: an option of its sockets is not in force.
        """
        answer, host = context.workdir / "xsk-tester.json", context.host
        with contextlib.ExitStack() as stack:
            if context.ports.mirror is not None:
                stack.enter_context(self._mirror(context, context.ports.mirror))
            process = host.start(
                [built("xsk", host), "-"],
                stdin=json.dumps(self._configuration(context, trial)),
                stdout=answer,
                log=context.workdir / "xsk-tester.log",
            )
            try:
                while_well(process.wait, process, context, trial, self.name)
            finally:
                process.stop()
        report = self._read(host, process, answer)
        idle = self.options.not_in_force(report["sockets"])
        if idle:
            raise Unsupported(f"tester {self.name}: {idle}")
        return self._result(report, context, trial)

    def identity(self) -> Mapping[str, str] | None:
        """The program, by its digest, and the options of its sockets."""
        return {"xsk": program_digest("xsk"), "options": self.options.model_dump_json()}

    @classmethod
    def versions(cls, host: Host) -> Mapping[str, str]:
        """As of the forwarder, which is the same program."""
        return xsk_version(host)

    @contextlib.contextmanager
    def _mirror(self, context: TesterContext, port: Port) -> Iterator[None]:
        """Send everything back at the far port: asleep on the tester's core until a frame comes, then first in line."""
        host = port.host if context.ports.far else context.host
        host.make_folder(context.workdir)
        output = context.workdir / "xsk-mirror.json"
        own = {"role": "reflect", "ports": [_port(port)], "wait": "poll", "policy": "fifo"}
        process = host.start(
            [built("xsk", host), "-"],
            stdin=json.dumps({**self._sockets(), **own, "cpus": [context.layout.tester_tx]}),
            stdout=output,
            log=context.workdir / "xsk-mirror.log",
        )
        try:
            if not said_something(host, output, process, 10.0):
                raise PointFailed(f"{self.name}: the reflector did not start: {' | '.join(process.log_tail(1))}")
            yield
        finally:
            process.stop()

    def _read(self, host: Host, process: Running, answer: FilePath) -> dict[str, Any]:
        """Its last line, which it writes whatever happened after it was ready."""
        lines = host.read(str(answer)).splitlines() if host.exists(answer) else []
        report: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        if process.poll() or report.get("event") != "done":
            raise PointFailed(f"{self.name}: {' | '.join(process.log_tail(1)) or 'no message'}")
        return report

    def _sockets(self) -> dict[str, Any]:
        """Its options as the program has them."""
        asked = self.options.model_dump(include=set(SocketOptions.model_fields))
        return {"xdp_mode": asked.pop("mode"), **asked}

    def _configuration(self, context: TesterContext, trial: TrialSpec) -> dict[str, Any]:
        return {**self._sockets(), "cpus": [context.layout.tester_tx], **self._traffic(context, trial)}

    def _traffic(self, context: TesterContext, trial: TrialSpec) -> dict[str, Any]:
        ports, offered = context.ports, trial.offered_pps
        path_ports = [ports.first] if ports.last is ports.first else [ports.first, ports.last]
        return {
            "role": "probe",
            "ports": [_port(port) for port in path_ports],
            "streams": self._new_flows.objects(trial, ports),
            "warmup_s": trial.warmup_s,
            "duration_s": trial.duration_s,
            "drain_s": trial.drain_s,
            "stall_ns": STALL_NS,
            "max_burst": max_burst(trial),
            "batch": _TOP_BATCH if offered is None or offered > _PACED_MAX_PPS else _PACED_BATCH,
        }

    def _result(self, report: dict[str, Any], context: TesterContext, trial: TrialSpec) -> TrialResult:
        streams = tuple(stream_result(trial.streams[item["id"]], item) for item in report["streams"])
        (worker,) = report["workers"]
        return TrialResult(
            tester=self.name,
            sender=self.options.backend,
            elapsed_s=report["trial_s"],
            interrupted=report["interrupted"],
            streams=streams,
            rx_cpus={context.layout.tester_tx: sum(stream.received for stream in streams)},
            rx_program=self.options.backend,
            earlier=report["earlier"],
            earlier_ns=report["earlier_ns"],
            stalls=report.get("stalls", 0),
            stalled_ns=report.get("stalled_ns", 0),
            longest_gap_ns=report.get("longest_gap_ns", 0),
            run_delay_ns=worker["run_delay_ns"],
            nonvoluntary_switches=worker["nonvoluntary_switches"],
            detail={key: report[key] for key in _DETAIL if key in report},
        )


class XskPacketTester(XskTester):
    """The same over AF_PACKET."""

    name: ClassVar[str] = "xsk-afpacket"
    options_model: ClassVar[type[Model]] = PacketOptions

    def __init__(self, options: SocketOptions | None = None) -> None:
        super().__init__(options or PacketOptions())


class XskPing(XskTester):
    """Role `ping` of `bpf/xsk`: the next leaves when the last is back and its time has come, as xdpsock's pings do.

    It has no schedule to be late for, and no stalls are seen: where the machine stalls, a round trip is longer.
    """

    name: ClassVar[str] = "xsk-ping"
    options_model: ClassVar[type[Model]] = PingOptions
    closed_loop: ClassVar[bool] = True

    options: PingOptions

    def __init__(self, options: PingOptions | None = None) -> None:
        super().__init__(options or PingOptions())

    def supports_path(self, ports: TesterPorts) -> str | None:
        """It waits for what it has sent to come back."""
        if ports.last is not ports.first:
            return "it measures round trips: path hairpin or reflect"
        return super().supports_path(ports)

    def _traffic(self, context: TesterContext, trial: TrialSpec) -> dict[str, Any]:
        (stream,) = trial.streams
        asked = super()._traffic(context, trial)
        batch = self.options.ping_batch
        return {
            "role": "ping",
            **{key: asked[key] for key in ("ports", "warmup_s", "duration_s")},
            "streams": [{**asked["streams"][0], "pps": None, "count": 0}],
            "ping_batch": batch,
            "timeout_us": self.options.timeout_us,
            "interval_us": max(1, round(batch * 1e6 / stream.pps)) if stream.pps else 0,
            "count": math.ceil(stream.count / batch),
        }

    def _result(self, report: dict[str, Any], context: TesterContext, trial: TrialSpec) -> TrialResult:
        found = super()._result(report, context, trial)
        (stream,) = found.streams
        return found.model_copy(update={"streams": (stream.model_copy(update={"offered_pps": trial.streams[0].pps}),)})


def _port(port: Port) -> dict[str, Any]:
    return {"ifname": port.ifname, "netns": port.netns}
