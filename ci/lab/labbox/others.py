# SPDX-License-Identifier: Apache-2.0
"""VPP of this machine on B, where this machine has one: there it is as if somebody had installed it."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from labbox import box
from labbox.machines import MACHINES
from nic.errors import MissingPart
from xdplab.forwarders.vpp.program import find_vpp
from xdplab.hosts import LocalHost

#: Its own libraries, and not the distribution's.
_LIBRARIES = ("libsvm", "libv")


def vpp_here() -> str | None:
    """Path of VPP's program on this machine.

    Raises:
        InputError: XDPLAB_VPP names one that is not there.
    """
    return find_vpp(LocalHost(), "", "")[0]


def vpp_files(program: str) -> list[str]:
    """It, the libraries that it comes with, and its plugins."""
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    paths = [word for word in linked.split() if word.startswith("/") and Path(word).name.startswith(_LIBRARIES)]
    plugins = Path(program).parents[1].glob("lib/**/vpp_plugins/*.so")
    return [program, *paths, *map(str, sorted(plugins))]


def send_vpp(program: str, say: Callable[[str], None]) -> None:
    """Under the same path as here.

    Raises:
        MissingPart: It cannot be sent.
    """
    files = [path.lstrip("/") for path in vpp_files(program)]
    packed = subprocess.Popen(["tar", "--create", "--dereference", "--directory", "/", *files], stdout=subprocess.PIPE)
    done = subprocess.run(
        box.ssh(MACHINES[1], "tar", "--extract", "--directory", "/"), stdin=packed.stdout, check=False
    )
    if packed.wait() or done.returncode:
        raise MissingPart(f"{program} could not be sent to B")
    say(f"VPP of this machine is on B: {len(files)} files")
