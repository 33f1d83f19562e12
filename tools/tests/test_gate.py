# SPDX-License-Identifier: Apache-2.0
"""A gate's verdict: equal things pass, planted slowdowns are found, and what is not certain is never green."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from lab.claims import LATENCY
from lab.command import Done
from lab.records import point, run_record, trial
from scipy.special import stdtrit

from xdplab.analysis import compare_points
from xdplab.analysis.gate import LOOK_CONFIDENCE, LOOKS, WRONG, GateResult, Side, judge_gate
from xdplab.analysis.run import Run
from xdplab.app import Gate, run_gate
from xdplab.forwarders import make_forwarder
from xdplab.model import DoesNotCompile, ForwarderSpec, HostLost, InputError, TrialRecord, plugins
from xdplab.report.exports import bencher, markdown
from xdplab.runner import Listener
from xdplab.stats import at_confidence
from xdplab.tools import project_root

Cli = Callable[..., Done]
ON_FAKE = ["--testbed", "fake", "--set", "tester=fake"]
CHANGES: dict[str, Any] = {"testbed": "fake", "tester": "fake", "method.duration_s": 0.05}


def verdicts(results: Path, new: str, seeds: range, **changes: Any) -> list[str]:
    """Of one gate for each seed: the noise of both sides is another one each time."""
    return [
        run_gate(
            Gate(f"fake:seed={seed}", f"fake:{new},seed={seed}", 0.05, changes={**CHANGES, "seed": seed, **changes}),
            Listener(),
            results,
        ).verdict
        for seed in seeds
    ]


def test_equal_ones_pass_and_a_tenth_is_found(results: Path) -> None:
    assert verdicts(results, "base_latency_us=3.0", range(2)) == ["pass"] * 2
    assert verdicts(results, "base_latency_us=3.3", range(2)) == ["slower"] * 2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_of_forty_equal_ones_at_most_one_is_slower_and_nineteen_of_twenty_tenths_are_found(results: Path) -> None:
    noise = "latency_jitter_ratio=0.05"
    assert verdicts(results, f"base_latency_us=3.0,{noise}", range(40)).count("slower") <= 1
    assert verdicts(results, f"base_latency_us=3.3,{noise}", range(20)).count("slower") >= 19


def test_of_gates_whose_slowdown_is_just_what_is_allowed_few_end_with_the_wrong_verdict() -> None:
    """At its edge one of the two verdicts is wrong; by the intervals of all looks together."""
    rounds = np.random.default_rng(1).normal(0, 1, (20_000, LOOKS[-1]))
    sums, squares = rounds.cumsum(axis=1), (rounds**2).cumsum(axis=1)
    wrong = np.zeros(len(rounds), dtype=bool)
    for count in LOOKS:
        mean = sums[:, count - 1] / count
        error = np.sqrt((squares[:, count - 1] - count * mean**2) / (count - 1) / count)
        wrong |= mean + stdtrit(count - 1, (1 + LOOK_CONFIDENCE) / 2) * error < 0
    assert 0.03 < wrong.mean() < WRONG
    found = GateResult(
        verdict="pass", metric="p50_us", max_slowdown=0.05, base=Side(forwarder="a"), new=Side(forwarder="b")
    )
    assert (found.wrong, found.confidence) == (WRONG, LOOK_CONFIDENCE)


def test_its_interval_is_that_of_its_confidence(results: Path) -> None:
    noisy = "latency_jitter_ratio=0.2"
    asked = Gate(f"fake:{noisy},seed=1", f"fake:base_latency_us=3.6,{noisy},seed=1", 0.05, changes=CHANGES)
    found = run_gate(asked, Listener(), results)
    points = {each.forwarder: each for each in Run.named(Path(found.run).name, results).points}
    compared = compare_points(points["new"], points["base"], "p50_us")
    assert compared is not None
    assert compared.interval is not None
    known = at_confidence(compared.interval, LOOK_CONFIDENCE)
    assert compared.interval.low < known.low < known.high < compared.interval.high  # type: ignore[operator]
    assert (found.low, found.high) == (1 / known.high, 1 / known.low)  # type: ignore[operator]


def test_it_ends_with_the_first_verdict(results: Path) -> None:
    found = run_gate(Gate("fake", "fake:base_latency_us=6.0", 0.05, changes=CHANGES), Listener(), results)
    assert (found.verdict, found.rounds, found.exit_code) == ("slower", 10, 1)
    record = json.loads((Path(found.run) / "run.json").read_text(encoding="utf-8"))
    assert (record["study"]["repetitions"], record["ended_early"]) == (10, None)
    assert (Path(found.run) / "report.html").exists()


@pytest.mark.parametrize(
    ("base", "new", "options", "code", "words"),
    [
        ("fake", "fake:seed=2", [], 0, r"^pass: the new one's p50 is not worse by more than 5 % \([+-]"),
        (
            "fake",
            "fake:base_latency_us=3.6",
            [],
            1,
            "^slower: the new one's p50 is worse by more than the allowed 5 %",
        ),
        ("fake", "fake:base_latency_us=3.6", ["--max-slowdown", "0.5"], 0, "^pass: .* by more than 50 %"),
        (
            "fake",
            "fake:base_latency_us=3.15",
            ["--set", "repetitions=12"],
            125,
            "^undecided: whether it is worse by over 5 % .* 12 rounds",
        ),
        (
            "fake",
            "fake:seed=2",
            ["--set", "repetitions=2"],
            125,
            "^undecided: after 2 rounds: 2 of the 3 rounds that",
        ),
        ("fake", "fake:unsupported_reason=no card", [], 125, "^unsupported: fake:unsupported_reason=no card: no card"),
        (
            "fake:unsupported_reason=no card",
            "fake:unsupported_reason=no key",
            [],
            125,
            "^unsupported: study gate: no point of it can be measured here: .*no card; .*no key",
        ),
        ("fake", "fake:fail_to_start=true", [], 1, "^broken: fake:fail_to_start=true failed in "),
        (
            "fake:fail_to_start=true",
            "fake",
            [],
            125,
            "^undecided: the base failed: fake:fail_to_start=true failed",
        ),
    ],
)
def test_each_verdict_has_its_exit_code(
    cli: Cli, base: str, new: str, options: list[str], code: int, words: str
) -> None:
    done = cli("gate", base, new, *ON_FAKE, *options)
    assert done.code == code, done.err
    assert re.search(words, done.out, re.MULTILINE), done.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--max-slowdown", "none"], "--max-slowdown none: a share above 0 is expected"),
        (["--max-slowdown", "0%"], "a share above 0 is expected"),
        (["--figure", "p51_us"], "figure p51_us: method latency has p50_us"),
        (["--json", "/nowhere/x.json"], "/nowhere/x.json: there is no folder /nowhere"),
        (["--kernel", "7.2"], "--kernel: only with --cost"),
        (["--driver", "igb", "--kernel", "7.2"], "--kernel, --driver: only with --cost"),
        (["--cost"], "--testbed: only without --cost"),
        (["--set", "frame_bytes=[64, 128]"], "2 settings of each forwarder: a gate judges one"),
    ],
)
def test_bad_input_is_one_line(cli: Cli, options: list[str], words: str) -> None:
    cli("gate", "fake", "fake", *ON_FAKE, *options).refused(words)


def test_an_option_without_a_value_is_one_line(cli: Cli) -> None:
    cli("gate", "fake", "fake:seed", *ON_FAKE).refused("option 'seed' of forwarder 'fake' is not option=value")


def test_without_the_package_that_counts_it_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "entries", lambda group: [])
    cli("gate", "xdp", "xdp", "--cost").refused("gate: --cost needs the package xdplab_cost", "`ci/setup` installs it")


def test_what_others_read(cli: Cli, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("json", "markdown", "junit", "bencher")}
    argv = [part for name, path in files.items() for part in (f"--{name}", path)]
    assert cli("gate", "fake", "fake:base_latency_us=3.6", *ON_FAKE, *argv).code == 1
    result = json.loads(files["json"].read_text(encoding="utf-8"))
    assert result["verdict"] == "slower"
    assert result["low"] < result["slowdown"] < result["high"]
    assert "| new | `fake:base_latency_us=3.6` |" in files["markdown"].read_text(encoding="utf-8")
    suite = ElementTree.parse(files["junit"]).getroot()[0]
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["errors"]) == ("1", "1", "0")
    assert "slower" in suite.find("testcase/failure").attrib["message"]  # type: ignore[union-attr]
    measures = json.loads(files["bencher"].read_text(encoding="utf-8"))["xdplab gate new"]
    assert measures["slowdown"] == {
        "value": result["slowdown"], "lower_value": result["low"], "upper_value": result["high"]
    }  # fmt: skip


def test_a_side_without_a_figure_is_left_out() -> None:
    side = Side(forwarder="x", value=None, low=None, high=None)
    found = GateResult(verdict="unsupported", metric="p50_us", max_slowdown=0.05, base=side, new=side, reason="no card")
    assert bencher(found) == {}


@pytest.mark.parametrize(("label", "verdict"), [("new", "broken"), ("base", "undecided")])
@pytest.mark.parametrize(
    ("of_stream", "of_result", "of_record", "said"),
    [
        ({"duplicated": 1}, {}, {}, r"delivered \d+ frames twice"),
        ({"damaged": 1}, {}, {}, r"delivered \d+ frames damaged"),
        (
            {},
            {"earlier": 2},
            {"from_before_start": True},
            r"delivered \d+ frames of earlier trials, from before it was started",
        ),
        (
            {"duplicated": 1, "damaged": 1},
            {"earlier": 9},
            {},
            r"delivered \d+ frames twice and delivered \d+ frames damaged$",
        ),
    ],
    ids=["twice", "damaged", "earlier", "both"],
)
def test_frames_that_are_not_its_own_are_never_green(
    results: Path,
    label: str,
    verdict: str,
    of_stream: dict[str, int],
    of_result: dict[str, int],
    of_record: dict[str, bool],
    said: str,
) -> None:
    run = Run.named(run_gate(Gate("fake", "fake:seed=2", 0.05, changes=CHANGES), Listener(), results).run, results)
    point_id = next(point.point_id for point in run.points if point.forwarder == label)

    def planted(trial: TrialRecord) -> TrialRecord:
        if trial.result is None or trial.point_id != point_id:
            return trial
        streams = tuple(each.model_copy(update=of_stream) for each in trial.result.streams)
        result = trial.result.model_copy(update={"streams": streams, **of_result})
        return trial.model_copy(update={"result": result, **of_record})

    twice = Run(run.folder, run.record, [*map(planted, run.trials)])
    found = judge_gate(twice, ("a", "b"), "p50_us", 0.05)
    assert (found.verdict, found.slowdown) == (verdict, None)
    assert re.search(rf"{'b' if label == 'new' else 'a'} {said}", found.reason)
    assert "which is its fault" in twice.answer.sentence


def test_three_rounds_that_happen_to_be_above_what_is_allowed_are_not_slower() -> None:
    """Slower by 2.45 times on a noisy machine, 2.5 allowed: "slower", for all three were above 2.5."""

    def judged(slower: list[float]) -> GateResult:
        base, new = (
            point("ovs-afxdp").model_copy(update={"forwarder": ForwarderSpec(name="ovs-afxdp", label=label)})
            for label in ("base", "new")
        )
        trials = [
            trial(at, number, [round(ns)] * 1000)
            for number, times in enumerate(slower)
            for at, ns in ((base, 1000), (new, 1000 * times))
        ]
        return judge_gate(Run(Path("x"), run_record(base, new), trials), ("a", "b"), "p50_us", 1.5)

    few = judged([2.6, 9.0, 40.0])
    assert (few.verdict, few.exit_code) == ("undecided", 125)
    assert judged([2.95, 3.0, 3.05]).verdict == "slower"


@pytest.mark.parametrize(
    ("lost", "verdict", "code", "said"),
    [
        ([450] * 20, "slower", 1, "of its frames the new one lost 45 % more than the base (99 % interval "),
        ([0, 5] * 10, "undecided", 125, "of its frames the new one lost 0.25 % more than the base (99 % interval "),
        ([0] * 19 + [40], "pass", 0, " rounds; new lost 0.2 % (0 to 4 %), counted as infinitely late)"),
        ([0] * 20, "pass", 0, " rounds)"),
    ],
)
def test_frames_that_only_the_new_one_loses_do_not_pass(lost: list[int], verdict: str, code: int, said: str) -> None:
    """The median of the 55 % that came through was as low as ever."""
    base, new = (
        point("fake").model_copy(update={"forwarder": ForwarderSpec(name="fake", label=label)})
        for label in ("base", "new")
    )
    noise = [1 + 0.002 * (n % 5) for n in range(len(lost))]
    trials = [trial(base, n, [round(10_000 * each)] * 1000) for n, each in enumerate(noise)]
    trials += [
        trial(new, n, [round(10_000 * each)] * (1000 - less), sent=1000)
        for n, (each, less) in enumerate(zip(noise, lost, strict=True))
    ]
    run = Run(Path("nowhere"), run_record(base, new, study={**LATENCY, "repetitions": len(lost)}), trials)
    found = judge_gate(run, ("a", "b"), "p50_us", 0.05)
    assert (found.verdict, found.exit_code) == (verdict, code), found.sentence
    assert said in found.sentence
    assert found.sentence in markdown(found)


def test_git_bisect_finds_the_first_slower_commit_and_skips_one_without_a_verdict(tmp_path: Path) -> None:
    """Of eight; the base of the fourth does not start, the fifth is slower."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    for number in range(8):
        sides = ("fake:fail_to_start=true" if number == 3 else "fake", f"fake:base_latency_us={3.0 + (number >= 4)}")
        for name, side in zip(("base", "new"), sides, strict=True):
            (tmp_path / name).write_text(side, encoding="utf-8")
        (tmp_path / "number").write_text(str(number), encoding="utf-8")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "--quiet", f"--message=c{number}"], check=True)
        subprocess.run([*git, "tag", f"c{number}"], check=True)
    options = shlex.join(["--results", str(tmp_path / "results"), *ON_FAKE])
    step = f'{Path(sys.executable).with_name("xdplab")} gate "$(cat base)" "$(cat new)" {options}'
    subprocess.run([*git, "bisect", "start", "c7", "c0"], check=True, capture_output=True)
    done = subprocess.run(
        [*git, "bisect", "run", "sh", "-c", step],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    hashes = [subprocess.check_output([*git, "rev-parse", each], text=True).strip() for each in ("c3", "c4")]
    assert done.returncode == 2, done.stdout + done.stderr  # git's word for several that it may be
    could_be = done.stdout.partition("The first bad commit could be any of:")[2].partition("We cannot bisect more")[0]
    assert sorted(could_be.split()) == sorted(hashes)


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (DoesNotCompile("build=x: make failed (2)"), 125, "unsupported: build=x: make failed (2)"),
        (HostLost("b: cannot be reached again"), 125, "undecided: b: cannot be reached again"),
        (InputError("build=x: no such commit"), 2, "build=x: no such commit"),
    ],
)
def test_what_is_no_verdict_is_not_slower(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, raised: Exception, code: int, words: str
) -> None:
    def measured(*_: object) -> None:
        raise raised

    monkeypatch.setattr("xdplab.cli.gate.measured", measured)
    done = cli("gate", "fake", "fake", *ON_FAKE)
    assert done.code == code
    assert words in done.out + done.err


def gates_of(workflow: Any) -> list[str]:
    """Commands of a workflow file, of either system, that gate something by time; by cost: test_cost.py."""
    jobs = workflow.get("jobs", {}).values()
    steps = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    return [
        line
        for line in (*steps, *workflow.get("gate", {}).get("script", ()))
        if "xdplab gate" in line and " --cost" not in line
    ]


def test_the_workflows_of_docs_ci_md_end_with_the_verdict(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (project_root() / "docs" / "ci.md").read_text(encoding="utf-8")
    workflows = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)]
    assert [len(gates_of(each)) for each in workflows] == [1, 0, 1]
    for number, command_line in enumerate(line for each in workflows for line in gates_of(each)):
        words = shlex.split(command_line)
        argv = words[words.index("gate") + 1 :]
        assert all(each.startswith("ovs-afxdp:build=") for each in argv[:2])
        allowed = [argv[at + 1] for at, each in enumerate(argv) if each == "--allow-program"]
        assert allowed == [each.removeprefix("ovs-afxdp:build=") for each in argv[:2]]
        done = cli("gate", "fake", f"fake:base_latency_us={3.0 + 0.6 * number}", *argv[2:], *ON_FAKE)
        assert done.code == number, done.err
        verdict = ("pass", "slower")[number]
        assert Path("summary.md").read_text(encoding="utf-8").startswith(f"**xdplab gate: {verdict}")
        for written in ("gate.xml", "gate.json", "results"):
            assert Path(written).exists()


def test_the_commands_of_docs_ci_md_are_a_gate_s() -> None:
    text = (project_root() / "docs" / "ci.md").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^xdplab (gate .*)$", text, re.MULTILINE)
    assert len(lines) == 7
    for line in lines:
        base, new, *_ = shlex.split(line)[1:]
        for each in (base, new):
            make_forwarder(ForwarderSpec.model_validate(each))
