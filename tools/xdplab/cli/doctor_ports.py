# SPDX-License-Identifier: Apache-2.0
"""What the doctor asks of each port of a testbed: driver, XDP, queues, NUMA node, and the cables between them."""

import re
from collections.abc import Mapping

from xdplab.cli.doctor_host import Check, check
from xdplab.hosts import Host
from xdplab.hosts.frames import probe_cables
from xdplab.hosts.kernel import cpu_list, driver as driver_of, driver_facts, pause_on, rx_queues, text_of, version_of
from xdplab.knobs.ethtool import shown
from xdplab.knobs.queues import Channels
from xdplab.model import PortSpec, TestbedSpec
from xdplab.model.run import NOT_IN_FORCE
from xdplab.model.testbed import LINKS
from xdplab.runner.low_latency import NOT_SET, LowLatency
from xdplab.testbed import HostsTestbed, Port, port_settings
from xdplab.testbed.needs import how_freed, needed, who_needs

#: Drivers whose sockets get the NAPI id that busy polling needs on kernels from 6.13 on (net/xdp/xsk.c, xsk_bind).
_BUSY_POLLING = ("virtio_net", "igb", "igc", "ice", "mlx5_core")


def port_checks(testbed: HostsTestbed, role: str, port: Port, given: PortSpec) -> list[Check]:
    """All of one port, without changing it."""
    host, ifname = port.host, port.ifname
    link = port_settings.read_link(host, ifname)
    found = [_as_stated(host, role, ifname, given, link), _free(host, ifname)]
    found += [*_pcie(host, ifname), _queues(host, ifname, testbed.spec), _numa(testbed, host, ifname, role)]
    found += _pause(host, ifname, testbed.spec.low_latency) + _moderation(host, ifname, role, testbed.spec.low_latency)
    if role in ("b0", "b1"):
        found += _features(host, ifname)
    return found


def _as_stated(host: Host, role: str, ifname: str, given: PortSpec, link: dict[str, object]) -> Check:
    """Driver, firmware, PCI address, MAC and speed, against the file where it names them."""
    about = driver_facts(host, ifname)
    speed = text_of(host, f"/sys/class/net/{ifname}/speed")
    facts = {
        "driver": about.get("driver", "unknown"),
        "firmware": about.get("firmware-version", ""),
        "pci": about.get("bus-info", ""),
        "mac": str(link["address"]),
        "speed_mbps": speed if speed not in ("", "-1") else "",
    }
    wanted = {"driver": given.driver, "pci": given.pci, "mac": given.mac, "speed_mbps": given.speed_mbps}
    wrong = [
        f"{key} is {facts[key] or 'unknown'}, the file says {value}"
        for key, value in wanted.items()
        if value is not None and str(value) != facts[key]
    ]
    shown = ", ".join(f"{key} {value}" for key, value in facts.items() if value)
    fix = f"correct ports.{role} in the testbed file, or the machine"
    return check(f"{role} {ifname}", not wrong, "; ".join(wrong) or shown, fix, host=host.name)


def _free(host: Host, ifname: str) -> Check:
    needs = who_needs(host, ifname)
    return check(f"{ifname} use", not needs, needed(needs) or "not in use", how_freed(needs), host=host.name)


def _queues(host: Host, ifname: str, spec: TestbedSpec) -> Check:
    """Frames of one flow meet one queue only when there is no other."""
    count, wanted = rx_queues(host, ifname), spec.queues
    by_run = spec.low_latency and Channels().limit(host, ifname, wanted) is None
    found = str(count)
    if count != wanted:
        found += f" in use, {wanted} for the time of a run" if by_run else f" in use, the file says {wanted}"
    fix, good = f"ethtool -L {ifname} combined {wanted}", by_run or count == wanted
    return check(f"{ifname} queues", good, found, fix, required=False, host=host.name, otherwise="advice")


def _numa(testbed: HostsTestbed, host: Host, ifname: str, role: str) -> Check:
    """The CPUs that serve a port should be on its node."""
    node = text_of(host, f"/sys/class/net/{ifname}/device/numa_node")
    name = f"{ifname} NUMA node"
    if node in ("", "-1"):
        return check(name, True, "none (one node, or no device)", "", host=host.name)
    layout = testbed.layout
    cpu = layout.forwarder if role.startswith("b") else layout.tester_tx
    local = cpu_list(text_of(host, f"/sys/devices/system/node/node{node}/cpulist"))
    found = f"{node}; CPU {cpu} that serves it is {'on it' if cpu in local else 'on another'}"
    fix = f"cpus: {list(local[:4])} for host {host.name} in the testbed file"
    return check(name, cpu in local, found, fix, required=False, host=host.name, otherwise="advice")


def _pcie(host: Host, ifname: str) -> list[Check]:
    """What its slot gives a card, against what the card can do; nothing is said of what is in no such slot."""
    device = f"/sys/class/net/{ifname}/device"
    now, most = (
        [re.match(r"[\d.]+", text_of(host, f"{device}/{which}_link_{fact}")) for fact in ("speed", "width")]
        for which in ("current", "max")
    )
    if None in (*now, *most):
        return []
    (speed, width), (top_speed, top_width) = ([float(each[0]) for each in pair if each] for pair in (now, most))
    if not all((speed, width, top_speed, top_width)):
        return []
    there = f"{speed:g} GT/s x{width:g} ({_gbps(speed, width):.0f} Gbit/s)"
    good = speed >= top_speed and width >= top_width
    found = there if good else f"{there}, the card can {top_speed:g} GT/s x{top_width:g}"
    line = text_of(host, f"/sys/class/net/{ifname}/speed")
    if not good and line.isdecimal():
        found += f"; its link has {int(line) / 1000:g} Gbit/s"
    fix = "put it into a slot of that width and generation, or set that in the firmware"
    return [check(f"{ifname} PCIe", good, found, fix, required=False, host=host.name, otherwise="advice")]


def _gbps(speed_gts: float, width: float) -> float:
    """Of the encoded bits those that are data: 8 of 10 before PCIe 3.0, which has 8 GT/s, then 128 of 130."""
    return speed_gts * width * (0.8 if speed_gts < 8 else 128 / 130)


def setting_checks(own: LowLatency, ports: Mapping[str, Port]) -> list[Check]:
    """What a run sets on each port: it has been set, and read back."""
    return [_settings(ports[role], settings) for role, settings in sorted(own.found.items()) if settings]


def _settings(port: Port, settings: Mapping[str, str]) -> Check:
    refused = [why for why in settings.values() if why.startswith((NOT_SET, NOT_IN_FORCE))]
    found = "; ".join(refused) or ", ".join(f"{knob} {value}" for knob, value in settings.items())
    fix = f"the run goes on without it; set it on {port.ifname} yourself, or stop the service that changes it"
    name = f"{port.ifname} settings of a run"
    return check(name, not refused, found, fix, required=False, host=port.host.name, otherwise="advice")


def _pause(host: Host, ifname: str, by_run: bool) -> list[Check]:
    """With them a loss is not the forwarder's; nothing is said of a driver that has none."""
    text = shown(host, "-a", ifname)
    if not text:
        return []
    on = pause_on(text)
    found = (
        "off"
        if not on
        else "on, off for the time of a run"
        if by_run
        else "on: pause frames slow the sender and hide losses"
    )
    fix = f"low_latency: true in the testbed file, or ethtool -A {ifname} autoneg off rx off tx off"
    good = by_run or not on
    return [check(f"{ifname} pause frames", good, found, fix, required=False, host=host.name, otherwise="advice")]


def _moderation(host: Host, ifname: str, role: str, by_run: bool) -> list[Check]:
    """How long a card of the tester's holds interrupts back, which is in each latency."""
    text = "" if role.startswith("b") else shown(host, "-c", ifname)
    usecs = re.findall(r"^([rt]x-usecs: *[1-9]\d*)$", text, re.MULTILINE)
    adaptive = re.findall(r"^Adaptive.*\bon\b.*$", text, re.MULTILINE)
    if not text:
        return []
    held = ", ".join([*usecs, *(line.lower() for line in adaptive)])
    found = f"{held}, none for the time of a run" if held and by_run else held or "no interrupt moderation"
    fix = f"low_latency: true in the testbed file, or ethtool -C {ifname} adaptive-rx off rx-usecs 0 tx-usecs 0"
    good = by_run or not held
    return [check(f"{ifname} interrupts", good, found, fix, required=False, host=host.name, otherwise="advice")]


def _features(host: Host, ifname: str) -> list[Check]:
    """What the kernel says that the driver can do."""
    able = host.xdp_features(ifname)
    driver = driver_of(host, ifname)
    release = host.read("/proc/sys/kernel/osrelease")
    if able is None:
        text = f"{driver} on {release}: unknown, the kernel reports it from 6.3 on; a run with xdp_mode=native shows it"
        return [check(f"{ifname} XDP", False, text, "boot a newer kernel", required=False, host=host.name)]
    native = {"basic", "redirect"} <= set(able)
    busy = version_of(release) < (6, 13) or driver in _BUSY_POLLING
    checks = {
        "native XDP": (native, "generic mode only: slower, and not what the comparison is about"),
        "AF_XDP zero-copy": ("xsk-zerocopy" in able, "copy mode only"),
        "AF_XDP busy polling": (busy, "inactive: the driver does not tie its queues to NAPIs (kernel 6.13 and later)"),
    }
    fix = "a NIC and kernel whose driver has it; points that need it are marked unsupported"
    text = f"{driver} on {release}: "
    return [
        check(f"{ifname} {name}", good, text + ("yes" if good else why), fix, required=False, host=host.name)
        for name, (good, why) in checks.items()
    ]


def cable_checks(testbed: HostsTestbed) -> list[Check]:
    """Send a frame from each port and see which port receives it. The ports are up and free."""
    hosts = testbed.hosts
    ends = {role: (hosts[port.host.name], port.ifname) for role, port in testbed.ports.items() if port.in_kernel}
    heard = probe_cables(ends)
    return [_cable(testbed, left, right, heard) for left, right in LINKS if {left, right} <= set(ends)]


def _cable(testbed: HostsTestbed, left: str, right: str, heard: dict[str, set[str]]) -> Check:
    ends = {role: f"{role} ({testbed.ports[role].host.name} {testbed.ports[role].ifname})" for role in testbed.ports}
    name = f"cable {left}-{right}"
    if heard[left] == {right} and heard[right] == {left}:
        return check(name, True, f"{ends[left]} and {ends[right]} hear each other", "")
    facts = []
    for role, other in ((left, right), (right, left)):
        reached = sorted(heard[role] - {other})
        if reached:
            facts.append(f"{ends[role]} reaches {', '.join(ends[each] for each in reached)}")
        elif other not in heard[role]:
            facts.append(f"{ends[role]} sent test frames, and none arrived at a port of the testbed file")
    return check(name, False, "; ".join(facts), "move the cables, or exchange the ifnames in the testbed file")
