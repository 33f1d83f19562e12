# SPDX-License-Identifier: Apache-2.0
"""Everything about the machine that can change a number, read once per run."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any

from xdplab import __version__
from xdplab.hosts import Host, LocalHost
from xdplab.hosts.kernel import cpu_model, field_of, text_of
from xdplab.hosts.waiting import run_parallel
from xdplab.knobs.ethtool import shown
from xdplab.knobs.interrupts import irq_cpus
from xdplab.model import Environment, InputError, RunRecord, TrialRecord, XdplabError
from xdplab.model.base import flat
from xdplab.model.run import Resumption
from xdplab.runner.plan import Plan
from xdplab.runner.turns import instances_of
from xdplab.testbed import Port, Testbed
from xdplab.tools import checkout

_SYSCTLS = ("net.core.busy_poll", "net.core.busy_read", "net.core.netdev_budget", "net.core.netdev_budget_usecs",
            "net.core.dev_weight", "net.core.bpf_jit_enable", "kernel.sched_rt_runtime_us")  # fmt: skip
_NAPI_FILES = ("threaded", "napi_defer_hard_irqs", "gro_flush_timeout", "mtu")
_PACKAGES = ("xdplab", "robotframework", "numpy", "scipy", "hdrhistogram", "pydantic")
_CPU = "/sys/devices/system/cpu"


def capture_environment(
    testbed: Testbed, testers: Mapping[str, str], plan: Plan, low_latency: Mapping[str, Mapping[str, str]]
) -> Environment:
    """Read it; what this machine has not got is recorded as absent, never guessed.

    `testers`: their versions; `low_latency`: what the run has set on cards.
    """
    host, machine = testbed.dut, testbed.system
    asked = {role: partial(_port, port) for role, port in testbed.ports.items() if port.in_kernel}
    ports = dict(zip(asked, run_parallel(*asked.values()), strict=True)) if asked else {}
    versions = {name: version(name) for name in _PACKAGES}
    versions |= testers
    for point in plan.points:
        versions |= plan.method.forwarder(point).versions(host)
    return Environment(
        kernel=text_of(machine, "/proc/sys/kernel/osrelease"),
        kernel_version=text_of(machine, "/proc/sys/kernel/version").strip(),
        cmdline=text_of(machine, "/proc/cmdline"),
        cpu_model=cpu_model(machine),
        machine=text_of(machine, "/sys/class/dmi/id/product_name").strip(),
        topology=_topology(machine),
        governor=text_of(machine, f"{_CPU}/cpu0/cpufreq/scaling_governor") or "no cpufreq",
        mitigations={name: text_of(machine, f"{_CPU}/vulnerabilities/{name}") for name in _names(machine)},
        memory_kib=int(field_of(text_of(machine, "/proc/meminfo"), "MemTotal").split()[0]),
        ports=ports,
        low_latency={role: dict(settings) for role, settings in low_latency.items()},
        sysctls=_sysctls(machine) if asked else {},  # of simulated ports they can change nothing
        versions=versions,
        git_revision=_revision(LocalHost()),
        hosts=_others(testbed),
        clock=testbed.clock[1],
    )


def _sysctls(host: Host) -> dict[str, str]:
    return {name: text_of(host, "/proc/sys/" + name.replace(".", "/")) or "absent" for name in _SYSCTLS}


def _names(host: Host) -> list[str]:
    """Vulnerabilities that the kernel knows of."""
    folder = f"{_CPU}/vulnerabilities"
    return host.names(folder) if host.exists(folder) else []


def _others(testbed: Testbed) -> dict[str, dict[str, str]]:
    """What matters of the tester's machines, where they are not the forwarder's."""
    others = {port.host.name: port.host for port in testbed.ports.values() if port.lasting}
    others.pop(testbed.dut.name, None)
    return {
        name: {
            "kernel": text_of(host, "/proc/sys/kernel/osrelease"),
            "cmdline": text_of(host, "/proc/cmdline"),
            "cpu_model": cpu_model(host),
            "governor": text_of(host, f"{_CPU}/cpu0/cpufreq/scaling_governor") or "no cpufreq",
        }
        for name, host in others.items()
    }


def _topology(host: Host) -> dict[str, Any]:
    found = [re.fullmatch(r"cpu(\d+)", name) for name in host.names(_CPU)]
    cpus = sorted(int(match.group(1)) for match in found if match)
    siblings = {cpu: text_of(host, f"{_CPU}/cpu{cpu}/topology/thread_siblings_list") for cpu in cpus}
    return {
        "cpus": len(cpus),
        "usable": sorted(host.cpus),
        "thread_siblings": siblings,
        "isolated": text_of(host, f"{_CPU}/isolated"),
        "smt": text_of(host, f"{_CPU}/smt/control") or "absent",
        "cpuidle": text_of(host, f"{_CPU}/cpuidle/current_governor") or "absent",
        "hypervisor": "hypervisor" in field_of(text_of(host, "/proc/cpuinfo"), "flags").split(),
    }


def _port(port: Port) -> dict[str, Any]:
    """Driver, offloads, rings, channels, coalescing, RSS and NAPI files of a port, in ethtool's own words.

    Where it has them also pause frames, and the CPUs of its interrupts.
    """
    host = port.host
    facts: dict[str, Any] = {"ifname": port.ifname, "mac": port.mac, "host": host.name}
    for flag in ("-i", "-g", "-l", "-c", "-k", "-x"):
        done = host.run(["ethtool", flag, port.ifname], check=False)
        facts[f"ethtool {flag}"] = done.stdout.strip() if done.returncode == 0 else done.complaint
    if pause := shown(host, "-a", port.ifname).strip():
        facts["ethtool -a"] = pause
    if interrupt_cpus := irq_cpus(host, port.ifname):
        facts["irq_cpus"] = interrupt_cpus
    folder = f"/sys/class/net/{port.ifname}"
    output = host.run(["grep", "-sH", "", *(f"{folder}/{file}" for file in _NAPI_FILES)], check=False).stdout
    found = dict(line.removeprefix(f"{folder}/").partition(":")[::2] for line in output.splitlines())
    return facts | {file: found.get(file) or "absent" for file in _NAPI_FILES}


def _revision(host: Host) -> str:
    """The checkout's commit, marked when it has local changes; of a wheel its version."""
    here = checkout()
    if here is None:
        return f"wheel of {__version__}"
    git = ["git", "-c", "safe.directory=*", "-C", str(here)]
    try:
        head = host.run([*git, "rev-parse", "--short=12", "HEAD"], check=False)
        if head.returncode:
            return "unknown"
        dirty = host.run([*git, "status", "--porcelain", "--untracked-files=no"], check=False).stdout.strip()
    except XdplabError:
        return "unknown"
    return head.stdout.strip() + ("+changes" if dirty else "")


# A run goes on where it was begun: figures of two machines, kernels or programs must not become one pair.

#: Parts of the environment that may differ between the parts of a run, and why; all else in it can change a number.
IGNORED_ON_RESUME = {
    "memory_kib": "what the kernel keeps for itself differs from boot to boot",
    "git_revision": "the programs that measure and forward have versions of their own",
    "versions.robotframework": "starts runs",
    "versions.numpy": "reads what was measured, and is not part of measuring it",
    "versions.scipy": "reads what was measured",
    "versions.pydantic": "writes what was measured",
}
_ABSENT = "absent"


def completed(trials: Iterable[TrialRecord], plan: Plan) -> frozenset[tuple[str, int]]:
    """Point and number of each repetition that a run which goes on does not make again."""
    ends = Counter((trial.point_id, trial.repetition) for trial in trials if trial.purpose == "end")
    starts = {point.id: instances_of(plan, point) for point in plan.points}
    return frozenset(each for each, count in ends.items() if count >= starts.get(each[0], 1))


def resumed(earlier: RunRecord, now: RunRecord) -> RunRecord:
    """The head of a run that goes on: the environment of its beginning, and what differs from it today.

    Raises:
        InputError: something differs that can change a number.
    """
    before, after = _facts(earlier), _facts(now)
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    changed = {key: _differing(before.get(key, _ABSENT), after.get(key, _ABSENT)) for key in keys}
    matter = [key for key in keys if key not in IGNORED_ON_RESUME]
    if matter:
        first, more = matter[0], matter[1:]
        was, became = changed[first]
        others = f"; so do {', '.join(more)}" if more else ""
        raise InputError(
            f"run {earlier.run_id}: it cannot be resumed: on testbed {now.testbed.name} {first} differs: {was!r} when "
            f"it began, {became!r} now{others}; put that back as it was, or start a new run"
        )
    part = Resumption(started=now.started, differences=changed)
    first_part = {"started": earlier.started, "environment": earlier.environment, "wall_s": earlier.wall_s}
    return now.model_copy(update={**first_part, "resumed": (*earlier.resumed, part)})


def _facts(run: RunRecord) -> dict[str, str]:
    """Dotted key -> value, of everything that says where and with what a run measures."""
    described = run.model_dump(mode="json", include={"testbed", "layout", "rx_program"})
    digest = hashlib.sha256(" ".join(sorted(run.points)).encode()).hexdigest()
    facts = {**run.environment.facts(), **flat(described), "points": f"{len(run.points)} with digest {digest[:12]}"}
    return {key: str(value) for key, value in facts.items()}


def _differing(was: str, became: str) -> tuple[str, str]:
    """The two values; of texts of several lines the first line that is not the same."""
    one, two = was.splitlines(), became.splitlines()
    if len(one) <= 1 and len(two) <= 1:
        return was, became
    pairs = zip(one + [_ABSENT] * len(two), two + [_ABSENT] * len(one), strict=False)
    return next((pair for pair in pairs if pair[0] != pair[1]), (was, became))
