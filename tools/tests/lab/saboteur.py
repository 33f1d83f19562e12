# SPDX-License-Identifier: Apache-2.0
"""Loaded into a run as a third party's tester: makes runs slow or quick, and breaks one at a chosen moment.

LAB_SABOTAGE is JSON: `at` (module:qualified name of a function), `call` (the how many-th call, from 1), `needs` (a
child process without which a call does not count), `after_s` (later than its beginning), `signal`, and `target`:
`self`, or the name of a child process; `restored`: the guardian is not killed with the run. LAB_TAG fixes the
tag in the names of namespaces and links, so that a test knows its own next to those of others. LAB_XDP_ON names a
port that is found to carry an XDP program. LAB_DIRECT is a folder of what the direct link carried, which takes
seconds of each run. LAB_FREEZER (v1, v2 or none) is the only freezer of cgroups that is found. LAB_SILENT_S is how
long a forwarder may let no frame through after its start, for those that never will.
"""

import functools
import hashlib
import importlib
import json
import os
import signal
import subprocess
import threading
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from hdrh.histogram import HdrHistogram

from xdplab.forwarders import Forwarder
from xdplab.hosts import freezer
from xdplab.model import StreamResult, TrialResult, TrialSpec
from xdplab.testbed import embedded
from xdplab.testers import TesterContext
from xdplab.testers.fake import FakeTester
from xdplab.testers.xdpgen import Xdpgen
from xdplab.tools import bpf_program

#: What xdpgen sends on any machine whose CPU it has, and how often it is asked for that.
_EASY_PPS, _CALIBRATIONS = 100_000.0, 20
_FOLDERS = freezer.folders


class SlowFake(FakeTester):
    """The fake tester, taking LAB_TRIAL_S for each trial behind a forwarder."""

    name: ClassVar[str] = "slow-fake"

    def run(self, context: TesterContext, trial: TrialSpec) -> TrialResult:
        if context.forwarder is not None:
            time.sleep(float(os.environ.get("LAB_TRIAL_S", "0.1")))
        return super().run(context, trial)


class BiasedFake(FakeTester):
    """The fake tester with a way of its own: BIAS_NS more on every frame, frames lost above WHOLE_PPS, no recovery."""

    name: ClassVar[str] = "biased-fake"
    loses_by_itself: ClassVar[bool] = True
    cannot: ClassVar[Mapping[str, str]] = {"recovery": "it cannot tell which frame was lost last"}
    BIAS_NS = 50_000
    WHOLE_PPS = 300_000.0

    def __init__(self) -> None:
        super().__init__()
        self.holds_ports = False
        self.closed = 0

    def run(self, context: TesterContext, trial: TrialSpec) -> TrialResult:
        self.holds_ports = True
        result = super().run(context, trial)
        return result.model_copy(update={"streams": tuple(map(self._biased, result.streams))})

    def close(self) -> None:
        self.closed += self.holds_ports
        self.holds_ports = False

    def _biased(self, stream: StreamResult) -> StreamResult:
        too_many = max(0, round(stream.received * (1 - self.WHOLE_PPS / stream.rx_pps))) if stream.rx_pps else 0
        changes: dict[str, Any] = {"received": stream.received - too_many, "lost": stream.lost + too_many}
        if stream.latency:
            before, after = HdrHistogram.decode(stream.latency.hdr), HdrHistogram(1, 10_000_000_000, 3)
            for item in before.get_recorded_iterator():
                after.record_value(item.value_iterated_to + self.BIAS_NS, item.count_at_value_iterated_to)
            changes["latency"] = stream.latency.model_copy(update={"hdr": after.encode().decode()})
        return stream.model_copy(update=changes)


class QuickXdpgen(Xdpgen):
    """xdpgen with a short calibration, whose trials are those of the first run that asked for them."""

    name: ClassVar[str] = "quick"

    def run(self, context: TesterContext, trial: TrialSpec) -> TrialResult:
        if context.forwarder is None:
            kept = self._kept(context, trial)
            if kept is None or not kept.exists():
                result = self._calibrated(context, trial)
                if kept is None:
                    return result
                partial = kept.with_suffix(f".{os.getpid()}")
                partial.write_text(result.model_dump_json(), encoding="utf-8")
                partial.replace(kept)
            return TrialResult.model_validate_json(kept.read_text(encoding="utf-8"))
        return self.measure(context, trial) if trial.duration_s >= 0.1 else super().run(context, trial)

    def _calibrated(self, context: TesterContext, trial: TrialSpec) -> TrialResult:
        """The first of some in which the machine did not stand still: all runs would have what it could send then."""
        short = trial.model_copy(update={"duration_s": 0.03, "warmup_s": 0.0, "drain_s": 0.02})
        for _ in range(_CALIBRATIONS):
            result = super().run(context, short)
            least = [0.5 * min(stream.pps or _EASY_PPS, _EASY_PPS) for stream in trial.streams]
            if all(one.achieved_pps >= pps for one, pps in zip(result.streams, least, strict=True)):
                break
        return result.model_copy(update={"stalled_ns": 0})  # what runs is tested, not how quietly

    def _kept(self, context: TesterContext, trial: TrialSpec) -> Path | None:
        if "LAB_DIRECT" not in os.environ:
            return None
        asked = (self.identity(), context.rx_program, context.layout, context.host.name, trial)
        return Path(os.environ["LAB_DIRECT"], hashlib.sha256(repr(asked).encode()).hexdigest()[:16])

    def measure(self, context: TesterContext, trial: TrialSpec) -> TrialResult:
        """A trial that is neither calibration nor proof of the path: a place for sabotage."""
        return super().run(context, trial)


class UntidyXdpgen(QuickXdpgen):
    """It leaves the port that it has sent from with another MTU."""

    name: ClassVar[str] = "untidy"

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self._first: Any = None

    def run(self, context: TesterContext, trial: TrialSpec) -> TrialResult:
        self._first = context.ports.first
        return super().run(context, trial)

    def close(self) -> None:
        super().close()
        first, self._first = self._first, None
        if first is not None:
            first.host.run(["ip", "link", "set", first.ifname, "mtu", "2000"])


def children(name: str) -> list[int]:
    """Our child processes of that name."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                stat = (path / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            comm, ppid = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()[1]
            if int(ppid) == os.getpid() and comm == name[:15]:
                found.append(int(path.name))
    return found


def _strike(plan: dict[str, Any]) -> None:
    number = signal.Signals[plan["signal"]]
    if plan["target"] == "self" and number == signal.SIGKILL and not plan.get("restored"):
        from lab.command import kill_9

        kill_9(os.getpid())
    for pid in [os.getpid()] if plan["target"] == "self" else children(plan["target"]):
        os.kill(pid, number)


def _arm(plan: dict[str, Any]) -> None:
    module, _, name = plan["at"].partition(":")
    owner: Any = importlib.import_module(module)
    *parents, last = name.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    original = getattr(owner, last)
    calls = 0
    struck: list[int] = []

    @functools.wraps(original)
    def sabotaged(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += not plan.get("needs") or bool(children(plan["needs"]))
        if calls == plan.get("call", 1) and not struck:
            struck.append(calls)
            timer = threading.Timer(plan.get("after_s", 0.0), _strike, [plan])
            timer.daemon = True
            timer.start()
            if not plan.get("after_s"):
                timer.join()
        return original(*args, **kwargs)

    setattr(owner, last, sabotaged)


def freezers(kind: str) -> list[Path]:
    """Where cgroups of one version can be made."""
    return [path for path in _FOLDERS() if ("v2" if (path / "cgroup.controllers").exists() else "v1") == kind]


def _occupy(role: str) -> None:
    """Have a program of somebody else on a port as soon as the testbed is up."""
    up = embedded.EmbeddedTestbed.up

    @functools.wraps(up)
    def occupied(self: embedded.EmbeddedTestbed) -> None:
        up(self)
        port = self.ports[role]
        argv = ["ip", "netns", "exec", Path(port.netns or "").name, str(bpf_program("xdpfwd")), f"--if0={port.ifname}"]
        process = subprocess.Popen([*argv, "--mode=native", "--hairpin"], stdout=subprocess.PIPE)
        assert process.stdout
        process.stdout.readline()  # it is ready

    embedded.EmbeddedTestbed.up = occupied  # type: ignore[method-assign]


if "LAB_SILENT_S" in os.environ:
    Forwarder.silent_s = float(os.environ["LAB_SILENT_S"])
if "LAB_FREEZER" in os.environ:
    freezer.folders = lambda: iter(freezers(os.environ["LAB_FREEZER"]))  # type: ignore[misc,assignment]
if "LAB_XDP_ON" in os.environ:
    _occupy(os.environ["LAB_XDP_ON"])
if "LAB_TAG" in os.environ:
    embedded.secrets = types.SimpleNamespace(token_hex=lambda _: os.environ["LAB_TAG"])  # type: ignore[attr-defined]
if "LAB_SABOTAGE" in os.environ:
    _arm(json.loads(os.environ["LAB_SABOTAGE"]))
