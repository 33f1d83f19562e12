# SPDX-License-Identifier: Apache-2.0
"""Open bugs of the package that more than one test meets. Fixed: delete the name here and where it is used."""

import pytest


def _open(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=True, reason=reason)


WORKDIR = _open("a run that ends before or within its first visit leaves the working folder <testbed>.dut behind")
EXIT_CODE = _open("main() drops what cli(standalone_mode=False) returns: every typer.Exit becomes exit code 0")
