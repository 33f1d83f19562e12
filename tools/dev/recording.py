# SPDX-License-Identifier: Apache-2.0
"""What the commands of `python tools/dev record` have in common: what is asked before anything is started."""

from collections.abc import Collection

from xdplab import app
from xdplab.model import InputError, TestbedSpec
from xdplab.testbed import read_testbed


def check_only(what: str, only: Collection[str] | None, scenarios: Collection[str]) -> None:
    """Names of scenarios.

    Raises:
        InputError: one is unknown.
    """
    unknown = set(only or ()) - set(scenarios)
    if unknown:
        raise InputError(
            f"record {what}: --only {', '.join(sorted(unknown))}: unknown; there are {', '.join(scenarios)}"
        )


def embedded_testbed(what: str, name: str) -> TestbedSpec:
    """The testbed on which the exchanges are made.

    Raises:
        InputError: it is not of namespaces, or this is not root.
    """
    spec = read_testbed(name, app.testbeds_folder())
    app.require_root(spec)
    if spec.kind != "embedded":
        raise InputError(f"record {what}: --testbed {name}: namespaces are needed (kind embedded), not {spec.kind}")
    return spec
