# SPDX-License-Identifier: Apache-2.0
"""Which Open vSwitch: the distribution's, one of our builds, or the user's: source, an installed prefix, or a folder.

All programs of one forwarder come from it.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any

from xdplab.hosts import Host, SshHost, how_to_install
from xdplab.model import DoesNotCompile, InputError, NotThere, XdplabError
from xdplab.tools import cache_folder, checkout, project_root, provision_command

STOCK = "stock"
#: With all patches; `ci/setup` makes it.
PATCHED = "patched"
#: Name in a study, and of the folder in the cache -> arguments of `ovs/build` that make it.
_CACHED = {PATCHED: "--series patched", "unpatched": "--series stock"}
#: As a user calls it.
_PROGRAM = "ovs/build" if checkout() else str(project_root() / "ovs" / "build")
NAMES = (STOCK, *_CACHED)
#: What names of builds were, while there were several versions -> what they are now.
FORMER_NAMES = {
    "3.1.0-patched": PATCHED,
    "3.1.0-stock": "unpatched",
    "3.1.0-xdp": PATCHED,
    "4.0.0-patched": PATCHED,
    "4.0.0-stock": "unpatched",
    "4.0.0-xdp": PATCHED,
}


@dataclass(frozen=True)
class Build:
    """Paths of the programs of one build, on the host that runs them."""

    name: str
    vswitchd: str
    ovsdb_server: str
    ovsdb_tool: str
    vsctl: str
    ofctl: str
    schema: str
    #: The folder that has them; None: packages of the distribution.
    folder: str | None = None

    @property
    def programs(self) -> tuple[str, ...]:
        return (self.vswitchd, self.ovsdb_server, self.ovsdb_tool, self.vsctl, self.ofctl, self.schema)


#: Where a prefix that `make install` filled has them.
_INSTALLED = (
    "sbin/ovs-vswitchd",
    "sbin/ovsdb-server",
    "bin/ovsdb-tool",
    "bin/ovs-vsctl",
    "bin/ovs-ofctl",
    "share/openvswitch/vswitch.ovsschema",
)
#: And a folder that `ovs/build` made.
_IN_A_FOLDER = tuple(path.rpartition("/")[2] for path in _INSTALLED)
#: A run asks each of its hosts once (a testbed has new host objects), and not at each start.
_once = lru_cache(maxsize=64)


@_once
def find_build(name: str, stock_daemon: str, host: Host) -> Build:
    """The build of that name; whether it is there is asked by `missing`.

    Args:
        name: one of `NAMES`, or what a user has: source as `is_source` has it, an installed prefix, or a folder of
            programs; the last two as paths of the host.
        stock_daemon: Debian's daemon of this kind of forwarder (it keeps one with DPDK next to the plain one).
        host: Where it is to run.

    Raises:
        InputError: the source cannot be read.
    """
    if name == STOCK:
        schema = "/usr/share/openvswitch/vswitch.ovsschema"
        return Build(name, stock_daemon, "/usr/sbin/ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", schema)
    if name in _CACHED:
        folder = str(cache() / name)
    else:
        folder = _own_build(name, "--where") if is_source(name) else os.path.abspath(name)
    installed = name not in _CACHED and host.exists(f"{folder}/{_INSTALLED[0]}")
    paths = _INSTALLED if installed else _IN_A_FOLDER
    return Build(name, *(f"{folder}/{path}" for path in paths), folder=folder)  # type: ignore[misc]


def is_source(name: str) -> bool:
    """Whether `build=` names source on this machine: a folder, tarball or checkout, or a commit (`PATH@REF`)."""
    path, _, _ = name.rpartition("@") if not os.path.exists(name) else (name, "", "")
    return os.path.exists(os.path.join(path, "configure.ac")) or bool(re.search(r"\.tar\.\w+$", name))


def make(name: str, note: Callable[[str], None]) -> None:
    """Compile source that `build=` names, unless the cache has it; `note` is given what `ovs/build` reports.

    Raises:
        InputError: it cannot be read.
        DoesNotCompile: it cannot be compiled.
    """
    if name not in NAMES and is_source(name):
        _own_build(name, "--where")
        _own_build(name, note=note)


def _own_build(source: str, *options: str, note: Callable[[str], None] = lambda line: None) -> str:
    """The folder of the user's own source in the cache, as `ovs/build` prints it last."""
    argv = [str(project_root() / "ovs" / "build"), *options, "--series", "stock", "--source", source]
    lines = ["ovs/build failed"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as build:
        assert build.stdout is not None
        assert build.stderr is not None
        for line in build.stderr:  # its standard output is one line, at the end
            lines.append(line.strip().removeprefix("ovs/build: "))
            note(lines[-1])
        folder = build.stdout.read().strip()
    if build.returncode:
        raise (InputError if "--where" in options else DoesNotCompile)(f"build={source}: {lines[-1]}")
    return folder.splitlines()[-1]


def cache() -> FilePath:
    """Where `ovs/build` keeps what it made: `$XDPLAB_CACHE/ovs`, else `~/.cache/xdplab/ovs`."""
    return cache_folder() / "ovs"


@_once
def missing(host: Host, build: Build, package: str) -> str | None:
    """None, or which program of the build is not there and the command that makes it.

    Raises:
        InputError: a folder is named that does not have it.
    """
    paths = [path for path in build.programs if "/" in path]
    there = host.run(["stat", "--dereference", "--format=%n", *paths], check=False).stdout.splitlines()
    absent = next((path for path in paths if path not in there), None)
    if absent is None:
        return None
    if build.folder is None:
        return f"{absent} is not installed (package {package}); `{how_to_install(host)}` installs it"
    if build.name not in _CACHED and is_source(build.name):
        if isinstance(host, SshHost):
            return f"OVS build {build.name!r}: source is compiled here; on {host.name} give a prefix or a folder"
        return f"OVS build {build.name!r}: not compiled yet; a run does that first, or `{how_to_make(build.name)}`"
    if build.name not in _CACHED:
        raise NotThere(f"OVS build {build.name!r}: {host.name} has no {absent}; `{_PROGRAM}` makes such a folder")
    if isinstance(host, SshHost):
        how = f"`{how_to_send(build.name)}` makes it here and sends it"
    else:
        how = f"`{how_to_make(build.name)}` makes it"
    return f"OVS build {build.name!r}: {absent} is not there; {how}"


def how_to_send(name: str) -> str:
    """The command that has one of our builds made here, and sent to the middle host."""
    return provision_command(options=f"--tags builds -e xdplab_builds={name}")


def how_to_make(name: str) -> str:
    """The command that puts one of our builds, or of the user's source, into the cache."""
    return f"{_PROGRAM} {_CACHED.get(name, f'--series stock --source {name}')}"


@_once
def build_facts(host: Host, build: Build) -> dict[str, Any]:
    """What tells builds apart: name, the daemon's own words, and of those in the cache their key and patches."""
    if host.run(["test", "-x", build.vswitchd], check=False).returncode:
        return {"name": build.name, "version": "not installed"}
    lines = host.run([build.vswitchd, "--version"]).stdout.splitlines()
    version = "; ".join(re.sub(r"^\S+ \(Open vSwitch\)", "Open vSwitch", line) for line in lines[:2] if line.strip())
    facts: dict[str, Any] = {"name": build.name, "version": version}
    if build.folder is not None:
        key = host.run(["readlink", "--canonicalize", build.folder]).stdout.strip().rpartition("/")[2]
        facts |= {"key": key, **_recorded(host, f"{build.folder}/build.json")}
    return facts


def _recorded(host: Host, path: str) -> dict[str, Any]:
    """Of build.json: the patches with the beginnings of their hashes, the source's hash, compiler and configuration."""
    try:
        recorded = json.loads(host.read(path))
        patches = [f"{patch['name']}@{patch['sha256'][:12]}" for patch in recorded["patches"]]
        rest = {key: recorded[key] for key in ("base", "series", "asan", "compiler", "configure")}
        own = {"commit": recorded["title"]} if "title" in recorded else {}
        return {**own, **rest, "patches": patches, "source": recorded["source"]["sha256"][:12]}
    except (XdplabError, ValueError, KeyError, TypeError):
        return {"error": f"{path} cannot be read as one of `ovs/build`"}


def describe_build(host: Host, build: Build) -> str:
    facts = build_facts(host, build)
    rest = (f"{key} {_words(value)}" for key, value in facts.items() if key not in ("name", "version"))
    return "; ".join([facts["version"], *rest])


def _words(value: Any) -> str:
    return (" ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)


@_once
def empty_database(host: Host, build: Build, path: str) -> str:
    """What `ovsdb-tool` makes of the build's schema; `path` is where it makes it."""
    host.run([build.ovsdb_tool, "create", path, build.schema])
    return host.read(path) + "\n"


@_once
def known_keys(host: Host, build: Build, keys: frozenset[str]) -> frozenset[str]:
    """Which of these keys and commands the build's daemon knows.

    Read from the strings of the program itself, which no file next to it can get wrong. The linker keeps a string that
    is the tail of another once, so `busy-poll` is also found in `prefer-busy-poll`: what the daemon then does not
    answer for is found after its start.
    """
    pattern = f"({'|'.join(sorted(keys))})$"
    argv = ["grep", "--text", "--null-data", "--extended-regexp", pattern, build.vswitchd]
    found = host.run(argv, check=False).stdout.split("\0")
    return frozenset(key for key in keys if any(text.endswith(key) for text in found))
