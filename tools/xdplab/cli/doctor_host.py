# SPDX-License-Identifier: Apache-2.0
"""What the doctor asks of each host of a testbed: its machine, its programs, and what else runs there."""

import time
from typing import Literal

from xdplab.forwarders.dpdk import PROGRAM as TESTPMD
from xdplab.forwarders.ovs.builds import PATCHED, build_facts, find_build, how_to_send, missing
from xdplab.forwarders.ovs.forwarder import OvsAfxdp, OvsDpdk
from xdplab.forwarders.vpp.process import find_vpp, installed_version
from xdplab.hosts import Host, SshHost
from xdplab.hosts.bpf import built
from xdplab.hosts.kernel import FIX_TUN, MINIMUM, TUN, text_of, version_of, why_no_tap
from xdplab.model import InputError, Model, Shown, Unsupported, XdplabError
from xdplab.testers.trex_server import HOW_TO_GET, find as find_trex
from xdplab.tools import bpf_program, build_gap, provision_command


class Check(Model):
    """One thing that was looked at.

    `missing`: no run without it. `optional`: absent, and only some rows need it. `advice`: runs work, and their numbers
    are worse or less certain than they could be.
    """

    name: str
    state: Literal["ok", "optional", "advice", "missing"]
    found: Shown
    fix: Shown = ""
    #: Host of the testbed file, where it has any.
    host: str = ""

    def line(self) -> str:
        """`ok       b kernel: 6.18`."""
        where = f"{self.host} " if self.host else ""
        return f"{self.state:<9}{where}{self.name}: {self.found}" + (f"   -> {self.fix}" if self.fix else "")


def check(
    name: str,
    good: bool,
    found: str,
    fix: str,
    *,
    required: bool = True,
    host: str = "",
    otherwise: Literal["optional", "advice"] = "optional",
) -> Check:
    """A finding; `otherwise`: its state when it is not good and not required."""
    state = "ok" if good else "missing" if required else otherwise
    return Check(name=name, state=state, found=found, fix="" if good else fix, host=host)


_CPU = "/sys/devices/system/cpu"
#: Programs that move interrupts, change CPU settings or take interfaces while a run lasts.
_SERVICES = {
    "irqbalance": ("moves interrupts between CPUs while a run lasts", "systemctl stop irqbalance"),
    "tuned": ("may change governor, C-states and sysctls", "systemctl stop tuned"),
    "thermald": ("may throttle CPUs", "systemctl stop thermald"),
    "vpp_main": ("has or takes cards if its configuration says so", "systemctl stop vpp"),
    "NetworkManager": ("takes interfaces it finds", "nmcli device set {ports} managed no"),
}
#: Program -> Debian package.
_PACKAGES = {"ip": "iproute2", "bridge": "iproute2", "ethtool": "ethtool", "taskset": "util-linux"}
#: What our programs are linked with.
_LIBRARIES = ("libbpf1", "libxdp1", "libjansson4", "libelf1")
#: Everything that a host lacks at once (docs/provision.md).
_PROVISION = provision_command()
_BOOT = f"{provision_command(options='--tags boot -e xdplab_boot=true')}, then a reboot"


def host_checks(host: SshHost, roles: list[str], ifnames: list[str]) -> list[Check]:
    """All of one host; `roles` of A, B, C."""
    found = [_reached(host), _root(host), kernel(text_of(host, "/proc/sys/kernel/osrelease"), host.name)]
    found += [_program(host, name) for name in ("ip", "ethtool", "taskset")]
    found += [_frequency(host), _idle(host), _isolated(host), _clocksource(host), _wall_clock(host), _iommu(host)]
    found += [_service(host, name, ifnames) for name in _SERVICES]
    if "A" in roles:
        found.append(_own_program(host, "xdpgen", ["--version"]))
    if "C" in roles and "B" not in roles:  # it reflects frames
        found.append(_own_program(host, "xdpfwd", ["--help"]))
    if "B" in roles:
        found.append(_own_program(host, "xdpfwd", ["--help"]))
        found += [_program(host, "bridge"), hugepages(host)]
        found += [
            _ovs(host, "Open vSwitch", "stock", OvsAfxdp.daemon, "openvswitch-switch"),
            patched_ovs(host, how_to_send(PATCHED)),
            _ovs(host, "OVS-DPDK", "stock", OvsDpdk.daemon, "openvswitch-switch-dpdk"),
            tap(host),
            _testpmd(host),
            vpp(host),
        ]
    return found


def kernel(release: str, host: str = "") -> Check:
    """What is older than the oldest tested is not supported."""
    good, oldest = version_of(release) >= MINIMUM, ".".join(map(str, MINIMUM))
    text = release if good else f"{release} is older than {oldest}, the oldest that is tested"
    return check("kernel", good, text, f"boot Linux {oldest} or later (Debian 12's or newer)", host=host)


def _reached(host: SshHost) -> Check:
    began = time.monotonic()
    for _ in range(10):
        host.exists("/")
    took_ms = (time.monotonic() - began) * 100
    return check("ssh", True, f"reached; a request takes {took_ms:.1f} ms", "", host=host.name)


def _root(host: SshHost) -> Check:
    uid = host.facts["uid"]
    fix = "`user: root` or `sudo: true` for this host in the testbed file; docs/security.md says what needs it"
    return check("root", uid == 0, "yes" if uid == 0 else f"no, user id {uid}", fix, host=host.name)


def _program(host: Host, name: str) -> Check:
    done = host.run(["which", name], check=False)
    return check(
        name, not done.returncode, done.stdout.strip() or "not found", _install(_PACKAGES[name]), host=host.name
    )


def _install(*packages: str) -> str:
    return f"apt-get install {' '.join(packages)} on that host, or everything with {_PROVISION}"


def patched_ovs(host: Host, fix: str) -> Check:
    """Our build, which executes flows in XDP too."""
    return _ovs(host, "patched Open vSwitch", PATCHED, OvsAfxdp.daemon, "", fix)


def _ovs(host: Host, name: str, build_name: str, daemon: str, package: str, fix: str = "") -> Check:
    """The build's own words, with the patches it was made with: what a study would measure."""
    build = find_build(build_name, daemon, host)
    absent = missing(host, build, package)
    if absent is not None:
        fix = _install(package) if package else fix
        return check(name, False, absent.partition(";")[0], fix, required=False, host=host.name)
    facts = build_facts(host, build)
    patches = f", {len(facts['patches'])} patches, key {facts['key']}" if "patches" in facts else ""
    return check(name, True, f"{facts['version']}{patches}", "", host=host.name)


def tap(host: Host, *, required: bool = False) -> Check:
    """The device that Open vSwitch makes its bridges with."""
    without = why_no_tap(host)
    found = f"{without}: Open vSwitch cannot make a bridge" if without else TUN
    return check("tap devices", not without, found, FIX_TUN, required=required, host=host.name)


def _testpmd(host: Host) -> Check:
    there = host.exists(TESTPMD)
    version = host.run(["dpkg-query", "--show", "--showformat=${Version}", "dpdk-dev"], check=False).stdout
    found = f"{TESTPMD} {version}".strip() if there else f"{TESTPMD} not found"
    return check("testpmd", there, found, _install("dpdk-dev"), required=False, host=host.name)


def vpp(host: Host) -> Check:
    """VPP and its version; it is optional."""
    try:
        program, reason = find_vpp(host, "", "vpp-plugin-core")
    except InputError as exc:
        return check("VPP", False, str(exc), "name VPP's program or prefix by XDPLAB_VPP, or unset it", host=host.name)
    found = f"{program} {installed_version(host, program)}" if program else "not found"
    return check("VPP", program is not None, found, reason, required=False, host=host.name)


def trex() -> Check:
    """TRex on this machine: its client library speaks to a server, also to one on the tester's host."""
    try:
        found = find_trex()
    except InputError as exc:
        return check("TRex", False, str(exc), "name the folder of a release by XDPLAB_TREX, or unset it")
    return check("TRex", found is not None, str(found.folder) if found else "absent", HOW_TO_GET, required=False)


def _own_program(host: SshHost, name: str, question: list[str]) -> Check:
    """Whether our program starts there: it needs libbpf, libxdp and libjansson of the right version."""
    if bpf_program(name) is None:
        return check(name, False, *build_gap(), host=host.name)
    try:
        path = built(name, host)
        done = host.run([path, *question], check=False)
    except Unsupported as exc:
        text, _, fix = str(exc).removeprefix(f"{host.name}: ").partition(": ")
        return check(name, False, text, fix, host=host.name)
    except XdplabError as exc:
        return check(name, False, str(exc), _install(*_LIBRARIES), host=host.name)
    loads = "error while loading" not in done.stderr and "not found" not in done.stderr
    found = f"{path}, hash as here" if loads else done.complaint
    return check(name, loads, found, _install(*_LIBRARIES), host=host.name)


def _frequency(host: Host) -> Check:
    governor = text_of(host, f"{_CPU}/cpu0/cpufreq/scaling_governor") or "no cpufreq (a virtual machine, or fixed)"
    good = governor == "performance" or governor.startswith("no ")
    return _advice("governor", good, governor, "cpupower frequency-set -g performance", host)


def _idle(host: Host) -> Check:
    """The deepest sleep that is enabled, with what waking up costs."""
    deepest = ("", 0)
    folder = f"{_CPU}/cpu0/cpuidle"
    for state in host.names(folder) if host.exists(folder) else ():
        latency = int(text_of(host, f"{folder}/{state}/latency") or 0)
        if text_of(host, f"{folder}/{state}/disable") == "0" and latency >= deepest[1]:
            deepest = (text_of(host, f"{folder}/{state}/name"), latency)
    text = f"deepest {deepest[0]}, {deepest[1]} us to wake up" if deepest[0] else "none (a virtual machine, or off)"
    return _advice("C-states", deepest[1] <= 10, text, "cpupower idle-set -D 10", host)


def _isolated(host: SshHost) -> Check:
    isolated = text_of(host, f"{_CPU}/isolated")
    text = isolated or f"none of {len(host.cpus)} CPUs"
    return _advice("isolated CPUs", bool(isolated), text, _BOOT, host)


def _clocksource(host: Host) -> Check:
    """A clock that costs a call into the hypervisor or a slow device spoils time stamps."""
    source = text_of(host, "/sys/devices/system/clocksource/clocksource0/current_clocksource")
    good = source in ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter")
    return _advice("clock source", good, source or "unknown", "boot parameter clocksource=tsc", host)


def _wall_clock(host: Host) -> Check:
    """For reading logs side by side; no latency is taken from it."""
    before = time.time()
    there = float(host.run(["date", "+%s.%N"]).stdout)
    offset_s = there - (before + time.time()) / 2
    return _advice("wall clock", abs(offset_s) < 1.0, f"{offset_s:+.3f} s from ours", "apt-get install chrony", host)


def _iommu(host: Host) -> Check:
    units = host.names("/sys/class/iommu") if host.exists("/sys/class/iommu") else []
    translating = bool(units) and "iommu=pt" not in text_of(host, "/proc/cmdline").split()
    text = "off" if not units else "on, translating" if translating else "on, pass-through"
    return _advice("IOMMU", not translating, text, _BOOT, host)


def hugepages(host: Host) -> Check:
    path = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    text = text_of(host, path)
    found = f"{text or 'no'} 2 MiB pages reserved; runs that need them reserve and give back"
    fix = "a kernel with CONFIG_HUGETLBFS"
    return check("hugepages", bool(text), found, fix, required=False, host=host.name)


def _service(host: Host, name: str, ifnames: list[str]) -> Check:
    running = not host.run(["pgrep", "-x", name[:15]], check=False).returncode
    why, fix = _SERVICES[name]
    return _advice(name, not running, why if running else "not running", fix.format(ports=" ".join(ifnames)), host)


def _advice(name: str, good: bool, found: str, fix: str, host: Host) -> Check:
    return check(name, good, found, fix, required=False, host=host.name, otherwise="advice")
