# SPDX-License-Identifier: Apache-2.0
"""`python tools/dev`: what judges xdplab itself on simulated data, records programs for its tests, writes documents.

No part of the package. What a command needs is imported in its function, as in `xdplab.cli.main`.
"""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from xdplab.cli.main import main
from xdplab.cli.runs import AsJson, ResultsThere
from xdplab.tools import results_folder

cli = typer.Typer(no_args_is_help=True, add_completion=False, help="Benchmarks of xdplab, and recorders for its tests.")
record = typer.Typer(no_args_is_help=True, help="Record exchanges with a real program, for tests that run without it.")
cli.add_typer(record, name="record")

Output = Annotated[Path | None, typer.Option("--output", help="folder (default: that of the tests)")]
Only = Annotated[list[str] | None, typer.Option("--only", help="a scenario; may be repeated")]
TestbedName = Annotated[str, typer.Option("--testbed", help="name in suites/testbeds, or a file")]


@cli.command("bench-search")
def bench(
    searches: Annotated[int, typer.Option(min=5, max=1000, help="searches per preset and box")] = 60,
    as_json: AsJson = False,
) -> None:
    """Judge the search presets on simulated boxes: error, spread and traffic time next to plain bisection.

    Example: python tools/dev bench-search --searches 5
    """
    from dev.bench_search import bench_search, bench_table

    found = bench_search(searches, lambda text: print(text, file=sys.stderr))
    print(json.dumps(found.model_dump(), indent=1) if as_json else bench_table(found))


@cli.command("bench-analysis")
def bench_of_analysis(
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="simulated runs of each kind")] = 10,
    trials: Annotated[int, typer.Option(min=256, max=100_000, help="of the run that is timed")] = 10_000,
    as_json: AsJson = False,
) -> None:
    """Judge `sweep` on runs simulated from the delay study's tables, and time it.

    Example: python tools/dev bench-analysis --seeds 1 --trials 1000
    """
    from dev.bench_analysis import bench_analysis, bench_text

    found = bench_analysis(seeds, trials, lambda text: print(text, file=sys.stderr))
    print(json.dumps(found.model_dump(mode="json"), indent=1) if as_json else bench_text(found))


@cli.command("bench-report")
def bench_of_report(
    points: Annotated[int, typer.Option(min=1, max=100_000)] = 1000,
    trials: Annotated[int, typer.Option(min=1, max=10_000_000)] = 100_000,
) -> None:
    """Draw the report of a run of many points and trials, copies of a stored one's: its time and peak memory.

    Example: python tools/dev bench-report --points 6 --trials 1000
    """
    from dev.bench_report import bench_report

    print(json.dumps(bench_report(points, trials).model_dump(), indent=1))


@cli.command("bench-cost")
def bench_of_cost(
    plants: Annotated[int, typer.Option(min=1, max=100, help="programs that take more instructions")] = 20,
    histories: Annotated[int, typer.Option(min=1, max=1000, help="that are bisected")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="guests at once")] = 1,
    folder: Annotated[Path, typer.Option(help="where the programs are compiled to")] = Path("build/bench-cost"),
) -> None:
    """Judge `xdplab gate --cost` on XDP programs of known lengths: 20 minutes for what the cache does not have.

    Example: python tools/dev bench-cost --plants 2
    """
    from dev.bench_cost import bench_cost

    folder.mkdir(parents=True, exist_ok=True)
    print(bench_cost(folder.resolve(), plants, histories, jobs, lambda line: print(line, file=sys.stderr)).text)


@cli.command("bench-kernel")
def bench_of_kernels(
    source: Annotated[Path | None, typer.Argument(help="tree of Linux (default: Debian's linux-source)")] = None,
    plants: Annotated[str, typer.Option(help="a part of their names, such as `lock`; empty: all")] = "",
    seeds: Annotated[int, typer.Option(min=1, max=9, help="guests of each kernel and forwarder")] = 3,
    folder: Annotated[Path, typer.Option(help="where the tree is copied to")] = Path("build/bench-kernel"),
) -> None:
    """Judge `xdplab gate --cost --kernel` on 21 changes of Linux's source, of which ten change nothing a frame takes.

    Example: python tools/dev bench-kernel ../linux --plants xsk.c
    """
    from dev import bench_kernel as planted

    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [each for each in planted.plants() if plants in each.name]
    if not wanted:
        raise typer.BadParameter(f"{plants}: no plant of kernel_plants.yaml has that in its name")
    tree = source or planted.debians_source(folder)
    found = planted.bench_kernel(tree, folder, wanted, lambda line: print(line, file=sys.stderr), range(1, seeds + 1))
    print("\n".join(each.row for each in found))
    print(f"{sum(each.right for each in found)} of {len(found)} are right")
    sys.exit(0 if found and all(each.right for each in found) else 1)


@cli.command("own-cost")
def cost_of_our_own() -> None:
    """Print what our own programs take of a frame, as tools/tests/data/own-cost.json has it.

    Example: python tools/dev own-cost > tools/tests/data/own-cost.json
    """
    from dev.own_cost import own_cost

    print(json.dumps(own_cost(lambda line: print(line, file=sys.stderr)), indent=1))


@cli.command("bench-sweeps")
def bench_of_sweeps(
    tables: Annotated[int, typer.Option(min=1, max=100_000, help="tables of each design, noise and effect")] = 20,
    as_json: AsJson = False,
) -> None:
    """Count how often a sweep names or advises idle settings, and finds a planted effect, by size and noise.

    Example: python tools/dev bench-sweeps --tables 1
    """
    from dev.bench_sweeps import bench_sweeps, bench_table

    found = bench_sweeps(tables, progress=lambda text: print(text, file=sys.stderr))
    print(json.dumps([row.model_dump() for row in found], indent=1) if as_json else bench_table(found))


@cli.command("false-alarms")
def false_alarms(
    run: Annotated[str, typer.Argument(help="a run of suites/studies/a-against-a.yaml")] = "latest",
    group: Annotated[int, typer.Option(min=3, max=100, help="repetitions per comparison")] = 5,
    simulated: Annotated[
        int | None, typer.Option(min=10, max=100_000, help="instead of a run: studies per shape of simulated noise")
    ] = None,
    as_json: AsJson = False,
    results: ResultsThere = None,
) -> None:
    """Count how often a forwarder is called different from itself, or equal things under simulated noise are.

    Example: python tools/dev false-alarms --simulated 200
    """
    from dev.a_against_a import self_comparisons
    from dev.bench_turns import bench_text, bench_turns
    from xdplab.analysis.run import Run
    from xdplab.analysis.words import ratio_text
    from xdplab.model import InputError

    if simulated:
        rows = bench_turns(simulated, progress=lambda text: print(text, file=sys.stderr))
        print(json.dumps([row.model_dump() for row in rows], indent=1) if as_json else bench_text(rows))
        return
    read = Run.named(run, results or results_folder())
    summaries = read.points
    if len(summaries) != 2:
        raise InputError(f"{read.name}: a run of two points is expected, this one has {len(summaries)}")
    called = {metric: self_comparisons(summaries[0], summaries[1], group, metric) for metric in ("p50_us", "p99_us")}
    if as_json:
        print(json.dumps({metric: [one.model_dump() for one in found] for metric, found in called.items()}, indent=1))
        return
    for metric, found in called.items():
        different = [ratio_text(one) for one in found if one.better is not None]
        silent = sum(bool(one.blockers) for one in found)
        print(
            f"{metric}: {len(different)} of {len(found)} comparisons of {group} rounds called different {different}, "
            f"of {silent} nothing was said"
        )


@cli.command("asleep")
def what_sleep_does(
    forwarder: Annotated[str, typer.Argument(help="with its options, as in a study")],
    pipeline: Annotated[str, typer.Option(help="cross or conntrack")] = "cross",
    nap: Annotated[list[float] | None, typer.Option(help="how long it sleeps, in s; may be repeated")] = None,
    testbed: TestbedName = "embedded",
) -> None:
    """Freeze a forwarder as between its turns: frames after it, what Open vSwitch still knows, what is logged.

    Example: python tools/dev asleep ovs-afxdp --nap 15
    """
    from dev.asleep import asleep

    for line in asleep(forwarder, pipeline, nap or [1, 5, 15], testbed):
        print(line, flush=True)


@cli.command("bench-beside")
def bench_of_standing_beside(
    forwarders: Annotated[list[str], typer.Argument(help="the one that is looked at, then those beside it")],
    rounds: Annotated[int, typer.Option(min=3, max=1000)] = 20,
    turns: Annotated[int, typer.Option(min=1, max=100, help="of each kind in a round")] = 4,
) -> None:
    """Measure what standing beside others, and turns between theirs, do to a forwarder's latency.

    Example: python tools/dev bench-beside ovs-afxdp ovs-dpdk xdp linux-bridge
    """
    from dev.bench_beside import bench_beside, text
    from xdplab.cli.study import ConsoleListener

    with ConsoleListener() as listener:
        rows = bench_beside(forwarders, rounds, turns, listener)
    print(text(rows))


@cli.command("data-format")
def format_of_data() -> None:
    """Print docs/data-format.md, made of the models.

    Example: python tools/dev data-format
    """
    from dev.data_format import data_format

    print(data_format(), end="")


@cli.command("drawing")
def drawing() -> None:
    """Print the drawing of docs/architecture.md, made of the imports.

    Example: python tools/dev drawing
    """
    from dev.drawing import drawing as drawn

    print(drawn())


@cli.command("man")
def man() -> None:
    """Print the man page, made of what the commands say of themselves; the wheel has it.

    Example: python tools/dev man
    """
    from dev.commands import man_page

    print(man_page(), end="")


@record.command()
def trex(
    folder: Annotated[str, typer.Option("--trex", help="folder of a release (default: XDPLAB_TREX, else PATH)")] = "",
    output: Output = None,
    only: Only = None,
    testbed: TestbedName = "embedded",
) -> None:
    """Record the exchange with a real TRex server on the direct link, errors among them.

    Example: python tools/dev record trex --only version
    """
    from dev.record_trex import record_trex

    record_trex(folder, output, only, testbed)


@record.command()
def vpp(
    program: Annotated[str, typer.Option("--vpp", help="the program (default: XDPLAB_VPP, else on PATH)")] = "",
    output: Output = None,
    only: Only = None,
    testbed: TestbedName = "embedded",
) -> None:
    """Record the API exchange and statistics of a real VPP, errors among them.

    Example: python tools/dev record vpp --only too-many-queues
    """
    from dev.record_vpp import record_vpp

    record_vpp(program, output, only, testbed)


if __name__ == "__main__":
    main(cli)
