# SPDX-License-Identifier: Apache-2.0
"""What a program complained of in what it wrote, without what it always writes; and what to do where that is known."""

import re
from collections.abc import Sequence

#: Words of an error, in the logs of Open vSwitch (levels), DPDK and VPP (EAL, Cause), libbpf, TRex, and of anybody.
_COMPLAINT = re.compile(
    r"\|(WARN|ERR|EMER)\||^\s*lib(bpf|xdp): |Cause: |\berrors?\b|\bfail|\bcannot\b|can't|could not|couldn't|unable|"
    r"invalid|refuse|denied|not supported|unsupported|no such|not found|too (large|small|few|many|big)|"
    r"> (device )?max|exceed|unknown|missing|out of memory|insufficient|not enough|\bbusy\b|already|must be|"
    r"is required|Traceback|abort",
    re.IGNORECASE,
)
#: Written by programs that are well, as recorded (`test_complaints.py`): Open vSwitch 3.1, dpdk-testpmd 22.11.
_NOISE = re.compile(
    r"\|(INFO|DBG)\||failed to enumerate system datapaths|terminating with signal 15|RLIMIT_MEMLOCK|timeval\|WARN|"
    r"checksum offload is not supported|TELEMETRY: No legacy callbacks|No (available|free) .*hugepages reported|"
    r"skipping unrecognized data section|libxdp: No bpffs found",
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
