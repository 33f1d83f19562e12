# SPDX-License-Identifier: Apache-2.0
"""What programs on a host print, as values: filters of the roles."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def parsed_packages(lines: Iterable[str], states: str) -> list[str]:
    """Names of packages in one of some states, from lines `ii NAME` of dpkg-query: the second letter, dpkg-query(1)."""
    return sorted({line.split()[-1] for line in lines if line[1] in states})


def parsed_installs(lines: Iterable[str], configured: Iterable[str]) -> dict[str, Any]:
    """What apt-get would install, from lines `Inst NAME (VERSION ...)` or `Inst NAME [OLD] (VERSION ...)`.

    Returns:
        ours: name -> `config` if it is among `configured`, else `absent`; upgraded: names of what is there already
    """
    rows = [line.split() for line in lines if line.startswith("Inst ")]
    new = {row[1] for row in rows if not row[2].startswith("[")}
    rest = set(configured)
    return {
        "ours": {name: "config" if name in rest else "absent" for name in sorted(new)},
        "upgraded": sorted({row[1] for row in rows} - new),
    }


def parsed_removals(lines: Iterable[str]) -> list[str]:
    """Names of what apt-get would remove, or bring in its place: lines `Remv NAME`, `Purg NAME`, `Inst NAME`."""
    return sorted({line.split()[1] for line in lines if line.startswith(("Remv ", "Purg ", "Inst "))})


def parsed_needed(trials: Iterable[Mapping[str, Any]], named: Iterable[str]) -> list[str]:
    """Packages whose removal, tried alone, would change others than the named; a trial that was skipped names none."""
    ours = set(named)
    return sorted(each["item"] for each in trials if not ours.issuperset(parsed_removals(each.get("stdout_lines", ()))))


def parsed_services(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Services that run or would be started at boot, from the results of `systemctl show` for each."""
    found = []
    for result in results:
        state = dict(line.partition("=")[::2] for line in result.get("stdout_lines", ()))
        active = state.get("ActiveState") in ("active", "activating", "reloading")
        enabled = state.get("UnitFileState") == "enabled"
        if state.get("LoadState") == "loaded" and (active or enabled):
            found.append({"name": result["item"], "active": active, "enabled": enabled})
    return found


def parsed_ports(drivers: Iterable[Mapping[str, Any]], links: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Role -> driver, firmware and link, from the results of `ethtool --driver` and `ip -json link` for each port."""
    return {
        driver["item"]["key"]: {
            "driver": dict(line.partition(": ")[::2] for line in driver["stdout_lines"]),
            "link": json.loads(link["stdout"])[0],
        }
        for driver, link in zip(drivers, links, strict=True)
    }


def parsed_files(lines: Iterable[str]) -> dict[str, str]:
    """Path -> its first line, from `grep --with-filename`."""
    return {path: text for path, _, text in (line.partition(":") for line in reversed(list(lines)))}


class FilterModule:
    """What Ansible asks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name in templates -> function."""
        return {name: each for name, each in globals().items() if name.startswith("parsed_")}
