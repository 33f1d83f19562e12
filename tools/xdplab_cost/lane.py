# SPDX-License-Identifier: Apache-2.0
"""The modules of the NIC lane (ci/nic), which boot guests, and the programs of bpf/cost, which count in them."""

import subprocess
import sys
from functools import cache
from pathlib import Path

from xdplab.api import InputError, __version__, cache_folder, checkout, project_root


def lane() -> Path:
    """Where the project's folders are; the modules of its lane can be imported from now on."""
    here = project_root()
    if str(here / "ci") not in sys.path:
        sys.path.insert(0, str(here / "ci"))
    return here


@cache
def built(name: str) -> Path:
    """A program of bpf/cost, compiled when it is missing or older than its source.

    In a checkout it is in `bpf/build`; of an installed xdplab, whose sources nobody may write to, in the cache.

    Raises:
        InputError: it cannot be compiled.
    """
    bpf = lane() / "bpf"
    from nic.artefact import locked

    build = bpf / "build" if checkout() else cache_folder() / "cost" / f"programs-{__version__}"
    build.mkdir(parents=True, exist_ok=True)
    with locked(build / ".cost.lock"):
        argv = ["make", "--silent", "-C", str(bpf), f"BUILD={build}", "cost"]
        try:
            made = subprocess.run(argv, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise InputError("bpf/cost: make is not installed") from None
    if made.returncode:
        raise InputError(f"bpf/cost: make failed: {' '.join(made.stderr.split()[:40]) or 'no message'}")
    return build / "cost" / name
