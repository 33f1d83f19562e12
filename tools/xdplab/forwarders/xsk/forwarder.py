# SPDX-License-Identifier: Apache-2.0
"""`bpf/xsk`: forwarding between AF_XDP (or AF_PACKET) sockets without a switch, the upper bar of all that have one."""

import json
import math
import signal
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from xdplab.forwarders.base import Counting, Dut, Forwarder, ProbeTarget
from xdplab.forwarders.options import LATER, SocketOptions
from xdplab.forwarders.process import EventProcess, InstanceForwarder
from xdplab.hosts import Host
from xdplab.hosts.bpf import built, why_not_built
from xdplab.hosts.kernel import why_no_tx_skb_budget, why_no_zero_copy
from xdplab.model import Model, PointFailed, Unsupported
from xdplab.model.study import OnePortRole

_HUGEPAGE_BYTES = 2 << 20
_PORTS = 2
_ROLES: dict[OnePortRole, str] = {"rxdrop": "sink", "txonly": "gen", "l2fwd": "reflect", "stages": "sink"}


class XskOptions(SocketOptions):
    """Options of forwarder `xsk`."""

    #: One UMEM for both ports, so that a frame is sent from where it was received; else it is copied.
    shared_umem: bool = True
    batch: int = Field(default=64, ge=1, le=512)
    touch: Literal["none", "read", "macswap"] = "none"
    hugepages: bool = False
    #: Sockets per queue, on one UMEM.
    sockets: int = Field(default=1, ge=1, le=8)
    #: False: the thread may run on the housekeeping CPUs as well.
    pinned: bool = True
    #: One batch in so many passes the static probes, and is stamped while records are wanted.
    trace_every: int = Field(default=1, ge=1, le=1_000_000)

    @property
    def umem_bytes(self) -> int:
        """Memory of all UMEMs (`frames_wanted` in bpf/io/umem.c)."""
        umems = 1 if self.shared_umem else _PORTS
        frames = self.frames * umems or (self.rx_ring + self.fill_ring + self.tx_ring) * _PORTS
        return frames * self.chunk_bytes


def _napi(number: int | None) -> str:
    return "unnumbered" if number is None else str(number)


class XskForwarder(InstanceForwarder[XskOptions, EventProcess], Counting):
    """`bpf/xsk`, role `forward`; role `reflect` on `hairpin`."""

    name: ClassVar[str] = "xsk"
    plain: ClassVar[str] = "AF_XDP program xsk"
    options_model: ClassVar[type[Model]] = XskOptions
    #: How long it may take to open everything.
    ready_s: ClassVar[float] = 10.0

    def required_knobs(self) -> dict[str, int]:
        """Hugepages are reserved and given back by the run."""
        if not self.options.hugepages or self.options.backend != "af_xdp":
            return {}
        return {"hugepages_2m": _PORTS + math.ceil(self.options.umem_bytes / _HUGEPAGE_BYTES)}

    def one_buffer(self) -> str:
        return "it has sockets and slots for one buffer"

    def unsupported(self, dut: Dut) -> str | None:
        """The program must be built; zero-copy needs a driver that has it, a budget for sending a kernel."""
        without = why_not_built("xsk", dut.host)
        if without is None and self.options.wants_tx_skb_budget:
            without = why_no_tx_skb_budget(dut.host)
        if without:
            return without
        if self.options.bind == "zero-copy":
            return why_no_zero_copy(dut.host, *(port.ifname for port in dut.ports))
        return None

    def start(self, dut: Dut) -> None:
        """Open the sockets and wait for the ready line, which tells what is in use."""
        output = dut.rundir / "xsk.out"
        running = dut.host.start(
            [built("xsk", dut.host), "-"],
            stdin=json.dumps(self._configuration(dut)),
            stdout=output,
            log=dut.rundir / "xsk.log",
            # its main thread leaves the CPU of the forwarding thread
            cpus=sorted({*dut.layout.housekeeping[:1], dut.layout.forwarder}),
        )
        self.instance = EventProcess("xsk", "xsk", dut, running, output)
        self.instance.until_ready(self.ready_s)
        idle = self._carries_nothing(dut)
        if idle:
            raise Unsupported(idle)

    def ineffective(self) -> str | None:
        """Busy polling may be set on a socket that the kernel never polls."""
        return self.options.not_in_force(self._sockets())

    def _sockets(self) -> list[dict[str, Any]]:
        """As the ready line tells of them, with what frames have brought since."""
        ready, now = self._ready()["sockets"], self.counters()["sockets"]
        return [{**sock, **{key: of_now[key] for key in LATER}} for sock, of_now in zip(ready, now, strict=True)]

    def _ready(self) -> dict[str, Any]:
        return self.instance.events()[0]

    def _carries_nothing(self, dut: Dut) -> str | None:
        """Why zero-copy sockets would be silent although the kernel took every setting."""
        ready = self._ready()
        modes = {port["ifname"]: port["xdp_mode"] for port in ready["ports"]}
        for sock in (each for each in ready["sockets"] if each["zero_copy"]):
            ifname, queue = sock["ifname"], sock["queue"]
            if modes[ifname] == "generic":
                return (
                    f"{ifname}: its socket has the zero-copy flag, but the XDP program is generic and sees no "
                    "zero-copy frame; mode=native, or bind=copy"
                )
            if sock["busy_poll_active"] and self.options.prefer_busy_poll:
                napis = dut.host.queue_napis(ifname, queue)
                # the kernel then wakes nobody to send (xsk_no_wakeup), and polls the NAPI that receives
                if napis["rx"] is not None and napis["tx"] != napis["rx"]:
                    return (
                        f"prefer_busy_poll: on {ifname} queue {queue} sends and receives in NAPIs of their own "
                        f"({_napi(napis['tx'])}, {_napi(napis['rx'])}) and only the receiving one is polled: zero-copy "
                        "frames stay unsent; more channels may pair them (igb: 8), else bind=copy"
                    )
        return None

    def forwarding_threads(self) -> dict[int, int]:
        """Its worker, as the ready line names it."""
        return {thread["tid"]: pid for pid in self.pids() for thread in self._ready()["threads"]}

    def probes(self, dut: Dut) -> ProbeTarget:
        if self.options.backend == "af_packet":
            raise Unsupported(f"{self.name}: its probes are followed from an XDP redirect; AF_PACKET has none")
        ((tid, pid),) = self.forwarding_threads().items()
        ifname = dut.ports[0].ifname if self.options.trace_every == 1 else None
        return ProbeTarget(built("xsk", dut.host), pid, tid, ifname, "xsk")

    def in_role(self, role: OnePortRole, frame_bytes: int) -> Forwarder[Any]:
        return XskRole(self.options, role, frame_bytes)

    def start_recording(self) -> None:
        self._switch_recording()

    def end_recording(self) -> dict[str, Any]:
        self._switch_recording()
        found: dict[str, Any] = json.loads(self.instance.dut.host.read(_trace(self.instance.dut)))
        return found

    def _switch_recording(self) -> None:
        """On, or off and written.

        Raises:
            PointFailed: it did not answer, or could not.
        """
        answer = self.instance.ask(signal.SIGUSR2, 3.0, "its trace")
        if answer["event"] != "trace" or answer["error"]:
            raise PointFailed(f"xsk: its trace: {self.crashed() or answer.get('error')}")

    def mode(self) -> dict[str, Any]:
        """What it read back from the kernel."""
        ready = {key: value for key, value in self._ready().items() if key not in ("event", "threads")}
        ready["sockets"] = self._sockets()
        if self.options.backend == "af_packet":
            return {"application": ready, "label": f"af_packet v{self.options.packet_version}"}
        return {"application": ready}

    def counters(self) -> dict[str, Any]:
        """Frames by socket, system calls, and the kernel's counters."""
        return self.instance.ask(signal.SIGUSR1, 5.0, "its counters")

    def monotonic(self, counters: dict[str, Any]) -> dict[str, Any]:
        """Sockets by `IFNAME queue QUEUE number NUMBER`, workers by number."""
        sockets = {}
        for row in counters.get("sockets", ()):
            numbers = {key: value for key, value in row.items() if key not in ("ifname", "queue", "number", "kernel")}
            name = f"{row['ifname']} queue {row['queue']} number {row['number']}"
            sockets[name] = {**numbers, "kernel": row["kernel"] or {}}
        workers = {str(number): row for number, row in enumerate(counters.get("workers", ()))}
        return {"sockets": sockets, "workers": workers}

    def versions(self, host: Host) -> Mapping[str, str]:
        return xsk_version(host)

    def _configuration(self, dut: Dut) -> dict[str, Any]:
        options = self.options.model_dump()
        pinned = {"cpus": [dut.layout.forwarder]} if options.pop("pinned") else {}
        return {
            "xdp_mode": options.pop("mode"),
            **options,
            **pinned,
            "trace": _trace(dut),
            "role": "reflect" if dut.hairpin else "forward",
            "ports": [{"ifname": port.ifname} for port in dut.ports],
        }


def xsk_version(host: Host) -> dict[str, str]:
    if why_not_built("xsk"):
        return {"xsk": "not built"}
    return {"xsk": str(json.loads(host.run([built("xsk", host), "--version"]).stdout)["version"])}


def _trace(dut: Dut) -> str:
    """Where it writes what it has stamped."""
    return str(dut.rundir / "xsk.trace")


class XskRole(XskForwarder):
    """`bpf/xsk` with one port: sink, source or reflector."""

    def __init__(self, options: XskOptions, workload: OnePortRole, frame_bytes: int) -> None:
        super().__init__(options)
        self._workload: OnePortRole = workload
        self._frame_bytes = frame_bytes

    def _configuration(self, dut: Dut) -> dict[str, Any]:
        asked = {**super()._configuration(dut), "role": _ROLES[self._workload], "trace": None}
        if self._workload == "l2fwd" and "touch" not in self.options.model_fields_set:
            asked.pop("touch")  # a reflector swaps addresses unless configured otherwise
        if self._workload == "stages":
            asked["stages"] = True
        if self._workload == "txonly":
            port = dut.ports[0]
            asked["streams"] = [
                {"id": 0, "kind": "load", "tx_port": 0, "rx_port": 0, "pps": None, "frame_bytes": self._frame_bytes,
                 "src_mac": port.mac, "dst_mac": "02:00:00:00:00:01", "src_ip": "198.18.0.1", "dst_ip": "198.19.0.1"}
            ]  # fmt: skip
        return asked

    def counters(self) -> dict[str, Any]:
        """Without the histograms of `stages`, which are what is measured."""
        return {name: value for name, value in super().counters().items() if name != "stages"}

    def stages(self) -> dict[str, Any]:
        """What it tells of the frames' stages so far."""
        found: dict[str, Any] = super().counters()["stages"]
        return found

    def frames_received(self) -> int:
        """By its own count, up to now."""
        return int(sum(sock["rx"] for sock in self.counters()["sockets"]))
