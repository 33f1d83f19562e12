# SPDX-License-Identifier: Apache-2.0
"""Two kinds of runs lie side by side in a results folder; run.json says which one a folder holds."""

import json
from pathlib import Path

from xdplab.model import InputError
from xdplab.results.folder import RunFolder, find_run
from xdplab.results.sockets import SocketFolder


def open_run(name: str, results: Path) -> RunFolder | SocketFolder:
    """The folder of that path, or of that name within `results`: `SocketFolder` for `kind: sockets`, else `RunFolder`.

    Raises:
        InputError: there is none, or its run.json cannot be read.
    """
    found = find_run(name, results)
    head = found.path / "run.json"
    try:
        data = json.loads(head.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        raise InputError(f"{found.path}: not a run folder: {head.name}: {exc}") from None
    sockets = isinstance(data, dict) and data.get("kind") == "sockets"
    return SocketFolder(found.path) if sockets else found
