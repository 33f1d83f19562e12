# SPDX-License-Identifier: Apache-2.0
"""Bad input that was taken, ran to its end, or hung: one line (what, where, what to do) and exit code 2."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lab import studies
from lab.command import Done, environment, xdplab

from xdplab.model import InputError, PortSpec
from xdplab.testbed.real import refuse_wrong


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {
                "repetitions": 10_000,
                "knobs": {"gro_flush_timeout": list(range(100)), "napi_defer_hard_irqs": list(range(100))},
            },
            "20000 points with 10000 repetitions each are more than the 1,000,000 repetitions",
        ),
        (
            {"loads": [{"probe_pps": 1 + n} for n in range(1000)], "frame_bytes": list(range(64, 1064))},
            "more than 20,000 points",
        ),
    ],
    ids=["repetitions", "points"],
)
def test_more_than_a_run_can_have_is_refused_before_it_is_made(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    """In 2 GiB: it is refused within a bound of memory, and so of time, however slow the machine."""
    path = studies.study_file(tmp_path, **changes)
    bound = ["prlimit", f"--as={2 << 30}"]
    xdplab("run", path, "--dry-run", env=environment(), wrap=bound, timeout_s=170).refused(words)


def test_a_random_design_of_more_combinations_than_fit_into_64_bits(cli: Callable[..., Done], tmp_path: Path) -> None:
    knobs = ("gro_flush_timeout", "napi_defer_hard_irqs", "sysctl_busy_poll_us", "sysctl_busy_read_us", "rx_ring")
    levels = {name: list(range(64, 8064)) for name in knobs}
    path = studies.study_file(tmp_path, forwarders=["fake"], design={"kind": "random", "runs": 10}, knobs=levels)
    assert "10 points, design random" in cli("run", path, "--dry-run").out


def test_latest_is_a_link_or_nothing_is_begun(cli: Callable[..., Done], tmp_path: Path, results: Path) -> None:
    (results / "latest").mkdir(parents=True)
    cli("run", studies.study_file(tmp_path)).refused("latest: not a link to the newest run; rename it")
    assert os.listdir(results) == ["latest"]


def test_an_option_that_takes_one_value_is_not_given_twice(cli: Callable[..., Done], tmp_path: Path) -> None:
    path = studies.study_file(tmp_path)
    twice = ("--forwarders", "fake", "--forwarders", "fake:loss_floor=0.1")
    cli("run", path, *twice).refused("--forwarders is given 2 times, and takes one value: instead of the study's, e.g.")
    several = ("--set", "repetitions=2", "--set", "forwarders=[fake]", "--dry-run", "--dry-run")
    assert "1 point," in cli("run", path, *several).out


@pytest.mark.parametrize("variable", ["XDPLAB_RESULTS", "XDPLAB_STATE", "XDPLAB_BPF_DIR"])
def test_an_empty_variable_is_not_the_current_folder(
    cli: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    path = studies.study_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, "")
    args = ["doctor"] if variable == "XDPLAB_BPF_DIR" else ["run", path]
    cli(*args).refused(f"{variable}: is empty; name a folder, or unset it")
    assert not list(tmp_path.glob("fake-study-*"))


@pytest.mark.parametrize(
    "change",
    [
        ["--set", "repetitions=9"],
        ["--forwarders", "fake"],
        ["--testbed", "embedded"],
        ["--calibrate"],
        ["--until-decided"],
    ],
    ids=str,
)
def test_a_run_goes_on_as_it_was_begun(cli: Callable[..., Done], tmp_path: Path, change: list[str]) -> None:
    cli("run", studies.study_file(tmp_path))
    words = "leave out --set, --forwarders, --duration, --repetitions, --testbed, --calibrate and --until-decided"
    cli("run", "--resume", "latest", *change).refused(words)


@pytest.mark.parametrize("args", [["fake", "--json"], ["fake", "--csv"], ["--json", "--csv"]], ids=" ".join)
def test_show_does_one_thing(cli: Callable[..., Done], tmp_path: Path, args: list[str]) -> None:
    cli("run", studies.study_file(tmp_path, forwarders="fake", repetitions=1))
    cli("show", "latest", *args).refused("show: one of POINT, --json, --csv and --markdown")


@pytest.mark.parametrize("value", ["[" * 3000, "2024-02-31"], ids=["nested", "no date"])
def test_a_value_that_yaml_cannot_read_is_one_line(cli: Callable[..., Done], tmp_path: Path, value: str) -> None:
    cli("run", studies.study_file(tmp_path), "--set", f"repetitions={value}").refused("--set 'repetitions=", "not YAML")


def test_an_answer_names_forwarders_of_its_study(cli: Callable[..., Done], tmp_path: Path, results: Path) -> None:
    path = studies.study_file(tmp_path, answer=["fake", "fakee"])
    cli("run", path).refused("answer: 'fakee' is not one of its forwarders; did you mean 'fake'?")
    assert not results.exists()
    wrong = ("--set", "answer=[fake, nothing]", "--set", "forwarders=[fake, xdp]")
    cli("run", studies.study_file(tmp_path), *wrong).refused("answer: 'nothing' is not one of its forwarders")


def test_a_part_of_the_forwarders_needs_no_answer(cli: Callable[..., Done], tmp_path: Path) -> None:
    path = studies.study_file(tmp_path, answer=["fake", "fake:base_latency_us=9.0"])
    assert cli("run", path, "--set", "forwarders=[fake]", "--dry-run").code == 0


def test_runs_are_looked_for_where_it_was_said(
    cli: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the current folder, where a link `latest` may be too."""
    path = studies.study_file(tmp_path)
    cli("run", path, "--results", tmp_path)
    cli("run", path, "--results", tmp_path / "other", "--set", "forwarders=[fake]")
    monkeypatch.chdir(tmp_path)
    for command in ("show", "report", "analyse"):
        cli(command, "--results", "/nonexistent").refused("/nonexistent")
    assert len(cli("show", "--json", "--results", tmp_path / "other").json()) == 1


_STREAM = ("result", "streams", 0)


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        ((*_STREAM, "received"), -5, "greater than or equal to 0"),
        ((*_STREAM, "lost"), -5, "lost: -5 is not sent"),
        ((*_STREAM, "achieved_pps"), -1.0, "greater than or equal to 0"),
        ((*_STREAM, "latency", "count"), -1, "greater than or equal to 0"),
        ((*_STREAM, "latency", "hdr"), "AAAA", "histogram: cannot be read"),
        (("result", "elapsed_s"), -1.0, "greater than or equal to 0"),
        (("result", "senders"), 0, "greater than or equal to 1"),
        (("repetition",), -1, "greater than or equal to 0"),
    ],
)
def test_a_record_that_cannot_be_is_refused_with_its_line(
    cli: Callable[..., Done], tmp_path: Path, results: Path, where: tuple[Any, ...], value: Any, words: str
) -> None:
    cli("run", studies.study_file(tmp_path, forwarders=["fake"], repetitions=1))
    journal = studies.only_run(results).path / "trials.jsonl"
    records = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    inner = records[0]
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    journal.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    cli("show").refused("trials.jsonl:1: not a trial record", words)


def test_a_file_may_not_promise_queues_that_a_port_has_not_got() -> None:
    """`ip -details` tells for how many queues the driver has made room; a veth pair has one unless told."""
    port: Any = SimpleNamespace(host=SimpleNamespace(name="b"), ifname="b0", role="b0")
    given = PortSpec(host="b", ifname="b0")
    link = {"address": "02:00:00:00:00:01", "num_rx_queues": 1}
    with pytest.raises(InputError, match=r"b: b0 \(b0\) has 1 receive queue, the file says queues: 8"):
        refuse_wrong(port, given, link, 8)
    refuse_wrong(port, given, link, 1)
    port.role = "a0"
    refuse_wrong(port, given, link, 8)


def test_ip_tells_how_many_queues_there_are() -> None:
    argv = ["ip", "-json", "-details", "address", "show", "dev", "lo"]
    (link,) = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    assert link["num_rx_queues"] == 1
