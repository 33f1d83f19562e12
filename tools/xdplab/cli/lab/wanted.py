# SPDX-License-Identifier: Apache-2.0
"""What `xdplab lab init` is given: up to three hosts by their part, and the interfaces that it may send from."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from xdplab.model import HostSpec, InputError, Model, validated
from xdplab.model.errors import meant
from xdplab.model.testbed import IfName, Name
from xdplab.testbed import load_yaml

#: `far` is C where that is a machine of its own; without it the tester has both ends.
Part = Literal["tester", "forwarder", "far"]
PARTS: tuple[Part, ...] = get_args(Part)
_ADDRESS = re.compile(r"(?:(?P<user>[^@]*)@)?(?P<address>\[[^]]*\]|[^:\[]*)(?::(?P<port>[0-9]+))?")


class OfferedHost(HostSpec):
    """A host, and which of its interfaces may be used."""

    #: Interfaces that frames may be sent from; none: they are asked for.
    offer: tuple[IfName, ...] = ()


class LabHosts(Model):
    """The hosts of a lab, as `--from FILE` has them."""

    #: Of the testbed that is written.
    name: Name
    #: Sends and measures.
    tester: OfferedHost
    #: Runs the forwarders.
    forwarder: OfferedHost
    #: Sends frames back, where the tester's second port is on a machine of its own.
    far: OfferedHost | None = None

    @property
    def hosts(self) -> dict[Part, OfferedHost]:
        given: dict[Part, OfferedHost | None] = {"tester": self.tester, "forwarder": self.forwarder, "far": self.far}
        return {part: host for part, host in given.items() if host is not None}


def lab_hosts(
    name: str,
    addresses: Mapping[Part, str | None],
    common: Mapping[str, Any],
    offers: Sequence[str],
    from_file: Path | None,
) -> LabHosts:
    """From the command line, or from a file.

    `common`: keys of every host of the command line; a user other than root gets `sudo` unless it says otherwise.

    Raises:
        InputError: something is missing or cannot be; says what and what to write.
    """
    if from_file is not None:
        if any(addresses.values()):
            raise InputError("lab init: give the hosts in --from FILE or as options, not both")
        data = load_yaml(from_file)
        where = str(from_file)
    else:
        data = {part: _host(part, text, common) for part, text in addresses.items() if text}
        where = "lab init"
    for part, ifnames in _offers(offers).items():
        if not isinstance(data.get(part), dict):
            raise InputError(f"lab init: --offer {part}=...: no host {part} is given")
        data[part]["offer"] = ifnames
    for part in PARTS[:2]:
        if part not in data:
            raise InputError(f"lab init: no {part}: give --{part} USER@ADDRESS, or a file with --from")
    found = validated(LabHosts, {"name": name, **data}, where)
    reached = [(host.address, host.port, host.folder) for host in found.hosts.values()]
    if len(set(reached)) < len(reached):
        raise InputError(
            f"{where}: the same address twice; leave out the far host where one machine has both tester ports"
        )
    return found


def _host(part: Part, text: str, common: Mapping[str, Any]) -> dict[str, Any]:
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise InputError(f"lab init: --{part} {text!r}: USER@ADDRESS or USER@ADDRESS:PORT is expected")
    given = {key: value.strip("[]") for key, value in match.groupdict().items() if value is not None}
    sudo = {"sudo": True} if given.get("user") not in (None, "root") else {}
    return {**given, **sudo, **{key: value for key, value in common.items() if value is not None}}


def _offers(offers: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in offers:
        part, _, ifnames = each.partition("=")
        if part not in PARTS or not ifnames:
            raise InputError(f"lab init: --offer {each!r}{meant(part, PARTS)}: PART=IFNAME,... with one of {_PARTS}")
        found.setdefault(part, []).extend(ifnames.split(","))
    return found


_PARTS = ", ".join(PARTS)
