# SPDX-License-Identifier: Apache-2.0
"""Which Open vSwitch: Debian's own, or a folder that `ovs/build` made; all programs of one forwarder come from it."""

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any

from xdplab.hosts import Host
from xdplab.model import XdplabError
from xdplab.tools import cache_folder, checkout, project_root, setup_command

STOCK = "stock"
#: Name in a study -> (folder in the cache, arguments of `ovs/build` that make it).
_CACHED = {
    "patched": ("3.1.0-patched", "--base 3.1.0 --series patched"),
    "3.1.0-patched": ("3.1.0-patched", "--base 3.1.0 --series patched"),
    "3.1.0-stock": ("3.1.0-stock", "--base 3.1.0 --series stock"),
    "3.1.0-xdp": ("3.1.0-xdp", "--base 3.1.0 --series xdp"),
    "4.0.0-stock": ("4.0.0-stock", "--base 4.0.0 --series stock"),
    "4.0.0-patched": ("4.0.0-patched", "--base 4.0.0 --series patched"),
    "4.0.0-xdp": ("4.0.0-xdp", "--base 4.0.0 --series xdp"),
}
#: As a user calls it.
_PROGRAM = "ovs/build" if checkout() else str(project_root() / "ovs" / "build")
NAMES = (STOCK, *_CACHED)
#: The one of our builds that flow offload to XDP is measured with (a name of `_CACHED`); `ci/setup` makes it.
#: Of the release of `patched`, with which it is compared, and whose source is installed already.
OFFLOADING = "3.1.0-xdp"


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
    #: The folder that `ovs/build` made; None: packages of the distribution.
    folder: str | None = None

    @property
    def programs(self) -> tuple[str, ...]:
        """Everything that must be there."""
        return (self.vswitchd, self.ovsdb_server, self.ovsdb_tool, self.vsctl, self.ofctl, self.schema)


def find_build(name: str, stock_daemon: str) -> Build:
    """The build of that name; whether it is there is asked by `missing`.

    Args:
        name: one of `NAMES`, or the absolute path of a folder that `ovs/build` made.
        stock_daemon: Debian's daemon of this kind of forwarder (it keeps one with DPDK next to the plain one).
    """
    if name == STOCK:
        schema = "/usr/share/openvswitch/vswitch.ovsschema"
        return Build(name, stock_daemon, "/usr/sbin/ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", schema)
    folder = name if name.startswith("/") else str(cache() / _CACHED[name][0])
    programs = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "vswitch.ovsschema")
    return Build(name, *(f"{folder}/{program}" for program in programs), folder=folder)  # type: ignore[misc]


def cache() -> FilePath:
    """Where `ovs/build` keeps what it made: `$XDPLAB_CACHE/ovs`, else `~/.cache/xdplab/ovs`."""
    return cache_folder() / "ovs"


#: A run asks each of its hosts once (a testbed has new host objects), and not at each start.
_once = lru_cache(maxsize=64)


@_once
def missing(host: Host, build: Build, package: str) -> str | None:
    """None, or which program of the build is not there and the command that makes it."""
    paths = [path for path in build.programs if "/" in path]
    there = host.run(["stat", "--dereference", "--format=%n", *paths], check=False).stdout.splitlines()
    absent = next((path for path in paths if path not in there), None)
    if absent is None:
        return None
    if build.folder is None:
        return f"{absent} is not installed (package {package}); `{setup_command()}` installs it"
    how = f"`{how_to_make(build.name)}` makes it" if build.name in _CACHED else f"`{_PROGRAM}` makes such a folder"
    return f"OVS build {build.name!r}: {absent} is not there; {how}"


def how_to_make(name: str) -> str:
    """The command that puts one of our builds into the cache."""
    return f"{_PROGRAM} {_CACHED[name][1]}"


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
        return {**rest, "patches": patches, "source": recorded["source"]["sha256"][:12]}
    except (XdplabError, ValueError, KeyError, TypeError):
        return {"error": f"{path} cannot be read as one of `ovs/build`"}


def describe_build(host: Host, build: Build) -> str:
    """One line for run.json."""
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
