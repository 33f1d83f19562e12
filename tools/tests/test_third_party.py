# SPDX-License-Identifier: Apache-2.0
"""Somebody else's package, that of CONTRIBUTING.md, adds parts of each kind, and no file of ours knows of it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from lab import studies
from lab.command import Done, environment, xdplab
from lab.contributing import package
from lab.outsider import distribution


@pytest.fixture
def acme(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    folder, extra = package(tmp_path / "acme")
    path = f"{extra.pop('PROGRAMS')}:{os.environ['PATH']}"
    return folder, environment({**extra, "PATH": path}, [folder])


def test_the_example_of_each_kind_is_run_and_its_knob_put_back(
    tmp_path: Path, acme: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, env = acme
    monkeypatch.chdir(folder)
    done = xdplab("run", "acme-study.yaml", env=env)
    assert done.complaints == []
    rows = json.loads(xdplab("show", "--json", env=env).out)
    found = {(row["forwarder"], row["knobs"]["acme_depth"]): (row["mode"], row["status"]) for row in rows}
    both = {"acme-switch": "acme, bursts of 32", "acme-switch:burst=64": "acme, bursts of 64"}
    assert found == {
        **{(name, depth): (mode, "ok") for name, mode in both.items() for depth in (1, 2)},
        **{(name, 9): ("", "unsupported") for name in both},
    }
    assert all("deeper machine" in row["reason"] for row in rows if row["status"] == "unsupported")
    # 3 and 5 us, within the width of the histogram's buckets
    assert [row["spread_us"] for row in rows if row["status"] == "ok"] == pytest.approx([2.0] * 4, rel=0.01)
    assert (folder / "depth").read_text(encoding="utf-8") == "7"
    run = studies.only_run(tmp_path / "results")
    assert {trial.knobs["acme_depth"] for trial in run.trials() if trial.result} == {"1", "2"}
    assert {trial.result.tester for trial in run.trials() if trial.result} == {"acme-loop"}
    head = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
    assert head["described"]["acme_depth"]["2"] == "queues of depth 2"


def test_its_command_is_one_of_ours(tmp_path: Path, acme: tuple[Path, dict[str, str]]) -> None:
    _, env = acme
    assert "Print the forwarder with the highest p99 of a run." in xdplab("--help", env=env).out
    assert xdplab("run", studies.study_file(tmp_path), env=env).complaints == []
    done = xdplab("acme-slowest", env=env)
    assert (done.code, done.out) == (0, "fake:base_latency_us=9.0\n"), done.err
    xdplab("acme-slowest", "nowhere", env=env).refused("nowhere", "no run.json")
    xdplab("acme-slowest", "--nothing", env=env).refused("No such option: --nothing")


def test_a_command_of_ours_stays_ours(tmp_path: Path) -> None:
    source = "def taken() -> None:\n    raise SystemExit(9)\n"
    folder = distribution(tmp_path, "greedy", {"xdplab.commands": {"where": "greedy:taken"}}, source)
    assert xdplab("where", "studies", env=environment({}, [folder])).code == 0


def test_without_its_program_the_example_is_unsupported_with_the_command_that_installs_it(
    acme: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, env = acme
    monkeypatch.chdir(folder)
    done = xdplab("run", "acme-study.yaml", env={**env, "PATH": os.environ["PATH"]})
    done.refused("acme-switch is not installed", "apt-get install acme-switch")


def test_foreign_names_are_listed_and_their_options_checked(
    tmp_path: Path, acme: tuple[Path, dict[str, str]], cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(acme[0])
    cli("run", studies.study_file(tmp_path, forwarders="acme")).refused("there are acme-switch, command, external")
    wrong = studies.study_file(tmp_path, forwarders="acme-switch:burst=many")
    cli("run", wrong).refused("forwarder acme-switch: burst: ", "'many'")


def test_without_the_distribution_the_name_is_unknown(cli: Callable[..., Done], tmp_path: Path) -> None:
    cli("run", studies.study_file(tmp_path, forwarders="acme-switch")).refused("forwarder 'acme-switch': unknown")
