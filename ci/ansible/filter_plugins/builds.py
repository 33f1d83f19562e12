# SPDX-License-Identifier: Apache-2.0
"""What a build of `ovs/build` needs of the host that it is sent to: filters of the role builds."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any


def build_needs(folder: str) -> dict[str, Any]:
    """What the programs in a folder of this machine are linked with, by readelf of the compiler's package binutils.

    Returns:
        machine: processor architecture; glibc: newest version of the C library that a symbol is of; libraries: names of
        shared libraries; nothing at all where there is no such folder
    """
    programs = [str(path) for path in Path(folder).glob("ovs*")]
    if not programs:
        return {}
    argv = ["readelf", "--wide", "--dynamic", "--version-info", *programs]
    env = {**os.environ, "LC_ALL": "C"}
    text = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    versions = {(int(major), int(minor)) for major, minor in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", text)}
    return {
        "machine": platform.machine(),
        "glibc": "{}.{}".format(*max(versions)),
        "libraries": sorted(set(re.findall(r"\(NEEDED\) .*\[(.*)\]", text))),
    }


def folders_above(path: str) -> list[str]:
    """The folders that a path is in, but for the root."""
    return [str(each) for each in PurePosixPath(path).parents][:-1]


class FilterModule:
    """What Ansible asks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name in templates -> function."""
        return {"build_needs": build_needs, "folders_above": folders_above}
