# SPDX-License-Identifier: Apache-2.0
"""Our own tester: drives `bpf/xdpgen`, the paced sender and the receiver inside the kernel."""

import contextlib
import json
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path as FilePath
from typing import Any, ClassVar

from pydantic import Field

from xdplab.hosts import Host, Running
from xdplab.hosts.bpf import built, why_not_built
from xdplab.hosts.kernel import why_no_buffers
from xdplab.hosts.waiting import how_it_ended, said_something
from xdplab.model import (
    FlowFigures,
    Model,
    PointFailed,
    StreamResult,
    StreamSpec,
    TestbedSpec,
    TrafficSpec,
    TrialResult,
    TrialSpec,
    do_each,
)
from xdplab.model.traffic import FCS_BYTES, HEADER_BYTES, IDENTITY_BYTES
from xdplab.model.trial import MAX_FLOWS
from xdplab.testbed import Port, Testbed, TesterPorts
from xdplab.testers.base import RxChoice, Tester, TesterContext, while_well
from xdplab.testers.calibrate import merged
from xdplab.testers.stream_json import STALL_NS, NewFlows, max_burst, stream_result
from xdplab.tools import program_digest

# A load that several CPUs send in parallel: its parts, each a stream with sequences of its own, and their sum.


@dataclass(frozen=True)
class Part:
    """What one CPU sends of a stream."""

    #: Number of the stream in the trial.
    of: int
    stream: StreamSpec
    cpu: int
    #: Of its flows, among those of the whole stream.
    first_flow: int = 0


def parts_of(trial: TrialSpec, cpus: Sequence[int]) -> list[Part]:
    """Loads in as many parts as there are CPUs; what is time-stamped is sent by the first."""
    found = []
    for index, stream in enumerate(trial.streams):
        several = cpus if stream.kind == "load" else cpus[:1]
        found += _split(index, stream, several[: stream.count or None])
    return found


def _split(index: int, stream: StreamSpec, cpus: Sequence[int]) -> list[Part]:
    """Equal rates. Frames leave in turns, or of a burst at once.

    Flows in turns are divided where that gives equal parts; each part has all of others, which are drawn again.
    """
    count = len(cpus)
    kind, _, burst = stream.departures.partition(":")
    divided = stream.flow_choice == "round-robin" and not stream.flows % count
    found, first_flow = [], 0
    for number, cpu in enumerate(cpus):
        turn_ns = number * 1e9 / stream.pps if stream.pps and kind != "burst" else 0.0
        flows = stream.flows // count if divided else stream.flows
        update: dict[str, Any] = {
            "pps": stream.pps / count if stream.pps else None,
            "count": stream.count // count + (number < stream.count % count),
            "start_ns": stream.start_ns + round(turn_ns),
            "flows": flows,
        }
        if kind == "burst":
            update["departures"] = f"burst:{int(burst) // count}" if int(burst) > count else "paced"
        found.append(Part(index, stream.model_copy(update=update), cpu, first_flow))
        first_flow += flows if divided else 0
    return found


def merge_parts(asked: StreamSpec, parts: Sequence[StreamResult]) -> StreamResult:
    """What became of a stream; gaps are those of the part that has the longest."""
    if len(parts) == 1:
        return parts[0]
    names = (
        "intended", "sent", "skipped", "received", "lost", "duplicated", "out_of_order", "achieved_pps", "rx_pps",
        "trailing_lost", "beyond_window",
    )  # fmt: skip
    sums = {name: sum(getattr(part, name) for part in parts) for name in names}
    known = {name: [getattr(part, name) for part in parts] for name in ("tx_drops", "on_schedule", "damaged")}
    gaps = [part.longest_gap_ns for part in parts]
    lost = [(part.last_lost + 1) / part.numbered for part in parts if part.last_lost is not None and part.numbered]
    return parts[0].model_copy(
        update={
            **sums,
            **{name: None if None in each else sum(each) for name, each in known.items()},
            "offered_pps": asked.pps,
            "lateness": merged([part.lateness for part in parts if part.lateness]),
            # as far into the whole as into its part
            "last_lost": round(max(lost) * sum(part.numbered for part in parts)) - 1 if lost else None,
            "longest_gap_ns": None if None in gaps else max(filter(None, gaps), default=0),
            "flow_figures": _flows(asked, [part.flow_figures for part in parts if part.flow_figures]),
        }
    )


def _flows(asked: StreamSpec, parts: Sequence[FlowFigures]) -> FlowFigures | None:
    """Divided flows one behind another; of drawn ones the sums. A load has no latencies."""
    if not parts:
        return None
    if sum(len(part.sent) for part in parts) == asked.flows:
        return FlowFigures(**{k: [x for part in parts for x in getattr(part, k)] for k in FlowFigures.model_fields})
    columns = {
        name: tuple(sum(each) for each in zip(*(getattr(part, name) for part in parts), strict=True))
        for name in ("sent", "received", "lost")
    }
    return parts[0].model_copy(update=columns)


#: A live frame has one page, with the kernel's headroom and data in it (bpf/xdpgen/config_check.c).
_LIVE_BYTES = 3304
_WHY_XSK = f"frames above {_LIVE_BYTES:,} bytes do not fit the page of a live frame: AF_XDP sends them, from one CPU"
#: Of the program's answer.
_DETAIL = ("batch", "started_ns", "ports", "threads", "warmup", "tx_drops_reason")


class XdpgenOptions(Model):
    """Options of `xdpgen:option=value`."""

    #: Count each flow by itself too: 1 to 6 ns more for each frame, on the core that receives.
    flow_figures: bool = False
    #: CPUs that send for each port, of those that the testbed file has (`senders`); None: all.
    senders: int | None = Field(default=None, ge=1, le=8)


class Xdpgen(Tester):
    """BPF_PROG_TEST_RUN with live frames to send, an XDP or tc program to receive."""

    name: ClassVar[str] = "xdpgen"
    rx_programs: ClassVar[tuple[str, ...]] = ("tc", "xdp")
    knows_tunnelled: ClassVar[bool] = True
    several_senders: ClassVar[bool] = True
    sends_requests: ClassVar[bool] = True
    largest_frame: ClassVar[int] = 9724
    options_model: ClassVar[type[Model]] = XdpgenOptions

    def __init__(self, options: XdpgenOptions | None = None) -> None:
        self.options = options or XdpgenOptions()
        #: By the ends of a path, where paths take turns.
        self._sessions: dict[tuple[str, ...], _Session] = {}
        #: Whether something of it is at the ports between trials: sockets of AF_XDP, or a reflector elsewhere.
        self._at_ports = False
        self._new_flows = NewFlows()

    def unsupported(self, testbed: Testbed) -> str | None:
        """The program must be built, and there must be as many CPUs as are asked for."""
        asked, there = self.options.senders or 1, testbed.spec.senders
        if asked > there:
            return f"senders={asked}: the testbed file has senders: {there}"
        return why_not_built("xdpgen", testbed.tester_host)

    def senders(self, testbed: TestbedSpec) -> int:
        return self.options.senders or testbed.senders

    def choose_rx(self, redirects: bool) -> RxChoice:
        """Prefer tc: it spares the forwarder's core veth's NAPI and its copy; only XDP redirect needs NAPI."""
        if redirects:
            return RxChoice("xdp", "a forwarder of this run redirects by XDP, which needs NAPI at the receiver")
        return RxChoice("tc", "no forwarder of this run needs NAPI at the receiver, so its core is spared it")

    def supports_traffic(self, traffic: TrafficSpec, ports: TesterPorts) -> str | None:
        """Figures of each flow are bounded, or a record would explode; large frames need a kernel that sends them."""
        host = ports.first.host
        if max(traffic.sizes) > _LIVE_BYTES and ports.first.in_kernel and (why := why_no_buffers(host)):
            return f"frame_bytes: {max(traffic.sizes):,}: {why}"
        if self.options.flow_figures and traffic.flows > MAX_FLOWS:
            return f"flow_figures=true: of {MAX_FLOWS:,} flows at the most, and this traffic has {traffic.flows:,}"
        return None

    def smallest_frame(self, ip: int, tag_bytes: int = 0) -> int:
        return max(64, HEADER_BYTES[ip] + tag_bytes + IDENTITY_BYTES + FCS_BYTES)

    def run(self, context: TesterContext, trial: TrialSpec) -> TrialResult:
        """A line to the process and one from it: it serves all trials until `close`. See `bpf/README.md`."""
        large = max(stream.frame_bytes for stream in trial.streams) > _LIVE_BYTES
        cpus = context.layout.tx_cpus[: self.options.senders]
        parts = parts_of(trial, cpus[:1] if large else cpus)
        divided = trial.model_copy(update={"streams": tuple(part.stream for part in parts)})
        streams = self._new_flows.objects(divided, context.ports)
        for part, each in zip(parts, streams, strict=True):
            each |= {"tx_cpu": part.cpu} if part.cpu != context.layout.tester_tx else {}
            each |= {"first_flow": part.first_flow} if part.first_flow else {}
        given = {
            "streams": streams,
            "sender": "xsk" if large else "auto",  # live frames where the kernel has them
            "flow_figures": self.options.flow_figures,
        }
        asked = {**_configuration(context, divided), **given}
        place = (context.host, context.workdir)
        if any(each.place != place for each in self._sessions.values()):
            self.close()
        # one for each path: with other ports a process loads all of its programs again
        ports = context.ports
        ends = tuple(f"{each.netns} {each.ifname}" for each in (ports.first, ports.last)) if context.beside else ()
        try:
            if ends not in self._sessions:
                self._sessions[ends] = _Session(context)
            session = self._sessions[ends]
            report = session.ask(asked, context, trial)
            self._at_ports = report["sender"] != "live" or context.ports.far
            if session.ends_with_thread:
                self.close()
            found = _result(report, trial, parts)
            return found.model_copy(update={"sender_reason": _WHY_XSK}) if large else found
        except BaseException:
            self.close()  # whatever it does now, it is not for the next trial
            raise

    def rest(self) -> None:
        """The process and its loaded programs stay; nothing is attached between trials."""
        if self._at_ports:
            self.close()

    def close(self) -> None:
        sessions, self._sessions, self._at_ports = self._sessions, {}, False
        do_each(self.name, *(session.stop for session in sessions.values()))

    def identity(self) -> Mapping[str, str] | None:
        """The programs, by their digests, and the settings."""
        programs = {name: program_digest(name) for name in ("xdpgen", "xdpfwd")}
        return {**programs, "sender": "auto", "options": self.options.model_dump_json()}

    @classmethod
    def versions(cls, host: Host) -> Mapping[str, str]:
        if why_not_built("xdpgen"):
            return {"xdpgen": "not built"}
        report = json.loads(host.run([built("xdpgen", host), "--version"]).stdout)
        return {"xdpgen": str(report.get("version")), "libbpf": str(report.get("libbpf"))}


class _Session:
    """A process of xdpgen, and one that reflects where the far port is on a machine of its own."""

    def __init__(self, context: TesterContext) -> None:
        #: What it was started for.
        self.place = (context.host, context.workdir)
        #: It dies with the thread that started it (PR_SET_PDEATHSIG), which may end in front of the next trial.
        self.ends_with_thread = threading.current_thread() is not threading.main_thread()
        with contextlib.ExitStack() as stack:
            argv = [built("xdpgen", context.host), "-"]
            self._process = context.host.converse(argv, log=context.workdir / "xdpgen.log")
            stack.callback(self._process.stop)
            if context.ports.far:
                stack.callback(_reflector(context).stop)
            self._started = stack.pop_all()

    def ask(self, asked: dict[str, Any], context: TesterContext, trial: TrialSpec) -> dict[str, Any]:
        """What it tells of a trial."""
        self._process.send(json.dumps(asked))
        line = while_well(self._receive, self._process, context, trial, "xdpgen")
        try:
            report = json.loads(line)
        except ValueError:
            report = None
        if not isinstance(report, dict) or "streams" not in report:
            raise PointFailed(f"xdpgen: answered {line[:80]!r}, which is no result")
        if report.get("error"):
            raise PointFailed(f"xdpgen: {report['error']}")
        return report

    def stop(self) -> None:
        do_each("xdpgen", partial(self._process.signal, signal.SIGTERM), self._started.close)

    def _receive(self, timeout_s: float) -> str | None:
        try:
            return self._process.receive(timeout_s)
        except EOFError:
            self._process.wait(1.0)
            ended = how_it_ended("xdpgen", self._process) or "xdpgen closed its output"
            raise PointFailed(f"{ended}: {' | '.join(self._process.log_tail(1)) or 'no message'}") from None


def _reflector(context: TesterContext) -> Running:
    """On a machine of its own the far port sends frames back by an XDP program of xdpfwd."""
    mirror = context.ports.mirror
    assert mirror is not None
    folder = FilePath(context.workdir)
    mirror.host.make_folder(folder)
    output = folder / "reflector.out"
    argv = [built("xdpfwd", mirror.host), f"--if0={mirror.ifname}", "--mode=native", "--hairpin"]
    process = mirror.host.start(argv, log=folder / "reflector.log", stdout=output)
    if not said_something(mirror.host, output, process, 5.0):
        process.stop()
        raise PointFailed(f"reflector on {mirror.host.name}: {' | '.join(process.log_tail(2)) or 'not ready'}")
    return process


def _configuration(context: TesterContext, trial: TrialSpec) -> dict[str, Any]:
    """The configuration object of xdpgen without its streams, which refer to ports by index."""
    ports = context.ports
    path_ports = [ports.first] if ports.last is ports.first else [ports.first, ports.last]
    described = [_port(port, context, reflect=False) for port in path_ports]
    if ports.mirror is not None and not ports.far:
        described.append(_port(ports.mirror, context, reflect=True))
    return {
        "ports": described,
        "warmup_s": trial.warmup_s,
        "duration_s": trial.duration_s,
        "drain_s": trial.drain_s,
        "drain_idle_s": trial.drain_idle_s or 0.0,
        "stall_ns": STALL_NS,
        "max_burst": max_burst(trial),
        **({"link_changes": True} if trial.link_changes else {}),
    }


def _sum(threads: Sequence[dict[str, Any]], key: str) -> int | None:
    """Over the senders; None where one does not tell."""
    known = [thread[key] for thread in threads if thread.get(key) is not None]
    return sum(known) if threads and len(known) == len(threads) else None


def _port(port: Port, context: TesterContext, *, reflect: bool) -> dict[str, Any]:
    return {
        "name": port.role,
        "netns": port.netns,
        "ifname": port.ifname,
        "tx_cpu": context.layout.tester_tx,
        "rx": "xdp" if reflect else context.rx_program,
        "reflect": reflect,
    }


def _result(report: dict[str, Any], trial: TrialSpec, parts: Sequence[Part]) -> TrialResult:
    found: list[list[StreamResult]] = [[] for _ in trial.streams]
    for item in report["streams"]:
        part = parts[item["id"]]
        found[part.of].append(stream_result(part.stream, item))
    streams = tuple(merge_parts(asked, each) for asked, each in zip(trial.streams, found, strict=True) if each)
    rx_cpus: dict[int, int] = {}
    for port in report["ports"]:
        for cpu, frames in port["rx_cpus"].items():
            rx_cpus[int(cpu)] = rx_cpus.get(int(cpu), 0) + frames
    threads = report["threads"]
    return TrialResult(
        tester="xdpgen",
        sender=report["sender"],
        sender_reason=report["sender_reason"],
        elapsed_s=report["elapsed_s"],
        interrupted=report["interrupted"],
        streams=streams,
        rx_cpus=rx_cpus,
        earlier=sum(port["earlier"] for port in report["ports"]),
        earlier_ns=max((port["earlier_ns"] for port in report["ports"]), default=0),
        rx_program=",".join(sorted({port["rx"] for port in report["ports"] if port["rx"] != "none"})),
        stalls=sum(thread["stalls"] for thread in threads),
        stalled_ns=sum(thread["stalled_ns"] for thread in threads),
        senders=max(1, len(threads)),
        longest_gap_ns=max((thread["longest_gap_ns"] for thread in threads), default=0),
        run_delay_ns=sum(thread["run_delay_ns"] for thread in threads),
        nonvoluntary_switches=sum(thread["nonvoluntary_switches"] for thread in threads),
        sending_ns=_sum(threads, "sending_ns"),
        sending_stalled_ns=_sum(threads, "sending_stalled_ns") or 0,
        handovers=_sum(threads, "handovers"),
        link_changes=sum(port["link_changes"] for port in report["ports"]),
        # `started_ns` is of CLOCK_MONOTONIC there
        detail={name: report[name] for name in _DETAIL if name in report},
    )
