# SPDX-License-Identifier: Apache-2.0
"""The programs of each workload: how they are started at both ends, and what they say."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdplab.api import (
    Completed,
    Conversation,
    CpuLayout,
    Host,
    LatencySummary,
    Model,
    PointFailed,
    Running,
    bpf_program,
    why_not_built,
)
from xdplab_applications import servers
from xdplab_applications.applications.ends import Ends
from xdplab_applications.applications.spec import ApplicationsSpec, Direction, Workload

_OUR_PORT, _IPERF_PORT = 5001, 5201
#: Program of the server, and of the client.
NEEDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "iperf3": (("iperf3",), ("iperf3",)),
    "web": (("nginx",), ("wrk",)),
    "memcached": (("memcached",), ()),
}
#: Of bpf/app.
_DAMAGED, _SILENT = 3, 4
_READY_S = 5.0
#: What a program may take next to its trial.
_GRACE_S = 15.0


class Broken(PointFailed):
    """TCP does not come through, or stops: there is something to diagnose."""


class Damaged(PointFailed):
    """A byte arrived otherwise than it was sent."""


class Outcome(Model):
    """What a program said of a trial."""

    #: In the time that counts.
    elapsed_s: float
    #: Payload that arrived, over all connections and both directions.
    goodput_mbps: float | None = None
    #: Requests, or connections, that were answered.
    requests_per_s: float | None = None
    connections_per_s: float | None = None
    #: Datagrams that did not arrive, of those that were sent.
    datagram_loss_ratio: float | None = None
    #: Requests that were sent, and answered in time; those of `latency`.
    asked: int = 0
    answered: int = 0
    #: Of requests, from their departure (next to bulk: from when they were due) to their answer.
    latency: LatencySummary | None = None
    #: How long after they were due they were written; where each waits for the answer before, none is late.
    lateness: LatencySummary | None = None


def missing(ends: Ends, workload: Workload) -> str | None:
    """None, or what is not installed, and the command that installs it."""
    if workload.kind not in NEEDS:
        return why_not_built("xdpapp", ends.server.host) or why_not_built("xdpapp", ends.client.host)
    server, client = NEEDS[workload.kind]
    return servers.missing_program(ends.server.host, server) or servers.missing_program(ends.client.host, client)


@dataclass(frozen=True)
class Programs:
    """Where they run: at both ends, on the tester's CPUs, so that the forwarder's core is left to it."""

    ends: Ends
    spec: ApplicationsSpec
    layout: CpuLayout
    #: A folder on each host, which goes with the repetition.
    folder: Path

    def run(self, workload: Workload, direction: Direction) -> Outcome:
        """One trial.

        Raises:
            Broken: no connection was made, or nothing came through for `patience_s`.
            Damaged: a byte arrived otherwise than it was sent.
            PointFailed: a program ended otherwise.
        """
        kind, connections = workload
        if kind == "iperf3":
            return self._iperf3(connections, direction)
        if kind == "web":
            return self._web(connections)
        if kind == "memcached":
            return self._memcached(connections)
        with self.our_server() as server:
            if kind == "udp":
                return self._udp(server)
            return self.ours(workload, direction, self.spec.duration_s, self.spec.warmup_s)

    @contextlib.contextmanager
    def our_server(self) -> Iterator[Conversation]:
        """`xdpapp serve` at C. What it says of damage counts, whatever the client has seen."""
        log = self.folder / "server.log"
        server = self.ends.server.host.converse(
            self._pinned(self.ends.server.host, self._server_cpu, ["serve", self.ends.server_address, str(_OUR_PORT)]),
            log=log,
        )
        try:
            self._said(server)
            try:
                yield server
            except PointFailed:
                if server.poll() is None and self._asked(server)["damaged"]:
                    raise Damaged("payload damaged: bytes arrived at C that differ from what A sent") from None
                raise
            if self._asked(server)["damaged"]:
                raise Damaged("payload damaged: bytes arrived at C that differ from what A sent")
        finally:
            server.stop()

    def ours(
        self, workload: Workload, direction: Direction, duration_s: float, warmup_s: float,
        patience_s: float | None = None,
    ) -> Outcome:  # fmt: skip
        """A trial of `xdpapp`, whose server runs."""
        ways = {"forward": ["--up"], "backward": ["--down"], "both": ["--up", "--down"]}
        spec, (kind, connections) = self.spec, workload
        report = self._client(
            kind,
            *["--connections", str(connections), "--duration", str(duration_s), "--warmup", str(warmup_s)],
            *["--patience", str(patience_s or spec.patience_s), "--probe-us", str(spec.probe_us)],
            *["--request-bytes", str(spec.request_bytes), "--answer-bytes", str(spec.answer_bytes)],
            *(ways[direction] if kind == "bulk" else ()),
            seconds=duration_s + warmup_s,
        )
        elapsed_s = report["elapsed_ns"] / 1e9
        per_s, payload = report["answered"] / elapsed_s, report["up_bytes"] + report["down_bytes"]
        return Outcome(
            elapsed_s=elapsed_s,
            goodput_mbps=payload * 8 / elapsed_s / 1e6 if kind == "bulk" else None,
            requests_per_s=per_s if kind == "requests" else None,
            connections_per_s=per_s if kind == "connections" else None,
            asked=report["asked"],
            answered=report["answered"],
            latency=LatencySummary(**report["latency"]) if report["answered"] else None,
            lateness=LatencySummary(**report["lateness"]) if report["answered"] else None,
        )

    def _udp(self, server: Conversation) -> Outcome:
        before = self._asked(server)
        report = self._client(
            "udp",
            *["--duration", str(self.spec.duration_s), "--mbps", str(self.spec.udp_mbps)],
            *["--request-bytes", str(self.spec.datagram_bytes)],
            seconds=self.spec.duration_s,
        )
        after = self._asked(server)
        arrived, elapsed_s = after["datagrams"] - before["datagrams"], report["elapsed_ns"] / 1e9
        if not arrived:
            raise Broken("no datagram came through")
        return Outcome(
            elapsed_s=elapsed_s,
            goodput_mbps=(after["datagram_bytes"] - before["datagram_bytes"]) * 8 / elapsed_s / 1e6,
            datagram_loss_ratio=max(0.0, 1 - arrived / report["sent"]),
        )

    def _client(self, kind: str, *options: str, seconds: float) -> dict[str, Any]:
        host = self.ends.client.host
        argv = self._pinned(host, self.layout.tester_tx, [kind, self.ends.server_address, str(_OUR_PORT), *options])
        done = host.run(argv, check=False, timeout_s=seconds + _GRACE_S)
        if done.returncode == _DAMAGED:
            raise Damaged(done.complaint.removeprefix("xdpapp: "))
        if done.returncode:
            raise Broken(done.complaint.removeprefix("xdpapp: "))
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def _iperf3(self, connections: int, direction: Direction) -> Outcome:
        """Its own figures: what the receivers got. `--omit` takes whole seconds, so the beginning counts here."""
        spec = self.spec
        ways = {"forward": [], "backward": ["--reverse"], "both": ["--bidir"]}[direction]
        port, seconds = str(_IPERF_PORT), str(max(1, round(spec.duration_s)))
        serve = ["iperf3", "--server", "--one-off", "--bind", self.ends.server_address, "--port", port]
        ask = ["iperf3", "--client", self.ends.server_address, "--port", port, "--json", "--time", seconds, *ways]
        ask += ["--parallel", str(connections), "--connect-timeout", str(int(spec.patience_s * 1000))]
        with self._server(serve, _IPERF_PORT):
            report = json.loads(self._other(ask, spec.duration_s).stdout)
        return iperf3_outcome(report)

    def _web(self, connections: int) -> Outcome:
        host, spec = self.ends.server.host, self.spec
        with self._server(servers.nginx(host, self.folder, self.ends.server_address), servers.WEB_PORT):
            ask = servers.wrk(self.ends.server_address, connections, spec.duration_s)
            text = self._other(ask, spec.duration_s).stdout
        return Outcome(elapsed_s=servers.wrk_seconds(spec.duration_s), requests_per_s=servers.wrk_requests_per_s(text))

    def _memcached(self, connections: int) -> Outcome:
        address, duration_s = self.ends.server_address, self.spec.duration_s
        ask = servers.memcached_requests(self.ends.client.host, address, connections, duration_s)
        with self._server(servers.memcached(address), servers.MEMCACHED_PORT):
            report = json.loads(self._other(ask, duration_s).stdout)
        return Outcome(elapsed_s=report["elapsed_s"], requests_per_s=report["requests"] / report["elapsed_s"])

    def _server(self, argv: Sequence[str], port: int) -> contextlib.AbstractContextManager[Running]:
        log = self.folder / "server.log"
        return servers.running(self.ends.server.host, argv, port, log=log, cpu=self._server_cpu)

    def _other(self, argv: Sequence[str], duration_s: float) -> Completed:
        host = self.ends.client.host
        pinned = ["taskset", "-c", str(self.layout.tester_tx), *argv]
        done = host.run(pinned, check=False, timeout_s=duration_s + _GRACE_S)
        if done.returncode:
            raise Broken(f"{argv[0]}: {_complaint(done)}")
        return done

    @property
    def _server_cpu(self) -> int:
        """Of C's programs: the tester's, unless there is one to spare; on a machine of its own the last one."""
        if self.ends.server.lasting:
            return self.ends.server.host.cpus[-1]
        return next(iter(self.layout.housekeeping), self.layout.tester_tx)

    @staticmethod
    def _pinned(host: Host, cpu: int, arguments: Sequence[str]) -> list[str]:
        return ["taskset", "-c", str(cpu), bpf_program("xdpapp", host), *arguments]

    def _asked(self, server: Conversation) -> dict[str, Any]:
        server.send("")
        return self._said(server)

    @staticmethod
    def _said(server: Conversation) -> dict[str, Any]:
        try:
            line = server.receive(_READY_S)
        except EOFError:
            raise PointFailed(" | ".join(server.log_tail(2)) or "xdpapp: its server ended") from None
        if line is None:
            raise PointFailed(f"xdpapp: its server was not ready after {_READY_S:g} s")
        said: dict[str, Any] = json.loads(line)
        return said


def iperf3_outcome(report: dict[str, Any]) -> Outcome:
    """From its JSON (iperf 3.12 and 3.18).

    Raises:
        Broken: it says an error, or a field is missing.
    """
    if "error" in report:
        raise Broken(f"iperf3: {report['error']}")
    try:
        sums = [report["end"][name] for name in ("sum_received", "sum_received_bidir_reverse") if name in report["end"]]
        return Outcome(elapsed_s=sums[0]["seconds"], goodput_mbps=sum(each["bits_per_second"] for each in sums) / 1e6)
    except (KeyError, IndexError) as exc:
        raise Broken(f"iperf3: its report has no {exc}") from None


def _complaint(done: Completed) -> str:
    """iperf3 puts it into its JSON."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return str(json.loads(done.stdout)["error"])
    return done.complaint
