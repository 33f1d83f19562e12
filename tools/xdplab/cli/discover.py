# SPDX-License-Identifier: Apache-2.0
"""`xdplab list`, `explain`, `where` and `schema`: what there is, where, and how it is written.

What a command needs is imported in its function, as in `cli.main`.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from xdplab.tools import project_root, results_folder


def _names() -> list[str]:
    from xdplab.cli.parts import names

    return names()


def list_(kind: Annotated[str | None, typer.Argument(help="one of the kinds (default: all)")] = None) -> None:
    """List forwarders, testers, knobs, pipelines, methods, studies, testbeds and suites that are installed.

    Example: xdplab list knobs
    """
    from xdplab.cli.parts import listed

    print(listed(kind))


def explain(name: Annotated[str, typer.Argument(help="as `list` has it", autocompletion=_names)]) -> None:
    """Describe a part: its options or keys with values and defaults, its sources, and where one is inactive.

    Example: xdplab explain ovs-afxdp
    """
    from xdplab.cli.parts import explained

    print(explained(name))


def _places() -> dict[str, Path]:
    root = project_root()
    folders = ("suites", "studies", "testbeds", "bpf", "ovs", "trex", "vpp")
    inside = {name: root / ("suites" if name in ("studies", "testbeds") else "") / name for name in folders}
    return {**inside, "packages": root / "ci" / "packages", "results": results_folder()}


def where(
    name: Annotated[
        str | None, typer.Argument(help="one of them (default: all)", autocompletion=lambda: [*_places()])
    ] = None,
) -> None:
    """Print where suites, studies, testbeds, the sources of our programs, Debian's packages or results are.

    As in: robot $(xdplab where suites)/latency.robot

    Example: xdplab where suites
    """
    places = _places()
    if name is None:
        print("\n".join(f"{each:<9} {path}" for each, path in places.items()))
        return
    if name not in places:
        from xdplab.model import InputError
        from xdplab.model.errors import meant

        raise InputError(f"where: {name!r}: unknown{meant(name, places)}; there are {', '.join(places)}")
    print(places[name])


def schema() -> None:
    """Print the JSON Schema of study and testbed files, of run.json and lines of trials.jsonl, and of `show --json`.

    Example: xdplab schema
    """
    from xdplab.cli.parts import schemas

    print(json.dumps(schemas(), indent=1))
