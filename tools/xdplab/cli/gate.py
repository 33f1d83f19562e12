# SPDX-License-Identifier: Apache-2.0
"""`xdplab gate`: a verdict with an exit code.

What the command needs is imported in its function, as in `cli.main`.
"""

import errno
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xdplab.cli.runs import Results
from xdplab.tools import results_folder

if TYPE_CHECKING:
    from xdplab.analysis.gate import GateResult
    from xdplab.app import Gate

#: Entry points of judges that do not measure, by the name of their option (`--cost`).
JUDGES = "xdplab.gates"
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
Kernels = Annotated[
    list[str] | None,
    typer.Option("--kernel", help="kernel of the guests, with --cost (6.1), also source; twice: BASE's and NEW's"),
]
Driver = Annotated[
    str | None, typer.Option(help="driver of the guests, with --cost: veth, igb, igb-zc, virtio (default: veth)")
]


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
    ktap: Annotated[Path | None, typer.Option(help="write it as KTAP")] = None,
    cost: ByCost = False,
    kernel: Kernels = None,
    driver: Driver = None,
    results: Results = None,
) -> None:
    """Say whether NEW is slower than BASE: both are measured in turns, round after round, until it is certain.

    With --cost both are booted in emulated guests, and instructions per frame decide: no noise, and no root
    (docs/cost.md); the study, its figure and --limit-s have no part in it then. Of two kernels the first is BASE's, the
    second NEW's.

    Exit codes, as `git bisect run` reads them: 0 it is not slower by more than is allowed; 1 it is, or it is broken; 2
    bad input; 125 undecided, unsupported, or source that does not compile.

    Example: xdplab gate ovs-afxdp:build=stock ovs-afxdp:build=patched --max-slowdown 5%
    """
    from xdplab.app import Gate
    from xdplab.model import InputError
    from xdplab.report import exports as forms

    _check_files(junit, json_, markdown, bencher, ktap)
    unused = {"--set": set_, "--testbed": testbed} if cost else {"--kernel": kernel, "--driver": driver}
    if asked := [option for option, value in unused.items() if value]:
        raise InputError(f"{', '.join(asked)}: only {'without' if cost else 'with'} --cost")
    changes, allowed = _changes(set_, testbed), allow_program or ()
    ratio = _ratio(max_slowdown)

    def judge() -> "GateResult":
        if cost:
            return counted(base, new, ratio, kernel or ["6.1"], driver or "veth")
        return measured(Gate(base, new, ratio, study, metric, limit_s, changes, allowed), results)

    found = _verdict(judge)
    print(found.sentence)
    if found.run:
        print(f"run {found.run}")
    if json_:
        _write_json(json_, found.model_dump(mode="json") | {"sentence": found.sentence})
    if bencher:
        _write_json(bencher, forms.bencher(found))
    for file, form in ((markdown, forms.markdown), (ktap, forms.ktap), (junit, forms.junit)):
        if file:
            file.write_text(form(found), encoding="utf-8")
    raise typer.Exit(found.exit_code)


def _check_files(*paths: Path | None) -> None:
    from xdplab.model import InputError

    for path in filter(None, paths):
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.parent}")


def _verdict(judge: Callable[[], "GateResult"]) -> "GateResult":
    """What it gives; where something else ends it, no verdict: NEW is not slower for source that does not compile."""
    from xdplab.analysis.gate import EXIT_CODES
    from xdplab.model import DoesNotCompile, XdplabError

    try:
        return judge()
    except DoesNotCompile as exc:
        print(f"unsupported: {exc}")
        raise typer.Exit(EXIT_CODES["unsupported"]) from None
    except (XdplabError, OSError) as exc:
        lost = isinstance(exc, XdplabError) and exc.exit_code == XdplabError.exit_code  # a host
        if not lost and getattr(exc, "errno", None) not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        print(f"undecided: {exc}", file=sys.stderr)
        raise typer.Exit(EXIT_CODES["undecided"]) from None


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _changes(set_: list[str] | None, testbed: str | None) -> dict[str, Any]:
    from xdplab.cli.study import changes_of

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
    """A gate by instructions per frame, with its guests' lines on the terminal; its judge is another package's."""
    from xdplab.model import InputError, plugins
    from xdplab.tools import checkout

    judge = next((entry.load() for entry in plugins.entries(JUDGES) if entry.name == "cost"), None)
    if judge is None:
        how = "ci/setup" if checkout() else "pip install --force-reinstall xdplab"
        raise InputError(f"gate: --cost needs the package xdplab_cost, which is not installed; `{how}` installs it")
    found: GateResult = judge(base, new, max_slowdown, kernels, driver, lambda line: print(line, flush=True))
    return found


def measured(asked: "Gate", results: Path | None) -> "GateResult":
    """One gate, with its progress on the terminal."""
    from xdplab import app
    from xdplab.cli.study import ConsoleListener

    with ConsoleListener() as listener:
        return app.run_gate(asked, listener, results or results_folder())
