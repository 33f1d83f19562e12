# SPDX-License-Identifier: Apache-2.0
"""Commands of `xdplab`.

Exit codes: 0 done, 1 a measured result failed, 2 bad input or missing part, 125 a gate found no verdict, 130
interrupted.
"""
# A command imports inside its function what it needs: help and version would load numpy and half the package else.

import json
import os
import signal
import sys
from typing import Annotated

import typer

from xdplab import __version__
from xdplab.cli.discover import explain, list_, schema, where
from xdplab.cli.gate import gate
from xdplab.cli.groups import Commands, WithOthers
from xdplab.cli.lab import lab
from xdplab.cli.reproduce import reproduce
from xdplab.cli.runs import AsJson, Results, ResultsThere, compare, export, report, show
from xdplab.tools import results_folder, testbeds_folder

cli = Commands(cls=WithOthers, no_args_is_help=True, help=__doc__, pretty_exceptions_enable=False)
#: Panels of `xdplab --help`, in the order of their first command.
_MEASURE, _LOOK, _SHARE, _LAB = WithOthers.panel, "Look at runs and parts", "Share", "Testbeds"
Testbed = Annotated[str, typer.Option("--testbed", help="name in suites/testbeds, or a file")]


def _studies() -> list[str]:
    from xdplab.app import study_files

    return [*study_files()]


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@cli.callback()
def options(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")] = False,
) -> None:
    """Global options."""


@cli.command(rich_help_panel=_MEASURE)
def run(
    study: Annotated[
        str | None, typer.Argument(help="name in suites/studies, or a file", autocompletion=_studies)
    ] = None,
    forwarders: Annotated[
        str | None, typer.Option(help="instead of the study's, e.g. ovs-afxdp,ovs-afpacket:build=patched,xdp")
    ] = None,
    duration: Annotated[float | None, typer.Option(help="seconds of each trial (method.duration_s)")] = None,
    repetitions: Annotated[int | None, typer.Option(help="how often each point is measured")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="any KEY=VALUE of the study, e.g. traffic.frame_bytes=512")
    ] = None,
    testbed: Annotated[str | None, typer.Option(help="testbed name or file instead of the study's")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print points and time, change nothing")] = False,
    resume: Annotated[str | None, typer.Option("--resume", help="resume the run in this folder")] = None,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="calibrate the tester again")] = False,
    until_decided: Annotated[
        bool, typer.Option("--until-decided", help="up to four times as many rounds, until the answer is decided")
    ] = False,
    allow_program: Annotated[
        list[str] | None, typer.Option("--allow-program", help="program that the study may name and start as root")
    ] = None,
    results: Results = None,
) -> None:
    """Execute a study and write its report.

    Example: xdplab run latency --forwarders ovs-afxdp,ovs-afpacket --duration 1 --repetitions 5
    """
    from xdplab import app
    from xdplab.analysis.run import Run
    from xdplab.cli.study import ConsoleListener, changes_of, chosen_forwarders, plan_table
    from xdplab.cli.tables import run_text
    from xdplab.model import InputError
    from xdplab.results import find_run
    from xdplab.runner import Listener
    from xdplab.runner.environment import completed
    from xdplab.testbed import load_yaml

    folder = results or results_folder()
    if (study is None) == (resume is None):
        raise InputError("run: give a study file, or --resume RUN")
    unfinished = find_run(resume, folder) if resume else None
    given = {"testbed": testbed, "method.duration_s": duration, "repetitions": repetitions, "forwarders": forwarders}
    changes = {**changes_of(set_ or []), **{key: value for key, value in given.items() if value is not None}}
    if unfinished and (changes or calibrate or until_decided):
        raise InputError(
            "run: --resume goes on with the study and the calibration that the run began with; leave out --set, "
            "--forwarders, --duration, --repetitions, --testbed, --calibrate and --until-decided"
        )
    if unfinished:
        spec = app.study_of(unfinished)
    else:
        path = app.find_study(study or "")
        if forwarders is not None:
            changes["forwarders"] = chosen_forwarders(forwarders, load_yaml(path).get("forwarders") or ())
        spec = app.read_study(path, changes)
    looks = app.looks_of(spec) if until_decided else ()
    if looks:
        spec = spec.model_copy(update={"repetitions": looks[-1]})
    prepared = app.prepare(spec, allow_program or ())
    if dry_run:
        done = completed(unfinished.trials() if unfinished else (), prepared.plan)
        print(plan_table(prepared.plan, spec, app.survey(prepared, Listener()), done, prepared.testbed.kind))
        return
    with ConsoleListener() as listener:
        made, outcome = app.run_study(prepared, listener, folder, unfinished, recalibrate=calibrate, looks=looks)
    read = Run.of(made, outcome)
    print(run_text(read))
    for line in app.complaints(outcome, read.points):
        print(line)
    print(f"run {made.path}")
    print(f"report {made.report}")
    if outcome.error or outcome.interrupted:
        _complain(str(outcome.error or outcome.interrupted), 0)
    sys.exit(app.exit_code(outcome, read.points))  # not `typer.Exit`: an interruption was reported already


@cli.command(rich_help_panel=_LOOK)
def analyse(
    run: Annotated[str, typer.Argument(help="run folder or its name")] = "latest",
    as_json: AsJson = False,
    results: ResultsThere = None,
) -> None:
    """Print which settings of a sweep matter, by how much, and what to change.

    Example: xdplab analyse latest
    """
    from xdplab import app
    from xdplab.cli.analyse import sweep_text

    found = app.sweep_of(run, results or results_folder()).sweeps
    if as_json:
        print(json.dumps([each.model_dump(mode="json") for each in found], indent=1))
    else:
        print("\n\n".join(map(sweep_text, found)))


@cli.command(rich_help_panel=_MEASURE)
def doctor(
    testbed: Testbed = "embedded",
    study: Annotated[str | None, typer.Option("--study", help="ask only for what this study needs")] = None,
    as_json: AsJson = False,
) -> None:
    """Check everything that a run needs; print the command that fixes each gap.

    Example: xdplab doctor --study latency
    """
    from xdplab import app
    from xdplab.cli.doctor import checks, study_checks
    from xdplab.testbed import read_testbed

    if study:
        changes = {} if testbed == "embedded" else {"testbed": testbed}
        found = study_checks(app.prepare(app.read_study(app.find_study(study), changes)))
    else:
        found = checks(read_testbed(testbed, testbeds_folder()))
    if as_json:
        print(json.dumps([check.model_dump() for check in found], indent=1))
    else:
        for check in found:
            print(check.line())
    if any(check.state == "missing" for check in found):
        raise typer.Exit(2)


@cli.command(rich_help_panel=_LAB)
def inventory(testbed: Testbed) -> None:
    """Print the hosts of a testbed file as Ansible's inventory (ci/ansible).

    Example: xdplab inventory --testbed lab.yaml
    """
    from xdplab.cli.inventory import inventory as inventory_of
    from xdplab.testbed import read_testbed

    print(json.dumps(inventory_of(read_testbed(testbed, testbeds_folder())), indent=1))


@cli.command(rich_help_panel=_LAB)
def up(testbed: Testbed = "embedded") -> None:
    """Build the testbed and keep it until Ctrl-C, to look around in its namespaces.

    Example: xdplab up
    """
    from xdplab.app import require_root
    from xdplab.model import Interrupted
    from xdplab.runner import interruptible, recover
    from xdplab.testbed import open_testbed, read_testbed

    spec = read_testbed(testbed, testbeds_folder())
    require_root(spec)
    recover(spec)
    built = open_testbed(spec)
    with interruptible(testbed):
        try:
            built.up()
            for port in built.ports.values():
                print(f"{port.role}: {port.ifname} in {port.netns or 'this namespace'} ({port.mac})", flush=True)
            print("up; Ctrl-C takes it down", flush=True)
            sys.stdin.read() if not sys.stdin.isatty() and os.environ.get("XDPLAB_UP_UNTIL_EOF") else signal.pause()
        except Interrupted:
            pass
        finally:
            built.down()


@cli.command(rich_help_panel=_LAB)
def restore(
    testbed: Testbed = "embedded",
    force: Annotated[
        bool,
        typer.Option("--force", help="also restore what was changed since the run, and ports that are in use by now"),
    ] = False,
    forget: Annotated[
        list[str] | None, typer.Option("--forget", metavar="ROLE", help="a port whose card is gone, such as b1")
    ] = None,
) -> None:
    """Put back and remove what a killed run left: processes and namespaces first, then settings.

    Example: xdplab restore --testbed lab.yaml
    """
    from xdplab.app import require_root
    from xdplab.runner import recover
    from xdplab.testbed import read_testbed

    spec = read_testbed(testbed, testbeds_folder())
    require_root(spec)
    for line in recover(spec, force=force, forget=forget or ()):
        print(line)


for panel, commands in (
    (_MEASURE, (gate,)),
    (_LOOK, (show, compare, report, reproduce, list_, explain)),
    (_SHARE, (export, where, schema)),
):
    for command in commands:
        cli.command(command.__name__.rstrip("_"), rich_help_panel=panel)(command)
cli.add_typer(lab, name="lab", rich_help_panel=_LAB)


def main(commands: typer.Typer = cli) -> None:
    """Entry point: a known error is one line and its exit code."""
    try:
        code = (
            commands(standalone_mode=False) or 0
        )  # what `typer.Exit` carried comes back; typer makes it 130 of Ctrl-C
        sys.exit(_complain("interrupted", 130) if code == 130 else code)
    except typer.Exit as exc:
        sys.exit(exc.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(_complain("interrupted", 130))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except SystemExit:
        raise
    except BaseException as exc:
        sys.exit(_explained(exc))


def _explained(exc: BaseException) -> int:
    """Print a known error as one line; an unforeseen one is raised again."""
    from xdplab.model import Interrupted, XdplabError

    if isinstance(exc, (XdplabError, Interrupted)):
        return _complain(str(exc), exc.exit_code)
    if isinstance(exc, OSError):
        return _complain(f"{exc.filename or 'system call'}: {exc.strerror}", 2)
    if not hasattr(exc, "format_message"):  # click's usage errors have it, and are not public in typer
        raise exc
    message = exc.format_message()
    return _complain(message, 2) if message else 2


def _complain(message: str, code: int) -> int:
    from xdplab.model import plain

    print(f"xdplab: {plain(' '.join(message.split()))}", file=sys.stderr)
    return code
