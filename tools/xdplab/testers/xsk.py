# SPDX-License-Identifier: Apache-2.0
"""A tester in user space: `bpf/xsk` sends and receives over AF_XDP or AF_PACKET sockets, in one thread.

Its latencies hold both sockets: what an application sees, not what the path takes (that is xdpgen's).
"""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, ClassVar

from xdplab.hosts import Host, LocalHost, Running
from xdplab.model import InputError, PointFailed, TrialResult, TrialSpec
from xdplab.testbed import Port, Testbed
from xdplab.testers.base import Tester, TesterContext

# the streams of both programs are the same JSON (bpf/common/stream.h)
from xdplab.testers.stream_json import STALL_NS, max_burst, stream_object, stream_result
from xdplab.tools import bpf_program

#: Frames that are queued before one system call sends them, for loads that are paced and for those that are not.
_PACED_BATCH, _TOP_BATCH = 1, 64
#: Above this rate one system call per frame does not keep up.
_PACED_MAX_PPS = 200_000.0


#: Headers, trailer and FCS, by IP version.
_SMALLEST, _SMALLEST_TAGGED = {4: 64, 6: 84}, {4: 68, 6: 88}


class XskTester(Tester):
    """Role `probe` of `bpf/xsk` on AF_XDP sockets."""

    name: ClassVar[str] = "xsk"
    rx_programs: ClassVar[tuple[str, ...]] = ("af_xdp",)
    #: Options of `bpf/xsk` that make the variant.
    sockets: ClassVar[dict[str, Any]] = {}

    def supported(self, testbed: Testbed) -> str | None:
        """The program must be built."""
        return None if bpf_program("xsk") else "bpf/build/xsk is not built; `make -C bpf` builds it"

    def smallest_frame(self, ip: int, vlan: int | None) -> int:
        """Headers, trailer and FCS."""
        return _SMALLEST_TAGGED[ip] if vlan else _SMALLEST[ip]

    def run(self, context: TesterContext, trial: TrialSpec) -> TrialResult:
        """One process for the whole trial, and one that reflects on path `reflect`."""
        program = bpf_program("xsk")
        if program is None:
            raise InputError("bpf/build/xsk is not built; `make -C bpf` builds it")
        answer = context.workdir / "xsk-tester.json"
        with contextlib.ExitStack() as stack:
            if context.ports.mirror is not None:
                stack.enter_context(self._mirror(str(program), context, context.ports.mirror))
            process = LocalHost().start(
                [str(program), "-"],
                stdin=json.dumps(self._configuration(context, trial)),
                stdout=answer,
                log=context.workdir / "xsk-tester.log",
                die_with_us=True,  # it lives outside the testbed's namespaces, where `xdplab down` looks
            )
            try:
                self._wait(process, context, trial)
            finally:
                process.stop()
        return self._result(self._read(process, answer), context, trial)

    @classmethod
    def versions(cls, host: Host) -> Mapping[str, str]:
        """Version that the program reports."""
        program = bpf_program("xsk")
        if program is None:
            return {"xsk": "not built"}
        return {"xsk": str(json.loads(LocalHost().run([str(program), "--version"]).stdout)["version"])}

    @contextlib.contextmanager
    def _mirror(self, program: str, context: TesterContext, port: Port) -> Iterator[None]:
        """Send everything back at the far port: asleep on the tester's core until a frame comes, then first in line."""
        output = context.workdir / "xsk-mirror.json"
        options = {"role": "reflect", "ports": [_port(port)], "wait": "poll", "policy": "fifo"}
        process = LocalHost().start(
            [program, "-"],
            stdin=json.dumps({**options, **self.sockets, "cpus": [context.layout.tester_tx]}),
            stdout=output,
            log=context.workdir / "xsk-mirror.log",
            die_with_us=True,
        )
        try:
            deadline = time.monotonic() + 10.0
            while not (output.exists() and output.read_text(encoding="utf-8").endswith("\n")):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise PointFailed(f"{self.name}: the reflector did not start: {' | '.join(process.log_tail(1))}")
                time.sleep(0.01)
            yield
        finally:
            process.stop()

    def _wait(self, process: Running, context: TesterContext, trial: TrialSpec) -> None:
        """Sleep until it ends; look at the forwarder once a second so that a crash ends a long trial early."""
        deadline = time.monotonic() + trial.warmup_s + trial.duration_s + trial.drain_s + 10.0
        while process.wait(1.0) is None:
            ended = context.still_well()
            if ended:
                raise PointFailed(ended)
            if time.monotonic() > deadline:
                raise PointFailed(f"{self.name}: did not end in time: {' | '.join(process.log_tail(3))}")

    def _read(self, process: Running, answer: FilePath) -> dict[str, Any]:
        """Its last line, which it writes whatever happened after it was ready."""
        lines = answer.read_text(encoding="utf-8").splitlines() if answer.exists() else []
        told = json.loads(lines[-1]) if lines else {}
        if process.poll() or told.get("event") != "done":
            raise PointFailed(f"{self.name}: {' | '.join(process.log_tail(1)) or 'it said nothing'}")
        assert isinstance(told, dict)
        return told

    def _configuration(self, context: TesterContext, trial: TrialSpec) -> dict[str, Any]:
        ports = context.ports
        path_ports = [ports.first] if ports.last is ports.first else [ports.first, ports.last]
        offered = trial.offered_pps
        return {
            "role": "probe",
            "ports": [_port(port) for port in path_ports],
            "streams": [stream_object(index, stream, ports) for index, stream in enumerate(trial.streams)],
            "warmup_s": trial.warmup_s,
            "duration_s": trial.duration_s,
            "drain_s": trial.drain_s,
            "stall_ns": STALL_NS,
            "max_burst": max_burst(trial),
            "batch": _TOP_BATCH if offered is None or offered > _PACED_MAX_PPS else _PACED_BATCH,
            "cpus": [context.layout.tester_tx],
            **self.sockets,
        }

    def _result(self, told: dict[str, Any], context: TesterContext, trial: TrialSpec) -> TrialResult:
        streams = tuple(stream_result(trial.streams[item["id"]], item) for item in told["streams"])
        (worker,) = told["workers"]
        return TrialResult(
            tester=self.name,
            sender=self.sockets.get("backend", "af_xdp"),
            elapsed_s=told["trial_s"],
            interrupted=told["interrupted"],
            streams=streams,
            rx_cpus={context.layout.tester_tx: sum(stream.received for stream in streams)},
            rx_program=self.rx_programs[0],
            stalls=told["stalls"],
            stalled_ns=told["stalled_ns"],
            longest_gap_ns=told["longest_gap_ns"],
            run_delay_ns=worker["run_delay_ns"],
            nonvoluntary_switches=worker["nonvoluntary_switches"],
            detail={key: told[key] for key in ("sockets", "umems", "other", "tx_stuck")},
        )


class XskPacketTester(XskTester):
    """The same over AF_PACKET (TPACKET_V2)."""

    name: ClassVar[str] = "xsk-afpacket"
    rx_programs: ClassVar[tuple[str, ...]] = ("af_packet",)
    sockets: ClassVar[dict[str, Any]] = {"backend": "af_packet"}


def _port(port: Port) -> dict[str, Any]:
    return {"ifname": port.ifname, "netns": port.netns}
