# SPDX-License-Identifier: Apache-2.0
"""The command line: thin, every command is a few calls of `app`."""

from xdplab.cli.main import main

__all__ = ["main"]
