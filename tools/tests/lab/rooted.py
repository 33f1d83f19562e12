# SPDX-License-Identifier: Apache-2.0
"""A real testbed of one test: a name and a tag of its own, and the proof that nothing of it is left."""

import json
import os
import platform
import re
import secrets
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from lab.command import Done, start, wait_for, xdplab
from xdplab.analysis import summarise
from xdplab.analysis.columns import rows_of
from xdplab.measure import make_method
from xdplab.model import TrialRecord
from xdplab.results import RunFolder
from xdplab.testbed.state import shared_memory_prefix

_STUDY: dict[str, Any] = {
    "schema": 1,
    "name": "rooted",
    "tester": "quick",
    "forwarders": ["xdp"],
    # the drain is over when all frames have come: a forwarder whose core is gone for longer than a trial is only late
    "method": {"name": "latency", "duration_s": 0.2, "warmup_s": 0.02, "drain_s": 0.5},
    "traffic": {"probe_pps": 5000},
    "repetitions": 1,
}
#: Where programs leave files that nobody removes when they are killed.
_LEFT_IN = tuple(map(Path, ("/dev/shm", "/dev/hugepages", "/run", "/run/dpdk", "/run/vpp", "/run/openvswitch")))
#: What becomes of busy polling on veth: up to Linux 6.12 a socket's first frame brings the NAPI id that it needs.
BUSY_POLLING = "ok" if tuple(map(int, platform.release().split(".")[:2])) < (6, 13) else "unsupported"


class Lab:
    """State and results folders, a testbed file, and runs on it."""

    def __init__(self, folder: Path, environment: Callable[..., dict[str, str]]) -> None:
        self.tag = secrets.token_hex(2)
        self.name = f"lab-{self.tag}"
        self.folder = folder
        self.state = folder / "state"
        self.results = folder / "results"
        self.testbed = folder / "testbed.yaml"
        self.testbed.write_text(yaml.safe_dump({"schema": 1, "name": self.name, "kind": "embedded"}), encoding="utf-8")
        self._environment = environment

    def env(self, **extra: str) -> dict[str, str]:
        folders = {"XDPLAB_STATE": str(self.state), "XDPLAB_RESULTS": str(self.results), "LAB_TAG": self.tag}
        return self._environment(**{**folders, **extra})

    def study(self, **changes: Any) -> Path:
        """A study file on this testbed."""
        path = self.folder / "study.yaml"
        path.write_text(yaml.safe_dump({**_STUDY, "testbed": str(self.testbed), **changes}), encoding="utf-8")
        return path

    def start(self, *args: object, wrap: Sequence[str] = (), **env: str) -> subprocess.Popen[str]:
        """`xdplab` in the background."""
        return start(*args, env=self.env(**env), wrap=wrap)

    def xdplab(self, *args: object, wrap: Sequence[str] = (), **env: str) -> Done:
        """`xdplab` to its end."""
        return xdplab(*args, env=self.env(**env), wrap=wrap, timeout_s=170)

    def run(
        self,
        sabotage: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
        options: Sequence[str] = (),
        **changes: Any,
    ) -> Done:
        """Run a study with `options` of the command line, perhaps sabotaged."""
        extra = {**(env or {}), **({"LAB_SABOTAGE": json.dumps(sabotage)} if sabotage else {})}
        return self.xdplab("run", self.study(**changes), *options, **extra)

    def down(self) -> Done:
        """What a user types after kill -9."""
        return self.xdplab("restore", "--testbed", self.testbed)

    def rows(self) -> list[dict[str, Any]]:
        """What `show --json` prints of the newest run."""
        run, record = self.newest(), self.newest().load()
        return rows_of(make_method(record.study.method), summarise(record, run.trials()))

    def newest(self) -> RunFolder:
        return RunFolder((self.results / "latest").resolve())

    def trials(self) -> list[TrialRecord]:
        return [*self.newest().trials()]

    def files(self) -> list[Path]:
        """What forwarders and testers of this testbed have made where memory and sockets of programs are."""
        folder = self.state / f"{self.name}.dut"
        places = (folder, *(folder / f"beside{number}" for number in range(1, 64)))
        names = {self.tag, self.name, *(shared_memory_prefix(place / "dut") for place in places)}
        found = [path for where in _LEFT_IN if where.is_dir() for path in where.iterdir()]
        return [path for path in found if any(name in path.name for name in names)]

    def namespaces(self) -> list[str]:
        return [path.name for path in Path("/run/netns").glob(f"xdplab-{self.tag}-*")]

    def cgroups(self) -> list[Path]:
        """Cgroups of this testbed, wherever they are mounted."""
        return cgroups(f"xdplab-{self.tag}-")

    def processes(self) -> dict[int, str]:
        """Everything that a run of this test has started: it inherited our XDPLAB_STATE."""
        mark = f"XDPLAB_STATE={self.state}".encode()
        found = {}
        for path in Path("/proc").iterdir():
            try:
                if path.name.isdigit() and mark in (path / "environ").read_bytes().split(b"\0"):
                    found[int(path.name)] = (path / "comm").read_text(encoding="utf-8").strip()
            except OSError:
                continue
        return found

    def assert_nothing_left(self) -> None:
        """Nothing of this testbed is left on the machine."""
        assert self.cgroups() == []
        assert self.namespaces() == []
        running = self.processes()
        assert running == {}, running
        assert not [path.name for path in Path("/sys/class/net").iterdir() if self.tag in path.name]
        assert self.files() == []
        left = {path.name for path in self.state.iterdir()} if self.state.exists() else set()
        own = {f"{self.name}.{what}" for what in ("lock", "calibrations", "calibrations.partial")}
        assert {name for name in left if not re.fullmatch(r"system_[\w-]+\.lock", name)} <= own, left

    def sweep(self) -> None:
        """Remove what a failed test left, so that the machine is as it was."""
        for pid in self.processes():
            if pid != os.getpid():
                os.kill(pid, signal.SIGKILL)
        for path in self.cgroups():
            if (path / "freezer.state").exists():  # else they have ended
                (path / "freezer.state").write_text("THAWED", encoding="ascii")
            wait_for(lambda path=path: not (path / "cgroup.procs").read_text(encoding="ascii"), f"the end of {path}")
            path.rmdir()
        for name in self.namespaces():
            subprocess.run(["ip", "netns", "delete", name], check=False)


def cgroups(beginning: str) -> list[Path]:
    found = os.walk("/sys/fs/cgroup")
    return [Path(folder, name) for folder, names, _ in found for name in names if name.startswith(beginning)]


def frozen(cgroup: Path) -> bool:
    if (cgroup / "freezer.state").exists():
        return (cgroup / "freezer.state").read_text(encoding="ascii") == "FROZEN\n"
    return "frozen 1" in (cgroup / "cgroup.events").read_text(encoding="ascii")


def hugepages() -> int:
    """2 MiB pages reserved on the whole machine. Other runs may hold some: only tests of hugepages look at it."""
    return int(Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").read_text(encoding="ascii"))
