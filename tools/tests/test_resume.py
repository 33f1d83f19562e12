# SPDX-License-Identifier: Apache-2.0
"""kill -9 in the middle of a run, then `xdplab run --resume`: nothing twice, nothing missing, one machine."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import Done, finish, start, wait_for
from lab.records import environment, point, run_record

from xdplab.model import InputError, RunRecord
from xdplab.results import RunFolder
from xdplab.runner import make_plan
from xdplab.runner.environment import resumed
from xdplab.testers import make_tester


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, saboteur: Callable[..., dict[str, str]]) -> Path:
    """Results of a run that was killed after its fourth trial."""
    folder = tmp_path_factory.mktemp("killed")
    results = folder / "results"
    own = {"XDPLAB_RESULTS": str(results), "XDPLAB_STATE": str(folder / "state")}
    path = studies.study_file(folder, tester="slow-fake", repetitions=4)
    process = start("run", path, env=saboteur(LAB_TRIAL_S="0.05", **own))
    wait_for(lambda: sum(bool(line["result"]) for line in studies.lines(results)) >= 4, "four trials")
    process.send_signal(signal.SIGKILL)
    assert finish(process).code == -signal.SIGKILL
    return results


def repetitions(results: Path) -> Counter[tuple[str, int]]:
    return Counter(studies.measured(studies.only_run(results).trials()))


def test_a_run_that_was_killed_can_be_shown_and_drawn(killed: Path, cli: Callable[..., Done]) -> None:
    rows = cli("show", "--json", "--results", killed).json()
    assert sum(row["repetitions"] for row in rows) == sum(repetitions(killed).values()) >= 4
    assert cli("report", "--results", killed).code == 0
    assert studies.only_run(killed).report.is_file()


def test_a_resumed_run_is_complete_and_measures_nothing_twice(
    killed: Path, cli: Callable[..., Done], in_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_TRIAL_S", "0")
    run = studies.only_run(killed)
    before = run.trials()
    journal = run.path / "trials.jsonl"
    journal.write_bytes(journal.read_bytes() + journal.read_bytes().splitlines()[0][:200])  # half a line
    plan = make_plan(studies.study(repetitions=4), studies.a_testbed(), make_tester("fake"))
    for _ in range(2):  # a run that is complete can be resumed too, and stays as it is
        done = cli("run", "--resume", "latest", "--results", killed)
        assert (done.code, done.complaints) == (0, [])
        assert [*run.trials()][: len(before)] == [*before]
        assert repetitions(killed) == {(repetition.point.id, repetition.number): 1 for repetition in plan.order}
    head = run.load()
    assert head.finished
    assert not head.ended_early
    assert head.environment.sysctls == {}  # a knob that somebody turns on this machine is nothing to simulated ports


@pytest.fixture
def half(tmp_path: Path, results: Path, cli: Callable[..., Done]) -> RunFolder:
    """A run of which half a line was left after its first repetition."""
    assert cli("run", studies.study_file(tmp_path)).code == 0
    run = studies.only_run(results)
    journal = run.path / "trials.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3])[:-40])
    return run


def changed(run: RunFolder, **values: Any) -> None:
    """Its run.json as if the environment had been another one."""
    head = run.path / "run.json"
    data = json.loads(head.read_text(encoding="utf-8"))
    data["environment"] |= values
    head.write_text(json.dumps(data), encoding="utf-8")


def test_a_run_of_another_kernel_is_refused_and_stays_as_it_is(half: RunFolder, cli: Callable[..., Done]) -> None:
    changed(half, kernel="5.4.0-elsewhere")
    before = {path.name: path.read_bytes() for path in half.path.iterdir()}
    cli("run", "--resume", half.path).refused(
        f"run {half.name}: it cannot be resumed: on testbed fake kernel differs: '5.4.0-elsewhere' when it began",
        f"'{os.uname().release}' now; put that back as it was, or start a new run",
    )
    assert {path.name: path.read_bytes() for path in half.path.iterdir()} == before


def test_what_changes_no_number_is_kept_of_both_parts(half: RunFolder, cli: Callable[..., Done]) -> None:
    changed(half, git_revision="0123456789ab", memory_kib=1)
    for parts in (1, 2):
        assert cli("run", "--resume", half.path).complaints == []
        head = half.load()
        assert (head.environment.git_revision, head.environment.memory_kib) == ("0123456789ab", 1)
        assert [set(part.differences) for part in head.resumed] == [{"git_revision", "memory_kib"}] * parts
        assert head.resumed[0].differences["memory_kib"][0] == "1"
        assert head.started <= head.resumed[0].started
    assert len(studies.measured(half.trials())) == 4


def test_a_run_that_was_never_cut_off_was_not_resumed(half: RunFolder) -> None:
    assert half.load().resumed == ()


PORT = {"ifname": "x1", "mac": "02:00:00:00:00:01", "ethtool -k": "Features for x1:\ngro: on\nlro: off", "mtu": "1500"}
AGAIN = {**PORT, "ifname": "x2", "mac": "02:00:00:00:00:02", "ethtool -k": "Features for x2:\ngro: on\nlro: off"}


def head(**fields: Any) -> RunRecord:
    given = {"versions": {"xdpgen": "1", "numpy": "2"}, "ports": {"b0": PORT}, "hosts": {"a": {"kernel": "6.1"}}}
    at = {key: fields.pop(key) for key in ("layout", "rx_program") if key in fields}
    return run_record(point("fake"), environment=environment(**{**given, **fields}), **at)


def test_ports_of_a_testbed_that_was_built_again_are_the_same() -> None:
    assert resumed(head(), head(ports={"b0": AGAIN})).resumed[0].differences == {}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cpu_model": "Another"}, "cpu_model differs: 'Some CPU' when it began, 'Another' now"),
        ({"cmdline": "quiet isolcpus=1"}, "cmdline differs"),
        ({"topology": {"cpus": 4, "hypervisor": True}}, "topology.cpus differs: '2' when it began, '4' now"),
        ({"mitigations": {"spectre_v2": "Mitigation"}}, "mitigations.spectre_v2 differs"),
        ({"sysctls": {"net.core.busy_poll": "50"}}, "sysctls.net.core.busy_poll differs"),
        ({"versions": {"xdpgen": "2", "numpy": "3"}}, "versions.xdpgen differs: '1' when it began, '2' now; put"),
        ({"versions": {"numpy": "2"}}, "versions.xdpgen differs: '1' when it began, 'absent' now"),
        ({"hosts": {"a": {"kernel": "6.2"}}}, "hosts.a.kernel differs: '6.1' when it began, '6.2' now"),
        (
            {"ports": {"b0": {**AGAIN, "ethtool -k": "Features for x2:\ngro: off\nlro: off"}}},
            "ports.b0.ethtool -k differs: 'gro: on' when it began, 'gro: off' now",
        ),
        ({"kernel": "6.2", "governor": "powersave"}, "governor differs: .*; so do kernel; put that back"),
        ({"rx_program": "tc"}, "rx_program differs: 'none' when it began, 'tc' now"),
        ({"layout": head().layout.model_copy(update={"forwarder": 3})}, "layout.forwarder differs: '1' .*, '3' now"),
    ],
)
def test_what_can_change_a_number_must_be_as_it_was(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        resumed(head(), head(**fields))
    assert "\n" not in str(caught.value)


def test_other_points_are_another_study() -> None:
    with pytest.raises(InputError, match="points differs"):
        resumed(head(), run_record(point("fake", probe_pps=1.0), environment=head().environment))


def test_a_live_run_keeps_its_testbed(
    tmp_path: Path, results: Path, cli: Callable[..., Done], saboteur: Callable[..., dict[str, str]]
) -> None:
    process = start(
        "run", studies.study_file(tmp_path, tester="slow-fake", repetitions=50), env=saboteur(LAB_TRIAL_S="0.2")
    )
    try:
        wait_for(lambda: studies.lines(results), "the first trial")
        cli("run", studies.study_file(tmp_path)).refused("testbed fake: in use by process", str(process.pid))
        cli("restore", "--testbed", "fake").refused("in use by process", str(process.pid))
    finally:
        process.send_signal(signal.SIGINT)
        finish(process)


def test_run_needs_a_study_or_a_run(cli: Callable[..., Done], tmp_path: Path) -> None:
    cli("run").refused("give a study file, or --resume RUN")
    cli("run", studies.study_file(tmp_path), "--resume", "latest").refused("give a study file, or --resume RUN")
    cli("run", "--resume", "nothing").refused("run 'nothing': no run.json")
