# SPDX-License-Identifier: Apache-2.0
"""`xdplab run --dry-run` on hosts: it looks, and changes nothing that it looks at."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.command import Done
from test_after_a_reboot import SPEC, Machine, Played

from xdplab.hosts.base import Completed
from xdplab.testbed import real

#: What a dry run may ask of a host: programs that print.
ASKS = ("ip -json", "ethtool -i", "ethtool -k", "test ", "stat ", "which ", "head -c 0 ", "grep ")


class Watched(Played):
    """A host that keeps what was done to it, and has no program of ours."""

    done: list[str]
    folder = Path("/run/xdplab/run")

    def links(self) -> list[str]:
        return []

    def write(self, path: str, text: str) -> None:
        self.done.append(f"write {path}")

    def run(self, argv: Sequence[str], *, check: bool = True, **_: Any) -> Completed:
        line = " ".join(argv)
        if not line.startswith(ASKS):
            self.done.append(line)
        return super().run(argv, check=check)

    def __getattr__(self, name: str) -> Any:  # start, converse, program, make_folder ...
        return lambda *args, **_: self.done.append(f"{name} {args}")


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done to the hosts of `SPEC`."""
    found: list[str] = []
    monkeypatch.setattr(Played, "machines", {"t": Machine(), "dut": Machine()})
    monkeypatch.setattr(Watched, "done", found, raising=False)
    monkeypatch.setattr(real, "SshHost", Watched)
    return found


def study(folder: Path, spec: dict[str, Any]) -> Path:
    testbed, path = folder / "lab.yaml", folder / "study.yaml"
    testbed.write_text(yaml.safe_dump(spec), encoding="utf-8")
    text = {
        "schema": 1,
        "name": "survey",
        "testbed": str(testbed),
        "path": "reflect",
        "forwarders": ["linux-bridge", "linux-router", "testpmd"],
        "method": {"name": "latency"},
        "traffic": {"probe_pps": 1000},
    }
    path.write_text(yaml.safe_dump(text), encoding="utf-8")
    return path


def test_a_dry_run_asks_hosts_and_changes_nothing_there(
    tmp_path: Path, cli: Callable[..., Done], done: list[str], state: Path
) -> None:
    """And says what a run would leave out."""
    machines = Played.machines
    reported = cli("run", study(tmp_path, SPEC.model_dump(mode="json", by_alias=True, exclude_unset=True)), "--dry-run")
    out = reported.out
    assert "3 points" in out, reported.err
    assert "testpmd is not installed (package dpdk-dev)" in out, out
    assert done == []
    assert [machine.mtu for machine in machines.values()] == [{"p0": 9000, "p1": 9000}] * 2
    assert list(state.glob("*.json")) == []


def test_a_dry_run_says_what_a_run_would_refuse(tmp_path: Path, cli: Callable[..., Done], done: list[str]) -> None:
    spec = SPEC.model_dump(mode="json", by_alias=True, exclude_unset=True)
    spec["ports"]["b0"]["mac"] = "02:00:00:00:00:99"
    out = cli("run", study(tmp_path, spec), "--dry-run").out
    assert "dut: p0 (b0) has MAC 02:00:00:00:00:01, the file says 02:00:00:00:00:99" in out
