# SPDX-License-Identifier: Apache-2.0
"""A host on which an Open vSwitch seems to be installed: answers as real ones of 3.1.0 gave; notes what is run."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xdplab.forwarders import Dut, make_forwarder
from xdplab.hosts.base import Completed
from xdplab.model import CpuLayout, ForwarderSpec, XdplabError
from xdplab.model import Path as Way
from xdplab.testbed import Port

DPCTL_SHOW = """\
netdev@ovs-netdev:
  lookups: hit:1 missed:2 lost:0
  flows: 2
  port 0: ovs-netdev (tap)
  port 1: xdplab0 (tap)
  port 2: b0 (afxdp: {b0})
  port 3: b1 (afxdp: {b1})
"""
CONFIG = "n_rxq=1, use-need-wakeup=true, xdp-mode=native, xdp-mode-in-use=native"
RXQ_SHOW = """\
Displaying last 60 seconds pmd usage %
pmd thread numa_id 0 core_id 1:
  isolated : true
  port: b0                queue-id:  0 (enabled)   pmd usage: NOT AVAIL
  port: b1                queue-id:  0 (enabled)   pmd usage:  0 %
  overhead: NOT AVAIL
pmd thread numa_id 0 core_id 3:
  isolated : false
  overhead: NOT AVAIL
"""
DUMP_PORTS = """\
OFPST_PORT reply (OF1.5) (xid=0x2): 3 ports
  port LOCAL: rx pkts=0, bytes=0, drop=0, errs=0, frame=0, over=0, crc=0
           tx pkts=0, bytes=0, drop=3, errs=0, coll=0
           duration=2.529s
  port  "b0": rx pkts=6, bytes=474, drop=?, errs=?, frame=?, over=?, crc=?
           tx pkts=8, bytes=696, drop=?, errs=?, coll=?
           duration=2.291s
           CUSTOM Statistics
                      xsk_queue_0_rx_dropped=5, xsk_queue_0_rx_invalid_descs=0, xsk_queue_0_tx_invalid_descs=0,
"""
#: A port as the daemon with the offload tells it.
OFFLOADED_PORT = """  port  "%s": rx pkts=9, bytes=540, drop=?, errs=?, frame=?, over=?, crc=?
           tx pkts=9, bytes=540, drop=?, errs=?, coll=?
           duration=2.291s
           CUSTOM Statistics
                      xdp_flow_n_flows=2, xdp_flow_n_masks=1, xdp_flow_packets=%d, xdp_flow_misses=1,
"""
COVERAGE = """\
Event coverage, avg rate over last: 5 seconds, last minute, last hour,  hash=3d9f6c1f:
netdev_sent                0.0/sec     0.000/sec        0.0000/sec   total: 4
afxdp_cq_empty             0.4/sec     0.033/sec        0.0006/sec   total: 17
106 events never hit
"""
STATUS = '{"data":[["b0",["map",[%s]]],["xdplab0",["map",[["driver_name","tun"]]]],["b1",["map",[%s]]]],"headings":[]}'
#: What `grep` finds in the daemon of 3.1.0, among the keys that xdplab writes.
STOCK_KEYS = ("xdp-mode", "n_rxq", "use-need-wakeup", "pmd-maxsleep", "pmd-rxq-affinity", "tx-flush-interval",
              "emc-insert-inv-prob", "hw-offload")  # fmt: skip

#: Every option of the series as afxdp-facts 1.8 names it: option of the forwarder -> (key, a value, patch).
PATCHED = {
    "xsk_rx_ring": ("xsk-rx-ring", "512", "P1"),
    "xsk_tx_ring": ("xsk-tx-ring", "512", "P1"),
    "xsk_fill_ring": ("xsk-fill-ring", "1024", "P1"),
    "xsk_comp_ring": ("xsk-comp-ring", "1024", "P1"),
    "umem_frames": ("umem-frames", "8192", "P1"),
    "umem_frame_size": ("umem-frame-size", "2048", "P2"),
    "umem_headroom": ("umem-headroom", "0", "P2"),
    "umem_hugepages": ("umem-hugepages", "2M", "P3"),
    "busy_poll_us": ("busy-poll", "20", "P4"),
    "busy_poll_budget": ("busy-poll-budget", "128", "P4"),
    "prefer_busy_poll": ("prefer-busy-poll", "true", "P4"),
    "rx_wakeup": ("rx-wakeup", "recvfrom", "P6"),
    "tx_skb_budget": ("tx-skb-budget", "64", "P6"),
    "shared_umem": ("shared-umem", "group1", "P7"),
    "tx_copy": ("tx-copy", "auto", "P7"),
}
#: Those of the offload of flows; a stock daemon knows the first key for other offloads.
SERIES = "P9 (series 4.0.0-xdp)"
OFFLOAD = {
    "flow_offload": ("hw-offload", "true", SERIES),
    "flow_entries": ("xdp-flow-entries", "1024", SERIES),
    "flow_masks": ("xdp-flow-masks", "8", SERIES),
}
ALL_KEYS = (*STOCK_KEYS, *(key for key, _, _ in (PATCHED | OFFLOAD).values()), "netdev-afxdp/show")
LAYOUT = CpuLayout(tester_tx=0, forwarder=1, housekeeping=(0,))
MakeDut = Callable[..., Dut]


def forwarder(text: str) -> Any:
    """A forwarder from `name:option=value`."""
    return make_forwarder(ForwarderSpec.model_validate(text))


def dut_maker(rundir: Path) -> MakeDut:
    """`make(host)`: two ports on that host."""

    def make(host: "OvsHost", layout: CpuLayout = LAYOUT) -> Dut:
        ports = tuple(Port(role, host, role, "02:00:00:00:00:01", 1500, "/run/netns/B") for role in ("b0", "b1"))
        return Dut(host, ports, Way.THROUGH, layout, rundir)

    return make


class FakeRunning:
    """A process that runs until it is stopped."""

    pid = 4242

    def __init__(self, log: str) -> None:
        self.ended: int | None = None
        self._log = log

    def poll(self) -> int | None:
        return self.ended

    def wait(self, timeout_s: float) -> int | None:
        return self.ended

    def signal(self, number: int) -> None:
        self.ended = -number

    def stop(self, grace_s: float = 3.0) -> int:
        self.ended = 0
        return 0

    def log_tail(self, lines: int = 15) -> tuple[str, ...]:
        return tuple(self._log.splitlines()[-lines:])


class OvsHost:
    """Answers of one daemon; `runs` holds every command line."""

    name = "B"

    def __init__(self, keys: Sequence[str] = STOCK_KEYS, absent: Sequence[str] = (), log: str = "") -> None:
        self.keys = keys
        self.absent = absent
        self.log = log
        self.version = "ovs-vswitchd (Open vSwitch) 3.1.0\n"
        self.configs = {"b0": CONFIG, "b1": CONFIG}
        self.status = {"b0": "", "b1": ""}
        self.show = '"netdev-afxdp/show" is not a valid command'
        self.offloaded = {"b0": 0, "b1": 0}
        self.files: dict[str, str] = {f"/sys/class/net/{port}/mtu": "1500" for port in ("b0", "b1")}
        self.runs: list[list[str]] = []

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        self.runs.append(list(argv))
        out = self._answer(list(argv))
        return Completed(tuple(argv), 0 if out is not None else 1, out or "", "")

    def start(self, argv: Sequence[str], **_: Any) -> FakeRunning:
        self.runs.append(list(argv))
        for word in argv:
            for mark in ("--unixctl=", "--remote=punix:"):
                if word.startswith(mark):
                    Path(word.removeprefix(mark)).touch()
        return FakeRunning(self.log)

    def exists(self, path: str | Path) -> bool:
        return Path(path).exists()

    def read(self, path: str) -> str:
        if path not in self.files:
            raise XdplabError(f"{path}: no such file")
        return self.files[path]

    def _answer(self, argv: list[str]) -> str | None:
        if argv[0] == "stat":
            return "".join(f"{path}\n" for path in argv[3:] if path not in self.absent)
        if argv[0] == "test":
            return None if argv[2] in self.absent else ""
        if argv[0] == "grep":
            return "\0".join(("some text", *self.keys))
        if argv[0] == "readlink":
            return "/root/.cache/xdplab/ovs/0123456789abcdef\n"
        if argv[-1] == "--version":
            return self.version
        answers = {
            "dpctl/show": DPCTL_SHOW.format(**self.configs),
            "dpif-netdev/pmd-rxq-show": RXQ_SHOW,
            "netdev-afxdp/show": self.show,
            "coverage/show": COVERAGE,
        }
        if argv[-1] in answers:
            return answers[argv[-1]]
        if "dump-ports" in argv:
            return DUMP_PORTS + "".join(OFFLOADED_PORT % each for each in self.offloaded.items() if each[1])
        if "--columns=name,status" in argv:
            return STATUS % (self.status["b0"], self.status["b1"])
        if "--columns=name,error" in argv:
            return '{"data":[["b0",["set",[]]],["b1",["set",[]]]]}'
        return ""
