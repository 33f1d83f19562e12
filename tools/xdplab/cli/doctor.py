# SPDX-License-Identifier: Apache-2.0
"""Everything a run needs, checked, with the command that mends each gap."""

import os
import platform
import re
import shutil
from collections.abc import Callable
from typing import Literal

from xdplab.forwarders.ovs_ports import OvsAfxdp, OvsDpdk
from xdplab.forwarders.testpmd import PROGRAM as TESTPMD
from xdplab.model import InputError, Model, TestbedSpec
from xdplab.testbed import TestbedLock, usable_cpus
from xdplab.tools import bpf_program

_SETUP = "ci/setup"


class Check(Model):
    """One thing that was looked at. `optional`: something is absent that only some rows need."""

    name: str
    state: Literal["ok", "optional", "missing"]
    found: str
    mend: str = ""

    def line(self) -> str:
        """`ok       kernel: 6.18`."""
        return f"{self.state:<9}{self.name}: {self.found}" + (f"   -> {self.mend}" if self.mend else "")


def checks(spec: TestbedSpec) -> list[Check]:
    """All checks for a testbed on this machine."""
    found = [_root(), _kernel(), _cpus(spec), _lock(spec)]
    found += [_program(name, _SETUP) for name in ("ip", "bridge", "ethtool", "taskset")]
    found += [_built(name) for name in ("xdpgen", "xdpfwd")]
    found += [
        _file("Open vSwitch", OvsAfxdp.daemon, required=True),
        _file("ovsdb-server", "/usr/sbin/ovsdb-server", required=True),
        _file("OVS-DPDK", OvsDpdk.daemon, required=False),
        _file("testpmd", TESTPMD, required=False),
        _veth(),
        _hugepages(),
    ]
    return found


def _check(name: str, good: bool, found: str, mend: str, *, required: bool = True) -> Check:
    return Check(
        name=name, state="ok" if good else "missing" if required else "optional", found=found, mend="" if good else mend
    )


def _root() -> Check:
    return _check("root", os.geteuid() == 0, "yes" if os.geteuid() == 0 else "no", "run it with sudo")


def _kernel() -> Check:
    release = platform.release()
    numbers = tuple(int(part) for part in re.findall(r"\d+", release)[:2])
    live = numbers >= (5, 18)
    text = release if live else f"{release}: older than 5.18, xdpgen falls back to an AF_XDP sender"
    return _check("kernel", live, text, "boot a kernel from 5.18 on", required=numbers < (5, 4))


def _cpus(spec: TestbedSpec) -> Check:
    try:
        cpus = usable_cpus(spec)
    except InputError as exc:
        return _check("cpus", False, str(exc), "give the machine two CPUs or more")
    note = "" if len(cpus) > 2 else " (tester and housekeeping share one; layout 2C2T is not possible)"
    return _check("cpus", True, f"{', '.join(map(str, cpus))}{note}", "")


def _lock(spec: TestbedSpec) -> Check:
    try:
        lock = TestbedLock(spec.name)
        lock.acquire()
        left = lock.state()
        lock.release()
    except InputError as exc:
        return _check("testbed", False, str(exc), "xdplab down")
    dirty = bool(left.get("netns") or left.get("settings"))
    return _check("testbed", not dirty, "left by a killed run" if dirty else "free", "xdplab down")


def _program(name: str, mend: str) -> Check:
    path = shutil.which(name)
    return _check(name, path is not None, path or "not found", mend)


def _built(name: str) -> Check:
    path = bpf_program(name)
    return _check(name, path is not None, str(path) if path else "not built", "make -C bpf")


def _file(name: str, path: str, *, required: bool) -> Check:
    there = os.access(path, os.X_OK)
    return _check(name, there, path if there else f"{path} not found", _SETUP, required=required)


def _veth() -> Check:
    """Whether namespaces and veth pairs can be made: try, in a namespace that is removed at once."""
    from xdplab.hosts import LocalHost

    name = f"xdplab-doctor-{os.getpid()}"
    host = LocalHost()
    steps: list[Callable[[], object]] = [
        lambda: host.run(["ip", "netns", "add", name]),
        lambda: host.run(["ip", "-n", name, "link", "add", "t0", "type", "veth", "peer", "name", "t1"]),
    ]
    try:
        for step in steps:
            step()
        result = _check("namespaces", True, "veth pairs can be made", "")
    except Exception as exc:  # any failure is the finding
        result = _check("namespaces", False, str(exc), "run as root on a kernel with veth")
    finally:
        host.run(["ip", "netns", "delete", name], check=False)
    return result


def _hugepages() -> Check:
    from pathlib import Path

    path = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
    text = path.read_text(encoding="ascii").strip() if path.exists() else ""
    return _check(
        "hugepages",
        bool(text),
        f"{text} of 2 MiB reserved; runs that need them reserve and give back",
        "",
        required=False,
    )
