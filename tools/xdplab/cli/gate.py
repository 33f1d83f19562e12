# SPDX-License-Identifier: Apache-2.0
"""`xdplab gate` and `xdplab bisect`: a verdict with an exit code.

What the commands need is imported in their functions, as in `cli.main`.
"""

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xdplab.cli.runs import Results
from xdplab.tools import results_folder

if TYPE_CHECKING:
    from xdplab.analysis.gate import GateResult, Verdict
    from xdplab.app import Gate

MaxSlowdown = Annotated[str, typer.Option("--max-slowdown", help="how much worse the new one may be: 5% or 0.05")]
Metric = Annotated[str, typer.Option("--figure", help="key of the figure that decides, e.g. p99_us")]
Study = Annotated[str, typer.Option("--study", help="name in suites/studies, or a file; its forwarders are replaced")]
Limit = Annotated[float, typer.Option("--limit-s", min=1, help="seconds after which no round begins")]
Set = Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE in the study, e.g. traffic.frame_bytes=512")]
TestbedName = Annotated[str | None, typer.Option("--testbed", help="testbed name or file instead of the study's")]
Allow = Annotated[
    list[str] | None, typer.Option("--allow-program", help="program that BASE or NEW may name and start as root")
]
ByCost = Annotated[bool, typer.Option("--cost", help="decide by instructions per frame, in emulated guests")]
Kernel = Annotated[str, typer.Option(help="kernel of the guests, with --cost")]
Kernels = Annotated[
    list[str] | None, typer.Option("--kernel", help="kernel of the guests, with --cost (6.1); twice: BASE's and NEW's")
]
Driver = Annotated[str, typer.Option(help="driver of the guests, with --cost: veth, igb, igb-zc, virtio")]


def gate(
    base: Annotated[str, typer.Argument(help="forwarder, e.g. ovs-afxdp:build=../ovs@main")],
    new: Annotated[str, typer.Argument(help="forwarder, e.g. ovs-afxdp:build=../ovs@my-branch")],
    max_slowdown: MaxSlowdown = "5%",
    metric: Metric = "p50_us",
    study: Study = "gate",
    limit_s: Limit = 330.0,
    set_: Set = None,
    testbed: TestbedName = None,
    allow_program: Allow = None,
    junit: Annotated[Path | None, typer.Option(help="write the verdict as JUnit XML")] = None,
    json_: Annotated[Path | None, typer.Option("--json", help="write it as JSON")] = None,
    markdown: Annotated[Path | None, typer.Option(help="write it as a summary for a pull request")] = None,
    bencher: Annotated[Path | None, typer.Option(help="write it in Bencher's metric format")] = None,
    otava: Annotated[Path | None, typer.Option(help="append it to a CSV file for Apache Otava")] = None,
    commit: Annotated[str, typer.Option(help="what the CSV file calls the new one")] = "",
    cost: ByCost = False,
    kernel: Kernels = None,
    driver: Driver = "veth",
    results: Results = None,
) -> None:
    """Say whether NEW is slower than BASE: both are measured interleaved, in rounds, until it is certain.

    With --cost both are booted in emulated guests, and instructions per frame decide: no noise, and no root
    (docs/cost.md); the study, its figure and --limit-s have no part in it then. Of two kernels the first is BASE's, the
    second NEW's.

    Exit codes: 0 it is not slower by more than is allowed; 1 it is, or it is broken; 2 bad input; 3 undecided or
    unsupported.

    Example: xdplab gate ovs-afxdp:build=stock ovs-afxdp:build=patched --max-slowdown 5%
    """
    from xdplab.app import Gate
    from xdplab.model import InputError
    from xdplab.report.exports import gate as forms
    from xdplab.report.exports.followers import append_row

    for path in filter(None, (junit, json_, markdown, bencher, otava)):
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.parent}")
    changes, allowed = _changes(set_, testbed), allow_program or ()
    ratio = _ratio(max_slowdown)
    found = (
        counted(base, new, ratio, kernel or ["6.1"], driver)
        if cost
        else measured(Gate(base, new, ratio, study, metric, limit_s, changes, allowed), results)
    )
    print(found.sentence)
    if found.run:
        print(f"run {found.run}")
    if json_:
        _write_json(json_, found.model_dump(mode="json") | {"sentence": found.sentence})
    if bencher:
        _write_json(bencher, forms.bencher(found))
    if markdown:
        markdown.write_text(forms.markdown(found), encoding="utf-8")
    if junit:
        junit.write_text(forms.junit(found), encoding="utf-8")
    if otava:
        head, row = forms.otava(found, datetime.now(UTC).isoformat(timespec="seconds"), commit or new)
        append_row(otava, head, row)
    raise typer.Exit(found.exit_code)


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def bisect(
    good: Annotated[str, typer.Argument(help="commit that is fast enough")],
    bad: Annotated[str, typer.Argument(help="later commit that is not")],
    repo: Annotated[Path, typer.Option(help="git checkout of Open vSwitch")],
    forwarder: Annotated[str, typer.Option(help="what is measured of each commit")] = "ovs-afxdp",
    max_slowdown: MaxSlowdown = "5%",
    metric: Metric = "p50_us",
    study: Study = "gate",
    limit_s: Limit = 330.0,
    set_: Set = None,
    testbed: TestbedName = None,
    cost: ByCost = False,
    kernel: Kernel = "6.1",
    driver: Driver = "veth",
    results: Results = None,
) -> None:
    """Find the first commit of Open vSwitch that is slower than GOOD: each step compiles one and gates it.

    Where BAD is broken, the first broken one is. The commits of REPO are what it starts as root.

    Exit codes: 0 found; 1 BAD is not slower; 2 bad input; 3 undecided.

    Example: xdplab bisect v3.4.0 main --repo ../ovs --max-slowdown 10%
    """
    from xdplab.app import Gate

    there, commits = repo.resolve(), commits_between(repo, good, bad)
    build = f"{forwarder}{',' if ':' in forwarder else ':'}build={there}@"
    ratio, changes = _ratio(max_slowdown), _changes(set_, testbed)

    def verdict(commit: str) -> "GateResult":
        print(f"{commit}: gated against {good}", flush=True)
        allowed = [f"{there}@{each}" for each in (good, commit)]
        found = (
            counted(build + good, build + commit, ratio, [kernel], driver)
            if cost
            else measured(Gate(build + good, build + commit, ratio, study, metric, limit_s, changes, allowed), results)
        )
        print(f"{commit}: {found.sentence}", flush=True)
        return found

    if (ends := verdict(commits[-1])).verdict not in ("slower", "broken"):
        print(f"{bad} is not slower than {good}" if ends.verdict == "pass" else "nothing to search for")
        raise typer.Exit(1 if ends.verdict == "pass" else 3)
    candidates = first_with(ends.verdict, commits, good, verdict)
    one_of = "one of " if len(candidates) > 1 else ""
    print(f"first {ends.verdict} commit: {one_of}{', '.join(candidates)}")


def first_with(
    wanted: "Verdict", commits: Sequence[str], good: str, verdict: Callable[[str], "GateResult"]
) -> list[str]:
    """The first that is `slower`, or `broken`, of commits after `good`, oldest first, whose last one is.

    One that does not compile, or that is broken where a slower one is wanted, is left out: it may be the one as well if
    it is a direct predecessor.

    Raises:
        typer.Exit: one is undecided.
    """
    from xdplab.model import InputError

    left = list(commits)
    fast, slow = -1, len(left) - 1  # of the first commit good is the parent
    while slow - fast > 1:
        middle = (fast + slow) // 2
        try:
            found = verdict(left[middle])
        except InputError as exc:
            if not str(exc).startswith("build="):
                raise
            print(f"{left.pop(middle)}: left out: {exc}", flush=True)
            slow -= 1
            continue
        if found.exit_code == 3:
            after = left[fast] if fast >= 0 else good
            print(f"undecided at {left[middle]}: the first {wanted} one comes after {after}, up to {left[slow]}")
            raise typer.Exit(3)
        if found.verdict == wanted:
            slow = middle
        elif found.verdict == "broken":
            print(f"{left.pop(middle)}: left out: {found.sentence}", flush=True)
            slow -= 1
        else:
            fast = middle
    begin = commits.index(left[fast]) + 1 if fast >= 0 else 0
    return list(commits[begin : commits.index(left[slow]) + 1])


def commits_between(repo: Path, good: str, bad: str) -> list[str]:
    """Short names of the commits after `good` up to and with `bad`, oldest first, along first parents.

    Raises:
        InputError: git knows one of them not, or `bad` does not come after `good`.
    """
    from xdplab.model import InputError

    argv = ["git", "-C", str(repo), "rev-list", "--first-parent", "--reverse", "--abbrev-commit", "--end-of-options"]
    try:
        done = subprocess.run([*argv, f"{good}..{bad}"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise InputError("git is not installed; apt-get install git") from None
    if done.returncode:
        raise InputError(f"{repo}: {' '.join(done.stderr.split())}")
    if not done.stdout.split():
        raise InputError(f"{repo}: {bad} does not come after {good}: there is nothing between them")
    return done.stdout.split()


def _changes(set_: list[str] | None, testbed: str | None) -> dict[str, Any]:
    from xdplab.cli.changes import changes_of

    return {**changes_of(set_ or []), **({"testbed": testbed} if testbed else {})}


def _ratio(text: str) -> float:
    """`5%` -> 0.05; `0.05` stays.

    Raises:
        InputError: it is neither, or not above 0 and below 10.
    """
    from xdplab.model import InputError

    number = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text.strip())
    value = float(number[1]) / (100 if number[2] else 1) if number else 0.0
    if not 0 < value < 10:
        raise InputError(f"--max-slowdown {text}: a share above 0 is expected, as in 5% or 0.05")
    return value


def counted(base: str, new: str, max_slowdown: float, kernels: list[str], driver: str) -> "GateResult":
    """A gate by instructions per frame, with its guests' lines on the terminal."""
    from xdplab.cost.gate import judge_cost

    return judge_cost(base, new, max_slowdown, kernels, driver, lambda line: print(line, flush=True))


def measured(asked: "Gate", results: Path | None) -> "GateResult":
    """One gate, with its progress on the terminal."""
    from xdplab import app
    from xdplab.cli.progress import ConsoleListener

    with ConsoleListener() as listener:
        return app.run_gate(asked, listener, results or results_folder())
