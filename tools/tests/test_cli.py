# SPDX-License-Identifier: Apache-2.0
"""The command line as scripts rely on it: exit codes, JSON keys, one line for an error."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from lab import studies
from lab.command import BIN, NOBODY, Done, environment, xdplab

from xdplab.cli.study import split_forwarders

KEYS = {
    *("forwarder", "mode", "path", "frame_bytes", "offered_pps", "achieved_pps", "loss_ratio"),
    *("p50_us", "p99_us", "p999_us", "repetitions", "status", "reason"),
}


def test_a_run_writes_its_folder_and_show_reads_it(cli: Callable[..., Done], tmp_path: Path, results: Path) -> None:
    done = cli("run", studies.study_file(tmp_path))
    assert (done.code, done.complaints) == (0, [])
    run = studies.only_run(results)
    assert {path.name for path in run.path.iterdir()} == {"run.json", "trials.jsonl", "report.html"}
    assert f"report {run.report}" in done.out
    assert run.load().finished
    rows = cli("show", "--json").json()
    assert [row["forwarder"] for row in rows] == ["fake", "fake:base_latency_us=9.0"]
    for row in rows:
        assert row.keys() >= KEYS
        assert (row["mode"], row["path"], row["frame_bytes"], row["repetitions"]) == ("simulated", "through", 64, 2)
        assert (row["status"], row["reason"], row["offered_pps"], row["loss_ratio"]) == ("ok", "", 20000, 0)
        assert row["p50_us"] < row["p99_us"]
        assert row["p999_us"] is None  # 4,000 samples hold no p99.9
    assert rows[0]["p50_us"] * 2 < rows[1]["p50_us"]


def test_show_prints_a_table_and_the_reasons(cli: Callable[..., Done], tmp_path: Path) -> None:
    path = studies.study_file(tmp_path, forwarders=["fake", "fake:fail_to_start=true"], repetitions=1)
    cli("run", path)
    out = cli("show").out.splitlines()
    assert out[0].startswith("No answer: ")
    assert any(line.split()[:3] == ["forwarder", "bytes", "kpps"] for line in out)
    assert "fake:fail_to_start=true: failed: fake: did not start, as its option fail_to_start asked for" in out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"forwarders": ["fake", "fake:fail_to_start=true"]}, "did not start"),
        ({"forwarders": ["fake:loss_floor=0.1"], "max_loss_ratio": 0.01}, ""),
    ],
    ids=["a point failed", "loss above the limit"],
)
def test_a_result_that_failed_is_exit_code_1(
    cli: Callable[..., Done], tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    done = cli("run", studies.study_file(tmp_path, **changes))
    assert words in done.out
    assert done.code == 1


def test_loss_within_the_limit_is_exit_code_0(cli: Callable[..., Done], tmp_path: Path) -> None:
    path = studies.study_file(tmp_path, forwarders="fake:loss_floor=0.1", max_loss_ratio=0.2)
    assert cli("run", path).code == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"forwarders": ["nothing"]}, "forwarder 'nothing': unknown"),
        ({"forwarders": ["fake:colour=red"]}, "colour: unknown key"),
        ({"forwarders": ["fake:capacity_pps=fast"]}, "capacity_pps"),
        ({"tester": "nothing"}, "tester 'nothing': unknown"),
        ({"testbed": "nothing"}, "testbed 'nothing': no such file"),
        ({"knobs": {"nothing": [1]}}, "knob 'nothing': unknown"),
        ({"knobs": {"threaded_napi": ["on"]}}, "knob threaded_napi: 'on'"),
        ({"repetitions": "many"}, "repetitions: "),
        ({"frame_bytes": [64, 2000]}, "2000 does not fit"),
        ({"traffic": {"probe_pps": 6e6}}, "6000000 pps asked for, but the tester's calibrated top rate"),
    ],
)
def test_bad_input_is_exit_code_2_and_leaves_nothing(
    cli: Callable[..., Done], tmp_path: Path, results: Path, changes: dict[str, object], words: str
) -> None:
    cli("run", studies.study_file(tmp_path, **changes)).refused(words)
    assert not results.exists() or list(results.iterdir()) == []


@pytest.mark.parametrize(
    "args", [["fly"], ["run", "--fast"], ["show", "a", "b"], ["run", "none.yaml"], ["show", "none"]]
)
def test_wrong_usage_is_one_line_and_exit_code_2(cli: Callable[..., Done], args: list[str]) -> None:
    cli(*args).refused()


def test_no_arguments_print_help_and_no_empty_complaint(cli: Callable[..., Done]) -> None:
    done = cli()
    assert "Usage: " in done.out
    assert done.code == 2
    assert done.complaints == []


def test_a_dry_run_prints_the_plan_and_changes_nothing(
    cli: Callable[..., Done], tmp_path: Path, results: Path, state: Path
) -> None:
    done = cli("run", studies.study_file(tmp_path, knobs={"threaded_napi": [0, 1]}), "--dry-run")
    assert done.code == 0
    assert "4 points, design factorial\n2 repetitions of each, 8 in all" in done.out
    assert "threaded_napi=1" in done.out
    assert not results.exists()
    assert list(state.glob("*.json")) == []


def test_a_pipe_that_closes_is_no_traceback(cli: Callable[..., Done], tmp_path: Path) -> None:
    cli("run", studies.study_file(tmp_path))
    show = subprocess.Popen(
        [BIN / "xdplab", "show", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    assert show.stdout
    assert show.stderr
    show.stdout.close()
    assert b"Traceback" not in show.stderr.read()
    show.wait()


def test_doctor_asks_for_what_a_study_needs_as_its_dry_run_does(cli: Callable[..., Done], tmp_path: Path) -> None:
    refused = "box missing; `make box` makes it"
    forwarders = ["fake", {"name": "fake", "label": "other", "options": {"unsupported_reason": refused}}]
    study = studies.study_file(tmp_path, forwarders=forwarders)
    found = {check["name"]: check for check in cli("doctor", "--study", study, "--json").json()}
    assert {name: (each["state"], each["fix"]) for name, each in found.items()} == {
        "fake": ("ok", ""),
        "other": ("optional", "make box"),
    }
    assert found["other"]["found"] == refused


def test_doctor_as_json_names_what_is_missing_and_how_to_mend_it(
    cli: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDPLAB_BPF_DIR", str(tmp_path))
    monkeypatch.setenv("XDPLAB_CACHE", str(tmp_path))
    found = {check["name"]: check for check in cli("doctor", "--json").json()}
    assert {"root", "kernel", "cpus", "testbed", "ip", "ethtool", "xdpgen", "xdpfwd", "namespaces"} <= found.keys()
    assert {check["state"] for check in found.values()} <= {"ok", "optional", "missing"}
    assert (found["xdpgen"]["state"], found["xdpgen"]["found"]) == ("missing", "not built")
    assert found["xdpgen"]["fix"] == "make -C bpf"
    assert all(bool(check["fix"]) == (check["state"] != "ok") for check in found.values() if check["name"] != "root")
    assert found["patched Open vSwitch"]["state"] == "optional"
    assert found["patched Open vSwitch"]["fix"] == "ci/setup"


def test_doctor_is_exit_code_2_when_something_is_missing(
    cli: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDPLAB_BPF_DIR", str(tmp_path))
    done = cli("doctor")
    assert "missing  xdpgen: not built   -> make -C bpf" in done.out
    assert done.code == 2


def test_the_version_is_printed(cli: Callable[..., Done]) -> None:
    assert cli("--version").out.strip().count(".") == 2


def test_the_installed_program_is_the_same_entry_point(tmp_path: Path) -> None:
    xdplab("run", tmp_path / "none.yaml", env=environment()).refused("No such file or directory")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
@pytest.mark.parametrize("args", [["run"], ["show"]], ids=["run", "show"])
def test_folders_of_another_user_are_one_line(open_folder: Path, args: list[str]) -> None:
    path = studies.study_file(open_folder)
    folders = {"XDPLAB_STATE": str(open_folder / "state"), "XDPLAB_RESULTS": str(open_folder / "results")}
    assert xdplab("run", path, env=environment(folders)).code == 0
    given = [*args, str(path)] if args == ["run"] else args
    done = xdplab(*given, env=environment(folders), wrap=NOBODY)
    done.refused(str(open_folder / "results" if args == ["show"] else open_folder), "Permission denied")


def test_json_is_plain_json(cli: Callable[..., Done], tmp_path: Path) -> None:
    cli("run", studies.study_file(tmp_path, forwarders="fake:fail_to_start=true"))

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    (row,) = json.loads(cli("show", "--json").out, parse_constant=refuse)
    assert (row["status"], row["p50_us"], row["repetitions"]) == ("failed", None, 0)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("xdp", ["xdp"]),
        ("ovs-afxdp,xdp", ["ovs-afxdp", "xdp"]),
        ("ovs-afxdp:n_rxq=2,type=afxdp,xdp:mode=generic", ["ovs-afxdp:n_rxq=2,type=afxdp", "xdp:mode=generic"]),
        (" xdp , ", ["xdp"]),
    ],
)
def test_commas_part_forwarders_and_their_options(text: str, parts: list[str]) -> None:
    assert [*split_forwarders(text)] == parts


def test_what_is_measured_is_chosen_on_the_command_line(
    cli: Callable[..., Done], tmp_path: Path, results: Path
) -> None:
    rows = [{"name": "fake", "label": "ours, new"}, "fake:base_latency_us=9.0"]
    path = studies.study_file(tmp_path, forwarders=rows)
    chosen = ["--forwarders", "ours, new", "--duration", "0.1", "--repetitions", "1"]
    assert "1 point, " in cli("run", path, *chosen, "--dry-run").out
    chosen[1] = "fake:capacity_pps=2e6,seed=3,fake"
    assert cli("run", path, *chosen).code == 0
    study = studies.only_run(results).load().study
    assert [each.title for each in study.forwarders] == ["fake:capacity_pps=2e6,seed=3", "fake"]
    assert (study.repetitions, study.method.duration_s) == (1, 0.1)  # type: ignore[attr-defined]
    cli("run", path, "--forwarders", " , ").refused("--forwarders: name at least one")
