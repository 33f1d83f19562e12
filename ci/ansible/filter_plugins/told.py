# SPDX-License-Identifier: Apache-2.0
"""What programs on a host print, as values: filters of the roles."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def told_packages(lines: Iterable[str]) -> dict[str, str]:
    """Name -> version of what is installed, from lines `ii NAME VERSION` of dpkg-query."""
    fields = (line.split() for line in lines)
    return {name: version for state, name, version in (each for each in fields if len(each) == 3) if state == "ii"}


def told_removals(lines: Iterable[str]) -> list[str]:
    """Names of what apt-get would remove, from lines `Remv NAME [VERSION]` or `Purg NAME ...` of a simulation."""
    return sorted({line.split()[1] for line in lines if line.startswith(("Remv ", "Purg "))})


def told_services(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Services that run or would be started at boot, from the results of `systemctl show` for each."""
    found = []
    for result in results:
        told = dict(line.partition("=")[::2] for line in result.get("stdout_lines", ()))
        active = told.get("ActiveState") in ("active", "activating", "reloading")
        enabled = told.get("UnitFileState") == "enabled"
        if told.get("LoadState") == "loaded" and (active or enabled):
            found.append({"name": result["item"], "active": active, "enabled": enabled})
    return found


def told_ports(drivers: Iterable[Mapping[str, Any]], links: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Role -> driver, firmware and link, from the results of `ethtool --driver` and `ip -json link` for each port."""
    return {
        driver["item"]["key"]: {
            "driver": dict(line.partition(": ")[::2] for line in driver["stdout_lines"]),
            "link": json.loads(link["stdout"])[0],
        }
        for driver, link in zip(drivers, links, strict=True)
    }


def told_files(lines: Iterable[str]) -> dict[str, str]:
    """Path -> its first line, from `grep --with-filename`."""
    return {path: text for path, _, text in (line.partition(":") for line in reversed(list(lines)))}


class FilterModule:
    """What Ansible asks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name in templates -> function."""
        return {each.__name__: each for each in (told_packages, told_removals, told_services, told_ports, told_files)}
