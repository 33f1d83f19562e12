# SPDX-License-Identifier: Apache-2.0
"""`xdplab cost`: instructions per forwarded frame, which repeat to the last digit.

What the command needs is imported in its function: `xdplab --help` would load all of xdplab else.
"""

import os
from pathlib import Path
from typing import Annotated

import typer


def cost(
    forwarders: Annotated[
        list[str] | None, typer.Argument(help="e.g. xdp ovs-kernel ovs-afxdp:build=../ovs@main (default: all)")
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            help="6.1, 6.12, 7.2, 6.18.5+deb13, debian (all of them), a file or source tree; several times (6.1)"
        ),
    ] = None,
    driver: Annotated[list[str] | None, typer.Option(help="veth, igb, igb-zc or virtio (default: veth)")] = None,
    seeds: Annotated[int, typer.Option(min=1, max=20, help="guests of each cell, each with other random numbers")] = 3,
    batch: Annotated[
        int, typer.Option(min=1, max=256, help="frames that are sent before they are waited for: the longest vector")
    ] = 32,
    jobs: Annotated[int | None, typer.Option(min=1, help="guests at once (default: one for each CPU)")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="measure again what the cache has")] = False,
    measured: Annotated[
        str | None, typer.Option(help="a run: its forwarders, and whether it orders them alike")
    ] = None,
    check: Annotated[
        Path | None, typer.Option(help="a table as JSON, also of another machine: whether this one repeats it")
    ] = None,
    json_: Annotated[Path | None, typer.Option("--json", help="write the table as JSON")] = None,
    csv: Annotated[Path | None, typer.Option(help="write it as CSV")] = None,
    markdown: Annotated[Path | None, typer.Option(help="write it as a page, with its layers")] = None,
    ktap: Annotated[Path | None, typer.Option(help="write a test for each cell as KTAP: it has a figure")] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="folder or STEM: write STEM.html, .md, .json, .csv, .bencher.json"),
    ] = None,
    features: Annotated[
        bool, typer.Option("--features", help="also try what of AF_XDP works on each kernel and driver")
    ] = False,
    results: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="folder of run folders (default: results/)"),
    ] = None,
) -> None:
    """Count the instructions that a forwarded frame takes, in an emulated guest: no noise, but no time either.

    Needs no root. What cache misses and waiting cost is not in it (docs/cost.md). A program that is missing makes its
    cell `unsupported`. Exit codes: 0; 1 a cell failed, or does not repeat; 2 bad input, or nothing could be measured.

    Example: xdplab cost xdp ovs-kernel ovs-afxdp --kernel 6.1 --driver veth
    """
    from xdplab.api import InputError, load
    from xdplab_cost import cells, table
    from xdplab_cost.beside import beside, countable
    from xdplab_cost.kernels import chosen_kernels
    from xdplab_cost.ledger import write as write_ledger
    from xdplab_cost.repeat import earlier_table, repeat
    from xdplab_cost.run import Wanted, measure

    for path in filter(None, (json_, csv, markdown, ktap, ledger)):
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.parent}")
    run = load(measured, results) if measured else None
    wanted = Wanted(
        kernels=chosen_kernels(kernel or ["6.1"]),
        drivers=cells.chosen(driver or ["veth"], [*cells.DRIVERS], "driver"),
        forwarders=[*dict.fromkeys(forwarders or (countable(run) if run else cells.FORWARDERS))],
        seeds=range(1, seeds + 1),
        jobs=jobs or len(os.sched_getaffinity(0)),
        kept=not fresh,
        features=features,
        batch=batch,
    )
    earlier = earlier_table(check, wanted) if check else None
    found = measure(wanted, lambda line: print(line, flush=True))
    others = [cell for cell in found.cells if cell.forwarder != cells.TESTER] or found.cells
    if all(cell.status == "unsupported" for cell in others):
        raise InputError(f"xdplab cost: {others[0].title}: {others[0].reason}")
    print(table.text(found))
    compared = f"\n{beside(found, run).text()}\n" if run else ""
    print(compared, end="")
    repeated = repeat(check, earlier, found) if check and earlier else None
    if repeated:
        print("", *repeated.sentences(), sep="\n")
    if json_:
        json_.write_text(found.model_dump_json(indent=1) + "\n", encoding="utf-8")
    if csv:
        csv.write_text(table.comma_separated(found), encoding="utf-8")
    if markdown:
        markdown.write_text(table.markdown(found) + compared, encoding="utf-8")
    if ktap:
        ktap.write_text(table.ktap(found), encoding="utf-8")
    if ledger:
        write_ledger(found, ledger)
    failed = any(cell.status == "failed" for cell in found.cells)
    raise typer.Exit(int(failed or bool(repeated and repeated.wrong)))
