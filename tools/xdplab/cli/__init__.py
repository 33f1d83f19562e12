# SPDX-License-Identifier: Apache-2.0
"""The command line: thin, every command is a few calls of `app`."""

import sys


def main() -> None:
    """Entry point; Ctrl-C is no traceback while the libraries are still being loaded either."""
    try:
        from xdplab.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("xdplab: interrupted", file=sys.stderr)
        sys.exit(130)
