# SPDX-License-Identifier: Apache-2.0
"""Where VPP is, which version it is without starting it, and its configuration files."""

import os
import re
from collections import defaultdict
from collections.abc import Mapping

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from xdplab.hosts import Host
from xdplab.model import InputError, NotThere
from xdplab.tools import project_root

#: The oldest version whose API and plugins these forwarders know.
OLDEST = (25, 6)
#: The first that answers to --version; an older one would take it for its configuration.
_SAYS_VERSION = (26, 2)


def find_vpp(host: Host, option: str, package: str) -> tuple[str | None, str]:
    """Path of the program, or None and how to get it. A folder is a prefix: where `make install` put `bin/vpp`.

    Raises:
        InputError: it is named, and not there.
    """
    named = option or os.environ.get("XDPLAB_VPP", "")
    asked = named or "vpp"
    for each in (asked, f"{asked}/bin/vpp") if "/" in asked else (asked,):
        done = host.run(["which", each], check=False)
        if done.returncode == 0:
            return done.stdout.strip(), ""
    if named:
        by = f"option vpp={named}" if option else f"XDPLAB_VPP={named}"
        raise NotThere(f"{by}: {host.name} has no such program, and no bin/vpp in such a folder: correct it")
    return None, (
        f"VPP is optional and not installed: no program on PATH; install FD.io's Debian packages vpp and {package} "
        f"({OLDEST[0]}.{OLDEST[1]:02} or later), or name the program or its prefix by vpp=PATH or XDPLAB_VPP"
    )


def numbers(version: str) -> tuple[int, int]:
    """`26.10-rc0~374-gb575ec2c` -> (26, 10); (0, 0) when it does not begin with two numbers."""
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def installed_version(host: Host, program: str) -> str:
    """As `--version` says it, or the version of the libvlib that an older one is linked with."""
    linked = re.search(r"libvlib\.so\.(\d+\.\d+\S*)", host.run(["ldd", program], check=False).stdout)
    if linked is None:
        return "unknown"
    if numbers(linked.group(1)) < _SAYS_VERSION:
        return linked.group(1)
    said = re.search(r"vpp v(\S+)", host.run([program, "--version"], check=False, timeout_s=10).stdout)
    return said.group(1) if said else linked.group(1)


#: Those that `vpp/startup.conf.j2` writes; the last only for `vpp-dpdk`.
_SECTIONS = ("unix", "socksvr", "statseg", "api-segment", "memory", "buffers", "cpu", "plugins", "dpdk")


def rendered(name: str, raw: Mapping[str, str] | None = None, **variables: object) -> str:
    """A template of the folder `vpp/`, filled in; without blank lines.

    `raw`: section -> words, which come behind ours in a section that it writes, else in one of their own.

    Raises:
        InputError: the folder is not there.
    """
    folder = project_root() / "vpp"
    if not (folder / name).is_file():
        raise InputError(f"{folder / name}: not found; install xdplab again")
    environment = Environment(
        loader=FileSystemLoader(folder), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - configuration files, not HTML
    )  # fmt: skip
    lines = (
        environment.get_template(name)
        .render(raw=defaultdict(str, raw or {}), sections=_SECTIONS, **variables)
        .splitlines()
    )
    return "\n".join(line.rstrip() for line in lines if line.strip())
