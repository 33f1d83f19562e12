# SPDX-License-Identifier: Apache-2.0
"""TRex as tester: a server of our own on the tester's ports, or one that runs already, and the bridge to it.

Cards can be its own (`trex` of a port in the testbed file); the kernel knows nothing of them then. Otherwise TRex
reaches Linux interfaces over AF_PACKET only (released versions lack the AF_XDP driver), so what it reports holds
its own way through two AF_PACKET rings. The calibration on the direct link says how much that is.
"""

import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from xdplab.forwarders.options import RawOptions
from xdplab.hosts import Host, LocalHost
from xdplab.hosts.kernel import napi_on, thread_use
from xdplab.model import (
    Calibration,
    InputError,
    Missing,
    Model,
    NamesProgram,
    PointFailed,
    StreamSpec,
    TestbedSpec,
    TrafficSpec,
    TrialResult,
    TrialSpec,
    XdplabError,
    do_each,
)
from xdplab.model.traffic import FCS_BYTES, HEADER_BYTES
from xdplab.testbed import Port, Testbed, TesterPorts
from xdplab.testers.base import OWN_CARDS, RxChoice, Tester, TesterContext
from xdplab.testers.packets import build, ends_of, headers_of
from xdplab.testers.trex_cards import CardsServer, address, why_not_startable
from xdplab.testers.trex_server import (
    ASYNC_PORT,
    HOW_TO_GET,
    SYNC_PORT,
    Bridge,
    Mode,
    Server,
    TrexServer,
    bridge_command,
    find,
    why_not_dedicated,
)
from xdplab.testers.trex_streams import behind_known, fields_of, intended_frames, trial_result, why_no_fields

_TRAILER_BYTES = 16
_ANSWER_TIMEOUT_S = 60.0
#: Where there is no direct link; where the search for the top rate begins; and what makes it go on.
_TOP_PPS, _FIRST_PPS, _MORE, _TRIES = 1e6, 62_500.0, 1.05, 2
_PLAIN, _WITH_NAPI = "af_packet", "af_packet, NAPI on"


class TrexOptions(RawOptions):
    """`trex:path=/opt/trex/v3.08,mode=low-end`, or `trex:server=10.0.0.5` for a server that runs already."""

    raw_places: ClassVar[Mapping[str, str]] = {"config": "a key of trex_cfg.yaml, as rx_desc or memory.mbuf_64"}

    #: Folder of a TRex release (default: XDPLAB_TREX, or where t-rex-64 is on PATH).
    path: Annotated[str, NamesProgram()] = ""
    #: `ADDRESS[:sync port[:async port]]` of a running server, whose ports `ports` are the testbed's tester ports.
    server: str = ""
    #: TRex numbers of the first and the last tester port, as `0+1`; the testbed file has those of its own cards.
    ports: str = Field(default="0+1", pattern=r"^\d+\+\d+$")
    #: `low-end`: all threads on the tester's CPU; `dedicated`: three CPUs that spin; `auto`: dedicated where there are.
    mode: Mode = "auto"
    #: `t-rex-64 --software`: software and no filter of the card picks the frames that are timed. For TRex's own cards
    #: whose filters do not work, such as emulated ones; a server that runs already has its own command line.
    software: bool = False
    user: str = "xdplab"
    #: What "as fast as it can" asks for: TRex has no such mode, and asked for far more it wastes its CPU on drops.
    #: None: what its calibration finds, 1e6 where there is no direct link.
    top_pps: float | None = Field(default=None, gt=0)


class _Session:
    """A server and the bridge to it, of two ports: from trial to trial."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.server: Server | None = None
        self.bridge: Bridge | None = None
        self.ports: tuple[Port, Port] | None = None
        self.facts: dict[str, Any] = {}
        self.napi = ExitStack()

    def sleep(self) -> None:
        """An idle server still polls, on the CPU of the active one; its client would miss what it publishes."""
        for each in (self.bridge, self.server):
            if each is not None:
                each.signal(signal.SIGSTOP)

    def wake(self) -> None:
        for each in (self.server, self.bridge):
            if each is not None:
                each.signal(signal.SIGCONT)

    def close(self) -> None:
        """End bridge and server, and put NAPI back."""
        self.wake()
        running = [each.stop for each in (self.bridge, self.server) if each is not None]
        self.bridge = self.server = self.ports = None
        do_each("trex", *running, self.napi.close)


class Trex(Tester):
    """Keeps a server and a bridge for two ports from trial to trial.

    Where forwarders take turns there is one for each, and all but one are asleep; else they are for the last ports.
    """

    name: ClassVar[str] = "trex"
    options_model: ClassVar[type[Model]] = TrexOptions
    rx_programs: ClassVar[tuple[str, ...]] = (_PLAIN, _WITH_NAPI, OWN_CARDS.program)
    one_host: ClassVar[bool] = True
    owns_cards: ClassVar[bool] = True
    loses_by_itself: ClassVar[bool] = True
    cannot: ClassVar[Mapping[str, str]] = {
        "recovery": "TRex does not tell which frame was lost last, so the time of recovery is not known",
        "reset": "TRex does not measure the gap between two frames that arrive",
    }

    options: TrexOptions

    def __init__(self, options: TrexOptions | None = None) -> None:
        self.options = options or TrexOptions()
        #: Where the bridge writes down its exchange with TRex, and whether the server keeps histograms, without which
        #: nothing is measured (both for `python tools/dev record trex`).
        self.record: Path | None = None
        self.histograms = True
        self._testbed: TestbedSpec | None = None
        self._address = "127.0.0.1"
        self._active = _Session()
        #: Of forwarders that take turns, by namespace and interface of their ports.
        self._sessions: dict[tuple[str, ...], _Session] = {}
        self._top_pps = self.options.top_pps or _TOP_PPS

    def find_top_rate(self, send: Callable[[float], TrialResult]) -> None:
        """The rate at which most frames come through: twice as many are asked for as long as that brings more."""
        if self.options.top_pps is not None:
            return
        asked, most = _FIRST_PPS, 0.0
        while True:
            came = (send(asked).streams[0].rx_pps for _ in range(_TRIES))  # one may meet a stall
            more = next((pps for pps in came if pps > most * _MORE), None)
            if more is None:
                return
            self._top_pps, most, asked = asked, more, 2 * asked

    def calibrated(self, found: Calibration) -> None:
        """Of an earlier run the rate is known as well."""
        if self.options.top_pps is None:
            self._top_pps = found.top_pps

    def unsupported(self, testbed: Testbed) -> str | None:
        """The program must be there, and its two ports on one host; or its cards, and how it is started."""
        self._testbed = testbed.spec
        if find(self.options.path) is None:
            needed = "the client library of " if self.options.server else ""
            return needed + HOW_TO_GET
        given = testbed.spec.ports.get("a0")
        has_cards = given is not None and given.trex is not None
        own_file = self.options.server or has_cards
        if self.options.raw_of("config") and own_file:
            return "raw.config: this TRex has a configuration file of its own; write it there"
        if self.options.software and (self.options.server or not has_cards):
            return "software=true is for a TRex with cards of its own that xdplab starts"
        if self.options.server:
            return None
        if has_cards:
            self._address = address(testbed)
            asked_before = not testbed.ports  # it is asked again once the hosts are connected
            return None if asked_before or self._active.server is not None else why_not_startable(testbed)
        if not isinstance(testbed.tester_host, LocalHost):
            return (
                f"a TRex server is started on this machine only, and the tester's ports are on "
                f"{testbed.tester_host.name}; start TRex there and name it: trex:server=ADDRESS"
            )
        first, last = testbed.ports["a0"], testbed.ports["c0"]
        if first.netns != last.netns:
            return "TRex measures latency only between ports of one server, and this testbed's are on two hosts"
        return why_not_dedicated(testbed.layout, self.options.mode)

    def unproven(self) -> tuple[str, ...]:
        return self.options.raw_names

    def supports_path(self, ports: TesterPorts) -> str | None:
        """TRex sends and receives; it cannot send frames back at the far end."""
        return None if ports.first is not ports.last else "TRex needs two ports, and cannot reflect at the far end"

    def choose_rx(self, redirects: bool) -> RxChoice:
        """A veth peer takes redirected frames only with NAPI on."""
        if redirects:
            return RxChoice(_WITH_NAPI, "a forwarder of this run redirects by XDP, which needs NAPI at the receiver")
        return RxChoice(_PLAIN, "TRex reads Linux interfaces over AF_PACKET")

    def supports_traffic(self, traffic: TrafficSpec, ports: TesterPorts) -> str | None:
        """Its field engine counts or draws evenly, and takes each address with each port; departures are paced."""
        if traffic.departures != "paced":
            return f"departures: {traffic.departures}: what xdplab asks of TRex is paced; tester: xdpgen or xsk"
        if traffic.new_flows_pps:
            return "new_flows_pps: TRex has the warm-up's flows again in the trial, not new ones; tester: xdpgen or xsk"
        stream = StreamSpec(kind="load", pps=None, frame_bytes=64, **traffic.headers)
        return why_no_fields(headers_of(stream, ports), traffic)

    def smallest_frame(self, ip: int, tag_bytes: int = 0) -> int:
        return max(64, HEADER_BYTES[ip] + tag_bytes + _TRAILER_BYTES + FCS_BYTES)

    def run(self, context: TesterContext, trial: TrialSpec) -> TrialResult:
        """One trial over the bridge; a server that died is restarted for the next one."""
        try:
            return self._run(context, trial)
        except XdplabError as exc:
            server, ended = self._active.server, self.server_ended()
            why = server.why_silent() if server is not None else None
            self._active.close()
            if why:
                raise PointFailed(why if str(exc) in (ended, why) else f"{why}; {exc}") from None
            raise
        except BaseException:
            self._active.close()  # whatever it does now, it is not for the next trial
            raise

    def close(self) -> None:
        """End bridges and servers, and put NAPI back."""
        sessions = {id(each): each for each in (self._active, *self._sessions.values())}
        self._active, self._sessions = _Session(), {}
        do_each(self.name, *(each.close for each in sessions.values()))

    @classmethod
    def versions(cls, host: Host) -> Mapping[str, str]:
        """Folder of the release; the server's own version is in each trial's detail."""
        found = find()
        return {"trex": str(found.folder) if found else "absent"}

    def _run(self, context: TesterContext, trial: TrialSpec) -> TrialResult:
        numbers = self._numbers(context.ports)
        streams = [
            self._described(stream, place, context.ports, trial.duration_s, numbers)
            for place, stream in enumerate(trial.streams)
        ]
        self._connect(context, numbers, streams[0]["frame"])
        assert self._active.bridge is not None
        before = self._uses()
        report = self._active.bridge.ask(
            "trial",
            timeout_s=_ANSWER_TIMEOUT_S + trial.warmup_s + trial.duration_s + trial.drain_s,
            well=lambda: context.check_alive() or self.server_ended(),
            streams=streams,
            warmup_s=trial.warmup_s,
            duration_s=trial.duration_s,
            drain_s=trial.drain_s,
        )
        after = self._uses()
        result = trial_result(trial, report, [stream["port"] for stream in streams])
        threads = after.keys() & before.keys()
        server = self._active.facts
        return result.model_copy(
            update={
                "sender": f"trex {server['version']} over {'+'.join(sorted(set(server['drivers'])))}",
                "sender_reason": self._how(),
                "rx_program": context.rx_program,
                "rx_cpus": {self._receiving_cpu(context): result.received},
                "run_delay_ns": sum(max(0, after[tid].run_delay_ns - before[tid].run_delay_ns) for tid in threads),
                "nonvoluntary_switches": sum(
                    after[tid].nonvoluntary_switches - before[tid].nonvoluntary_switches for tid in threads
                ),
                "detail": {**result.detail, **self._active.facts},
            }
        )

    def macs(self, context: TesterContext) -> tuple[str, str]:
        """As its server tells of its ports; the bridge is another one, for the trials' takes the ports."""
        ports, numbers = (context.ports.first, context.ports.last), self._numbers(context.ports)
        if ports[0].trex is None:
            return super().macs(context)
        try:
            self._active.bridge, address = self.start(context, ports, self._folder(context))
            found = self._active.bridge.ask(
                "ports", timeout_s=_ANSWER_TIMEOUT_S, well=context.check_alive, **self._where(address)
            )
        finally:
            if self._active.bridge is not None:
                self._active.bridge.stop()
            self._active.bridge = None
        there = {port["index"]: str(port["src_mac"]).lower() for port in found["ports"]}
        missing = [number for number in numbers if number not in there]
        if missing:
            raise InputError(f"trex: the server has no port {missing[0]}; it has {sorted(there)}")
        return there[numbers[0]], there[numbers[1]]

    def _numbers(self, ports: TesterPorts) -> list[int]:
        """Of the testbed file's cards, or as the option says."""
        own = [port.trex for port in (ports.first, ports.last) if port.trex is not None]
        return own or [int(number) for number in self.options.ports.split("+")]

    def _where(self, address: str) -> dict[str, Any]:
        name, *tcp_ports = address.split(":")
        sync_port, async_port = (*map(int, tcp_ports), *(SYNC_PORT, ASYNC_PORT)[len(tcp_ports) :])
        return {"server": name, "sync_port": sync_port, "async_port": async_port, "user": self.options.user}

    def _folder(self, context: TesterContext) -> Path:
        """A fresh one on this machine, for each session."""
        folder = context.workdir.with_suffix(f".trex{self._active.number or ''}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        return folder

    def _connect(self, context: TesterContext, numbers: list[int], frame: str) -> None:
        """Server, bridge and ports for these ports, unless they are there already."""
        ports = (context.ports.first, context.ports.last)
        if ports[0].trex is None:  # a server of cards has all of them
            self._switch_to(ports, beside=context.beside)
        if self._active.bridge is not None and self._active.ports == ports:
            return
        if self._active.bridge is not None:
            self._active.bridge.stop()
        self._active.bridge, address = self.start(context, ports, self._folder(context))
        self._active.facts = self._active.bridge.ask(
            "connect",
            timeout_s=_ANSWER_TIMEOUT_S,
            well=context.check_alive,
            **self._where(address),
            ports=numbers,
            frame=frame,
        )
        if self._active.server is not None:
            self._active.facts = {**self._active.facts, "server_start_s": round(self._active.server.start_s, 2)}
        self._active.ports = ports

    def _switch_to(self, ports: tuple[Port, Port], *, beside: bool) -> None:
        if beside:
            ends = tuple(f"{each.netns} {each.ifname}" for each in ports)
            session = self._sessions.setdefault(ends, _Session(len(self._sessions) + 1))
            if session is not self._active:
                self._active.sleep()
                self._active = session
                session.wake()
            if session.ports not in (None, ports):
                session.close()
        elif self._active.ports != ports:
            self.close()

    def start(self, context: TesterContext, ports: tuple[Port, Port], folder: Path) -> tuple[Bridge, str]:
        """A bridge, and the address of the server that it shall talk to, which is started unless it runs already."""
        installation = find(self.options.path)
        if installation is None:
            raise Missing(HOW_TO_GET)
        host, address = LocalHost(), self.options.server
        if not address and ports[0].trex is not None:
            assert self._testbed is not None  # asked by `unsupported`
            address = self._address
            if self._active.server is None:
                self._active.server = CardsServer(
                    context.host, self._testbed, context.workdir.parent,
                    histograms=self.histograms, software=self.options.software,
                )  # fmt: skip
                self._active.server.start(folder, context.check_alive)
        elif not address:
            if context.rx_program == _WITH_NAPI:
                self._active.napi.enter_context(
                    napi_on([(port.host, port.ifname) for port in ports if port.netns is not None])
                )
            self._active.server = TrexServer(
                installation,
                ports,
                context.layout,
                self.options.mode,
                self.histograms,
                self.options.raw_of("config"),
            )
            self._active.server.start(folder, context.check_alive)
            assert isinstance(ports[0].host, LocalHost)
            host, address = ports[0].host, "127.0.0.1"
        return Bridge(host, bridge_command(installation.libraries, self.record), folder / "bridge.log"), address

    def server_ended(self) -> str | None:
        """How a server of our own has ended; None while it runs, or when it is not ours."""
        return self._active.server.ended() if self._active.server is not None else None

    def _described(
        self, stream: StreamSpec, place: int, ports: TesterPorts, duration_s: float, numbers: list[int]
    ) -> dict[str, Any]:
        """A stream as the bridge takes it; see `trex/profiles/streams.py`."""
        headers, stream = behind_known(headers_of(stream, ports), stream)
        source, _ = ends_of(stream, ports)
        return {
            "kind": stream.kind,
            "port": numbers[0] if source is ports.first else numbers[1],
            "frame": build(headers, stream.frame_bytes, udp_checksum=False).hex(),
            "pps": self._top_pps if stream.pps is None else stream.pps,
            "count": intended_frames(stream, duration_s),
            "delay_us": stream.start_ns / 1000,
            "flows": stream.flows,
            "flow_offset": headers.flow_offset,
            **fields_of(headers, stream, place),
        }

    def _uses(self) -> dict[int, Any]:
        """Scheduler facts of the server's threads, so far."""
        if self._active.server is None:
            return {}
        uses = {}
        for tid in self._active.server.threads():
            try:
                uses[tid] = thread_use(self._active.server.host, self._active.server.pid, tid)
            except XdplabError:
                continue
        return uses

    def _how(self) -> str:
        if self._active.server is None:
            return f"a running server at {self.options.server}"
        if isinstance(self._active.server, CardsServer):
            return "cards and CPUs of its own, as its configuration says"
        if len(self._active.server.cpus) == 1:
            return f"low-end mode: all its threads on CPU {self._active.server.cpus[0]}, sleeping between frames"
        return "master, receive and transmit threads on CPUs " + ", ".join(map(str, self._active.server.cpus))

    def _receiving_cpu(self, context: TesterContext) -> int:
        cpus = self._active.server.cpus if self._active.server else ()
        return cpus[min(1, len(cpus) - 1)] if cpus else context.layout.tester_tx
