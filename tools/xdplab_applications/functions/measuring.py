# SPDX-License-Identifier: Apache-2.0
"""The trial of a network function: under traffic, or next to a program on its core while it drops a flood."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from xdplab.api import (
    DRAIN_S,
    UNDER_WAY_S,
    CountedFigures,
    Dut,
    Figure,
    Host,
    MethodResult,
    Point,
    PointFailed,
    Port,
    RateRecord,
    Running,
    Session,
    Shown,
    TrialResult,
    TrialSpec,
    Unsupported,
    untested,
)
from xdplab_applications import cpu_job, servers
from xdplab_applications.functions.nf import NfTraffic, XskFunctions
from xdplab_applications.functions.spec import FunctionsSpec
from xdplab_applications.servers import REQUESTS

ROUND_S = Figure(key="s_per_round", name="time of a round", unit="s per round", better="less", precision=1e6)


class NextToFlood(CountedFigures):
    """Of what runs on the core of a firewall."""

    #: Misses of the last-level cache on that core, or why they are not known.
    cache_misses: int | Shown


class ServedRecord(NextToFlood):
    """A server, such as memcached, next to a flood."""

    #: Requests that it answered.
    requests_per_s: float


class JobRecord(NextToFlood):
    """Of a job that only computes."""

    #: How long a round of it took.
    s_per_round: float


#: A flood begins half of this before what is measured next to it, and ends as long after.
FLOOD_MORE_S = 1.0


def traffic_of(point: Point) -> NfTraffic:
    """What becomes of a point's traffic."""
    found: dict[str, NfTraffic] = {name: name for name in get_args(NfTraffic)}
    return found[str(point.levels["traffic"])]


def under_traffic(session: Session, spec: FunctionsSpec) -> None:
    """Flooded by the tester: what came through, and what was dropped."""
    program = _program(session)
    # what the tester counts, it can tell from the warm-up itself: no trial of its own
    with_it = traffic_of(session.point) == "pass-through"
    warmup_s = spec.warmup_s if with_it else 0.0
    asked = TrialSpec(streams=program.streams(), duration_s=spec.duration_s, drain_s=DRAIN_S, warmup_s=warmup_s)

    def count() -> MethodResult:
        if not with_it:
            session.send(asked.model_copy(update={"duration_s": spec.warmup_s, "drain_s": UNDER_WAY_S}))
        begin = program.frames_dropped()
        result = session.send(asked)
        received = program.frames_dropped() - begin + result.received
        if not received:
            raise PointFailed("nothing was received")
        kind = traffic_of(session.point)
        wrong = {"dropped": result.received, "pass-through": received - result.received}.get(kind, 0)
        if wrong:
            raise PointFailed(f"{wrong} frames got the wrong verdict")
        _be_sure(program)
        return MethodResult(result, RateRecord.counted(received / result.elapsed_s, result, limited=True))

    session.measure_by(asked, count)


def beside_a_flood(session: Session, spec: FunctionsSpec) -> None:
    """What a server or a job does meanwhile."""
    program, kind = _program(session), traffic_of(session.point)
    flooded = bool(program.point.flood_pps)
    seconds = seconds_asked(kind, spec.duration_s) + (FLOOD_MORE_S if flooded else 0.0)
    asked = TrialSpec(streams=program.streams() if flooded else (), duration_s=seconds, drain_s=DRAIN_S)
    beside = Colocated(kind, session.dut, session.client)

    def count() -> MethodResult:
        dut = session.dut
        with _flood(session, asked) as sent, cache_misses(dut.host, dut.layout.forwarder, dut.rundir) as misses:
            value, figure = beside.figure(spec.duration_s), ROUND_S if kind == "job" else REQUESTS
        _be_sure(program)
        record = JobRecord if kind == "job" else ServedRecord
        return MethodResult(sent(), record(text=f"{value:.4g} {figure.unit}", **{figure.key: value}, **misses))

    session.measure_by(asked, count)


@contextlib.contextmanager
def _flood(session: Session, asked: TrialSpec) -> Iterator[Callable[[], TrialResult]]:
    """Frames for the firewall from before something is measured until after it; its result when that is over."""
    if not asked.streams:
        yield lambda: untested(asked.duration_s)
        return
    with ThreadPoolExecutor(1) as pool:
        flooding = pool.submit(session.send, asked)
        time.sleep(FLOOD_MORE_S / 2)
        yield flooding.result


def _program(session: Session) -> XskFunctions:
    assert isinstance(session.forwarder, XskFunctions)
    return session.forwarder


def _be_sure(program: XskFunctions) -> None:
    """An option that is not in force, or a core without frames, is no measurement."""
    reason = program.ineffective() or program.idle_cores()
    if reason:
        raise Unsupported(reason)


#: Of the kernel: `cpu`, or `cpu_core` where cores differ.
_UNITS = ("/sys/bus/event_source/devices/cpu", "/sys/bus/event_source/devices/cpu_core")


def why_not(host: Host) -> str | None:
    """None, or why they cannot be counted here."""
    if not any(host.exists(unit) for unit in _UNITS):
        return "this machine shows no performance monitoring unit (none in /sys/bus/event_source/devices)"
    if host.run(["which", "perf"], check=False).returncode:
        return "perf is not installed; `apt-get install linux-perf` installs it"
    return None


def cache_misses_of(text: str) -> int | str:
    """From `perf stat -x,`: the count, or why there is none."""
    for line in text.splitlines():
        value, _, rest = line.partition(",")
        if "cache-misses" in rest:
            return int(value) if value.isdigit() else f"unsupported: perf says {value}"
    return f"unsupported: perf says {text.strip()[:120]!r}"


@contextlib.contextmanager
def cache_misses(host: Host, cpu: int, folder: Path) -> Iterator[dict[str, int | str]]:
    """Count until the block is over; then `cache_misses` is in the dictionary: a count, or `unsupported: ...`."""
    reason = why_not(host)
    if reason:
        yield {"cache_misses": f"unsupported: {reason}"}
        return
    log = folder / "perf.log"
    # perf prints when its own command ends, or at SIGINT
    process = host.start(["perf", "stat", "-x,", "-e", "cache-misses", "-C", str(cpu), "--", "sleep", "3600"], log=log)
    found: dict[str, int | str] = {}
    try:
        yield found
    finally:
        process.signal(2)
        process.wait(3.0)
        process.stop()
        found["cache_misses"] = cache_misses_of("\n".join(process.log_tail(5)))


# What runs on the core of a network function: a memcached or nginx behind it, or a job that only computes.
#
# Frames for a server here: an XDP program passes them to the stack of the port. An application on AF_XDP has taken them
# from there: it sends them into a pair of veths whose other end has the server's address, and what comes back from
# there out of the port.

_PREFIX = 24
_CONNECTIONS = 16
_PROGRAMS: dict[NfTraffic, tuple[str, ...]] = {"local": ("memcached",), "web": ("nginx", "wrk"), "job": ()}
#: Without them frames leave without a checksum, for the receiver on the same machine to trust.
_OFFLOADS = ("tx", "sg", "tso", "gso")


@dataclass(frozen=True)
class Colocated:
    """One of them on its place: the server on the function's core, its client on the tester's."""

    traffic: NfTraffic
    dut: Dut
    client: Port

    @property
    def _folder(self) -> Path:
        """Of the repetition; on the embedded testbed client and server share a machine."""
        return self.dut.rundir

    def why_not(self) -> str | None:
        """None, or why it cannot run here."""
        if self.client.lasting or self.client.simulated:
            return f"{self.traffic}: addresses are only given to ports of the embedded testbed"
        return servers.missing_program(self.dut.host, _PROGRAMS[self.traffic])

    @contextlib.contextmanager
    def way_to_the_stack(self, program: XskFunctions) -> Iterator[None]:
        """Addresses of client and server, and the veths to the stack where the program needs them."""
        tag = self.client.ifname.partition("-")[2]
        inner, outer = f"s0-{tag}", f"s1-{tag}"
        host = self.dut.host
        with contextlib.ExitStack() as stack:
            if self.traffic != "job":
                if program.takes_all:
                    host.run(["ip", "link", "add", inner, "type", "veth", "peer", "name", outer])
                    stack.callback(host.run, ["ip", "link", "delete", inner], check=False)
                    _set_up(host, (inner, outer))
                    program.stack_port = inner
                server = outer if program.takes_all else self.dut.ports[0].ifname
                _give_address(stack, self.client.host, servers.CLIENT, self.client.ifname)
                _give_address(stack, host, servers.SERVER, server)
            yield

    def figure(self, duration_s: float) -> float:
        """Requests per second, or seconds per round of the job.

        Raises:
            PointFailed: a program ended; the message holds its own words.
        """
        if self.traffic == "job":
            host = self.dut.host
            argv = [host.python, host.program(Path(cpu_job.__file__)), str(duration_s)]
            report = json.loads(self._output(self._start(host, argv)))
            return float(report["elapsed_s"] / max(report["rounds"], 1))
        with self._server() as server:
            text = self._ask(duration_s) if server.poll() is None else ""
            if server.poll() is not None:
                raise PointFailed(f"{_PROGRAMS[self.traffic][0]} ended: {' | '.join(server.log_tail(2))}")
        if self.traffic == "web":
            return servers.wrk_requests_per_s(text)
        report = json.loads(text)
        return float(report["requests"] / report["elapsed_s"])

    def _server(self) -> contextlib.AbstractContextManager[Running]:
        host = self.dut.host
        if self.traffic == "web":
            argv, port = servers.nginx(host, self._folder, servers.SERVER), servers.WEB_PORT
        else:
            argv, port = servers.memcached(servers.SERVER), servers.MEMCACHED_PORT
        return servers.running(host, argv, port, log=self._folder / "server.log", cpu=self.dut.layout.forwarder)

    def _ask(self, duration_s: float) -> str:
        host = self.client.host
        if self.traffic == "local":
            argv = servers.memcached_requests(host, servers.SERVER, _CONNECTIONS, duration_s)
        else:
            argv = servers.wrk(servers.SERVER, _CONNECTIONS, duration_s)
        return self._output(self._start(host, argv))

    def _start(self, host: Host, argv: Sequence[str]) -> Running:
        cpu = self.dut.layout.forwarder if self.traffic == "job" else self.dut.layout.tester_tx
        answer = self._folder / "answer"
        return host.start(argv, log=self._folder / "client.log", stdout=answer, cpus=[cpu])

    def _output(self, process: Running) -> str:
        try:
            code = process.wait(60.0)
            if code != 0:
                tail = " | ".join(process.log_tail(1))
                raise PointFailed(tail or f"{self.traffic}: its client ended with exit code {code}")
        finally:
            process.stop()
        return self.client.host.read(str(self._folder / "answer"))


def seconds_asked(traffic: NfTraffic, duration_s: float) -> float:
    """How long it is measured: wrk counts whole seconds."""
    return servers.wrk_seconds(duration_s) if traffic == "web" else duration_s


def _set_up(host: Host, names: Sequence[str]) -> None:
    for name in names:
        for feature in _OFFLOADS:
            host.run(["ethtool", "-K", name, feature, "off"], check=False)
        host.run(["ip", "link", "set", name, "up"])


def _give_address(stack: contextlib.ExitStack, host: Host, address: str, name: str) -> None:
    host.run(["ip", "address", "add", f"{address}/{_PREFIX}", "dev", name])
    stack.callback(host.run, ["ip", "address", "flush", "dev", name], check=False)
    stack.callback(host.run, ["ip", "neighbour", "flush", "dev", name], check=False)
