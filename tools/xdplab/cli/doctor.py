# SPDX-License-Identifier: Apache-2.0
"""Everything a run needs, checked, with the command that fixes each gap."""

import os
import platform
import re
import shutil
from collections.abc import Callable

from xdplab.app import Prepared, survey
from xdplab.cli.doctor_host import Check, check, host_checks, hugepages, kernel, patched_ovs, tap, trex, vpp
from xdplab.cli.doctor_ports import cable_checks, port_checks, setting_checks
from xdplab.forwarders.dpdk import PROGRAM as TESTPMD
from xdplab.forwarders.ovs.builds import PATCHED, how_to_make
from xdplab.forwarders.ovs.forwarder import OvsAfxdp, OvsDpdk
from xdplab.hosts import LocalHost
from xdplab.model import InputError, TestbedSpec, XdplabError
from xdplab.runner import Listener, interruptible, low_latency
from xdplab.runner.recovery import guarded
from xdplab.testbed import HostsTestbed, TestbedLock, usable_cpus
from xdplab.tools import bpf_program, build_gap, checkout, setup_command


def study_checks(prepared: Prepared) -> list[Check]:
    """What this study needs: a row for each of its forwarders, by what a dry run asks (`runner.refusals`)."""
    found = survey(prepared, Listener())
    if isinstance(found, str):
        return [check(prepared.study.name, False, found, "change what the reason names")]
    rows = []
    for title in dict.fromkeys(point.title for point in prepared.plan.points):
        own = [point.id for point in prepared.plan.points if point.title == title]
        reasons = list(dict.fromkeys(found[point_id] for point_id in own if point_id in found))
        command = re.search(r"`([^`]+)`", " ".join(reasons))
        text = "; ".join(reasons) or f"{len(own)} of {len(own)} points can be measured"
        rows.append(
            check(title, not reasons, text, command[1] if command else "change what the reason names", required=False)
        )
    return rows


def checks(spec: TestbedSpec) -> list[Check]:
    if spec.kind == "hosts":
        return hosts_checks(spec)
    found = [_root(), kernel(platform.release()), _cpus(spec), _lock(spec)]
    found += [_program(name) for name in ("ip", "bridge", "ethtool", "taskset")]
    found += [_built(name) for name in ("xdpgen", "xdpfwd")]
    found += [
        _file("Open vSwitch", OvsAfxdp.daemon, required=True),
        _file("ovsdb-server", "/usr/sbin/ovsdb-server", required=True),
        patched_ovs(LocalHost(""), setup_command() if checkout() else how_to_make(PATCHED)),
        tap(LocalHost(""), required=True),
        _file("OVS-DPDK", OvsDpdk.daemon, required=False),
        _file("testpmd", TESTPMD, required=False),
        vpp(LocalHost("")),
        trex(),
        _veth(),
        hugepages(LocalHost("")),
    ]
    return found


def _root() -> Check:
    return check("root", os.geteuid() == 0, "yes" if os.geteuid() == 0 else "no", "run it with sudo")


def _cpus(spec: TestbedSpec) -> Check:
    try:
        cpus = usable_cpus(spec)
    except InputError as exc:
        return check("cpus", False, str(exc), "give the machine two CPUs or more")
    note = "" if len(cpus) > 2 else " (tester and housekeeping share one; layout 2C2T is not possible)"
    return check("cpus", True, f"{', '.join(map(str, cpus))}{note}", "")


def _lock(spec: TestbedSpec) -> Check:
    try:
        lock = TestbedLock(spec.name)
        lock.acquire()
        dirty = lock.changed
        lock.release()
    except XdplabError as exc:
        return check("testbed", False, str(exc), "xdplab restore")
    except PermissionError as exc:
        return check("testbed", False, f"{exc.filename}: owned by another user, so not visible", "run it with sudo")
    return check("testbed", not dirty, "not restored after a killed run" if dirty else "free", "xdplab restore")


def _program(name: str) -> Check:
    path = shutil.which(name)
    return check(name, path is not None, path or "not found", setup_command())


def _built(name: str) -> Check:
    path = bpf_program(name)
    return check(name, True, str(path), "") if path else check(name, False, *build_gap())


def _file(name: str, path: str, *, required: bool) -> Check:
    there = os.access(path, os.X_OK)
    return check(name, there, path if there else f"{path} not found", setup_command(), required=required)


def _veth() -> Check:
    """Whether namespaces and veth pairs can be made: try, in a namespace that is removed at once."""
    name = f"xdplab-doctor-{os.getpid()}"
    host = LocalHost()
    steps: list[Callable[[], object]] = [
        lambda: host.run(["ip", "netns", "add", name]),
        lambda: host.run(["ip", "-n", name, "link", "add", "t0", "type", "veth", "peer", "name", "t1"]),
    ]
    try:
        for step in steps:
            step()
        result = check("namespaces", True, "veth pairs can be made", "")
    except Exception as exc:  # any failure is the finding
        result = check("namespaces", False, str(exc), "run as root on a kernel with veth")
    finally:
        host.run(["ip", "netns", "delete", name], check=False)
    return result


# `xdplab doctor` for a testbed of machines: each host, each port, and then the cables with the ports up.


def hosts_checks(spec: TestbedSpec) -> list[Check]:
    """All checks; what cannot be asked because a host is not reached is left out, and the host is missing."""
    testbed = HostsTestbed(spec)
    try:
        testbed.lock.acquire()
    except InputError as exc:
        return [check("testbed", False, str(exc), "wait for it, or `xdplab restore --testbed` with this file")]
    try:
        left = testbed.lock.changed
        found = [
            check(
                "testbed",
                not left,
                "not restored after a killed run" if left else "free",
                "xdplab restore --testbed ...",
            )
        ]
        found += _each_host(testbed, with_ports=not left)
    finally:
        testbed.lock.release()
    if any(each.state == "missing" and each.name in ("ssh", "testbed", "ports") for each in found):
        for host in testbed.hosts.values():
            host.close()
        return found
    return found + _with_ports_up(testbed)


def _each_host(testbed: HostsTestbed, *, with_ports: bool) -> list[Check]:
    """`with_ports`: not where a killed run left them changed; what it left is remembered as of its own last session."""
    found = []
    homes = {role: port.host for role, port in testbed.spec.ports.items()}
    for name, host in testbed.hosts.items():
        roles = [letter for letter, role in (("A", "a0"), ("B", "b0"), ("C", "c0")) if homes.get(role) == name]  # type: ignore[call-overload]
        ifnames = [port.ifname for port in testbed.spec.ports.values() if port.host == name and port.ifname]
        try:
            host.open()
            found += host_checks(host, roles, ifnames)
        except XdplabError as exc:
            text, _, fix = str(exc).partition("; ")
            found.append(check("ssh", False, text, fix or "check address, port and sshd there", host=name))
    if with_ports and all(each.name != "ssh" or each.state == "ok" for each in found):
        try:
            testbed.find_ports()
            for role, given in testbed.spec.ports.items():
                if given.ifname:
                    found += port_checks(testbed, role, testbed.ports[role], given)
        except XdplabError as exc:
            text, _, fix = str(exc).partition("; ")
            found.append(check("ports", False, text, fix))
        else:
            one_clock, why = testbed.clock
            text = f"{why}: {'one-way latencies and round trips' if one_clock else 'round trips only'}"
            found += [check("clock of A and C", True, text, ""), direct_link(testbed.spec), trex()]
    return found


def direct_link(spec: TestbedSpec) -> Check:
    """What the tester is calibrated on; without it the ports' speed is the top load of RFC 2544."""
    fix = "join two tester ports by a cable and call them d0 and d1"
    if "d0" in spec.ports:
        return check("direct link", True, "d0 and d1: the tester is calibrated on it", "")
    found, speed_bps = "none, so the tester is not calibrated; ", spec.line_rate_bps
    if speed_bps is None:
        found, fix = f"{found}no top load of RFC 2544 is known", f"{fix}, or give speed_mbps of each port"
    else:
        found += f"RFC 2544 searches up to the {speed_bps / 1e9:g} Gbit/s of its ports"
    return check("direct link", False, found, fix, required=False, otherwise="advice")


def _with_ports_up(testbed: HostsTestbed) -> list[Check]:
    """The cables, and what a run sets on cards: it is set, read back, and put back."""
    spec, found = testbed.spec, list[Check]()
    with interruptible(spec.file or "..."), guarded(spec):
        _try_with_ports_up(testbed, found)
    return found


def _try_with_ports_up(testbed: HostsTestbed, found: list[Check]) -> None:
    try:
        testbed.up()
        found += [check("links", True, "up at every port", ""), *cable_checks(testbed)]
        with low_latency(testbed) as own:
            found += setting_checks(own, testbed.ports)
    except XdplabError as exc:
        text, _, fix = str(exc).partition("; ")
        found.append(check("links" if not found else "settings", False, text, fix))
    finally:
        testbed.down()
