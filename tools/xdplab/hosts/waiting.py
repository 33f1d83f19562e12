# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition, for the first line of a program, for the answers of several hosts; how a program ended."""

import re
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from xdplab.hosts.base import Host, Running
from xdplab.model import LinkLost, PointFailed, XdplabError

POLL_S = 0.005


def comes_true(condition: Callable[[], bool], timeout_s: float, every_s: float = POLL_S) -> bool:
    """Poll `condition` until it holds; False: not within `timeout_s`. The pauses grow from 1 ms to `every_s`."""
    deadline = time.monotonic() + timeout_s
    pause_s = 0.001  # most of what is waited for takes less than `POLL_S`, and is asked often
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, every_s)
    return True


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Poll `condition` until it holds.

    Raises:
        PointFailed: it does not hold after `timeout_s`; `what` says for what was waited.
    """
    if not comes_true(condition, timeout_s):
        raise PointFailed(f"{what}: timed out after {timeout_s:g} s")


def said_something(host: Host, output: Path, process: Running, timeout_s: float) -> bool:
    """Wait for the first line of a program, which says that it is ready; False: it ended without, or was late."""

    def written() -> bool:
        return host.exists(output) and bool(host.read(str(output)))

    return comes_true(lambda: written() or process.poll() is not None, timeout_s) and written()


def how_it_ended(name: str, process: Running) -> str | None:
    """None while it runs, else a sentence."""
    code = process.poll()
    if code is None:
        return None
    if code < 0:
        return f"{name} was ended by signal {signal.Signals(-code).name}"
    return f"{name} ended with exit code {code}"


def stopped(host: Host, pids: Iterable[int]) -> str | None:
    """None, or which of these processes a signal has stopped: it neither ends nor does anything."""
    for pid in pids:
        try:
            name, _, state = host.read(f"/proc/{pid}/stat").partition("(")[2].rpartition(") ")
        except LinkLost:
            raise
        except XdplabError:
            continue  # it has ended
        if state[:1] in ("T", "t"):
            return f"{name} is stopped (process {pid}, state {state[0]}; kill -CONT {pid} lets it go on)"
    return None


def run_parallel(*asks: Callable[[], Any]) -> list[Any]:
    """Answers of hosts, in order: each question may go over a network, and none waits for the others.

    An error is raised once all have been answered. The last is asked by this thread.
    """
    *others, last = asks
    with ThreadPoolExecutor(max_workers=max(1, len(others))) as pool:
        asked = [pool.submit(ask) for ask in others]
        answer = last()
    return [*(one.result() for one in asked), answer]


# What a program complained of in what it wrote, without what it always writes; and what to do where that is known.

#: Words of an error, in the logs of Open vSwitch (levels), DPDK and VPP (EAL, Cause), libbpf, TRex, and of anybody.
_COMPLAINT = re.compile(
    r"\|(WARN|ERR|EMER)\||^\s*lib(bpf|xdp): |Cause: |\berrors?\b|\bfail|\bcannot\b|can't|could not|couldn't|unable|"
    r"invalid|refuse|denied|not supported|unsupported|no such|not found|too (large|small|few|many|big)|"
    r"> (device )?max|exceed|unknown|missing|out of memory|insufficient|not enough|\bbusy\b|already|must be|"
    r"is required|Traceback|abort",
    re.IGNORECASE,
)
#: Written by programs that are well (`test_complaints.py`): Open vSwitch 3.1, dpdk-testpmd 22.11, VPP 26.10.
_NOISE = re.compile(
    r"\|(INFO|DBG)\||failed to enumerate system datapaths|terminating with signal 15|RLIMIT_MEMLOCK|timeval\|WARN|"
    r"checksum offload is not supported|TELEMETRY: No legacy callbacks|No (available|free) .*hugepages reported|"
    r"skipping unrecognized data section|libxdp: No bpffs found|\[\d+\] unknown driver 'net_af_|"
    r"set promiscuous not supported yet",
)
#: What stands before a message: a date and a number of Open vSwitch, a process of VPP.
_BEFORE = re.compile(r"^\s*(\d{4}-\d\d-\d\dT[^|]*\|\d+\|(?P<module>\w+)(\([^)]*\))?\|\w+\||[\w-]+\[\d+\]: )")
#: A message of a kernel, of libbpf or libxdp -> what to do.
_ADVICE = (
    (r"legacy map definitions",
     'libbpf 1.0 and later take maps in SEC(".maps") with BTF, no struct bpf_map_def: rewrite them'),
    (r"bpffs|BPF file ?system|bpf_fs|/sys/fs/bpf\b.*(no such|not|fail)",
     "mount one in its network namespace: mount -t bpf bpf /sys/fs/bpf"),
    (r"MTU.*too (large|big)|too (large|big).*MTU|larger than .*MTU|(single|one) buffer|> device max frame",
     'make the MTU smaller (ip link set PORT mtu 1500), or give the program SEC("xdp.frags")'),
    (r"(too few|no) free TX rings|not enough (tx|queues|rings)|insufficient.*(queues|rings)",
     "leave the driver a TX ring for each CPU: fewer channels (ethtool -L PORT combined N)"),
    (r"rx queues not less than peer tx queues|number of rx queues",
     "give the port as many RX queues as its peer has TX queues (ethtool -L PORT rx N)"),
    (r"(driver|device) (does not|doesn't) support|not supported by (this|the) driver|no native XDP|no AF_XDP zero-copy|"
     r"underlying driver|native mode.*not supported",
     "take the generic mode, or copy instead of zero-copy"),
    (r"already (attached|loaded|in use)|XDP program already|program.*already",
     "another XDP program is at the port: ip link set dev PORT xdp off, and xdpgeneric off"),
)  # fmt: skip


def complaints(lines: Sequence[str], most: int = 2) -> str:
    """The last different lines of a log in which its program complains, in order; "": there is none."""
    found = [_cleaned(line) for line in lines if _COMPLAINT.search(line) and not _NOISE.search(line)]
    return " | ".join([*dict.fromkeys(found)][-most:])


def last_words(lines: Sequence[str], most: int = 2) -> str:
    """What it complained of, or the last lines whatever they say; of a program that ended."""
    return complaints(lines, most) or " | ".join([line.strip() for line in lines if line.strip()][-most:])


def advised(reason: str) -> str:
    """A reason, with what to do where its message is known."""
    for message, advice in _ADVICE:
        if re.search(message, reason, re.IGNORECASE) and advice not in reason:
            return f"{reason}; {advice}"
    return reason


def _cleaned(line: str) -> str:
    before = _BEFORE.match(line)
    if before is None:
        return " ".join(line.split())
    rest = " ".join(line[before.end() :].split())
    return f"{before['module']}: {rest}" if before["module"] else rest
