# SPDX-License-Identifier: Apache-2.0
"""VPP's startup.conf, and whether a VPP that ran with one had in use what another says."""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any


def sections(text: str) -> dict[str, str]:
    """Section -> its inside, of a startup.conf."""
    bare = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    found = {}
    while bare.strip():
        match = re.match(r"\s*([a-z-]+)\s*\{", bare)
        assert match, f"no section begins at {bare[:40]!r}"
        depth, at = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(bare[at], 0)
            at += 1
        found[match.group(1)] = " ".join(bare[match.end() : at - 1].split())
        bare = bare[at:]
    return found


def contradictions(text: str, rundir: str, in_use: dict[str, Any]) -> list[str]:
    """What a startup.conf says otherwise than a VPP was found to have in use (`in_use` of a recording).

    A keyword about which the recording says nothing is one of them.
    """
    return [
        f"{section}: {keyword} {value!r}: in use is {has!r}"
        for section, keyword, value, has in _claims(sections(text), rundir, in_use)
        if value != has
    ]


def _claims(said: dict[str, str], rundir: str, in_use: dict[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    """Section, keyword, what it asks for, and what the recorded VPP has in the same form."""
    has = _facts(in_use)
    sockets = {name: f"{rundir}/{name}" for name in in_use["sockets"]}
    known: dict[tuple[str, str], Any] = {
        ("unix", "nodaemon"): "" if in_use["in the foreground"] else None,
        ("unix", "nosyslog"): "",  # neither shows
        ("unix", "nocolor"): "",
        ("unix", "runtime-dir"): rundir,
        ("unix", "cli-listen"): sockets["cli.sock"],
        ("socksvr", "socket-name"): sockets["api.sock"],
        ("statseg", "socket-name"): sockets["stats.sock"],
        ("statseg", "page-size"): has["stats_page"],
        ("memory", "main-heap-size"): has["heap_bytes"],
        ("memory", "main-heap-page-size"): has["heap_page"],
        ("buffers", "default data-size"): has["buffer_bytes"],
        ("buffers", "page-size"): has["buffer_page"],
        ("cpu", "main-core"): has["main_cpu"],
        ("cpu", "corelist-workers"): has["worker_cpus"],
    }
    asked = {
        **{("unix", word): value for word, value in _words(said.pop("unix"), r"runtime-dir|cli-listen")},
        **{("socksvr", word): value for word, value in _words(said.pop("socksvr"), "socket-name")},
        **{("statseg", word): value for word, value in _words(said.pop("statseg"), "socket-name|page-size")},
        **{("memory", word): value for word, value in _words(said.pop("memory"), r"main-\S+")},
        **{("cpu", word): value for word, value in _words(said.pop("cpu"), r"main-core|corelist-workers")},
        **{("buffers", word): value for word, value in _words(said.pop("buffers"), r"default data-size|\S+-\S+")},
    }
    wanted = int(asked.pop(("buffers", "buffers-per-numa"), "0"))
    # one is never given out, and it rounds up to whole pages
    yield "buffers", "buffers-per-numa", wanted - 1 <= has["buffers"] <= 1.05 * wanted, True
    yield "plugins", "loaded", _loaded(said.pop("plugins")), has["plugins"]
    yield "api-segment", "prefix", re.fullmatch(r"prefix xdplab-\w+", said.pop("api-segment", "")) is not None, True
    for section, keyword in sorted({*asked, *known}):
        default = None if known.get((section, keyword)) != "" else "absent"
        yield section, keyword, asked.get((section, keyword), default), known.get((section, keyword))
    for section, inside in said.items():
        yield section, inside, "asked for", "of which the recording says nothing"


def _words(inside: str, with_value: str) -> list[tuple[str, str]]:
    """Keyword and value, or "", of each."""
    found, rest = [], inside
    while rest:
        match = re.match(rf"({with_value}) (\S+)|(\S+)()", rest)
        assert match
        found.append((match.group(1) or match.group(3), match.group(2) or ""))
        rest = rest[match.end() :].lstrip()
    return found


def _loaded(inside: str) -> tuple[str, ...]:
    asked = dict(re.findall(r"plugin (\S+) \{ (\w+) \}", inside))
    default = asked.pop("default", "enable")
    return tuple(sorted(name for name, state in asked.items() if state == "enable")) + (
        ("all others",) if default == "enable" else ()
    )


def _facts(in_use: dict[str, Any]) -> dict[str, Any]:
    cpus: dict[str, list[str]] = {"vpp_main": [], "vpp_wk_": []}
    for row in in_use["show threads"]:
        _, name, _, cpu, *_ = row.split()
        cpus[name.rstrip("0123456789")].append(cpu)
    head, pool = (row.split() for row in in_use["show buffers"])
    assert head[:6] == ["Pool", "Name", "Index", "NUMA", "Size", "Data"]
    heap, stats = (" ".join(in_use[f"show memory {which}"]) for which in ("main-heap", "stats-segment"))
    page = r"page-size (\w+)"
    return {
        "main_cpu": ",".join(cpus["vpp_main"]),
        "worker_cpus": ",".join(cpus["vpp_wk_"]) or None,
        "plugins": tuple(PurePath(row.split()[1]).name for row in in_use["show plugins"]),
        "buffer_bytes": pool[4],
        "buffers": int(pool[5]),
        "buffer_page": re.findall(r"subpage-size (\w+)", in_use["show physmem"][0])[0],
        "heap_bytes": re.findall(r"size (\w+),", heap)[0].upper(),
        "heap_page": re.findall(page, heap)[0],
        "stats_page": re.findall(page, stats)[0],
    }
