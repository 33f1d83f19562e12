# SPDX-License-Identifier: Apache-2.0
"""A program's error message is found among the lines that it always writes; a known one comes with advice."""

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xdplab.hosts import LocalHost, Running
from xdplab.hosts.kernel import detach_xdp
from xdplab.hosts.waiting import advised, comes_true, complaints, how_it_ended, last_words, stopped
from xdplab.model import XdplabError
from xdplab.runner.session import PointSession

#: Of programs that were well (28 November 2026, Debian 12, veth), those lines that sound like complaints.
WELL = """\
2026-11-28T22:56:51Z|00047|ofproto_dpif_xlate|INFO|/proc/sys/net/core/netdev_max_backlog: open failed (No such file or directory)
2026-11-28T22:56:49Z|00002|ofproto_dpif_xlate(pmd-c01/id:8)|INFO|/proc/sys/net/core/netdev_max_backlog: open failed (No such file)
2026-11-28T22:56:51Z|00048|dpif|WARN|failed to enumerate system datapaths: No such file or directory
2026-11-28T22:56:57Z|00004|fatal_signal|WARN|terminating with signal 15 (Terminated)
2026-11-28T22:56:44Z|00013|dpdk|WARN|TELEMETRY: No legacy callbacks, legacy socket not created
2026-11-28T22:56:45Z|00056|dpdk|INFO|Device with port_id=0 already stopped
2026-11-28T22:56:47Z|00057|netdev_dpdk|WARN|Rx checksum offload is not supported on port 0
dpdk [warn ]: [0] unknown driver 'net_af_packet'
af_xdp [error ]: b0-754b/0: set promiscuous not supported yet
2026-11-28T22:56:47Z|00080|timeval|WARN|Unreasonably long 3681ms poll interval (147ms user, 421ms system)
2026-11-28T22:56:44Z|00046|netdev_afxdp|ERR|setrlimit(RLIMIT_MEMLOCK) failed: Operation not permitted
libbpf: elf: skipping unrecognized data section(8) .xdp_run_config
libxdp: No bpffs found at /sys/fs/bpf
EAL: Detected CPU lcores: 2
Configuring Port 0 (socket 0)""".splitlines()  # noqa: E501 - as they are
OVS = "2026-11-28T22:00:00Z|00051|netdev_dpdk|ERR|Frame size (3560) > device max frame size (1518) for interface b0"


def test_what_is_always_there_is_no_complaint() -> None:
    assert complaints(WELL) == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (OVS, "netdev_dpdk: Frame size (3560) > device max frame size (1518) for interface b0"),
        ("  Cause: No probed ethernet devices", "Cause: No probed ethernet devices"),
        ("EAL: FATAL: Cannot init memory", "EAL: FATAL: Cannot init memory"),
        ("vpp[4711]: dpdk: rte_eal_init returned error", "dpdk: rte_eal_init returned error"),
        (
            "libbpf: elf: legacy map definitions in 'maps' section",
            "libbpf: elf: legacy map definitions in 'maps' section",
        ),
        ("ERROR couldn't find MAC address of eth7", "ERROR couldn't find MAC address of eth7"),
        ("mmap: Out of memory", "mmap: Out of memory"),
    ],
)
def test_a_complaint_is_found_among_them(line: str, said: str) -> None:
    assert complaints([*WELL[:6], line, *WELL[6:]]) == said
    assert last_words([*WELL, line, "bye"]) == said


def test_without_an_error_message_the_last_lines_are_reported() -> None:
    assert last_words(["one", "two", "", "three"]) == "two | three"


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("libxdp: No bpffs found at /sys/fs/bpf", "mount -t bpf bpf /sys/fs/bpf"),
        ("libbpf: elf: legacy map definitions in 'maps' section are not supported by libbpf v1.0+", 'SEC(".maps")'),
        ("libbpf: Kernel error message: Peer MTU is too large to set XDP", "ip link set PORT mtu 1500"),
        ("libbpf: Kernel error message: MTU too large to enable XDP", 'SEC("xdp.frags")'),
        (OVS, "make the MTU smaller"),
        ("libbpf: Kernel error message: Too few free TX rings available", "ethtool -L PORT combined N"),
        ("libbpf: Kernel error message: XDP expects number of rx queues not less than peer tx queues", "rx N"),
        ("libbpf: Kernel error message: Underlying driver does not support XDP in native mode", "generic mode"),
        ("xsk: program is already attached", "ip link set dev PORT xdp off"),
    ],
)
def test_what_to_do_is_said_once_where_the_message_is_known(reason: str, advice: str) -> None:
    said = advised(reason)
    assert said.startswith(f"{reason}; ")
    assert advice in said
    assert advised(said) == said
    assert advised("ovs-afxdp: no frame came through") == "ovs-afxdp: no frame came through"


def test_a_stopped_process_is_said_to_be_stopped(tmp_path: Path) -> None:
    host = LocalHost()
    running = host.start(["sleep", "60"], log=tmp_path / "log")
    try:
        assert comes_true(lambda: host.read(f"/proc/{running.pid}/comm") == "sleep", 5.0)  # it is what starts it before
        assert stopped(host, [running.pid]) is None
        os.kill(running.pid, signal.SIGSTOP)
        assert comes_true(lambda: stopped(host, [running.pid]) is not None, 2.0)
        assert stopped(host, [running.pid]) == (
            f"sleep is stopped (process {running.pid}, state T; kill -CONT {running.pid} lets it go on)"
        )
    finally:
        running.stop(0.1)
    assert stopped(host, [running.pid]) is None


class _Forwarder:
    """A process whose log says `said`."""

    name = "vpp-afxdp"

    def __init__(self, running: Running, said: list[str]) -> None:
        self._running, self._said = running, said

    def crashed(self) -> str | None:
        return how_it_ended("vpp", self._running)

    def pids(self) -> tuple[int, ...]:
        return (self._running.pid,)

    def log_tail(self) -> tuple[str, ...]:
        return tuple(self._said)


@pytest.mark.parametrize(
    ("number", "said", "reason"),
    [
        (signal.SIGKILL, [], "vpp was ended by signal SIGKILL; VPP does not answer (show_version): read failed"),
        (
            signal.SIGABRT,
            ["dpdk: rte_eal_init returned -1: cannot init memory"],
            "vpp was ended by signal SIGABRT; VPP does not answer (show_version): read failed; "
            "vpp-afxdp said: dpdk: rte_eal_init returned -1: cannot init memory",
        ),
        (signal.SIGSTOP, [], "sleep is stopped (process PID, state T; kill -CONT PID lets it go on); "
         "VPP does not answer (show_version): read failed"),
    ],
)  # fmt: skip
def test_how_a_forwarder_ended_comes_before_what_followed_from_it(
    number: signal.Signals, said: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xdplab.runner.session._ENDING_S", 0.5)
    host = LocalHost()
    running = host.start(["sleep", "60"], log=tmp_path / "log")
    try:
        assert comes_true(lambda: host.read(f"/proc/{running.pid}/comm") == "sleep", 5.0)
        os.kill(running.pid, number)
        session: Any = SimpleNamespace(_forwarder=_Forwarder(running, said), _dut=SimpleNamespace(host=host))
        found = PointSession._with_cause(session, "VPP does not answer (show_version): read failed")
        assert found == reason.replace("PID", str(running.pid))
    finally:
        running.stop(0.1)


@pytest.mark.parametrize(
    ("links", "said"),
    [
        (
            [{"prog_id": 7, "pinned": ["/sys/fs/bpf/mine"]}],
            ": a bpf_link is pinned at /sys/fs/bpf/mine; `rm /sys/fs/bpf/mine` .*",
        ),
        (
            [{"prog_id": 7, "pids": [{"pid": 12, "comm": "hop"}]}],
            r": process hop \(12\) holds its bpf_link; .*",
        ),
        ([{"prog_id": 7}], ": a bpf_link holds it; `bpftool link detach id` detaches it"),
        ([{"prog_id": 8, "pinned": ["/sys/fs/bpf/theirs"]}], ""),
        ([{"prog_id": 7, "devname": "b1", "pinned": ["/sys/fs/bpf/other"]}], ""),
    ],
)
def test_who_holds_a_program_that_cannot_be_detached_is_named(
    links: list[dict[str, Any]], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `bpftool --json --bpffs link show` has them."""
    monkeypatch.setattr("xdplab.hosts.kernel._DETACH_S", 0.0)
    host: Any = SimpleNamespace(
        name="B",
        xdp=lambda ifname: SimpleNamespace(prog_id=7, prog_name="hop_prog"),
        run=lambda argv, check: SimpleNamespace(stdout=json.dumps(links) if argv[0] == "bpftool" else ""),
    )
    with pytest.raises(XdplabError, match=f"^B: b0: XDP program hop_prog cannot be detached{said}$"):
        detach_xdp(host, "b0")
