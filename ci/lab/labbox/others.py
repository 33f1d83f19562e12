# SPDX-License-Identifier: Apache-2.0
"""VPP of this machine on B, and TRex on A, where this machine has them: as if somebody had installed them there."""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from labbox import box
from labbox.machines import MACHINES, Machine
from nic.errors import MissingPart
from xdplab.forwarders.vpp.process import find_vpp
from xdplab.hosts import LocalHost
from xdplab.testers.trex_server import find as find_trex

#: VPP's own libraries, and not the distribution's.
_LIBRARIES = ("libsvm", "libv")
_SEND_S = 900.0
#: Where the page has TRex, and what a server needs of a release.
TREX = "/opt/trex/v3.08"
_TREX_FILES = ("t-rex-64", "_t-rex-64", "trex-cfg", "find_python.sh", "dpdk_setup_ports.py", "dpdk_nic_bind.py",
               "external_libs", "so", "version.txt")  # fmt: skip


def vpp_files(program: str) -> list[str]:
    """It, the libraries that it comes with, and its plugins."""
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    paths = [word for word in linked.split() if word.startswith("/") and Path(word).name.startswith(_LIBRARIES)]
    plugins = Path(program).parents[1].glob("lib/**/vpp_plugins/*.so")
    return [program, *paths, *map(str, sorted(plugins))]


def _send_vpp(say: Callable[[str], None]) -> str:
    """Under the same path as here; why not, or nothing."""
    program = find_vpp(LocalHost(), "", "")[0]
    if program is None:
        return "VPP is optional and not on this machine"
    _send(MACHINES[1], "/", [path.lstrip("/") for path in vpp_files(program)], "/")
    say(f"VPP of this machine is on B: {program}")
    return ""


def _send_trex(say: Callable[[str], None]) -> str:
    """Where docs/first-lab.md has it; why not, or nothing."""
    found = find_trex()
    if found is None:
        return "TRex is optional and not on this machine"
    here = str(found.folder)
    _send(MACHINES[0], here, _TREX_FILES, TREX)
    say(f"TRex of this machine is on A: {here}")
    return ""


def _send(machine: Machine, folder: str, files: Sequence[str], there: str) -> None:
    packed = subprocess.Popen(
        ["tar", "--create", "--dereference", "--ignore-failed-read", "--directory", folder, "--", *files],
        stdout=subprocess.PIPE,
    )
    unpack = f"mkdir -p {there} && tar --extract --no-same-owner --directory {there}"
    assert packed.stdout
    try:
        done = subprocess.run(box.ssh(machine, unpack), stdin=packed.stdout, check=False, timeout=_SEND_S)
        packed.stdout.close()  # tar ends where nobody reads on
        failed = packed.wait(_SEND_S) or done.returncode
    except subprocess.TimeoutExpired:
        failed = 1
    finally:
        packed.kill()
    if failed:
        raise MissingPart(f"{folder} could not be sent to {machine.name}")


#: A word of commands -> what has the program of that name sent; why there is none, or nothing.
OTHERS: dict[str, Callable[[Callable[[str], None]], str]] = {"vpp": _send_vpp, "trex": _send_trex}
