# SPDX-License-Identifier: Apache-2.0
"""Questions to a host's kernel that several layers ask: interfaces, drivers, threads, CPU time."""

import json
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from xdplab.hosts.agent.netlink import Link
from xdplab.hosts.base import Host
from xdplab.hosts.waiting import comes_true
from xdplab.model import LinkLost, MissingProgram, ThreadUse, XdplabError

#: Of proc_pid_stat(5).
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
#: The oldest kernel that the suite is tested on (`make nic-test` boots it), Debian 12's: the oldest that is supported.
MINIMUM = (6, 1)
TUN = "/dev/net/tun"
#: Link of Open vSwitch's datapath in the kernel, of which a network namespace has one for all daemons.
DATAPATH = "ovs-system"
#: How long a process that has been killed may hold a link.
_DETACH_S = 1.0
_QUEUE_RELEASE_S = 0.05
#: As ethtool names what is left to a card.
_OFFLOADS = ("rx", "tx", "sg", "tso", "gso", "gro", "txvlan", "rxvlan")
#: What to do where it is not.
FIX_TUN = "modprobe tun; a container must be given this device"


def text_of(host: Host, path: str) -> str:
    """A file of the host, or nothing."""
    try:
        return host.read(path)
    except XdplabError:
        return ""


def field_of(text: str, name: str) -> str:
    """Of /proc/cpuinfo or /proc/meminfo, the first one of that name; `unknown` where there is none."""
    match = re.search(rf"^{re.escape(name)}\s*:\s*(.*)$", text, re.MULTILINE)
    return match.group(1) if match else "unknown"


def cpu_model(host: Host) -> str:
    return field_of(text_of(host, "/proc/cpuinfo"), "model name")


def version_of(release: str) -> tuple[int, ...]:
    """`6.1.0-32-amd64` -> (6, 1)."""
    return tuple(map(int, re.findall(r"\d+", release)[:2]))


def has_carrier(host: Host, ifname: str) -> bool:
    """Whether an interface is up and has a link."""
    try:
        return host.read(f"/sys/class/net/{ifname}/carrier") == "1"
    except LinkLost:
        raise
    except XdplabError:  # it is down
        return False


def link_names(host: Host) -> frozenset[str]:
    """Names of all links on a host."""
    return frozenset(host.links())


def link_counters(host: Host, ifname: str) -> dict[str, Any]:
    """What the kernel counts of an interface.

    Raises:
        XdplabError: there is none of this name.
    """
    return _link(host, ifname).counters


def link_mtu(host: Host, ifname: str) -> int:
    """The MTU of an interface.

    Raises:
        XdplabError: there is none of this name.
    """
    return _link(host, ifname).mtu


def _link(host: Host, ifname: str) -> Link:
    found = host.links()
    if ifname not in found:
        raise XdplabError(f"{host.name}: {ifname}: there is no such interface")
    return found[ifname]


def ip_batch(host: Host, lines: Iterable[str]) -> None:
    """Carry out commands of `ip`, up to the first that fails."""
    host.run(["ip", "-batch", "-"], stdin="".join(f"{line}\n" for line in lines), timeout_s=120.0)


def datapath_ports(shown: str) -> set[str]:
    """Ports of the kernel's datapath but its own link, of `ovs-dpctl show` or a daemon's `dpctl/show`."""
    return {*re.findall(r"^ *port \d+: (\S+)", shown, re.MULTILINE)} - {DATAPATH}


def remove_link(host: Host, name: str, ours: Collection[str]) -> str:
    """Remove a link; "", or why it stays.

    Open vSwitch's datapath in the kernel goes by a command of its own, and with all its ports. Where it has others than
    `ours`, another daemon has taken it over: then ours alone are taken out.
    """
    if name != DATAPATH:
        host.run(["ip", "link", "delete", "dev", name])
        return ""
    ports = datapath_ports(host.run(["ovs-dpctl", "show", name]).stdout)
    if theirs := sorted(ports.difference(ours)):
        if left := sorted(ports.intersection(ours)):
            host.run(["ovs-dpctl", "del-if", name, *left])
        return f"{name} has ports that xdplab did not make, {', '.join(theirs)}: it is left alone"
    host.run(["ovs-dpctl", "del-dp", name])
    return ""


def detach_xdp(host: Host, ifname: str) -> bool:
    """Take off the XDP program that a killed forwarder left on an interface; whether there was one.

    One that is attached by a link goes with the process that holds it, which may take a moment to end.

    Raises:
        XdplabError: it stays attached.
    """
    if host.xdp(ifname) is None:
        return False

    def detached() -> bool:
        for flag in ("xdp", "xdpgeneric"):
            host.run(["ip", "link", "set", "dev", ifname, flag, "off"], check=False)
        return host.xdp(ifname) is None

    if not comes_true(detached, _DETACH_S) and (left := host.xdp(ifname)) is not None:
        name = f"{host.name}: {ifname}: XDP program {left.prog_name}"
        raise XdplabError(f"{name} cannot be detached{xdp_held(host, ifname, left.prog_id)}")
    return True


def xdp_held(host: Host, ifname: str, prog_id: int) -> str:
    """What holds a program that no command detaches: a bpf_link, in a file or by a process; "" where nobody tells."""
    try:
        shown = host.run(["bpftool", "--json", "--bpffs", "link", "show"], check=False).stdout
        links = [
            each
            for each in json.loads(shown or "[]")
            if each.get("prog_id") == prog_id and each.get("devname", ifname) == ifname  # no name: before bpftool 7.3
        ]
    except (MissingProgram, ValueError):
        links = []
    files = [path for each in links for path in each.get("pinned", ())]
    users = [f"{user['comm']} ({user['pid']})" for each in links for user in each.get("pids", ())]
    if files:
        return f": a bpf_link is pinned at {' and '.join(files)}; `rm {' '.join(files)}` detaches it"
    if users:
        return f": process {' and '.join(users)} holds its bpf_link; it is detached when that process exits"
    return ": a bpf_link holds it; `bpftool link detach id` detaches it" if links else ""


def wait_for_queues(host: Host, ifnames: Sequence[str]) -> None:
    """Until the kernel has taken back the queues of AF_XDP sockets that were closed: the next bind must not meet them.

    It does so some 25 ms after the close (6.18). Where it does not tell, this waits twice as long; where a socket of
    somebody else stays, it ends after a second.
    """
    if host.held_queues(list(ifnames)) is None:
        time.sleep(_QUEUE_RELEASE_S)
    else:
        comes_true(lambda: not host.held_queues(list(ifnames)), 1.0)


def driver_facts(host: Host, ifname: str) -> dict[str, str]:
    """What `ethtool -i` prints of an interface (`driver`, `firmware-version`, `bus-info` ...); nothing without one.

    A bare Debian has no ethtool: `driver` and `bus-info` of a card are then the kernel's word.
    """
    try:
        shown = host.run(["ethtool", "-i", ifname], check=False).stdout
    except XdplabError:
        device = f"/sys/class/net/{ifname}/device"
        shown = text_of(host, f"{device}/uevent")
        if "DRIVER=virtio_net" in shown:  # its device is below that of the bus
            above = text_of(host, f"{device}/../uevent")
            shown += "\n" + "\n".join(line for line in above.splitlines() if line.startswith("PCI_SLOT_NAME="))
        shown = shown.replace("DRIVER=", "driver: ").replace("PCI_SLOT_NAME=", "bus-info: ")
    return dict(re.findall(r"^([\w-]+): (\S.*)$", shown, re.MULTILINE))


def driver(host: Host, ifname: str) -> str:
    return driver_facts(host, ifname).get("driver", "unknown")


def rx_queues(host: Host, ifname: str) -> int:
    """Queues in use by which an interface receives; 1 where its driver does not tell."""
    now = host.run(["ethtool", "-l", ifname], check=False).stdout.partition("Current")[2]
    return max(map(int, re.findall(r"^(?:Combined|RX):\s+(\d+)$", now, re.MULTILINE)), default=1)


def pause_on(text: str) -> bool:
    """Whether a port sends or obeys pause frames, by what `ethtool -a` prints of it.

    Where the ends negotiate it, RX and TX are what was asked for (ice has them off and negotiates on).
    """
    negotiated = re.findall(r"^[RT]X negotiated:\s*(on|off)$", text, re.MULTILINE)
    return "on" in (negotiated or re.findall(r"^[RT]X:\s*(on|off)$", text, re.MULTILINE))


def is_veth(host: Host, ifname: str) -> bool:
    """Whether the interface is one end of a veth pair."""
    return driver(host, ifname) == "veth"


@contextmanager
def napi_on(ports: Sequence[tuple[Host, str]]) -> Iterator[None]:
    """Ports of veth with NAPI: without it, or a program of XDP, they take no frame that is redirected to them (veth.c).

    Off, then on: it is taken up only when it changes while the link is up. Afterwards it is as it was.
    """
    wanted = "generic-receive-offload: on"  # and not "on [requested off]", as a program of XDP makes it
    off = [(host, name) for host, name in ports if wanted not in host.run(["ethtool", "-k", name]).stdout.splitlines()]
    with ExitStack() as stack:
        for host, name in ports:
            if (host, name) in off:
                stack.callback(host.run, ["ethtool", "-K", name, "gro", "off"], check=False)
            host.run(["ethtool", "-K", name, "gro", "off"])
            host.run(["ethtool", "-K", name, "gro", "on"])
        yield


def offloads_off(host: Host, ifname: str) -> None:
    """Checksums, segments and tags are not left to a card, where the driver lets them be switched off."""
    off = [word for feature in _OFFLOADS for word in (feature, "off")]
    if host.run(["ethtool", "-K", ifname, *off], check=False).returncode:
        for feature in _OFFLOADS:  # ethtool gives up at the first that is fixed
            host.run(["ethtool", "-K", ifname, feature, "off"], check=False)


def why_no_zero_copy(host: Host, *ifnames: str) -> str | None:
    """None, or why AF_XDP sockets of these interfaces cannot be zero-copy; of cards the kernel tells at bind."""
    for ifname in ifnames:
        if is_veth(host, ifname):
            return f"zero-copy: the veth driver of port {ifname} has no NETDEV_XDP_ACT_XSK_ZEROCOPY"
    return None


def why_no_tx_skb_budget(host: Host) -> str | None:
    """None, or why the number of frames that one call sends in copy mode cannot be set."""
    release = host.read("/proc/sys/kernel/osrelease").strip()
    if version_of(release) < (6, 17):
        return f"tx_skb_budget: Linux {release} has no XDP_MAX_TX_SKB_BUDGET (needs 6.17)"
    return None


def why_no_buffers(host: Host) -> str | None:
    """None, or why AF_XDP sends no frame of several buffers."""
    release = host.read("/proc/sys/kernel/osrelease").strip()
    if version_of(release) < (6, 6):
        return f"Linux {release} has no AF_XDP frames of several buffers (needs 6.6)"
    return None


@lru_cache(maxsize=64)
def why_no_tap(host: Host) -> str | None:
    """None, or why no tap device can be made: Open vSwitch has one for its datapath, and one for each bridge."""
    done = host.run(["head", "-c", "0", TUN], check=False)  # opens it, which loads a module that is not there yet
    if not done.returncode:
        return None
    return f"{TUN} cannot be opened ({done.complaint.rpartition(': ')[2]})"


def thread_use(host: Host, pid: int, tid: int) -> ThreadUse:
    """Scheduler facts of one thread: CPU time and its halves, time waiting for a CPU, involuntary switches, affinity.

    Source: Documentation/scheduler/sched-stats.rst, proc_pid_stat(5) and proc_pid_status(5).
    """
    task = f"/proc/{pid}/task/{tid}"
    ran, delay, *_ = host.read(f"{task}/schedstat").split()
    stat = host.read(f"{task}/stat")
    fields = stat[stat.rindex(")") + 2 :].split()
    status = host.read(f"{task}/status")
    switches = re.search(r"^nonvoluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
    return ThreadUse(
        name=stat[stat.index("(") + 1 : stat.rindex(")")],
        cpu=int(fields[36]),
        allowed=cpu_list(allowed.group(1)) if allowed else (),
        ran_ns=int(ran),
        run_delay_ns=int(delay),
        nonvoluntary_switches=int(switches.group(1)) if switches else 0,
        user_ns=int(fields[11]) * _TICK_NS,
        system_ns=int(fields[12]) * _TICK_NS,
    )


def thread_ids(host: Host, pid: int) -> dict[int, str]:
    """Thread id -> name of all threads of a process."""
    names = {}
    for tid in sorted(map(int, host.names(f"/proc/{pid}/task"))):
        try:
            names[tid] = host.read(f"/proc/{pid}/task/{tid}/comm")
        except XdplabError:
            continue  # it ended meanwhile
    return names


def kernel_threads(host: Host) -> dict[int, str]:
    """Process id -> name of the kernel's threads, the children of kthreadd."""
    files = [f"/proc/{pid}/comm" for pid in host.read("/proc/2/task/2/children").split()]
    lines = host.run(["grep", "-Hs", "", *files], check=False).stdout.splitlines()  # one that has ended is left out
    return {int(path.split("/")[2]): name for path, _, name in (line.partition(":") for line in lines)}


def napi_threads(host: Host, ifnames: Iterable[str]) -> list[int]:
    """Process ids of the NAPI threads of interfaces, as net/core/dev.c names them."""
    prefixes = tuple(f"napi/{ifname}-" for ifname in ifnames)
    return [tid for tid, name in kernel_threads(host).items() if name.startswith(prefixes)]


def cpu_list(text: str) -> tuple[int, ...]:
    """`0-2,5` -> (0, 1, 2, 5), the kernel's list format."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return tuple(cpus)


@dataclass(frozen=True)
class CpuUse:
    """Of a CPU so far, in whole clock ticks. Where the kernel takes them with its timer they are samples, not sums."""

    softirq_ns: int
    #: Taken by the hypervisor.
    steal_ns: int
    #: Idle, or taken by the hypervisor.
    away_ns: int = 0


def cpu_use(host: Host) -> dict[int, CpuUse]:
    found = {}
    for line in host.read("/proc/stat").splitlines():
        match = re.match(r"cpu(\d+) (.*)", line)
        if match:
            _, _, _, idle, iowait, _, softirq, steal, *_ = (int(each) * _TICK_NS for each in match.group(2).split())
            found[int(match.group(1))] = CpuUse(softirq, steal, away_ns=idle + iowait + steal)
    return found


def net_rx_softirqs(host: Host) -> dict[int, int]:
    """CPU -> NET_RX softirqs so far (/proc/softirqs)."""
    lines = host.read("/proc/softirqs").splitlines()
    cpus = [int(name.removeprefix("CPU")) for name in lines[0].split()]
    for line in lines[1:]:
        name, *counts = line.split()
        if name == "NET_RX:":
            return dict(zip(cpus, map(int, counts), strict=False))
    return {}
