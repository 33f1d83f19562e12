# SPDX-License-Identifier: Apache-2.0
"""`xdplab record`: exchanges with real programs, kept for tests that run without them. One module per program."""

import typer

from xdplab.cli.record_trex import trex
from xdplab.cli.record_vpp import vpp

record = typer.Typer(no_args_is_help=True, help="Record exchanges with a real program, for tests that run without it.")
record.command()(trex)
record.command()(vpp)
