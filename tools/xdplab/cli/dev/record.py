# SPDX-License-Identifier: Apache-2.0
"""`xdplab dev record`: exchanges with real programs, kept for tests that run without them. One module per program."""

from pathlib import Path
from typing import Annotated

import typer

record = typer.Typer(no_args_is_help=True, help="Record exchanges with a real program, for tests that run without it.")

Output = Annotated[Path | None, typer.Option("--output", help="folder (default: that of the tests)")]
Only = Annotated[list[str] | None, typer.Option("--only", help="a scenario; may be repeated")]
TestbedName = Annotated[str, typer.Option("--testbed", help="name in suites/testbeds, or a file")]


@record.command()
def trex(
    folder: Annotated[str, typer.Option("--trex", help="folder of a release (default: XDPLAB_TREX, else PATH)")] = "",
    output: Output = None,
    only: Only = None,
    testbed: TestbedName = "embedded",
) -> None:
    """Record the exchange with a real TRex server on the direct link, errors among them."""
    from xdplab.cli.dev.record_trex import record_trex

    record_trex(folder, output, only, testbed)


@record.command()
def vpp(
    program: Annotated[str, typer.Option("--vpp", help="the program (default: XDPLAB_VPP, else on PATH)")] = "",
    output: Output = None,
    only: Only = None,
    testbed: TestbedName = "embedded",
) -> None:
    """Record the API exchange and statistics of a real VPP, errors among them."""
    from xdplab.cli.dev.record_vpp import record_vpp

    record_vpp(program, output, only, testbed)
