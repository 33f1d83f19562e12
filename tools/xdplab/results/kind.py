# SPDX-License-Identifier: Apache-2.0
"""Two kinds of runs lie side by side in a results folder; run.json says which one a folder holds."""

from pathlib import Path

from xdplab.results.folder import RunFolder, find_run
from xdplab.results.reading import read_head
from xdplab.results.sockets import SocketFolder


def open_run(name: str, results: Path) -> RunFolder | SocketFolder:
    """The folder of that path, or of that name within `results`: `SocketFolder` for `kind: sockets`, else `RunFolder`.

    Raises:
        InputError: there is none, or its run.json cannot be read.
    """
    found = find_run(name, results)
    return SocketFolder(found.path) if read_head(found.path).get("kind") == "sockets" else found
