# SPDX-License-Identifier: Apache-2.0
"""A host on which an Open vSwitch seems to be installed: answers as real ones of 3.1.0 gave; notes what is run."""

import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xdplab.forwarders import Dut, make_forwarder
from xdplab.hosts.agent.netlink import Link
from xdplab.hosts.base import Completed
from xdplab.model import CpuLayout, ForwarderSpec, Path as Way, XdplabError
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
#: To `ovs_openflow.ASK`, of a daemon with an AF_XDP port on veth and an internal one.
PORTS = bytes.fromhex((Path(__file__).parents[1] / "data" / "ovs-3.1.0-ports.hex").read_text(encoding="ascii"))
COVERAGE = """\
Event coverage, avg rate over last: 5 seconds, last minute, last hour,  hash=3d9f6c1f:
netdev_sent                0.0/sec     0.000/sec        0.0000/sec   total: 4
afxdp_cq_empty             0.4/sec     0.033/sec        0.0006/sec   total: 17
106 events never hit
"""
#: Of this daemon two threads, of which that on core 1 had frames of pipeline `conntrack`.
STATS_SHOW = (Path(__file__).parents[1] / "data" / "ovs-3.1.0-pmd-stats-show.txt").read_text(encoding="ascii")
#: What `grep` finds in the daemon of 3.1.0, among the keys that xdplab writes.
STOCK_KEYS = ("xdp-mode", "n_rxq", "use-need-wakeup", "pmd-maxsleep", "pmd-rxq-affinity", "tx-flush-interval",
              "emc-insert-inv-prob", "hw-offload")  # fmt: skip

#: Every option of the series: option of the forwarder -> (key, a value).
PATCHED = {
    "xsk_rx_ring": ("xsk-rx-ring", "512"),
    "xsk_tx_ring": ("xsk-tx-ring", "512"),
    "xsk_fill_ring": ("xsk-fill-ring", "1024"),
    "xsk_comp_ring": ("xsk-comp-ring", "1024"),
    "umem_frames": ("umem-frames", "8192"),
    "umem_frame_size": ("umem-frame-size", "2048"),
    "umem_headroom": ("umem-headroom", "0"),
    "umem_hugepages": ("umem-hugepages", "2M"),
    "busy_poll_us": ("busy-poll", "20"),
    "busy_poll_budget": ("busy-poll-budget", "128"),
    "prefer_busy_poll": ("prefer-busy-poll", "true"),
    "rx_wakeup": ("rx-wakeup", "recvfrom"),
    "fill_checksums": ("fill-checksums", "true"),
    "multi_buffer": ("multi-buffer", "true"),
    "tx_skb_budget": ("tx-skb-budget", "64"),
    "shared_umem": ("shared-umem", "group1"),
    "tx_copy": ("tx-copy", "auto"),
}
#: Those of the offload of flows; a stock daemon knows the first key for other offloads.
OFFLOAD = {
    "flow_offload": ("hw-offload", "true"),
    "flow_entries": ("xdp-flow-entries", "1024"),
    "flow_masks": ("xdp-flow-masks", "8"),
}
ALL_KEYS = (*STOCK_KEYS, *(key for key, _ in (PATCHED | OFFLOAD).values()), "netdev-afxdp/show")


def offloading(frames: dict[str, int]) -> bytes:
    """What a daemon answers whose ports have forwarded that many frames by flows of XDP (`ovs_openflow.ASK`)."""
    described, counted = b"", b""
    for number, (port, count) in enumerate(frames.items(), 1):
        values = {"xdp_flow_n_flows": 2, "xdp_flow_n_masks": 1, "xdp_flow_packets": count, "xdp_flow_misses": 1}
        own = b"".join(
            struct.pack(">B", len(name)) + name.encode() + struct.pack(">Q", n) for name, n in values.items()
        )
        own = struct.pack(">HHII2xH", 0xFFFF, 16 + len(own), 0xAA01, 2, len(values)) + own
        own += bytes(-len(own) % 8)
        described += struct.pack(">IH10x16s8x", number, 40, port.encode())
        counted += struct.pack(">H2xI8x8Q", 80 + len(own), number, *range(8)) + own
    bodies = (struct.pack(">H6x", kind) + entries for kind, entries in ((13, described), (4, counted)))
    return b"".join(struct.pack(">BBHI", 6, 19, 8 + len(body), 1) + body for body in bodies)


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
        self.refused: tuple[str, ...] = ()
        self.files: dict[str, str] = {}
        self.runs: list[list[str]] = []
        #: Rows that were put into the database.
        self.inserted: list[tuple[str, dict[str, Any]]] = []

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

    def ask_socket(self, path: Path, method: str, *params: Any, timeout_s: float = 30.0) -> Any:
        if method == "echo":
            return list(params)
        if path.name == "db.sock" and params[1]["op"] == "insert":
            self.inserted += [(each["table"], each["row"]) for each in params[1:]]
            return [{"uuid": ["uuid", "0"]} for _ in params[1:]]
        if path.name == "db.sock" and params[1]["op"] == "wait":
            return [{}]
        if path.name == "db.sock":
            (column,) = {*params[1]["columns"]} - {"name"}
            maps = {"b0": self.status["b0"], "xdplab0": '["driver_name","tun"]', "b1": self.status["b1"]}
            rows = {name: json.loads(f'["map",[{text}]]') for name, text in maps.items()}
            return [
                {"rows": [{"name": name, column: rows[name] if column == "status" else ["set", []]} for name in rows]}
            ]
        answers = {
            "dpctl/show": DPCTL_SHOW.format(**self.configs),
            "dpif-netdev/pmd-rxq-show": RXQ_SHOW,
            "netdev-afxdp/show": self.show,
            "coverage/show": COVERAGE,
            "list-commands": "dpif-netdev/pmd-stats-show [dp]\ndpif-netdev/pmd-stats-clear [dp]\n",
            "dpif-netdev/pmd-stats-show": STATS_SHOW,
            "dpif-netdev/pmd-stats-clear": "",
            "exit": "",
        }
        if method == "dpif/offload/show" and self.refused:
            reasons = ", ".join(f'"{reason}": 3' for reason in self.refused)
            return f'{{\n  "b0": {{\n    "misses": 60,\n    "refused": {{\n      {reasons}}}, "status": "on"}}}}\n'
        if method.endswith("/show") and method not in answers:
            raise XdplabError(f'"{method}" is not a valid command')
        return answers[method]

    def rows(self, table: str) -> list[dict[str, Any]]:
        """What was put into a table."""
        return [row for name, row in self.inserted if name == table]

    def exchange(self, path: Path, data: bytes, until: bytes, *, timeout_s: float = 30.0) -> bytes:
        return offloading(self.offloaded) if any(self.offloaded.values()) else PORTS

    def links(self) -> dict[str, Link]:
        return {port: Link(1500, {}) for port in ("b0", "b1")}

    def exists(self, path: str | Path) -> bool:
        return Path(path).exists()

    def write(self, path: str, text: str) -> None:
        self.files[path] = text

    def read(self, path: str) -> str:
        if path not in self.files:
            raise XdplabError(f"{path}: no such file")
        return self.files[path]

    def _answer(self, argv: list[str]) -> str | None:
        if argv[0] == "stat":
            return "".join(f"{path}\n" for path in argv[3:] if path not in self.absent)
        if argv[0].endswith("ovsdb-tool"):
            self.files[argv[2]] = "OVSDB JSON"
        if argv[0] == "test":
            return None if argv[2] in self.absent else ""
        if argv[0] == "grep":
            return "\0".join(("some text", *self.keys))
        if argv[0] == "readlink":
            return "/root/.cache/xdplab/ovs/0123456789abcdef\n"
        if argv[-1] == "--version":
            return self.version
        return ""
