# SPDX-License-Identifier: Apache-2.0
"""Everything a run needs, checked, with the command that fixes each gap."""

import os
import platform
import re
import shutil
from collections.abc import Callable

from xdplab.app import Prepared, survey
from xdplab.cli.check import Check, check
from xdplab.cli.doctor_host import hugepages, kernel, patched_ovs, tap, trex, vpp
from xdplab.cli.doctor_hosts import hosts_checks
from xdplab.forwarders.dpdk.testpmd import PROGRAM as TESTPMD
from xdplab.forwarders.ovs.builds import PATCHED, how_to_make
from xdplab.forwarders.ovs.forwarder import OvsAfxdp, OvsDpdk
from xdplab.hosts import LocalHost
from xdplab.model import InputError, TestbedSpec, XdplabError
from xdplab.runner import Listener
from xdplab.testbed import TestbedLock, usable_cpus
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
